"""Tensors that share memory, in a description: those that overlap become parts of one value, cut out by ops."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from atled.keyed import Description, NdArray, View
from atled.strides import Window, bounds, overlap, whole


class Shared:
    """The memory of windows that overlap, as one value to which their gradients come.

    value: a stand-in that has its shape and dtype, not its elements.  window: which elements it has.
    """

    def __init__(self, d: Description, views: Sequence[View]) -> None:
        self._d = d
        self.window = _around([view.window for view in views])
        one = View(NdArray.from_numpy_array(np.zeros(1, views[0].dtype)))
        self.value = d.leaf(one.broadcast_to(self.window.shape))

    def part(self, value: int, window: Window) -> int:
        """The elements of a window, of a value that is like the shared one."""
        if window == self.window:
            return value
        call, own = self._d.call, self.window
        # From the axis with the largest stride to that with the smallest.
        axes = sorted((n for n, size in enumerate(window.shape) if size > 1), key=lambda n: -abs(window.strides[n]))
        begin = bounds(window)[0] - own.offset
        found = _grid(window, axes, own.size, begin)
        if found is None:
            value = _rows(self._d, call("Reshape", value, shape=(own.size,)), own.size, window, axes, begin)
            shape = (*(window.shape[n] for n in axes), abs(window.strides[axes[-1]]))
            found = shape, [slice(0, size, 1) for size in shape[:-1]] + [slice(0, 1, 1)]
        elif found[0] != own.shape:
            value = call("Reshape", value, shape=found[0])
        return self._cut(value, found[0], found[1], window, axes)

    def _cut(
        self, value: int, shape: Sequence[int], slices: Sequence[slice], window: Window, axes: Sequence[int]
    ) -> int:
        """Cut slices out of a grid, and bring its axes into the order of the window."""
        call, taken = self._d.call, []
        for n, (each, size) in enumerate(zip(slices, shape, strict=True)):
            if n < len(axes) and window.strides[axes[n]] < 0:
                # Past the first element no stop is that would not count from the end.
                taken.append((each.stop - 1, each.start - 1 if each.start else -size - 1, -each.step))
            else:
                taken.append((each.start, each.stop, each.step))
        if any(each != (0, size, 1) for each, size in zip(taken, shape, strict=True)):
            start, stop, step = zip(*taken, strict=True)
            value = call("Slice", value, start=start, stop=stop, step=step)
        kept = [window.shape[n] for n in axes] + [1] * (len(shape) - len(axes))
        order = sorted(range(len(axes)), key=lambda n: axes[n]) + list(range(len(axes), len(shape)))
        if order != list(range(len(shape))):
            value = call("Transpose", value, axes=tuple(order))
            kept = [kept[n] for n in order]
        return value if tuple(kept) == window.shape else call("Reshape", value, shape=window.shape)


def _around(windows: Sequence[Window]) -> Window:
    """A window without gaps that has all elements of others: one of these, if one is that."""
    ends = [bounds(window) for window in windows]
    first, end = min(low for low, _ in ends), max(high for _, high in ends)
    for window in windows:
        if window == whole(window.shape)._replace(offset=first) and window.size == end - first:
            return window
    # Whole rows of the longest stride, so that what was cut from rows is a slice of them.
    row = max((abs(s) for w in windows for s, size in zip(w.strides, w.shape, strict=True) if size > 1), default=1)
    first -= first % row
    return Window((-(-(end - first) // row) * row,), (1,), first)


def _grid(window: Window, axes: Sequence[int], size: int, begin: int) -> tuple[tuple[int, ...], list[slice]] | None:
    """Sizes that C order gives elements, so that each axis of the window is a slice of one; None: there are none."""
    units, unit = [], size
    for n in axes:
        unit = math.gcd(unit, abs(window.strides[n]))
        units.append(unit)
    sizes = [a // b for a, b in zip([size, *units], [*units, 1], strict=True)]
    slices = []
    for n, unit, count in zip(axes, units, sizes, strict=False):
        start, step = begin // unit % count, abs(window.strides[n]) // unit
        slices.append(slice(start, start + (window.shape[n] - 1) * step + 1, step))
    if sizes[-1] == 1 and axes:
        sizes.pop()
    else:
        rest = begin % units[-1] if units else begin
        slices.append(slice(rest, rest + 1, 1))
    fits = all(each.stop <= count for each, count in zip(slices, sizes, strict=True))
    return (tuple(sizes), slices) if fits else None


def _rows(d: Description, value: int, length: int, window: Window, axes: Sequence[int], begin: int) -> int:
    """The elements of a window as a grid with one more axis: rows cut into rows, which zeros make long enough."""
    sizes: tuple[int, ...] = ()
    for n in axes:
        count, step = window.shape[n], abs(window.strides[n])
        end, none = begin + count * step, (0,) * len(sizes)
        if end > length:
            stop = (*sizes, length)
            value = d.call("SliceGrad", value, start=(*none, 0), stop=stop, step=(1,) * len(stop), shape=(*sizes, end))
        value = d.call("Slice", value, start=(*none, begin), stop=(*sizes, end), step=(1,) * (len(sizes) + 1))
        sizes, length, begin = (*sizes, count), step, 0
        value = d.call("Reshape", value, shape=(*sizes, length))
    return value


def groups(views: Iterable[View]) -> list[list[View]]:
    """Views in groups, so that each overlaps another one of its group and none of another."""
    found: list[list[View]] = []
    for view in views:
        near = [group for group in found if any(_overlaps(view, other) for other in group)]
        found = [group for group in found if group not in near]
        found.append([*(other for group in near for other in group), view])
    return found


def _overlaps(one: View, other: View) -> bool:
    return one.cell is other.cell and overlap(one.window, other.window)
