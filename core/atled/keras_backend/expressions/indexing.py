"""Parts of expressions by index: slices, integers, integer expressions and vectors of them, new axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from atled.errors import four_parts
from atled.keras_backend.expressions.calls import Rule, call, expression, sized_call
from atled.keras_backend.expressions.expression import Expression, place
from atled.keras_backend.expressions.leaves import Constant
from atled.keras_backend.expressions.messages import asked
from atled.keras_backend.expressions.promotion import arithmetic
from atled.keras_backend.expressions.sizes import SizeOf, size
from atled.keras_backend.expressions.windows import Bounds, moves, window

if TYPE_CHECKING:
    from atled.keras_backend.compiling.specialization import Specialization, Value

_NEW = -1
"""In place of an axis: a new one."""


def indexed(x: Expression, index: Any) -> Expression:
    """`x[index]`, by NumPy's rules.

    index: ints, slices, integer expressions, vectors of integers (arrays, lists, expressions), None and Ellipsis, one
        or a tuple of them.  IndexError: more than there are axes.  TypeError: what is no index.
    """
    entries = _per_axis(x, [_entry(each, x) for each in (index if isinstance(index, tuple) else (index,))])
    chosen = [each for each in entries if isinstance(each, int | Expression)]
    if len(chosen) > 1 and any(isinstance(each, Expression) and each.ndim for each in chosen):
        return _paired(x, entries)
    return _separate(x, entries)


def _entry(given: Any, x: Expression) -> Any:
    """An entry of an index in one of few forms: None, Ellipsis, Bounds, int, Expression."""
    if given is None or given is Ellipsis:
        return given
    if isinstance(given, slice):
        return Bounds(*(None if each is None else size(each) for each in (given.start, given.stop, given.step)))
    if isinstance(given, int | np.integer) and not isinstance(given, bool):
        return int(given)
    found = expression(given)
    if isinstance(found, Constant) and not found.value.size:
        found = Constant(found.value.astype(np.int64))  # NumPy takes an empty list for one of floats
    if found.type.kind not in "iu":
        _refuse(x, f"a value of {found.dtype}")
    return found


def _refuse(x: Expression, what: str) -> NoReturn:
    raise TypeError(
        four_parts(
            asked("operator []", (x,)),
            f"{what} is no index",
            "",
            "use integers, slices and integer expressions; choose by truth values with B.cast(mask, dtype) * x",
        )
    )


def _per_axis(x: Expression, entries: list[Any]) -> list[Any]:
    """Entries for all axes: what Ellipsis stands for and what is missing at the end are whole slices."""
    taken = sum(each is not None and each is not Ellipsis for each in entries)
    ellipses = sum(each is Ellipsis for each in entries)
    if taken > x.ndim or ellipses > 1:
        wrong = f"there are {taken} indices" if ellipses < 2 else "there are two Ellipses"
        raise IndexError(four_parts(asked("operator []", (x,)), wrong, "", f"give at most {x.ndim}, and one Ellipsis"))
    rest = [Bounds()] * (x.ndim - taken)
    found = next((position for position, each in enumerate(entries) if each is Ellipsis), len(entries))
    return entries[:found] + rest + entries[found + 1 :]


def _separate(x: Expression, entries: Sequence[Any]) -> Expression:
    """At most one index picks rows; each other works on its axis alone."""
    by_axis = [each for each in entries if each is not None]
    y = _sliced(x, by_axis)
    layout: list[int] = []  # of the result: axes of y, _NEW for others
    takes: list[tuple[int, Expression]] = []
    axis = 0
    for each in entries:
        if each is None:
            layout.append(_NEW)
            continue
        if isinstance(each, Expression):
            takes.append((axis, each))
        if not isinstance(each, int | Expression):
            layout.append(axis)
        elif isinstance(each, Expression):
            layout += [axis] * each.ndim
        axis += 1
    return _laid_out(_taken(y, takes), _behind_takes(layout, takes, by_axis))


def _behind_takes(layout: list[int], takes: list[tuple[int, Expression]], by_axis: Sequence[Any]) -> list[int]:
    """A layout with the axes as they are counted behind the takes."""
    firsts, count = [], 0
    widths = {axis: index.ndim for axis, index in takes}
    for axis in range(len(by_axis)):
        firsts.append(count)
        count += widths.get(axis, 1)
    seen: dict[int, int] = {}
    made = []
    for axis in layout:
        if axis == _NEW:
            made.append(_NEW)
            continue
        made.append(firsts[axis] + seen.get(axis, 0))
        seen[axis] = seen.get(axis, 0) + 1
    return made


def _taken(y: Expression, takes: Sequence[tuple[int, Expression]]) -> Expression:
    for axis, index in reversed(takes):
        y = call("Take", y, index, axis=axis)
    return y


def _paired(x: Expression, entries: Sequence[Any]) -> Expression:
    """Several indices that broadcast to one shape pick elements together, as NumPy's advanced indices do."""
    by_axis = [each for each in entries if each is not None]
    chosen = [axis for axis, each in enumerate(by_axis) if isinstance(each, int | Expression)]
    y = _sliced(x, [each if isinstance(each, Bounds) else Bounds() for each in by_axis])
    numbers = [position for position, each in enumerate(entries) if isinstance(each, int | Expression)]
    is_together = numbers == list(range(numbers[0], numbers[-1] + 1))
    rest = [axis for axis in range(y.ndim) if axis not in chosen]
    first = chosen[0] if is_together else 0
    order = [*rest[:first], *chosen, *rest[first:]]
    if order != list(range(y.ndim)):
        y = call("Transpose", y, axes=tuple(order))
    last = first + len(chosen)
    merged = sized_call("Reshape", y, rule=_merging(first, last), ndim=y.ndim - len(chosen) + 1, dtype=y.type)
    flat = _flat(y, first, [by_axis[axis] for axis in chosen])
    found = call("Take", merged, flat, axis=first)
    kept = [_NEW if each is None else 0 for each in entries if each is None or isinstance(each, Bounds)]
    before = sum(1 for each in entries[: numbers[0]] if each is None or isinstance(each, Bounds)) if is_together else 0
    count = iter(range(found.ndim))
    layout = [_NEW if each == _NEW else next(count) for each in (*kept[:before], *[0] * flat.ndim, *kept[before:])]
    return _laid_out(found, layout)


