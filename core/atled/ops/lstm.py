"""The long short-term memory over a whole sequence."""

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


class LSTMSequence(SequenceOp):
    """Long short-term memory over a sequence, one layer in one direction.

    For each step, x its input, h and c the states before it: `c' = f c + i g`, `h' = o tanh(c')`, where
    `i, f, o = sigmoid(W [x h] + b)` and `g = tanh(W [x h] + b)`, with a W and b for each of them.

    Source: Hochreiter, Schmidhuber, Long Short-Term Memory, 1997; with the forget gate of Gers et al., 1999.

    Args:
        x: (T, B, I) float; T of 1 or more steps, B sequences.
        h, c: (B, H) float; the states to begin with.
        weight: (4, H, I + H) float; for the gates in the order i, f, g, o, the columns for x before those for h.
        bias: (4, H) float, optional.
        reverse: whether to go from the last step to the first.

    Returns:
        y: (T, B, H) float; h' of each step.
        h_n, c_n: (B, H) float; the states after the last step gone through.
        gates: (T, B, 4, H) float; i, f, g, o of each step; auxiliary.
        cells: (T, B, H) float; c' of each step; auxiliary.

    Raises:
        ValueError: a shape that does not match, no steps.
    """

    inputs = (Input("x"), Input("h"), Input("c"), Input("weight"), Input("bias", optional=True))
    outputs = ("y", "h_n", "c_n", "gates", "cells")
    auxiliary = ("gates", "cells")
    saved = ("y",)
    gate_count = 4
    bias_count = 4

    def infer(
        self, x: ArrayDesc, h: ArrayDesc, c: ArrayDesc, weight: ArrayDesc, bias: ArrayDesc | None, *, reverse: bool
    ) -> Sequence[ArrayDesc]:
        steps, batch, size, dtype = self.check_sequence((x, h, c, weight, bias), ("h", "c"))
        state, sequence = ArrayDesc((batch, size), dtype), ArrayDesc((steps, batch, size), dtype)
        return sequence, state, state, ArrayDesc((steps, batch, 4, size), dtype), sequence

    def reference(
        self, x: np.ndarray, h: np.ndarray, c: np.ndarray, weight: np.ndarray, bias: np.ndarray | None, *, reverse: bool
    ) -> Sequence[np.ndarray]:
        steps, batch, size = len(x), *h.shape
        y = np.empty((steps, batch, size), x.dtype)
        gates, cells = np.empty((steps, batch, 4, size), x.dtype), np.empty_like(y)
        for t in in_order(steps, reverse):
            xh = np.concatenate((x[t], h), axis=1)
            i, f, g, o = xh @ weight.swapaxes(1, 2) + (0 if bias is None else bias[:, np.newaxis])
            i, f, g, o = sigmoid(i), sigmoid(f), np.tanh(g), sigmoid(o)
            c = f * c + i * g
            h = o * np.tanh(c)
            y[t], cells[t], gates[t] = h, c, np.stack((i, f, g, o), axis=1)
        return y, h, c, gates, cells

    def gradient(
        self,
        g: GradientCall,
        x: IRValue,
        h: IRValue,
        c: IRValue,
        weight: IRValue,
        bias: IRValue | None,
        *,
        reverse: bool,
    ) -> Sequence[IRValue | None]:
        y, _, _, gates, cells = g.outputs
        maps, gh, gc = g.op("LSTMSequenceGrad", gates, cells, c, weight, *g.cotangents, reverse=reverse)
        gx, gw = self.parameter_gradients(g, y, reverse, maps, maps)
        gb = g.op("Sum", maps, axes=(0, 1)) if bias is not None and g.needs[4] else None
        return gx, gh, gc, gw, gb

    def samples(self) -> Sequence[Sample]:
        return (
            Sample((3, 2, 4), (2, 5), (2, 5), (4, 5, 9), (4, 5)),
            Sample((3, 2, 4), (2, 5), (2, 5), (4, 5, 9), (4, 5), reverse=True),
            Sample((1, 3, 2), (3, 1), (3, 1), (4, 1, 3), None),
            Sample((2, 0, 2), (0, 3), (0, 3), (4, 3, 5), (4, 3)),
            Sample((4, 14, 17), (14, 20), (14, 20), Uniform((4, 20, 37), -0.3, 0.3), None).no_gradient(),
        )

    def refused(self) -> Sequence[Refused]:
        state, weight = (2, 5), (4, 5, 9)
        return (
            Refused(ValueError, "x has 2 axes", (2, 4), state, state, weight, None),
            Refused(ValueError, "no steps", (0, 2, 4), state, state, weight, None),
            Refused(ValueError, "h has shape", (3, 2, 4), (3, 5), state, weight, None),
            Refused(ValueError, "c has shape", (3, 2, 4), state, (2, 4), weight, None),
            Refused(ValueError, "weight has shape", (3, 2, 4), state, state, (4, 5, 5), None),
            Refused(ValueError, "bias has shape", (3, 2, 4), state, state, weight, (20,)),
        )


