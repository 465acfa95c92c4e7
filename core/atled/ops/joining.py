"""Several arrays into one along an axis, and one into several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from atled.array_desc import ArrayDesc
from atled.ops.axes import axis_or_last, from_front
from atled.ops.samples import Refused, Sample
from atled.ops.spec import Attribute, Input, OpSpec

if TYPE_CHECKING:
    from atled.ops.rules import GradientCall, IRValue


class Concatenate(OpSpec):
    """Arrays one behind the other along an axis.

    Args:
        x: (..., K, ...) float, at least one; only K, the size of axis, may differ between them.
        axis: default the last one.

    Returns:
        y: (..., L, ...) float; L is the sum of all K.

    Raises:
        ValueError: axis is out of range, the other axes differ.
    """

    function = "concatenate"
    category = "array"
    inputs = (Input("x", variadic=True),)
    integers = "exact"
    attributes = (Attribute("axis", "int", None),)

    def normalize(self, attributes: dict[str, Any], *inputs: Any) -> dict[str, Any]:
        return {"axis": axis_or_last(self, attributes, inputs)}

    def infer(self, *inputs: ArrayDesc, axis: int) -> ArrayDesc:
        first = inputs[0].shape
        for position, desc in enumerate(inputs):
            if desc.ndim != len(first) or _without(desc.shape, axis) != _without(first, axis):
                raise self.error(
                    inputs,
                    f"array {position} has shape {list(desc.shape)}, array 0 {list(first)}",
                    f"make them equal but for axis {axis}",
                )
        total = sum(desc.shape[axis] for desc in inputs)
        return ArrayDesc((*first[:axis], total, *first[axis + 1 :]), inputs[0].dtype)

    def reference(self, *inputs: np.ndarray, axis: int) -> np.ndarray:
        return np.concatenate(inputs, axis=axis)

    def gradient(self, g: GradientCall, *inputs: IRValue, axis: int) -> Sequence[IRValue | None]:
        gradients: list[IRValue | None] = []
        shape = g.y.shape
        offset = 0
        for x, needed in zip(inputs, g.needs, strict=True):
            end = offset + x.shape[axis]
            start = tuple(offset if i == axis else 0 for i in range(len(shape)))
            stop = tuple(end if i == axis else size for i, size in enumerate(shape))
            gradients.append(g.op("Slice", g.gy, start=start, stop=stop) if needed else None)
            offset = end
        return gradients

    def samples(self) -> Sequence[Sample]:
        return (
            Sample((2, 3), (2, 1)),
            Sample((2, 3), (4, 3), (1, 3), axis=0),
            Sample((2, 3, 2), (2, 1, 2), axis=-2),
            Sample((2, 3)),
            Sample((0, 3), (2, 3), axis=0),
        )

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "array 1 has shape", (2, 3), (3, 3)),
            Refused(ValueError, "array 1 has shape", (2, 3), (2, 3, 1)),
            Refused(ValueError, "axis=2 is out of range", (2, 3), (2, 3), axis=2),
            Refused(ValueError, "without axes", (), ()),
        )


class Stack(OpSpec):
    """Arrays of one shape side by side along a new axis.

    Args:
        x: (...) float, K of them, at least one, of equal shape.
        axis: where the new axis goes, 0 to ndim; negative counts from the end of y's shape.

    Returns:
        y: (..., K, ...) float; K is the size of the new axis.

    Raises:
        ValueError: axis is out of range, the shapes differ.
    """

    function = "stack"
    category = "array"
    inputs = (Input("x", variadic=True),)
    integers = "exact"
    attributes = (Attribute("axis", "int", 0),)

    def normalize(self, attributes: dict[str, Any], *inputs: Any) -> dict[str, Any]:
        return {"axis": from_front(self, inputs, "axis", attributes["axis"], inputs[0].ndim + 1)}

    def infer(self, *inputs: ArrayDesc, axis: int) -> ArrayDesc:
        shape = inputs[0].shape
        for position, desc in enumerate(inputs):
            if desc.shape != shape:
                raise self.error(
                    inputs, f"array {position} has shape {list(desc.shape)}, array 0 {list(shape)}", "make them equal"
                )
        return ArrayDesc((*shape[:axis], len(inputs), *shape[axis:]), inputs[0].dtype)

    def reference(self, *inputs: np.ndarray, axis: int) -> np.ndarray:
        return np.stack(inputs, axis=axis)

    def gradient(self, g: GradientCall, *inputs: IRValue, axis: int) -> Sequence[IRValue | None]:
        if len(inputs) == 1:
            return (g.reshape(g.gy, inputs[0].shape),)
        return g.op("Split", g.gy, axis=axis)

    def samples(self) -> Sequence[Sample]:
        return (
            Sample((2, 3), (2, 3)),
            Sample((2, 3), (2, 3), (2, 3), axis=1),
            Sample((2, 3), (2, 3), axis=-1),
            Sample((2, 3)),
            Sample((), (), ()),
            Sample((0, 3), (0, 3), axis=2),
        )

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "array 1 has shape", (2, 3), (3, 3)),
            Refused(ValueError, "axis=3 is out of range", (2, 3), (2, 3), axis=3),
        )


class Split(OpSpec):
    """One array per index of an axis: `y[i] = x[..., i, ...]`, without that axis.

    Args:
        x: (..., K, ...) float.
        axis: that of size K; negative counts from the end.

    Returns:
        y: (...) float, K of them; shape of x without the axis.

    Raises:
        ValueError: axis is out of range or has size 0.
    """

    function = "split"
    category = "array"
    inputs = (Input("x"),)
    integers = "exact"
    attributes = (Attribute("axis", "int", 0),)
    outputs = ("y...",)

    def normalize(self, attributes: dict[str, Any], *inputs: Any) -> dict[str, Any]:
        return {"axis": axis_or_last(self, attributes, inputs)}

    def infer(self, x: ArrayDesc, *, axis: int) -> Sequence[ArrayDesc]:
        if not x.shape[axis]:
            raise self.error((x,), f"axis {axis} has size 0", "split an axis of at least 1")
        return (ArrayDesc(_without(x.shape, axis), x.dtype),) * x.shape[axis]

    def reference(self, x: np.ndarray, *, axis: int) -> Sequence[np.ndarray]:
        return [np.take(x, i, axis=axis) for i in range(x.shape[axis])]

    def gradient(self, g: GradientCall, x: IRValue, *, axis: int) -> Sequence[IRValue | None]:
        return (g.op("Stack", *(g.cotangent(i) for i in range(x.shape[axis])), axis=axis),)

    def samples(self) -> Sequence[Sample]:
        return (
            Sample((2, 3)),
            Sample((2, 3), axis=1),
            Sample((2, 3, 4), axis=-2),
            Sample((3,)),
            Sample((1, 3)),
            Sample((0, 3), axis=1),
        )

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "axis 0 has size 0", (0, 3)),
            Refused(ValueError, "axis=2 is out of range", (2, 3), axis=2),
            Refused(ValueError, "without axes", ()),
        )


def _without(shape: Sequence[int], axis: int) -> tuple[int, ...]:
    return (*shape[:axis], *shape[axis + 1 :])
