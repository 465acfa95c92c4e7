"""Sums and products of all elements up to each one along an axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from atled.array_desc import ArrayDesc
from atled.ops.axes import axis_or_last
from atled.ops.promotion import accumulated
from atled.ops.samples import Refused, Sample, Uniform
from atled.ops.spec import Attribute, Input, OpSpec

if TYPE_CHECKING:
    from atled.ops.rules import GradientCall, IRValue


class _Scan(OpSpec, abstract=True):
    """What the scans share; start: the result of no element."""

    category = "reduction"
    inputs = (Input("x"),)
    integers = "exact"
    accumulates = True
    attributes = (
        Attribute("axis", "int", 0),
        Attribute("exclusive", "bool", False),
        Attribute("reverse", "bool", False),
    )
    start: int

    def normalize(self, attributes: dict[str, Any], *inputs: Any) -> dict[str, Any]:
        return {**attributes, "axis": axis_or_last(self, attributes, inputs)}

    def infer(self, x: ArrayDesc, **_: Any) -> ArrayDesc:
        return x

    def accumulated(self, x: np.ndarray, axis: int) -> np.ndarray:
        """NumPy's scan; floats are accumulated in float64."""
        raise NotImplementedError

    def reference(self, x: np.ndarray, *, axis: int, exclusive: bool, reverse: bool) -> np.ndarray:
        x = np.flip(x, axis) if reverse else x
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):  # inf, NaN and 0 are the results meant
            y = self.accumulated(x, axis)
        if exclusive:
            y = np.delete(np.insert(y, 0, self.start, axis), -1, axis)
        with np.errstate(over="ignore"):
            return np.ascontiguousarray(np.flip(y, axis) if reverse else y).astype(accumulated(x.dtype))

    def samples(self) -> Sequence[Sample]:
        shapes: tuple[tuple[tuple[int, ...], dict[str, Any]], ...] = (
            ((2, 5, 4), {"axis": 1, "exclusive": True}),
            ((2, 3, 5), {"axis": 1, "exclusive": True, "reverse": True}),
            ((2, 300), {"axis": 1}),
            ((2, 0, 3), {"axis": 1}),
        )
        return tuple(Sample(Uniform(shape, 0.9, 1.1), **attributes) for shape, attributes in shapes)

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "axis=2 is out of range", (3, 4), axis=2),
            Refused(ValueError, "without axes", ()),
            Refused(TypeError, "axis", (3, 4), axis=0.5),
        )


def _accumulator(x: np.ndarray) -> np.dtype:
    return accumulated(x.dtype) if x.dtype.kind in "iub" else np.dtype(np.float64)


class CumSum(_Scan):
    """Sums along an axis of all elements up to each: `y[i] = x[0] + ... + x[i]`.

    Args:
        x: (..., K, ...) float; at least one axis.
        axis: that of size K.
        exclusive: whether the element itself is left out, so that the first sum is 0.
        reverse: whether the sums begin at the end: `y[i] = x[i] + ... + x[K - 1]`.

    Returns:
        y: shape of x, float.

    Raises:
        ValueError: axis is out of range.
    """

    start = 0

    def accumulated(self, x: np.ndarray, axis: int) -> np.ndarray:
        return np.cumsum(x, axis, dtype=_accumulator(x))

    def gradient(
        self, g: GradientCall, x: IRValue, *, axis: int, exclusive: bool, reverse: bool
    ) -> Sequence[IRValue | None]:
        return (g.op("CumSum", g.gy, axis=axis, exclusive=exclusive, reverse=not reverse),)


class CumProd(_Scan):
    """Products along an axis of all elements up to each: `y[i] = x[0] ... x[i]`.

    The gradient is `cumsum(gy y) / x` from the other end, so it is NaN where x is 0.

    Args:
        x: (..., K, ...) float; at least one axis.
        axis: that of size K.
        exclusive: whether the element itself is left out, so that the first product is 1.
        reverse: whether the products begin at the end: `y[i] = x[i] ... x[K - 1]`.

    Returns:
        y: shape of x, float.

    Raises:
        ValueError: axis is out of range.
    """

    start = 1

    def accumulated(self, x: np.ndarray, axis: int) -> np.ndarray:
        return np.cumprod(x, axis, dtype=_accumulator(x))

    def gradient(
        self, g: GradientCall, x: IRValue, *, axis: int, exclusive: bool, reverse: bool
    ) -> Sequence[IRValue | None]:
        back = g.op("CumSum", g.gy * g.y, axis=axis, exclusive=exclusive, reverse=not reverse)
        return (back / x,)
