"""Geometry of windows: which elements of a base array a shape, strides and an offset name."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from atled.named_tuple import NamedTuple
from atled_contexts.errors import message as four_parts

_COUNTED_LIMIT = 1 << 12
_WORK_LIMIT = 1 << 12


class Window(NamedTuple):
    """Elements of a base array: element (i, j, ...) is number `offset + i * strides[0] + j * strides[1] + ...` of it.

    shape: counts per axis.  strides: elements per axis; negative ones go back, with 0 all are the same element.
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    @property
    def size(self) -> int:
        """Count of elements."""
        return math.prod(self.shape)


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of an array in C order."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def whole(shape: Sequence[int]) -> Window:
    """All of an array in C order."""
    return Window(tuple(shape), contiguous_strides(shape))


def is_contiguous(window: Window) -> bool:
    """Whether the elements lie one behind the other in C order."""
    return strides_or_none(window.shape, window.strides) is None


def strides_or_none(shape: tuple[int, ...], strides: Sequence[int]) -> tuple[int, ...] | None:
    """The strides; None where they are those of C order, in axes of more than one element of an array that has any.

    Those of axes of size 1 become those that C order would have beside the next axis: they name nothing.
    """
    if len(strides) != len(shape):
        raise ValueError(
            four_parts(
                f"an array of shape {shape} with strides {tuple(strides)}",
                f"{len(shape)} axes, {len(strides)} strides",
                "",
                "give one stride per axis, in elements",
            )
        )
    wanted = contiguous_strides(shape)
    if 0 in shape or all(size == 1 or a == b for size, a, b in zip(shape, strides, wanted, strict=True)):
        return None
    return tuple(operator.index(a) if size > 1 else 0 for size, a in zip(shape, strides, strict=True))


def index(window: Window, key: Any) -> Window:  # Any: what NumPy takes for a basic index
    """The window `x[key]`: integers, slices, `...` and None, as in NumPy; IndexError for others."""
    keys = list(key) if isinstance(key, tuple) else [key]
    named = sum(item is not None and item is not Ellipsis for item in keys)
    if named > len(window.shape) or sum(item is Ellipsis for item in keys) > 1:
        raise _wrong_index(window, key, f"{len(window.shape)} axes and at most one `...` to name")
    if not any(item is Ellipsis for item in keys):
        keys.append(Ellipsis)
    shape, strides, offset, axis = [], [], window.offset, 0
    for item in keys:
        if item is None:
            shape.append(1)
            strides.append(0)
        elif item is Ellipsis:
            rest = len(window.shape) - named
            shape += window.shape[axis : axis + rest]
            strides += window.strides[axis : axis + rest]
            axis += rest
        elif isinstance(item, slice):
            chosen = range(window.shape[axis])[item]
            shape.append(len(chosen))
            strides.append(window.strides[axis] * chosen.step)
            offset += window.strides[axis] * chosen.start if chosen else 0
            axis += 1
        else:
            try:
                offset += window.strides[axis] * range(window.shape[axis])[item]
            except IndexError as error:
                wrong = f"{item} is out of range for axis {axis}, which has {window.shape[axis]}"
                raise _wrong_index(window, key, wrong) from error
            except TypeError as error:
                raise _wrong_index(window, key, f"{item!r} is no integer, slice, `...` or None") from error
            axis += 1
    return Window(tuple(shape), tuple(strides), offset)


def _wrong_index(window: Window, key: object, wrong: str) -> IndexError:
    asked = f"a view [{key!r}] of shape {window.shape}"
    return IndexError(four_parts(asked, wrong, "", "use integers within the axes and slices; for others take a copy"))


def transpose(window: Window, axes: Sequence[int] | None = None) -> Window:
    """Axis i of the window is axis `axes[i]` of the given one; None turns the order of all round."""
    count = len(window.shape)
    order = list(reversed(range(count))) if axes is None else [operator.index(axis) for axis in axes]
    if sorted(axis + count * (axis < 0) for axis in order) != list(range(count)):
        raise ValueError(
            four_parts(f"axes {tuple(order)} of shape {window.shape}", "not each axis once", "", "name each axis once")
        )
    return Window(tuple(window.shape[i] for i in order), tuple(window.strides[i] for i in order), window.offset)


def reshape(window: Window, shape: Sequence[int]) -> Window | None:
    """The same elements in C order under another shape (one entry may be -1); None where no strides name them."""
    wanted = _sizes(window, shape)
    if not window.size:
        return Window(wanted, contiguous_strides(wanted), window.offset)
    old = [(size, step) for size, step in zip(window.shape, window.strides, strict=True) if size != 1]
    strides = [0] * len(wanted)
    first, axis = 0, 0
    while first < len(old):
        # The fewest axes of each with the same count of elements: within them the old ones must lie in C order.
        last, count, begin, made = first + 1, old[first][0], axis, 1
        while made != count or (axis < len(wanted) and wanted[axis] == 1):
            if made < count or (made == count and axis < len(wanted) and wanted[axis] == 1):
                made *= wanted[axis]
                axis += 1
            else:
                count *= old[last][0]
                last += 1
        if any(a[1] != b[0] * b[1] for a, b in zip(old[first:last], old[first + 1 : last], strict=False)):
            return None
        step = old[last - 1][1]
        for number in reversed(range(begin, axis)):
            strides[number] = step
            step *= wanted[number]
        first = last
    return Window(wanted, tuple(strides), window.offset)


