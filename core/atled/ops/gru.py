"""Gated recurrent units over a whole sequence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from atled.array_desc import ArrayDesc
from atled.ops.samples import Refused, Sample, Uniform
from atled.ops.sequence import SequenceOp, added, backwards, columns, in_order, sigmoid, split
from atled.ops.spec import Input

if TYPE_CHECKING:
    from atled.ops.rules import GradientCall, IRValue


class GRUSequence(SequenceOp):
    """Gated recurrent units over a sequence, one layer in one direction.

    For each step, x its input and h the state before it: `h' = (1 - z) n + z h`, where `r, z = sigmoid(W [x h] + b)`
    and `n = tanh(W x + b + r (U h + b_h))`, with a W and b for each of them.

    Source: Cho et al., Learning Phrase Representations using RNN Encoder-Decoder, 2014, with the reset gate behind the
    product, as cuDNN has it.

    Args:
        x: (T, B, I) float; T of 1 or more steps, B sequences.
        h: (B, H) float; the state to begin with.
        weight: (3, H, I + H) float; for r, z, n, the columns for x before those for h.
        bias: (4, H) float, optional; for r, z, n, and n's part of h.
        reverse: whether to go from the last step to the first.

    Returns:
        y: (T, B, H) float; h' of each step.
        h_n: (B, H) float; the state after the last step gone through.
        gates: (T, B, 4, H) float; r, z, n and `U h + b_h` of each step; auxiliary.

    Raises:
        ValueError: a shape that does not match, no steps.
    """

    inputs = (Input("x"), Input("h"), Input("weight"), Input("bias", optional=True))
    outputs = ("y", "h_n", "gates")
    auxiliary = ("gates",)
    saved = ("y",)
    gate_count = 3
    bias_count = 4

    def infer(
        self, x: ArrayDesc, h: ArrayDesc, weight: ArrayDesc, bias: ArrayDesc | None, *, reverse: bool
    ) -> Sequence[ArrayDesc]:
        steps, batch, size, dtype = self.check_sequence((x, h, weight, bias), ("h",))
        gates = ArrayDesc((steps, batch, 4, size), dtype)
        return ArrayDesc((steps, batch, size), dtype), ArrayDesc((batch, size), dtype), gates

    def reference(
        self, x: np.ndarray, h: np.ndarray, weight: np.ndarray, bias: np.ndarray | None, *, reverse: bool
    ) -> Sequence[np.ndarray]:
        (steps, batch, depth), size = x.shape, h.shape[1]
        y, gates = np.empty((steps, batch, size), x.dtype), np.empty((steps, batch, 4, size), x.dtype)
        b = np.zeros((4, 1, size), x.dtype) if bias is None else bias[:, np.newaxis]
        for t in in_order(steps, reverse):
            of_x = x[t] @ weight[..., :depth].swapaxes(1, 2) + b[:3]
            of_h = h @ weight[..., depth:].swapaxes(1, 2)
            r, z = sigmoid(of_x[:2] + of_h[:2])
            new = of_h[2] + b[3]
            n = np.tanh(of_x[2] + r * new)
            h = (1 - z) * n + z * h
            y[t], gates[t] = h, np.stack((r, z, n, new), axis=1)
        return y, h, gates

    def gradient(
        self, g: GradientCall, x: IRValue, h: IRValue, weight: IRValue, bias: IRValue | None, *, reverse: bool
    ) -> Sequence[IRValue | None]:
        y, _, gates = g.outputs
        of_x, of_h, gh = g.op("GRUSequenceGrad", gates, y, h, weight, *g.cotangents, reverse=reverse)
        gx, gw = self.parameter_gradients(g, y, reverse, of_x, of_h)
        gb = None
        if bias is not None and g.needs[3]:
            sums = [g.op("Sum", gradient, axes=(0, 1)) for gradient in (of_x, of_h)]
            new = g.op("Slice", sums[1], start=(2, 0), stop=(3, h.shape[1]), step=(1, 1))
            gb = g.op("Concatenate", sums[0], new, axis=0)
        return gx, gh, gw, gb

    def samples(self) -> Sequence[Sample]:
        return (
            Sample((3, 2, 4), (2, 5), (3, 5, 9), (4, 5)),
            Sample((3, 2, 4), (2, 5), (3, 5, 9), (4, 5), reverse=True),
            Sample((1, 3, 2), (3, 1), (3, 1, 3), None),
            Sample((2, 0, 2), (0, 3), (3, 3, 5), (4, 3)),
            Sample((4, 14, 17), (14, 20), Uniform((3, 20, 37), -0.3, 0.3), None).no_gradient(),
        )

    def refused(self) -> Sequence[Refused]:
        state, weight = (2, 5), (3, 5, 9)
        return (
            Refused(ValueError, "h 1", (3, 2, 4), (5,), weight, None),
            Refused(ValueError, "h has shape", (3, 2, 4), (3, 5), weight, None),
            Refused(ValueError, "weight has shape", (3, 2, 4), state, (4, 5, 9), None),
            Refused(ValueError, "bias has shape", (3, 2, 4), state, weight, (3, 5)),
        )


class GRUSequenceGrad(SequenceOp):
    """Gradient of `GRUSequence` through time: that of the affine maps of each step, and of the first state.

    Goes through the steps backwards. With gh what arrives at h' of a step, the maps of x get
    `gn = gh (1 - z) (1 - n^2)` for n, `gn u r (1 - r)` for r and `gh (h - n) z (1 - z)` for z, u being `U h + b_h`; the
    maps of h get the same, but `gn r` for n; to the step before goes `gh z` and the latter times the columns of the
    weight for h.

    Args:
        gates: (T, B, 4, H) float; of `GRUSequence`.
        y: (T, B, H) float; of `GRUSequence`.
        h: (B, H) float; the state to begin with.
        weight: (3, H, I + H) float.
        gy: (T, B, H) float, optional; gradient of y of `GRUSequence`.
        gh_n: (B, H) float, optional; gradient of h_n of `GRUSequence`.
        ggates: (T, B, 4, H) float, optional; gradient of gates of `GRUSequence`.
        reverse: as `GRUSequence`.

    Returns:
        of_x, of_h: (T, B, 3, H) float; the gradients of the maps of x and of h.
        gh: (B, H) float; that of the state to begin with.

    Raises:
        ValueError: a shape that does not match, no steps.
    """

    inputs = (
        Input("gates"),
        Input("y"),
        Input("h"),
        Input("weight"),
        Input("gy", optional=True),
        Input("gh_n", optional=True),
        Input("ggates", optional=True),
    )
    outputs = ("of_x", "of_h", "gh")
    gate_count = 3

    def infer(self, gates: ArrayDesc, *others: ArrayDesc | None, reverse: bool) -> Sequence[ArrayDesc]:
        inputs = (gates, *others)
        steps, batch, size, dtype = self.check_gates(inputs, 4, ("y", "gy"), ("h", "gh_n"))
        self.check_shapes(inputs, {"ggates": gates.shape})
        maps = ArrayDesc((steps, batch, 3, size), dtype)
        return maps, maps, ArrayDesc((batch, size), dtype)

    def reference(
        self,
        gates: np.ndarray,
        y: np.ndarray,
        h: np.ndarray,
        weight: np.ndarray,
        gy: np.ndarray | None,
        gh_n: np.ndarray | None,
        ggates: np.ndarray | None,
        *,
        reverse: bool,
    ) -> Sequence[np.ndarray]:
        steps, batch, _, size = gates.shape
        w_h = weight.reshape(3 * size, -1)[:, -size:]
        of_x = np.empty((steps, batch, 3, size), gates.dtype)
        of_h = np.empty_like(of_x)
        gh = np.zeros_like(h) if gh_n is None else gh_n
        for t, before in backwards(steps, reverse):
            r, z, n, new = gates[t].swapaxes(0, 1)
            if gy is not None:
                gh = gh + gy[t]
            gr, gz, gn, gnew = np.zeros((4, batch, size), gates.dtype) if ggates is None else ggates[t].swapaxes(0, 1)
            gn = (gn + gh * (1 - z)) * (1 - n**2)
            gz = (gz + gh * ((h if before is None else y[before]) - n)) * z * (1 - z)
            gr = (gr + gn * new) * r * (1 - r)
            of_x[t] = np.stack((gr, gz, gn), axis=1)
            of_h[t] = np.stack((gr, gz, gnew + gn * r), axis=1)
            gh = gh * z + of_h[t].reshape(batch, 3 * size) @ w_h
        return of_x, of_h, gh

    def gradient(self, g: GradientCall, *inputs: IRValue | None, reverse: bool) -> Sequence[IRValue | None]:
        def build(
            d: GradientCall,
            gates: IRValue,
            y: IRValue,
            h: IRValue,
            weight: IRValue,
            gy: IRValue | None,
            gh_n: IRValue | None,
            ggates: IRValue | None,
        ) -> Sequence[IRValue]:
            steps, batch, _, size = gates.shape
            depth = weight.shape[2]
            w_h = columns(d, d.reshape(weight, (3 * size, depth)), depth - size, depth)
            gates_at, y_at, gy_at, ggates_at = (split(d, value, 0, steps) for value in (gates, y, gy, ggates))
            maps_of_x: list[Any] = [None] * steps
            maps_of_h: list[Any] = [None] * steps
            gh: Any = d.op("Constant", val=0.0, shape=h.shape, dtype=h.dtype) if gh_n is None else gh_n
            for t, before in backwards(steps, reverse):
                r, z, n, new = split(d, gates_at[t], 1, 4)
                gr, gz, gn, gnew = split(d, ggates_at[t], 1, 4)
                gh = added(gh, gy_at[t])
                gn = added(gn, gh * (1.0 - z)) * (1.0 - n * n)
                gz = added(gz, gh * ((h if before is None else y_at[before]) - n)) * (z * (1.0 - z))
                gr = added(gr, gn * new) * (r * (1.0 - r))
                maps_of_x[t] = d.op("Stack", gr, gz, gn, axis=1)
                maps_of_h[t] = d.op("Stack", gr, gz, added(gnew, gn * r), axis=1)
                gh = gh * z + d.op("BatchMatmul", d.reshape(maps_of_h[t], (batch, 3 * size)), w_h)
            return d.op("Stack", *maps_of_x, axis=0), d.op("Stack", *maps_of_h, axis=0), gh

        return g.by_composition(build)

    def samples(self) -> Sequence[Sample]:
        gates, y, state, weight = (3, 2, 4, 5), (3, 2, 5), (2, 5), (3, 5, 9)
        return (
            Sample(gates, y, state, weight, y, None, None),
            Sample(gates, y, state, weight, None, state, None, reverse=True),
            Sample(gates, y, state, weight, y, state, gates),
            Sample((1, 3, 4, 1), (1, 3, 1), (3, 1), (3, 1, 3), None, (3, 1), None),
            Sample((2, 0, 4, 3), (2, 0, 3), (0, 3), (3, 3, 5), (2, 0, 3), None, None),
            Sample(
                Uniform((4, 14, 4, 20), 0, 1),
                (4, 14, 20),
                (14, 20),
                Uniform((3, 20, 37), -0.3, 0.3),
                (4, 14, 20),
                None,
                None,
            ).no_gradient(),
        )

    def refused(self) -> Sequence[Refused]:
        gates, y, state, weight = (3, 2, 4, 5), (3, 2, 5), (2, 5), (3, 5, 9)
        return (
            Refused(ValueError, "gates has shape", (3, 2, 3, 5), y, state, weight, y, None, None),
            Refused(ValueError, "weight has shape", gates, y, state, (4, 5, 9), y, None, None),
            Refused(ValueError, "ggates has shape", gates, y, state, weight, y, None, (3, 2, 3, 5)),
        )
