"""Softmax."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from atled.array_desc import ArrayDesc
from atled.ops.axes import axis_or_last
from atled.ops.samples import Refused, Sample, Uniform
from atled.ops.spec import Attribute, Input, OpSpec

if TYPE_CHECKING:
    from atled.ops.rules import GradientCall, IRValue


def softmax(x: np.ndarray, axis: int) -> np.ndarray:
    """exp(x) / sum(exp(x)) along the axis, shifted by the maximum so that nothing overflows."""
    e = np.exp(x - x.max(axis=axis, keepdims=True, initial=-np.inf))
    return e / e.sum(axis=axis, keepdims=True)


def softmax_backward(g: GradientCall, y: IRValue, gy: IRValue, axis: int) -> IRValue:
    """The cotangent of softmax's input, from its output and the cotangent of that: `y (gy - sum(gy y))`."""
    return y * (gy - g.op("Sum", gy * y, axes=(axis,), keep_dims=True))


class Softmax(OpSpec):
    """Softmax along one axis: `y = exp(x) / sum(exp(x))`, computed without overflow.

    Args:
        x: (..., K, ...) float; at least one axis.
        axis: that of size K, along which y sums to 1; default the last one.

    Returns:
        y: shape of x, float.

    Raises:
        ValueError: axis is out of range.
    """

    function = "softmax"
    category = "activation"
    inputs = (Input("x"),)
    attributes = (Attribute("axis", "int", None),)

    def normalize(self, attributes: dict[str, Any], *inputs: Any) -> dict[str, Any]:
        return {"axis": axis_or_last(self, attributes, inputs)}

    def infer(self, x: ArrayDesc, *, axis: int) -> ArrayDesc:
        return x

    def reference(self, x: np.ndarray, *, axis: int) -> np.ndarray:
        return softmax(x, axis)

    def gradient(self, g: GradientCall, x: IRValue, *, axis: int) -> Sequence[IRValue | None]:
        return (softmax_backward(g, g.y, g.gy, axis),)

    def samples(self) -> Sequence[Sample]:
        return (
            Sample((3, 4)),
            Sample((2, 3, 4), axis=1),
            Sample((2, 3, 4), axis=-3),
            Sample((5,)),
            Sample((3, 1)),
            Sample((0, 4)),
            Sample((3, 0)),
            Sample(Uniform((3, 4), 990.0, 1000.0)).no_gradient(),
            Sample((17, 130)).no_gradient(),
        )

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "axis=2 is out of range", (3, 4), axis=2),
            Refused(ValueError, "without axes", ()),
            Refused(TypeError, "axis", (3, 4), axis="last"),
        )
