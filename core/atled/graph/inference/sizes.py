"""Attributes that say sizes, for inputs of other shapes than those with which a call was recorded."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

from atled.array_desc import ArrayDesc
from atled.errors import four_parts
from atled.graph.inference.recorded import OneCall
from atled.type_configs import compute_dtype

Shape = tuple[int, ...]


def attributes_for(call: OneCall, shapes: Sequence[Shape | None]) -> Mapping[str, Any]:
    """The attributes of a call for inputs of other shapes; RefusedError or ValueError where they do not say them.

    A call was recorded with sizes worked out: of `F.reshape(x, (-1, 784))` only (8, 784) is known. Which of them is
    that of an axis follows from the recorded shapes.
    """
    attributes = call.spec.for_shapes(call.attributes, shapes)
    if tuple(shapes) == tuple(call.shapes):
        return attributes
    before, after = (call.shapes[0], shapes[0]) if shapes else (None, None)
    if call.spec.name in _RULES and before is not None and after is not None and before != after:
        axes = [axis for axis, (old, new) in enumerate(zip(before, after, strict=True)) if old != new]
        attributes = {**attributes, **_RULES[call.spec.name](attributes, before, after, axes)}
    _check(call, attributes, shapes)
    return attributes


def _check(call: OneCall, attributes: Mapping[str, Any], shapes: Sequence[Shape | None]) -> None:
    """The op's own error where its attributes do not fit to inputs of other shapes: kernels trust them.

    The 6 largest of the elements of a sample that has 3 are read behind it.
    """
    if not call.spec.normalizes:
        return
    dtype = compute_dtype(call.context.backends[0][1])
    call.spec.normalize(dict(attributes), *(None if shape is None else ArrayDesc(shape, dtype) for shape in shapes))


def check_repetition(call: OneCall, shapes: Sequence[Shape | None], are_kept: Sequence[bool]) -> None:
    """ValueError where an elementwise call repeats an axis that it did not repeat when it was recorded.

    A batch of 1 would fit to `F.constant(0, (8, 10))`, which was recorded with a batch of 8, and give 8 results.

    are_kept: which inputs have a size because the call says it, not because the user gives it so.
    """
    if call.spec.program is None or not any(shape is not None and 1 in shape for shape in shapes):
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


def check_made(call: OneCall, shapes: Sequence[Shape | None], count: int) -> None:
    """ValueError where a call, such as F.split, makes more or fewer arrays than when it was recorded.

    What follows reads those that there were: of others it would miss some, or not see them.
    """
    if call.spec.outputs[0].endswith("...") and count != len(call.output_shapes):
        raise unknown(
            f"{call.spec.name} of {shapes[0]}",
            f"it makes {count} arrays, and made {len(call.output_shapes)} when recorded with {call.shapes[0]}",
        )


def check_index(call: OneCall, shape: Shape | None, source: OneCall | None) -> None:
    """ValueError where a reshape joins what may be the only sample that there was when `x[0]` was recorded.

    `x[0]` is a slice and a reshape, of 1 sample the same as `F.reshape(x[:], x.shape[1:])`.

    shape: of what the call reads.  source: what makes that, None for a leaf.
    """
    before = call.shapes[0]
    if call.spec.name != "Reshape" or source is None or source.spec.name != "Slice" or before is None or shape is None:
        return
    lost = [axis for axis, (old, new) in enumerate(zip(before, shape, strict=True)) if old == 1 != new]
    result = call.attributes["shape"]
    if lost and len(result) < len(before) and _without_ones(result) == _without_ones(before):
        raise unknown(
            f"index of {source.shapes[0]} that gives {result}",
            f"axis {lost[0]}, which it leaves out, had size 1 and has {shape[lost[0]]}: whether it was indexed, as by "
            "x[0], or joined with another axis is not known",
        )


def _without_ones(shape: Shape) -> Shape:
    return tuple(size for size in shape if size != 1)


def check_written(call: OneCall, changed_sizes: Set[int]) -> None:
    """ValueError where a call writes down a size that was one of those that changed, and which its inputs do not have.

    `F.broadcast(F.mean(x, axis=1, keepdims=True), x.shape)` repeats as often as x was long when it was recorded.

    changed_sizes: recorded sizes of axes that have others now, of the inputs and of what depends on them.
    """
    shape = call.attributes.get("shape", ())
    if call.spec.name == "Broadcast":
        before = call.shapes[0]
        assert before is not None
        written = [size for size, own in zip(shape, before, strict=True) if size != own]
    elif call.spec.name.endswith(("Grad", "Gather")):
        written = list(shape)  # that of what the gradient is for
    else:
        return
    found = changed_sizes & set(written)
    if found:
        raise unknown(
            f"{call.spec.name} to {shape}",
            f"a size of {min(found)} is written down, and an axis that had this size has another one now: whether it "
            "follows that is not known",
        )


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


def _pooled(attributes: Mapping[str, Any], before: Shape, after: Shape, axes: Sequence[int]) -> Mapping[str, Any]:
    """Of an axis that one window took whole, as of `F.average_pooling(x, x.shape[2:])`, it is not known what to do."""
    kernel, first = attributes["kernel"], len(before) - len(attributes["kernel"]) - attributes["channel_last"]
    for axis in axes:
        position = axis - first
        if 0 <= position < len(kernel) and kernel[position] == before[axis] and not attributes["pad"][position]:
            raise unknown(
                f"pooling of windows of {kernel}",
                f"one took axis {axis} whole, which had size {before[axis]} and has {after[axis]}: whether it is to be "
                "as large as that is not known",
                "take axes of any size by F.global_average_pooling, or by F.mean, F.max or F.sum with axis= and "
                "keepdims=True",
            )
    return {}


def unknown(asked: str, wrong: str, remedy: str = "") -> ValueError:
    """The error for sizes that do not follow from the recorded ones.

    remedy: another one, if there is one.
    """
    general = "record the graph with other sizes, best with a batch of 2 or more, or with these"
    return ValueError(four_parts(asked, wrong, "", f"{remedy}; or {general}" if remedy else general))


_RULES: Mapping[str, Callable[[Mapping[str, Any], Shape, Shape, Sequence[int]], Mapping[str, Any]]] = {
    "AveragePooling": _pooled,
    "Broadcast": _broadcast,
    "MaxPooling": _pooled,
    "Reshape": _reshaped,
    "Slice": _sliced,
    "SumPooling": _pooled,
}