def _sizes(window: Window, shape: Sequence[int]) -> tuple[int, ...]:
    sizes = [operator.index(size) for size in shape]
    rest = math.prod(size for size in sizes if size != -1)
    if sizes.count(-1) == 1 and rest and window.size % rest == 0:
        sizes[sizes.index(-1)] = window.size // rest
    if math.prod(sizes) != window.size or any(size < 0 for size in sizes):
        asked = f"shape {window.shape} as {tuple(sizes)}"
        wrong = f"{window.size} elements do not fill " + (
            "that" if min(sizes, default=0) < 0 else str(math.prod(sizes))
        )
        raise ValueError(four_parts(asked, wrong, "", f"use sizes whose product is {window.size}; one may be -1"))
    return tuple(sizes)


def broadcast_to(window: Window, shape: Sequence[int]) -> Window:
    """The window repeated along new axes and along those of size 1."""
    wanted = tuple(shape)
    extra = len(wanted) - len(window.shape)
    if extra < 0 or any(a not in (1, b) for a, b in zip(window.shape, wanted[extra:], strict=True)):
        asked = f"shape {window.shape} broadcast to {wanted}"
        raise ValueError(four_parts(asked, "sizes differ that are not 1", "", "use a shape that it broadcasts to"))
    sizes = zip(window.shape, wanted[extra:], window.strides, strict=True)
    return Window(wanted, (0,) * extra + tuple(step if a == b else 0 for a, b, step in sizes), window.offset)


def diagonal(window: Window, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Window:
    """The elements (i, i + offset) of two axes, which become one, the last."""
    count = len(window.shape)
    if not all(-count <= axis < count for axis in (axis1, axis2)) or (axis1 - axis2) % count == 0:
        asked = f"the diagonal of axes {axis1} and {axis2} of shape {window.shape}"
        raise ValueError(four_parts(asked, "not two of its axes", "", "name two axes"))
    axis1, axis2 = axis1 % count, axis2 % count
    rows, columns = window.shape[axis1] + min(offset, 0), window.shape[axis2] - max(offset, 0)
    length = max(0, min(rows, columns))
    skipped = window.strides[axis1] * max(-offset, 0) + window.strides[axis2] * max(offset, 0)
    others = [axis for axis in range(count) if axis not in (axis1, axis2)]
    return Window(
        (*(window.shape[axis] for axis in others), length),
        (*(window.strides[axis] for axis in others), window.strides[axis1] + window.strides[axis2]),
        window.offset + (skipped if length else 0),
    )


def bounds(window: Window) -> tuple[int, int]:
    """The first element of the base that the window names, and the one behind the last; (0, 0) if it has none."""
    if 0 in window.shape:
        return 0, 0
    reach = [(size - 1) * step for size, step in zip(window.shape, window.strides, strict=True)]
    return window.offset + sum(min(r, 0) for r in reach), window.offset + sum(max(r, 0) for r in reach) + 1


def leaves(window: Window, size: int) -> bool:
    """Whether the window names elements that a base of so many elements does not have."""
    first, end = bounds(window)
    return first < 0 or end > size


def overlap(one: Window, other: Window) -> bool:
    """Whether two windows of one base share an element; where that is dear to find out, True."""
    if 0 in one.shape or 0 in other.shape:
        return False
    (first, end), (start, stop) = bounds(one), bounds(other)
    if first >= stop or start >= end:
        return False
    if one == other:
        return True
    begin = min(first, start)
    base = np.lib.stride_tricks.as_strided(np.empty(1, np.int8), (max(end, stop) - begin,), (1,), writeable=False)
    try:
        # NumPy's stubs know no other limit than none and 0.
        limit: Any = _WORK_LIMIT
        return np.shares_memory(_over(base, one, begin), _over(base, other, begin), max_work=limit)
    except np.exceptions.TooHardError:
        return True


def _over(base: np.ndarray, window: Window, begin: int) -> np.ndarray:
    """The window as an array of bytes that is never read."""
    return np.lib.stride_tricks.as_strided(base[window.offset - begin :], window.shape, window.strides, writeable=False)


def is_injective(window: Window) -> bool:
    """Whether no two of its elements are one element of the base; where that is dear to find out, False."""
    if 0 in window.shape:
        return True
    axes = sorted((abs(step), size) for size, step in zip(window.shape, window.strides, strict=True) if size > 1)
    reach = 0
    for step, size in axes:
        if step <= reach:
            break
        reach += step * (size - 1)
    else:
        return True
    return window.size <= _COUNTED_LIMIT and len(np.unique(elements(window))) == window.size


def elements(window: Window) -> np.ndarray:
    """The numbers of all its elements in the base, int64 in the window's shape."""
    found = np.full(window.shape, window.offset, np.int64)
    for axis, (size, step) in enumerate(zip(window.shape, window.strides, strict=True)):
        found += (np.arange(size, dtype=np.int64) * step).reshape(size, *(1,) * (len(window.shape) - axis - 1))
    return found