def _flat(y: Expression, first: int, indices: Sequence[int | Expression]) -> Expression:
    """The numbers, in C order, of the elements that indices pick along axes from one on."""
    flat: Expression | None = None
    for axis, index in enumerate(indices, first):
        # Taken from the numbers of the axis: that refuses what is out of range, and counts from the end.
        numbered = sized_call("Arange", rule=_numbers(y, axis), sizes=[SizeOf(y, axis)], ndim=1, dtype=np.int64)
        number = call("Take", numbered, _whole(index), axis=0)
        flat = number if flat is None else arithmetic("Add2", arithmetic("Mul2", flat, SizeOf(y, axis)), number)
    assert flat is not None, "there are at least two indices"
    return flat


def _whole(index: int | Expression) -> Expression:
    return expression(np.asarray(index)) if isinstance(index, int) else index


def _merging(first: int, last: int) -> Rule:
    """Of Reshape: some axes as one."""

    def rule(into: Specialization, values: Sequence[Value]) -> dict[str, Any]:
        shape = values[0].desc.shape
        return {"shape": (*shape[:first], int(np.prod(shape[first:last], dtype=np.int64)), *shape[last:])}

    return rule


def _numbers(y: Expression, axis: int) -> Rule:
    """Of Arange: the numbers of the elements along an axis."""

    def rule(into: Specialization, values: Sequence[Value]) -> dict[str, Any]:
        return {"count": into.value(y).desc.shape[axis], "dtype": np.dtype(np.int64)}

    return rule


def _sliced(x: Expression, by_axis: Sequence[Any]) -> Expression:
    """Slices, and integers as slices of one element."""
    bounds = [each if isinstance(each, Bounds) else Bounds() for each in by_axis]
    for axis, each in enumerate(bounds):
        if moves(each):
            x, bounds[axis] = window(x, axis, each), Bounds()
    numbers = {axis: each for axis, each in enumerate(by_axis) if isinstance(each, int)}
    if not numbers and all(each == Bounds() for each in bounds):
        return x

    written, _ = place()

    def rule(into: Specialization, values: Sequence[Value]) -> dict[str, Any]:
        parts = []
        for axis, (count, each) in enumerate(zip(values[0].desc.shape, bounds, strict=True)):
            if axis in numbers:
                parts.append(_of_one(x, written, numbers[axis], axis, count))
            else:
                parts.append(slice(*(None if bound is None else into.size(bound) for bound in each)))
        return _attributes(x, parts, values[0].desc.shape)

    wanted = [bound for each in bounds for bound in each]
    return sized_call("Slice", x, rule=rule, sizes=wanted, ndim=x.ndim, dtype=x.type)


def _attributes(x: Expression, parts: Sequence[slice], shape: Sequence[int]) -> dict[str, Any]:
    """Of Slice: the ends in full, with that before the first element as the op has it."""
    found = []
    for part, count in zip(parts, shape, strict=True):
        if part.step == 0:
            remedy = "use a positive or negative step"
            raise ValueError(four_parts(asked("operator []", (x,)), "the step of a slice is 0", "", remedy))
        start, stop, step = part.indices(count)
        found.append((start if start >= 0 else -count - 1, stop if stop >= 0 else -count - 1, step))
    starts, stops, steps = zip(*found, strict=True) if found else ((), (), ())
    return {"start": starts, "stop": stops, "step": steps}


def _of_one(x: Expression, written: str, index: int, axis: int, count: int) -> slice:
    if not -count <= index < count:
        raise IndexError(
            four_parts(
                f"{asked('operator []', (x,))}, written at {written}",
                f"index {index} is out of range: axis {axis} has {count} elements",
                "",
                f"use {-count} to {count - 1}" if count else "check where the elements of it went",
            )
        )
    return slice(index % count, index % count + 1)


def _laid_out(y: Expression, layout: Sequence[int]) -> Expression:
    """y with axes of one element left out, and new ones in."""
    if list(layout) == list(range(y.ndim)):
        return y

    def rule(into: Specialization, values: Sequence[Value]) -> dict[str, Any]:
        return {"shape": tuple(1 if axis == _NEW else values[0].desc.shape[axis] for axis in layout)}

    return sized_call("Reshape", y, rule=rule, ndim=len(layout), dtype=y.type)