class LSTMSequenceGrad(SequenceOp):
    """Gradient of `LSTMSequence` through time: that of the four affine maps of each step, and of the first states.

    Goes through the steps backwards. With gh and gc what arrives at h' and c' of a step:
    `gc <- gc + gh o (1 - tanh(c')^2)`, the maps get `gc g i (1 - i)`, `gc c f (1 - f)`, `gc i (1 - g^2)` and
    `gh tanh(c') o (1 - o)`; to the step before go `gc f` and the maps' gradient times the columns of the weight for h.

    Args:
        gates: (T, B, 4, H) float; of `LSTMSequence`.
        cells: (T, B, H) float; of `LSTMSequence`.
        c: (B, H) float; the cell to begin with.
        weight: (4, H, I + H) float.
        gy: (T, B, H) float, optional; gradient of y of `LSTMSequence`.
        gh_n, gc_n: (B, H) float, optional; gradient of h_n and c_n of `LSTMSequence`.
        ggates: (T, B, 4, H) float, optional; gradient of gates of `LSTMSequence`.
        gcells: (T, B, H) float, optional; gradient of cells of `LSTMSequence`.
        reverse: as `LSTMSequence`.

    Returns:
        maps: (T, B, 4, H) float; the gradient of `W [x h] + b`.
        gh, gc: (B, H) float; those of the states to begin with.

    Raises:
        ValueError: a shape that does not match, no steps.
    """

    inputs = (
        Input("gates"),
        Input("cells"),
        Input("c"),
        Input("weight"),
        Input("gy", optional=True),
        Input("gh_n", optional=True),
        Input("gc_n", optional=True),
        Input("ggates", optional=True),
        Input("gcells", optional=True),
    )
    outputs = ("maps", "gh", "gc")
    gate_count = 4

    def infer(self, gates: ArrayDesc, *others: ArrayDesc | None, reverse: bool) -> Sequence[ArrayDesc]:
        inputs = (gates, *others)
        _, batch, size, dtype = self.check_gates(inputs, 4, ("cells", "gy", "gcells"), ("c", "gh_n", "gc_n"))
        self.check_shapes(inputs, {"ggates": gates.shape})
        state = ArrayDesc((batch, size), dtype)
        return gates, state, state

    def reference(
        self,
        gates: np.ndarray,
        cells: np.ndarray,
        c: np.ndarray,
        weight: np.ndarray,
        gy: np.ndarray | None,
        gh_n: np.ndarray | None,
        gc_n: np.ndarray | None,
        ggates: np.ndarray | None,
        gcells: np.ndarray | None,
        *,
        reverse: bool,
    ) -> Sequence[np.ndarray]:
        steps, batch, _, size = gates.shape
        w_h = weight.reshape(4 * size, -1)[:, -size:]
        maps = np.empty_like(gates)
        gh = np.zeros_like(c) if gh_n is None else gh_n
        gc = np.zeros_like(c) if gc_n is None else gc_n
        for t, before in backwards(steps, reverse):
            i, f, g, o = gates[t].swapaxes(0, 1)
            tanh_c = np.tanh(cells[t])
            if gy is not None:
                gh = gh + gy[t]
            gc = gc + gh * o * (1 - tanh_c**2)
            if gcells is not None:
                gc = gc + gcells[t]
            of_gates = np.stack((gc * g, gc * (c if before is None else cells[before]), gc * i, gh * tanh_c), axis=1)
            if ggates is not None:
                of_gates += ggates[t]
            maps[t] = of_gates * np.stack((i * (1 - i), f * (1 - f), 1 - g**2, o * (1 - o)), axis=1)
            gc = gc * f
            gh = maps[t].reshape(batch, 4 * size) @ w_h
        return maps, gh, gc

    def gradient(self, g: GradientCall, *inputs: IRValue | None, reverse: bool) -> Sequence[IRValue | None]:
        def build(
            d: GradientCall,
            gates: IRValue,
            cells: IRValue,
            c: IRValue,
            weight: IRValue,
            gy: IRValue | None,
            gh_n: IRValue | None,
            gc_n: IRValue | None,
            ggates: IRValue | None,
            gcells: IRValue | None,
        ) -> Sequence[IRValue]:
            steps, batch, _, size = gates.shape
            depth = weight.shape[2]
            w_h = columns(d, d.reshape(weight, (4 * size, depth)), depth - size, depth)
            by_step = [split(d, value, 0, steps) for value in (gates, cells, gy, ggates, gcells)]
            gates_at, cells_at, gy_at, ggates_at, gcells_at = by_step
            maps: list[Any] = [None] * steps
            gh, gc = (
                d.op("Constant", val=0.0, shape=c.shape, dtype=c.dtype) if end is None else end for end in (gh_n, gc_n)
            )
            for t, before in backwards(steps, reverse):
                i, f, content, o = split(d, gates_at[t], 1, 4)
                tanh_c = d.op("Tanh", cells_at[t])
                gh = added(gh, gy_at[t])
                gc = added(gc, gh * o * (1.0 - tanh_c * tanh_c), gcells_at[t])
                c_before = c if before is None else cells_at[before]
                of_gates = (gc * content, gc * c_before, gc * i, gh * tanh_c)
                slopes = (i * (1.0 - i), f * (1.0 - f), 1.0 - content * content, o * (1.0 - o))
                arriving = split(d, ggates_at[t], 1, 4)
                terms = [added(of, more) * slope for of, more, slope in zip(of_gates, arriving, slopes, strict=True)]
                maps[t] = d.op("Stack", *terms, axis=1)
                gc = gc * f
                gh = d.op("BatchMatmul", d.reshape(maps[t], (batch, 4 * size)), w_h)
            return d.op("Stack", *maps, axis=0), gh, gc

        return g.by_composition(build)

    def samples(self) -> Sequence[Sample]:
        gates, cells, state, weight = (3, 2, 4, 5), (3, 2, 5), (2, 5), (4, 5, 9)
        return (
            Sample(gates, cells, state, weight, cells, None, None, None, None),
            Sample(gates, cells, state, weight, None, state, state, None, None, reverse=True),
            Sample(gates, cells, state, weight, cells, state, state, gates, cells),
            Sample((1, 3, 4, 1), (1, 3, 1), (3, 1), (4, 1, 3), None, None, (3, 1), None, None),
            Sample((2, 0, 4, 3), (2, 0, 3), (0, 3), (4, 3, 5), (2, 0, 3), None, None, None, None),
            Sample(
                Uniform((4, 14, 4, 20), 0, 1),
                (4, 14, 20),
                (14, 20),
                Uniform((4, 20, 37), -0.3, 0.3),
                (4, 14, 20),
                None,
                None,
                None,
                None,
            ).no_gradient(),
        )

    def refused(self) -> Sequence[Refused]:
        gates, cells, state, weight = (3, 2, 4, 5), (3, 2, 5), (2, 5), (4, 5, 9)
        rest = (None,) * 4
        return (
            Refused(ValueError, "gates has shape", (3, 2, 3, 5), cells, state, weight, cells, *rest),
            Refused(ValueError, "weight has shape", gates, cells, state, (4, 5, 4), cells, *rest),
            Refused(ValueError, "cells has shape", gates, (2, 2, 5), state, weight, cells, *rest),
            Refused(ValueError, "gy has shape", gates, cells, state, weight, state, *rest),
        )
