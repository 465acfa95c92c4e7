"""Attributes that say sizes, for inputs of other shapes than those with which a call was recorded."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from atled.errors import four_parts
from atled.graph.inference.recorded import OneCall

Shape = tuple[int, ...]


def attributes_for(call: OneCall, shapes: Sequence[Shape | None]) -> Mapping[str, Any]:
    """The attributes of a call for inputs of other shapes; RefusedError or ValueError where they do not say them.

    A call was recorded with sizes worked out: of `F.reshape(x, (-1, 784))` only (8, 784) is known. Which of them is
    that of an axis follows from the recorded shapes.
    """
    attributes = call.spec.for_shapes(call.attributes, shapes)
    if tuple(shapes) == tuple(call.shapes) or call.spec.name not in _RULES:
        return attributes
    before, after = call.shapes[0], shapes[0]
    assert before is not None and after is not None
    if before == after:
        return attributes
    axes = [axis for axis, (old, new) in enumerate(zip(before, after, strict=True)) if old != new]
    return {**attributes, **_RULES[call.spec.name](attributes, before, after, axes)}


def check_repetition(call: OneCall, shapes: Sequence[Shape | None], are_kept: Sequence[bool]) -> None:
    """ValueError where an elementwise call repeats an axis that it did not repeat when it was recorded.

    A batch of 1 would fit to `F.constant(0, (8, 10))`, which was recorded with a batch of 8, and give 8 results.

    are_kept: which inputs have a size because the call says it, not because the user gives it so.
    """
    if call.spec.program is None:
        return
    count = max((len(shape) for shape in shapes if shape is not None), default=0)
    sized = [
        (before, now, kept)
        for before, now, kept in zip(call.shapes, shapes, are_kept, strict=True)
        if before is not None and now is not None and len(now) == count
    ]
    for axis in range(count):
        shrunk = {before[axis] for before, now, _ in sized if now[axis] == 1 != before[axis]}
        if any(kept and now[axis] == before[axis] and now[axis] in shrunk for before, now, kept in sized):
            given, recorded = (", ".join(str(each[which]) for each in sized) for which in (1, 0))
            raise unknown(f"{call.spec.name} of {given}", f"axis {axis} was not repeated when recorded with {recorded}")


def _reshaped(attributes: Mapping[str, Any], before: Shape, after: Shape, axes: Sequence[int]) -> Mapping[str, Any]:
    """Each axis that changed is within one axis of the result, maybe together with others.

    Of axes behind the first one that it joins, one may change: (N, 32, 32, 3) would pass for (N, 3, 32, 32) where
    (N, 3072) is made of it.
    """
    shape = attributes["shape"]
    if 0 in before:
        raise unknown(f"reshape from {before} to {shape}", "without elements it does not say which axis becomes which")
    resized = list(shape)
    positions = {axis: _position(shape, before, axis) for axis in axes}
    for axis, position in positions.items():
        joined = [other for other in axes if positions[other] == position]
        if len(joined) > 1 and joined[0] != 0:
            raise unknown(f"reshape from {before} to {shape}", f"axes {joined}, which it joins, have other sizes")
        resized[position] = resized[position] // before[axis] * after[axis]
    return {"shape": tuple(resized)}


def _position(shape: Shape, before: Shape, axis: int) -> int:
    """Which axis of the result of a reshape holds an axis of its input."""
    size, inner = before[axis], math.prod(before[axis + 1 :])
    # Elements lie one after the other: an axis of the result holds the changed one if the elements of one of its
    # entries divide those within an entry of that, and its size is a multiple.
    found = []
    for position, entry in enumerate(shape):
        own = math.prod(shape[position + 1 :])
        if own and inner % own == 0 and entry * own % (size * inner) == 0:
            found.append(position)
    # With a size of 1 that is so for axes around it: the one that holds nothing else is meant. Where both sides hold
    # more, as in (4, 1, 2) to (4, 2), it may have been joined with either.
    alone = [position for position in found if math.prod(shape[position + 1 :]) == inner and shape[position] == size]
    found = alone or found
    if len(found) != 1:
        raise unknown(
            f"reshape from {before} to {shape}",
            f"which axis of the result is axis {axis} of what it reads, of size {size}, is not known",
        )
    return found[0]


def _broadcast(attributes: Mapping[str, Any], before: Shape, after: Shape, axes: Sequence[int]) -> Mapping[str, Any]:
    """Axes that were not repeated are as long as what it reads."""
    shape = attributes["shape"]
    sizes = zip(shape, before, after, strict=True)
    return {"shape": tuple(new if entry == old else entry for entry, old, new in sizes)}


def _sliced(attributes: Mapping[str, Any], before: Shape, after: Shape, axes: Sequence[int]) -> Mapping[str, Any]:
    """Axes that were taken whole are taken whole."""
    start, stop = list(attributes["start"]), list(attributes["stop"])
    for axis in axes:
        if (start[axis], stop[axis], attributes["step"][axis]) != (0, before[axis], 1):
            raise unknown(
                f"slice of axis {axis} from {start[axis]} to {stop[axis]}",
                f"the axis had size {before[axis]} and has {after[axis]}: whether the bounds count from its end is not "
                "known",
            )
        stop[axis] = after[axis]
    return {"stop": tuple(stop)}


def unknown(asked: str, wrong: str) -> ValueError:
    """The error for sizes that do not follow from the recorded ones."""
    return ValueError(
        four_parts(asked, wrong, "", "record the graph with other sizes, best with a batch of 2 or more, or with these")
    )


_RULES: Mapping[str, Callable[[Mapping[str, Any], Shape, Shape, Sequence[int]], Mapping[str, Any]]] = {
    "Broadcast": _broadcast,
    "Reshape": _reshaped,
    "Slice": _sliced,
}
