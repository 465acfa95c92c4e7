"""Elements repeated: whole arrays one after the other, or each element several times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from atled.array_desc import ArrayDesc
from atled.ops.samples import Refused, Sample
from atled.ops.spec import Attribute, Input, OpSpec

if TYPE_CHECKING:
    from atled.ops.rules import GradientCall, IRValue


class Tile(OpSpec):
    """The array repeated as a whole along its axes, as `numpy.tile`.

    Args:
        x: (S...) float; takes axes of size 1 in front where reps has more entries than it has axes.
        reps: how often, per trailing axis of y; 1 in front where x has more axes.

    Returns:
        y: (S reps...) float.

    Raises:
        ValueError: a negative entry.
    """

    category = "array"
    integers = "exact"
    inputs = (Input("x"),)
    attributes = (Attribute("reps", "axes"),)

    def normalize(self, attributes: dict[str, Any], *inputs: Any) -> dict[str, Any]:
        reps = attributes["reps"]
        if any(count < 0 for count in reps):
            raise self.error(inputs, f"reps={reps} has a negative entry", "use counts from 0 on")
        return {"reps": (1,) * (inputs[0].ndim - len(reps)) + reps}

    def infer(self, x: ArrayDesc, *, reps: tuple[int, ...]) -> ArrayDesc:
        shape = (1,) * (len(reps) - x.ndim) + x.shape
        return ArrayDesc(tuple(size * count for size, count in zip(shape, reps, strict=True)), x.dtype)

    def reference(self, x: np.ndarray, *, reps: tuple[int, ...]) -> np.ndarray:
        return np.tile(x, reps)

    def gradient(self, g: GradientCall, x: IRValue, *, reps: tuple[int, ...]) -> Sequence[IRValue | None]:
        sizes = (1,) * (len(reps) - x.ndim) + x.shape
        pieces = g.reshape(g.gy, [n for pair in zip(reps, sizes, strict=True) for n in pair])
        return (g.reshape(g.op("Sum", pieces, axes=tuple(range(0, 2 * len(reps), 2))), x.shape),)

    def samples(self) -> Sequence[Sample]:
        return (
            Sample((2, 3), reps=(2, 1, 2)),
            Sample((2, 3, 2), reps=2),
            Sample((), reps=(3,)),
            Sample((2, 3), reps=(0, 2)),
        )

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "negative entry", (2, 3), reps=(2, -1)),
            Refused(TypeError, "reps", (2, 3), reps=(1.5,)),
            Refused(TypeError, "reps is missing", (2, 3)),
        )


class Repeat(OpSpec):
    """Each element several times along an axis, as `numpy.repeat`: `y[..., i, ...] = x[..., i // repeats, ...]`.

    Args:
        x: (A..., N, B...) float.
        repeats: how often.
        axis: that of N; negative ones count from the end.

    Returns:
        y: (A..., N repeats, B...) float.

    Raises:
        ValueError: repeats is negative, axis is out of range.
    """

    category = "array"
    integers = "exact"
    inputs = (Input("x"),)
    attributes = (Attribute("repeats", "int"), Attribute("axis", "int", -1))

    def normalize(self, attributes: dict[str, Any], *inputs: Any) -> dict[str, Any]:
        x, axis = inputs[0], attributes["axis"]
        if not -x.ndim <= axis < x.ndim:
            remedy = f"use {-x.ndim} to {x.ndim - 1}" if x.ndim else "add an axis by reshape"
            raise self.error(inputs, f"axis={axis} is out of range", remedy)
        if attributes["repeats"] < 0:
            raise self.error(inputs, f"repeats={attributes['repeats']}", "use counts from 0 on")
        return {**attributes, "axis": axis % x.ndim}

    def infer(self, x: ArrayDesc, *, repeats: int, axis: int) -> ArrayDesc:
        return ArrayDesc((*x.shape[:axis], x.shape[axis] * repeats, *x.shape[axis + 1 :]), x.dtype)

    def reference(self, x: np.ndarray, *, repeats: int, axis: int) -> np.ndarray:
        return x.repeat(repeats, axis=axis)

    def gradient(self, g: GradientCall, x: IRValue, *, repeats: int, axis: int) -> Sequence[IRValue | None]:
        pieces = g.reshape(g.gy, (*x.shape[: axis + 1], repeats, *x.shape[axis + 1 :]))
        return (g.op("Sum", pieces, axes=(axis + 1,)),)

    def samples(self) -> Sequence[Sample]:
        return (
            Sample((2, 3, 2), repeats=3, axis=1),
            Sample((2, 3), repeats=0),
            Sample((0, 3), repeats=2),
        )

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "axis=2 is out of range", (2, 3), repeats=2, axis=2),
            Refused(ValueError, "add an axis", (), repeats=2),
            Refused(ValueError, "repeats=-1", (2, 3), repeats=-1),
            Refused(TypeError, "repeats is missing", (2, 3)),
        )
