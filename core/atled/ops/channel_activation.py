"""Activations with a channel axis: CReLU and CELU double it, PReLU has one slope per channel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from atled.array_desc import ArrayDesc
from atled.ops.axes import axis_or_last, base_axis_from_front
from atled.ops.elementwise import Row, away, define
from atled.ops.samples import Away, Refused, Sample
from atled.ops.spec import Attribute, Input, OpSpec

if TYPE_CHECKING:
    from atled.ops.rules import GradientCall, IRValue

define(
    __name__,
    "activation",
    (
        Row(
            "SelectBySign", "", "where(x > 0, a, -b)",
            {"x": None, "a": "where(x > 0, gy, 0)", "b": "where(x > 0, 0, -gy)"},
            doc="a where x is above 0, else -b: the gradient of CReLU.", data={"x": away(0.0)},
        ),
        Row(
            "BroadcastPReLU", "", "where(x0 >= 0, x0, x0 * x1)",
            {"x0": "where(x0 >= 0, gy, gy * x1)", "x1": "where(x0 >= 0, 0, gy * x0)"},
            doc="Rectifier with slope x1 below 0; PReLU with a slope that broadcasts.", data={"x0": away(0.0)},
        ),
    ),
)  # fmt: skip  # a table, with the formulas side by side


class _Doubling(OpSpec, abstract=True):
    """What CReLU and CELU share: the axis, and an output that is twice as long along it."""

    category = "activation"
    inputs = (Input("x"),)

    def normalize(self, attributes: dict[str, Any], *inputs: Any) -> dict[str, Any]:
        return {**attributes, "axis": axis_or_last(self, attributes, inputs)}

    def infer(self, x: ArrayDesc, *, axis: int, **_: Any) -> ArrayDesc:
        return ArrayDesc((*x.shape[:axis], 2 * x.shape[axis], *x.shape[axis + 1 :]), x.dtype)

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "axis=2 is out of range", (3, 4), axis=2),
            Refused(ValueError, "axis=1 is out of range", (3,)),
            Refused(ValueError, "without axes", ()),
            Refused(TypeError, "axis", (3, 4), axis=0.5),
        )


class CReLU(_Doubling):
    """Rectifier of x and of -x, one behind the other: `y = concatenate(maximum(x, 0), maximum(-x, 0))`.

    At 0 the gradient is that of the second half, `-gy`, as NNabla has it.

    Source: Shang, Sohn, Almeida, Lee 2016, "Understanding and Improving Convolutional Neural Networks via Concatenated
    Rectified Linear Units".

    Args:
        x: (..., C, ...) float.
        axis: that of size C, along which the two halves stand; negative counts from the end.

    Returns:
        y: (..., 2 C, ...) float.

    Raises:
        ValueError: axis is out of range.
    """

    function = "crelu"
    attributes = (Attribute("axis", "int", 1),)

    def reference(self, x: np.ndarray, *, axis: int) -> np.ndarray:
        return np.concatenate([np.maximum(x, 0), np.maximum(-x, 0)], axis=axis)

    def gradient(self, g: GradientCall, x: IRValue, *, axis: int) -> Sequence[IRValue | None]:
        return (g.op("SelectBySign", x, *_halves(g, axis)),)

    def samples(self) -> Sequence[Sample]:
        return (
            Sample(Away((3, 4), 0.0)),
            Sample(Away((2, 3, 4, 2), 0.0)),
            Sample(Away((3, 4), 0.0), axis=0),
            Sample(Away((2, 3, 4), 0.0), axis=-2),
            Sample(Away((5,), 0.0), axis=0),
            Sample(Away((0, 4), 0.0)),
            Sample(Away((3, 0), 0.0)),
            Sample((7, 33, 5)).no_gradient(),
        )


class CELU(_Doubling):
    """Exponential linear unit of x and of -x, one behind the other: `y = concatenate(elu(x), elu(-x))`.

    `elu(x) = x where x >= 0, else alpha (exp(x) - 1)`; at 0 both halves have slope 1.

    Args:
        x: (..., C, ...) float.
        alpha: minus the limit for x -> -infinity.
        axis: that of size C, along which the two halves stand; negative counts from the end.

    Returns:
        y: (..., 2 C, ...) float.

    Raises:
        ValueError: axis is out of range.
    """

    function = "celu"
    attributes = (Attribute("alpha", "float", 1.0), Attribute("axis", "int", 1))

    def reference(self, x: np.ndarray, *, alpha: float, axis: int) -> np.ndarray:
        halves = [np.where(z >= 0, z, alpha * np.expm1(np.minimum(z, 0))) for z in (x, -x)]
        return np.concatenate(halves, axis=axis).astype(x.dtype)

    def gradient(self, g: GradientCall, x: IRValue, *, alpha: Any, axis: int) -> Sequence[IRValue | None]:
        def build(c: GradientCall, x: IRValue) -> IRValue:
            return c.op("Concatenate", c.op("ELU", x, alpha=alpha), c.op("ELU", -x, alpha=alpha), axis=axis)

        return g.by_composition(build)

    def samples(self) -> Sequence[Sample]:
        return (
            Sample(Away((3, 4), 0.0)),
            Sample(Away((3, 4), 0.0), alpha=0.7),
            Sample(Away((2, 3, 4, 2), 0.0), alpha=0.7),
            Sample(Away((3, 4), 0.0), axis=0),
            Sample(Away((2, 3, 4), 0.0), axis=-2, alpha=1.5),
            Sample(Away((5,), 0.0), axis=0),
            Sample(Away((0, 4), 0.0)),
            Sample((7, 33, 5)).no_gradient(),
        )

    def refused(self) -> Sequence[Refused]:
        return (*super().refused(), Refused(TypeError, "alpha", (3, 4), alpha="1"))


def _halves(g: GradientCall, axis: int) -> tuple[IRValue, IRValue]:
    """The cotangent's first and second half along the axis."""
    gy = g.gy
    middle = tuple(size // 2 if i == axis else size for i, size in enumerate(gy.shape))
    start = tuple(size // 2 if i == axis else 0 for i, size in enumerate(gy.shape))
    return g.op("Slice", gy, stop=middle), g.op("Slice", gy, start=start)


class PReLU(OpSpec):
    """Rectifier with a learned slope below 0: `y = x0 where x0 >= 0, else x1 x0`.

    Source: He, Zhang, Ren, Sun 2015, "Delving Deep into Rectifiers".

    Args:
        x0: (...) float.
        x1: (C,) float with C = x0.shape[base_axis]: a slope per channel; or one element of any shape.
        base_axis: the channel axis, needed only with a slope per channel; negative counts from the end.

    Returns:
        y: shape of x0, float.

    Raises:
        ValueError: x1 has another shape, base_axis is out of range.
    """

    function = "prelu"
    category = "activation"
    inputs = (Input("x0"), Input("x1"))
    attributes = (Attribute("base_axis", "int", 1),)

    def normalize(self, attributes: dict[str, Any], *inputs: Any) -> dict[str, Any]:
        x0, x1 = inputs
        if x1.size == 1:
            return attributes  # one slope for all: no axis matters
        axis = base_axis_from_front(self, attributes, inputs)
        channels = x0.shape[axis]
        if x1.shape != (channels,):
            raise self.error(
                inputs,
                f"x1 has shape {list(x1.shape)}, x0 has {channels} channels on axis {axis}",
                f"use one slope, or {channels}",
            )
        return {"base_axis": axis}

    def infer(self, x0: ArrayDesc, x1: ArrayDesc, *, base_axis: int) -> ArrayDesc:
        return x0

    def reference(self, x0: np.ndarray, x1: np.ndarray, *, base_axis: int) -> np.ndarray:
        slope = x1.reshape(_aligned(x1.size, x0.ndim, base_axis))
        return np.where(x0 >= 0, x0, slope * x0)

    def gradient(self, g: GradientCall, x0: IRValue, x1: IRValue, *, base_axis: int) -> Sequence[IRValue | None]:
        def build(c: GradientCall, x0: IRValue, x1: IRValue) -> IRValue:
            return c.op("BroadcastPReLU", x0, c.reshape(x1, _aligned(x1.size, x0.ndim, base_axis)))

        return g.by_composition(build)

    def samples(self) -> Sequence[Sample]:
        return (
            Sample(Away((3, 4), 0.0), ()),
            Sample(Away((3, 4), 0.0), (1,)),
            Sample(Away((3, 4), 0.0), (1, 1), base_axis=7),
            Sample(Away((2, 3, 4, 2), 0.0), (3,)),
            Sample(Away((2, 3, 4), 0.0), (2,), base_axis=0),
            Sample(Away((2, 3, 4), 0.0), (4,), base_axis=-1),
            Sample(Away((3, 1, 2), 0.0), (1,)),
            Sample(Away((), 0.0), ()),
            Sample(Away((0, 4), 0.0), (4,)),
            Sample((7, 33, 5), (33,)).no_gradient(),
        )

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "use one slope, or 4", (3, 4), (3,)),
            Refused(ValueError, "use one slope, or 4", (3, 4), (1, 4)),
            Refused(ValueError, "base_axis=2 is out of range", (3, 4), (4,), base_axis=2),
            Refused(TypeError, "base_axis", (3, 4), (4,), base_axis="1"),
        )


def _aligned(count: int, ndim: int, axis: int) -> tuple[int, ...]:
    """The shape in which `count` slopes broadcast along an axis."""
    return tuple(count if i == axis else 1 for i in range(ndim))
