"""Plain recurrent layers, Elman networks, over a whole sequence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from atled.array_desc import ArrayDesc
from atled.ops.samples import Refused, Sample, Uniform
from atled.ops.sequence import SequenceOp, added, backwards, columns, in_order, split
from atled.ops.spec import Attribute, Input

if TYPE_CHECKING:
    from atled.ops.rules import GradientCall, IRValue

_ATTRIBUTES = (
    *SequenceOp.attributes,
    Attribute("nonlinearity", "str", "tanh", choices=("tanh", "relu")),
)


class RNNSequence(SequenceOp):
    """Plain recurrent layer over a sequence, in one direction: `h' = f(W [x h] + b)`, f being tanh or relu.

    Source: Elman, Finding Structure in Time, 1990.

    Args:
        x: (T, B, I) float; T of 1 or more steps, B sequences.
        h: (B, H) float; the state to begin with.
        weight: (1, H, I + H) float; the columns for x before those for h.
        bias: (1, H) float, optional.
        reverse: whether to go from the last step to the first.
        nonlinearity: f.

    Returns:
        y: (T, B, H) float; h' of each step.
        h_n: (B, H) float; the state after the last step gone through.

    Raises:
        ValueError: a shape that does not match, no steps, another nonlinearity.
    """

    inputs = (Input("x"), Input("h"), Input("weight"), Input("bias", optional=True))
    attributes = _ATTRIBUTES
    outputs = ("y", "h_n")
    saved = ("y",)
    gate_count = 1
    bias_count = 1

    def infer(
        self, x: ArrayDesc, h: ArrayDesc, weight: ArrayDesc, bias: ArrayDesc | None, *, reverse: bool, nonlinearity: str
    ) -> Sequence[ArrayDesc]:
        steps, batch, size, dtype = self.check_sequence((x, h, weight, bias), ("h",))
        return ArrayDesc((steps, batch, size), dtype), ArrayDesc((batch, size), dtype)

    def reference(
        self,
        x: np.ndarray,
        h: np.ndarray,
        weight: np.ndarray,
        bias: np.ndarray | None,
        *,
        reverse: bool,
        nonlinearity: str,
    ) -> Sequence[np.ndarray]:
        y = np.empty((len(x), *h.shape), x.dtype)
        for t in in_order(len(x), reverse):
            total = np.concatenate((x[t], h), axis=1) @ weight[0].T + (0 if bias is None else bias[0])
            h = y[t] = np.tanh(total) if nonlinearity == "tanh" else np.maximum(total, 0)
        return y, h

    def gradient(
        self,
        g: GradientCall,
        x: IRValue,
        h: IRValue,
        weight: IRValue,
        bias: IRValue | None,
        *,
        reverse: bool,
        nonlinearity: str,
    ) -> Sequence[IRValue | None]:
        y = g.outputs[0]
        attributes = {"reverse": reverse, "nonlinearity": nonlinearity}
        maps, gh = g.op("RNNSequenceGrad", y, weight, *g.cotangents, **attributes)
        gx, gw = self.parameter_gradients(g, y, reverse, maps, maps)
        gb = g.op("Sum", maps, axes=(0, 1)) if bias is not None and g.needs[3] else None
        return gx, gh, gw, gb

    def samples(self) -> Sequence[Sample]:
        return (
            Sample((3, 2, 4), (2, 5), (1, 5, 9), (1, 5)),
            Sample((3, 2, 4), (2, 5), (1, 5, 9), (1, 5), reverse=True, nonlinearity="relu"),
            Sample((1, 3, 2), (3, 1), (1, 1, 3), None),
            Sample((2, 0, 2), (0, 3), (1, 3, 5), (1, 3)),
            Sample((4, 14, 17), (14, 20), Uniform((1, 20, 37), -0.3, 0.3), None, nonlinearity="relu").no_gradient(),
        )

    def refused(self) -> Sequence[Refused]:
        state, weight = (2, 5), (1, 5, 9)
        return (
            Refused(ValueError, "h has shape", (3, 2, 4), (3, 5), weight, None),
            Refused(ValueError, "weight has shape", (3, 2, 4), state, (5, 9), None),
            Refused(ValueError, "bias has shape", (3, 2, 4), state, weight, (5,)),
            Refused(ValueError, "nonlinearity", (3, 2, 4), state, weight, None, nonlinearity="sigmoid"),
        )


class RNNSequenceGrad(SequenceOp):
    """Gradient of `RNNSequence` through time: that of the affine map of each step, and of the first state.

    Goes through the steps backwards. With gh what arrives at h' of a step, the map gets `gh (1 - h'^2)` for tanh, gh
    where h' is positive for relu; to the step before goes that times the columns of the weight for h.

    Args:
        y: (T, B, H) float; of `RNNSequence`.
        weight: (1, H, I + H) float.
        gy: (T, B, H) float, optional; gradient of y of `RNNSequence`.
        gh_n: (B, H) float, optional; gradient of h_n of `RNNSequence`.
        reverse, nonlinearity: as `RNNSequence`.

    Returns:
        maps: (T, B, 1, H) float; the gradient of `W [x h] + b`.
        gh: (B, H) float; that of the state to begin with.

    Raises:
        ValueError: a shape that does not match, no steps.
    """

    inputs = (Input("y"), Input("weight"), Input("gy", optional=True), Input("gh_n", optional=True))
    attributes = _ATTRIBUTES
    outputs = ("maps", "gh")
    gate_count = 1

    def infer(
        self,
        y: ArrayDesc,
        weight: ArrayDesc,
        gy: ArrayDesc | None,
        gh_n: ArrayDesc | None,
        *,
        reverse: bool,
        nonlinearity: str,
    ) -> Sequence[ArrayDesc]:
        inputs = (y, weight, gy, gh_n)
        if y.ndim != 3 or not y.shape[0]:
            raise self.error(inputs, f"y has shape {list(y.shape)}", "use (T, B, H) with T of 1 or more")
        steps, batch, size = y.shape
        self.check_weight(inputs, size)
        self.check_shapes(inputs, {"gy": y.shape, "gh_n": (batch, size)})
        return ArrayDesc((steps, batch, 1, size), y.dtype), ArrayDesc((batch, size), y.dtype)

    def reference(
        self,
        y: np.ndarray,
        weight: np.ndarray,
        gy: np.ndarray | None,
        gh_n: np.ndarray | None,
        *,
        reverse: bool,
        nonlinearity: str,
    ) -> Sequence[np.ndarray]:
        steps, batch, size = y.shape
        maps = np.empty((steps, batch, 1, size), y.dtype)
        gh = np.zeros((batch, size), y.dtype) if gh_n is None else gh_n
        for t, _ in backwards(steps, reverse):
            if gy is not None:
                gh = gh + gy[t]
            slope = 1 - y[t] ** 2 if nonlinearity == "tanh" else y[t] > 0
            maps[t, :, 0] = gh * slope
            gh = maps[t, :, 0] @ weight[0, :, -size:]
        return maps, gh

    def gradient(
        self, g: GradientCall, *inputs: IRValue | None, reverse: bool, nonlinearity: str
    ) -> Sequence[IRValue | None]:
        def build(
            d: GradientCall, y: IRValue, weight: IRValue, gy: IRValue | None, gh_n: IRValue | None
        ) -> Sequence[IRValue]:
            steps, batch, size = y.shape
            depth = weight.shape[2]
            w_h = columns(d, d.reshape(weight, (size, depth)), depth - size, depth)
            y_at, gy_at = split(d, y, 0, steps), split(d, gy, 0, steps)
            maps: list[Any] = [None] * steps
            gh: Any = d.op("Constant", val=0.0, shape=(batch, size), dtype=y.dtype) if gh_n is None else gh_n
            for t, _ in backwards(steps, reverse):
                gh = added(gh, gy_at[t])
                if nonlinearity == "tanh":
                    slope = 1.0 - y_at[t] * y_at[t]
                else:
                    slope = d.op("GreaterScalar", d.op("Unlink", y_at[t]), val=0.0)
                maps[t] = gh * slope
                gh = d.op("BatchMatmul", maps[t], w_h)
            return d.reshape(d.op("Stack", *maps, axis=0), (steps, batch, 1, size)), gh

        return g.by_composition(build)

    def samples(self) -> Sequence[Sample]:
        y, state, weight = (3, 2, 5), (2, 5), (1, 5, 9)
        return (
            Sample(y, weight, y, None),
            Sample(y, weight, None, state, reverse=True, nonlinearity="relu"),
            Sample((1, 3, 1), (1, 1, 3), (1, 3, 1), (3, 1)),
            Sample((2, 0, 3), (1, 3, 5), (2, 0, 3), None),
            Sample((4, 14, 20), Uniform((1, 20, 37), -0.3, 0.3), (4, 14, 20), None).no_gradient(),
        )

    def refused(self) -> Sequence[Refused]:
        y, state, weight = (3, 2, 5), (2, 5), (1, 5, 9)
        return (
            Refused(ValueError, "y has shape", state, weight, y, None),
            Refused(ValueError, "weight has shape", y, (5, 9), y, None),
            Refused(ValueError, "gy has shape", y, weight, state, None),
            Refused(ValueError, "gh_n has shape", y, weight, None, y),
        )
