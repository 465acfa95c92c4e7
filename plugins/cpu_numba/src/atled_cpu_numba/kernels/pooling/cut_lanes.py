"""Pooling of windows cut to the array where images lie side by side, in vectors of them.

So is the batch innermost. What is computed of a window, or of an element, stays in registers; where its elements are
is in a table, made anew only where a window is cut otherwise than the one before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from atled.plugin import Prepared
from atled_cpu_numba.kernels.pooling.cut_block import AXES, MAX, NORM, PLACE_OUT_OF_RANGE, SUM, Block
from atled_cpu_numba.kernels.shared.elements import item_bytes, real_of
from atled_cpu_numba.kernels.shared.launch import (
    ANY,
    REALS,
    fitting_shares,
    in_lines,
    kernels_by_dtype,
    launch,
    share_count,
)

_ELEMENTS_PER_US = 5e3  # a cautious rate of one core, for the number of shares
_LEAST_IMAGES = 8  # or maps: below, threads would have too few of them
_TABLE_BYTES = 40  # per place of a window: its entry, the number beside it, and three words of a row of windows

_WAYS = {"WindowMax": MAX, "WindowMaxGrad": MAX, "WindowNorm": NORM, "WindowSum": SUM, "WindowSumGrad": SUM}


def _are_places() -> Callable[..., bool]:
    """A piece of kernels: whether all places of some rows of windows are those of elements of them."""
    from atled_cpu_numba.codegen import bytes8
    from atled_cpu_numba.kernels.pooling.cut_axes import cut, of_axes
    from atled_cpu_numba.kernels.shared.options import inlined

    @inlined
    def are_places(w, first, after):
        inner, place = w[Block.inner], bytes8(w[Block.place])
        windows0, windows1, windows2, windows3 = of_axes(w, Block.windows)
        if first >= after:
            return True
        most = place[first * windows3 * inner]
        for n in range(first * windows3 * inner, after * windows3 * inner):
            most = max(most, place[n])
        if most < w[Block.least]:
            return True
        for row in range(first, after):
            rest = row // windows2
            outside = cut(w, 2, row - rest * windows2)[1] * cut(w, 1, rest % windows1)[1]
            outside *= cut(w, 0, rest // windows1 % windows0)[1]
            for i in range(windows3):
                count = outside * cut(w, 3, i)[1]
                for n in range((row * windows3 + i) * inner, (row * windows3 + i + 1) * inner):
                    if place[n] >= count:
                        return False
        return True

    return are_places


def _build_windows(dtype: str, way: int, back: bool, adds: bool = False) -> Callable[..., int]:
    """Window by window: what is made of it; back: the gradient of its elements; adds: which other windows see, too."""
    from atled_cpu_numba.codegen import words
    from atled_cpu_numba.kernels.pooling import window_lanes
    from atled_cpu_numba.kernels.pooling.cut_axes import cut, of_axes
    from atled_cpu_numba.kernels.shared.options import Real, kernel

    floats, size = Real(real_of(dtype)).pointer, item_bytes(dtype)
    are_places = _are_places()
    max_of_window, sum_of_window = (
        window_lanes.make_max_of_window(dtype),
        window_lanes.make_sum_of_window(dtype, squares=way == NORM),
    )
    to_elements = window_lanes.make_to_elements(dtype, placed=way == MAX, adds=adds)

    @kernel
    def pool_lanes(block, part, parts):
        w = words(block)
        inner = w[Block.inner]
        windows0, windows1, windows2, windows3 = of_axes(w, Block.windows)
        sizes0, sizes1, sizes2, sizes3 = of_axes(w, Block.sizes)
        table = w[Block.workspace] + part * w[Block.share_bytes]
        offsets = words(table)
        each = windows0 * windows1 * windows2
        rows = w[Block.outer] * each
        first, after = rows * part // parts, rows * (part + 1) // parts
        if adds:  # images that no other share writes
            first, after = w[Block.outer] * part // parts * each, w[Block.outer] * (part + 1) // parts * each
        if back and way == MAX and not are_places(w, first, after):
            return PLACE_OUT_OF_RANGE
        known0, known1, known2, known3 = 0, 0, 0, 0  # the extents that the table is for
        for row in range(first, after):
            rest = row // windows2
            begin2, extent2 = cut(w, 2, row - rest * windows2)
            begin1, extent1 = cut(w, 1, rest % windows1)
            rest //= windows1
            image = rest // windows0
            begin0, extent0 = cut(w, 0, rest - image * windows0)
            if adds and row == image * each:
                elements = sizes0 * sizes1 * sizes2 * sizes3 * inner
                gx = floats(w[Block.large] + size * image * elements)
                for n in range(elements):
                    gx[n] = 0.0
            line = ((image * sizes0 + begin0) * sizes1 + begin1) * sizes2 + begin2
            for i in range(windows3):
                begin3, extent3 = cut(w, 3, i)
                count = extent0 * extent1 * extent2 * extent3
                if extent3 != known3 or extent2 != known2 or extent1 != known1 or extent0 != known0:
                    known0, known1, known2, known3 = extent0, extent1, extent2, extent3
                    entry = 0
                    for at0 in range(extent0):
                        for at1 in range(extent1):
                            for at2 in range(extent2):
                                for at3 in range(extent3):
                                    offsets[entry] = (((at0 * sizes1 + at1) * sizes2 + at2) * sizes3 + at3) * inner
                                    entry += 1
                large = w[Block.large] + size * (line * sizes3 + begin3) * inner
                window = (row * windows3 + i) * inner
                small, place = w[Block.small] + size * window, w[Block.place] + window
                divisor = count if way == SUM and w[Block.divisor] == 0 else w[Block.divisor]
                if back:
                    to_elements((table, table, count, small, place if way == MAX else divisor, large, inner))
                elif way == MAX:
                    max_of_window((table, table, count, large, small, place, inner))
                else:
                    sum_of_window((table, count, large, small, divisor, inner))
        return 0

    return pool_lanes


def _build_elements(dtype: str, way: int) -> Callable[..., int]:
    """Element by element: the sum of the gradients of the windows that see it, or whose place it is."""
    from atled_cpu_numba.codegen import words
    from atled_cpu_numba.kernels.pooling.cut_axes import along, cut, of_axes, seeing
    from atled_cpu_numba.kernels.pooling.window_lanes import make_element_sum
    from atled_cpu_numba.kernels.shared.options import kernel

    size, are_places, element_sum = item_bytes(dtype), _are_places(), make_element_sum(dtype, placed=way == MAX)

    @kernel
    def pool_lanes_back(block, part, parts):
        w = words(block)
        inner = w[Block.inner]
        windows0, windows1, windows2, windows3 = of_axes(w, Block.windows)
        sizes0, sizes1, sizes2, sizes3 = of_axes(w, Block.sizes)
        kernel0, kernel1, kernel2, kernel3 = of_axes(w, Block.kernel)
        pad, stride = along(w, Block.pad, 3), along(w, Block.stride, 3)
        table = w[Block.workspace] + part * w[Block.share_bytes]
        most = 8 * kernel0 * kernel1 * kernel2 * kernel3
        numbers, rows_seen = table + most, table + 2 * most
        offsets, given = words(table), words(numbers)
        # Per row of windows that sees a row of elements: where it begins, the place before it, and its elements.
        begins, places, extents = words(rows_seen), words(rows_seen + most), words(rows_seen + 2 * most)
        # Read once: to LLVM what is written to a table may be one of them.
        small, place, all_large = w[Block.small], w[Block.place], w[Block.large]
        divisor = w[Block.divisor]
        if way == MAX:
            rows = w[Block.outer] * windows0 * windows1 * windows2
            if not are_places(w, rows * part // parts, rows * (part + 1) // parts):
                return PLACE_OUT_OF_RANGE
        rows = w[Block.outer] * sizes0 * sizes1 * sizes2
        for row in range(rows * part // parts, rows * (part + 1) // parts):
            rest = row // sizes2
            at2 = row - rest * sizes2
            at1 = rest % sizes1
            rest //= sizes1
            image = rest // sizes0
            at0 = rest - image * sizes0
            low0, high0 = seeing(w, 0, at0)
            low1, high1 = seeing(w, 1, at1)
            low2, high2 = seeing(w, 2, at2)
            line_count = 0
            for i0 in range(low0, high0):
                begin0, extent0 = cut(w, 0, i0)
                for i1 in range(low1, high1):
                    begin1, extent1 = cut(w, 1, i1)
                    for i2 in range(low2, high2):
                        begin2, extent2 = cut(w, 2, i2)
                        begins[line_count] = (((image * windows0 + i0) * windows1 + i1) * windows2 + i2) * windows3
                        places[line_count] = ((at0 - begin0) * extent1 + at1 - begin1) * extent2 + at2 - begin2
                        extents[line_count] = extent0 * extent1 * extent2
                        line_count += 1
            low3, high3 = 0, 0
            for at3 in range(sizes3):
                while low3 < windows3 and low3 * stride - pad + kernel3 <= at3:
                    low3 += 1
                while high3 < windows3 and high3 * stride - pad <= at3:
                    high3 += 1
                count = 0
                for number in range(line_count):
                    for i3 in range(low3, high3):
                        begin3 = max(i3 * stride - pad, 0)
                        extent3 = min(i3 * stride - pad + kernel3, sizes3) - begin3
                        offsets[count] = (begins[number] + i3) * inner
                        if way == MAX:
                            given[count] = places[number] * extent3 + at3 - begin3
                        else:
                            given[count] = extents[number] * extent3 if divisor == 0 else divisor
                        count += 1
                large = all_large + size * (row * sizes3 + at3) * inner
                element_sum((table, numbers, count, small, place, large, inner))
        return 0

    return pool_lanes_back


_NARROW = ("WindowSum", "WindowSumGrad")  # ways that half and bf16 are taken by as they are
_WINDOWS = {
    name: kernels_by_dtype(
        f"{name}_lanes", _build_windows, way, name.endswith("Grad"), dtypes=ANY if name in _NARROW else REALS
    )
    for name, way in _WAYS.items()
}
_ADDED = {
    name: kernels_by_dtype(f"{name}_lanes_added", _build_windows, way, True, True)
    for name, way in _WAYS.items()
    if name.endswith("Grad")
}
_ELEMENTS = {
    name: kernels_by_dtype(f"{name}_lanes_gathered", _build_elements, way)
    for name, way in _WAYS.items()
    if name.endswith("Grad")
}


def fits(name: str, words: Sequence[int]) -> bool:
    """Whether there is a kernel for a pooling; words: the block so far."""
    return name in _WAYS and words[Block.inner] > 0 and not words[Block.wide]


def prepare(
    name: str, dtype: str, words: list[int], arguments: Sequence[int], seen: int, errors: Mapping[int, str] | None
) -> Prepared:
    """The launch for a block, of which the words for windows in vectors are still missing.

    seen: elements that are read or written, counted each time.  errors: see `launch`.
    """
    geometry = Block.sizes, Block.windows, Block.kernel, Block.stride, Block.pad
    for axis in range(AXES - 1):  # windows of one element, one for each: images of their own
        size = words[Block.sizes + axis]
        if tuple(words[word + axis] for word in geometry) != (size, size, 1, 1, 0):
            break
        words[Block.outer] *= size
        words[Block.sizes + axis] = words[Block.windows + axis] = 1
    axes = list(zip(*(words[word : word + AXES] for word in geometry), strict=True))
    share_bytes = in_lines(_TABLE_BYTES * math.prod(words[Block.kernel : Block.kernel + AXES]))
    words[Block.least] = math.prod(_least_extent(*axis) for axis in axes)
    words[Block.share_bytes] = share_bytes
    outer, kernels = words[Block.outer], _WINDOWS
    if name.endswith("Grad") and not all(is_divided(*axis) for axis in axes):
        # To add up window by window is quicker, but shares then are of images.
        kernels = _ADDED if outer >= _LEAST_IMAGES else _ELEMENTS
    # What shares are made of: images, rows of elements, or rows of windows.
    rows = 1 if kernels is _ADDED else math.prod(axis[0 if kernels is _ELEMENTS else 1] for axis in axes[:-1])
    parts = fitting_shares(share_count(seen / _ELEMENTS_PER_US, max(outer * rows, 1)), share_bytes)
    return launch(
        kernels[name][dtype],
        words,
        (*arguments, Block.workspace),
        parts=parts,
        workspace=parts * share_bytes,
        errors=errors,
        note="images in vectors",
    )


def _least_extent(size: int, windows: int, kernel: int, stride: int, pad: int) -> int:
    """How many elements a window has at least."""
    starts = [window * stride - pad for window in (0, max(windows - 1, 0))]
    return min(min(start + kernel, size) - max(start, 0) for start in starts)


def is_divided(size: int, windows: int, kernel: int, stride: int, pad: int) -> bool:
    """Whether each element is seen by one window."""
    return kernel == stride and windows * stride - pad >= size
