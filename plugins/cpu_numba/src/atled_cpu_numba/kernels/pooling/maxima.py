"""Maxima of any windows over one or two trailing axes, with or without places: along rows first, then across them.

What windows side by side see along a row is found once for all rows of windows that see it, in a circle of as many rows
as a window has. Along a row, too, a vector of windows is computed at a time: their elements by one tap lie side by side
in a copy of the row, with strides of s in s parts. Wide planes are taken in strips of columns, whose rows stay in the
nearest cache. Shares are made of planes.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from atled_cpu_numba.kernels.pooling.block import Block
from atled_cpu_numba.kernels.shared.lanes import SIZES, lanes_of
from atled_cpu_numba.kernels.shared.launch import in_lines, kernels_by_dtype
from atled_cpu_numba.kernels.shared.leading_axes import Axis

_STRIP_BYTES = 1 << 14  # of rows in the workspace


def _build(dtype: str, places: bool) -> Callable[..., int]:
    from atled_cpu_numba.codegen import ints32, ints64, words
    from atled_cpu_numba.kernels.pooling.maximum_blocks import make_maxima_across, make_maxima_along, make_row_apart
    from atled_cpu_numba.kernels.shared.options import Real, kernel, piece
    from atled_cpu_numba.kernels.shared.vectors import make_copy_rows

    element, floats, vector = SIZES[dtype], Real(dtype).pointer, lanes_of(dtype).vector
    along, across = (make(dtype, places=places) for make in (make_maxima_along, make_maxima_across))
    row_apart, copy_rows = make_row_apart(dtype), make_copy_rows(dtype)

    @piece
    def copy_row(row_at, width, first, stride, copy_at, span):
        """The elements from column `first` on that a strip sees, in `stride` parts of `span`; margins are -inf."""
        if stride == 2:
            row_apart((row_at, width, first, copy_at, span, span // vector))
            return
        low = max(0, first)
        high = min(width, first + stride * span)
        if stride == 1:
            copy_rows((row_at + element * low, 0, copy_at + element * (low - first), 0, 1, high - low))
            return
        row, copy = floats(row_at), floats(copy_at)
        for phase in range(stride):
            # Of the columns first + phase + stride * j, those from `low` to `high`.
            begin = (low - first - phase + stride - 1) // stride
            end = (high - first - phase + stride - 1) // stride
            for j in range(begin, end):
                copy[phase * span + j] = row[first + phase + stride * j]

    @kernel
    def max_pooling(block, part, parts):
        w = words(block)
        planes, height, width = w[Block.planes], w[Block.height], w[Block.width]
        rows, columns, strip = w[Block.rows], w[Block.columns], w[Block.strip]
        kernel_h, kernel_w, stride_h = w[Block.kernel_h], w[Block.kernel_w], w[Block.stride_h]
        stride_w, pad_h, pad_w, wide = w[Block.stride_w], w[Block.pad_h], w[Block.pad_w], w[Block.wide]
        first_plane, end_plane = planes * part // parts, planes * (part + 1) // parts
        taps_at = w[Block.workspace] + part * w[Block.share_bytes]
        starts_at = taps_at + (8 * kernel_w + 63) // 64 * 64
        best_at = starts_at + 4 * strip
        place_at = best_at + element * kernel_h * strip
        copy_at = place_at + 4 * kernel_h * strip
        span = strip + ((kernel_w - 1) // stride_w + vector - 1) // vector * vector
        taps, starts, copy = ints64(taps_at), ints32(starts_at), floats(copy_at)
        for s in range(kernel_w):
            taps[s] = s % stride_w * span + s // stride_w
        for number in range((columns + strip - 1) // strip):
            begin = number * strip
            first = begin * stride_w - pad_w
            for j in range(strip):
                starts[j] = max(0, -(first + j * stride_w))
            for j in range(stride_w * span):
                copy[j] = -math.inf
            for plane in range(first_plane, end_plane):
                x, made = w[Block.large] + element * plane * height * width, 0
                for i in range(rows):
                    top = i * stride_h - pad_h
                    highest, lowest = max(0, top), min(height, top + kernel_h)
                    for h in range(max(made, highest), lowest):
                        copy_row(x + element * h * width, width, first, stride_w, copy_at, span)
                        to = h % kernel_h * strip
                        best, found = best_at + element * to, place_at + 4 * to
                        along((copy_at, taps_at, kernel_w, starts_at, best, found, strip // vector))
                    made = lowest
                    at = (plane * rows + i) * columns + begin
                    # What a vector writes beyond its row the next one replaces, unless rows are taken in strips.
                    left = columns - begin if strip < columns else end_plane * rows * columns - at
                    y, place = w[Block.small] + element * at, w[Block.place] + (at if wide == 0 else 4 * at)
                    slot, count, missing = highest % kernel_h, lowest - highest, highest - top
                    seen = (best_at, place_at, strip, slot, kernel_h, count, missing * kernel_w, kernel_w)
                    across((*seen, left, y, place, wide))
        return 0

    return max_pooling


MAXIMA = kernels_by_dtype("max_pooling", _build, True)
MAXIMA_ALONE = kernels_by_dtype("max_pooling_alone", _build, False)
"""Without their places."""


def strip_columns(dtype: str, height: Axis, width: Axis) -> int:
    """How many windows of a row are taken at a time, whole vectors."""
    vector = lanes_of(dtype).vector
    fitting = _STRIP_BYTES // ((SIZES[dtype] + 4) * height.kernel)
    return vector * max(1, min(fitting // vector, -(-width.result // vector)))


def share_bytes(dtype: str, height: Axis, width: Axis) -> int:
    """Of the workspace: offsets of taps, first taps, results along rows, the copy of a row."""
    vector, strip, element = lanes_of(dtype).vector, strip_columns(dtype, height, width), SIZES[dtype]
    span = strip + in_vectors((width.kernel - 1) // width.stride, vector)
    rows = (element + 4) * height.kernel * strip
    return in_lines(in_lines(8 * width.kernel) + 4 * strip + rows + element * width.stride * span)


def in_vectors(count: int, vector: int) -> int:
    """So many elements as whole vectors."""
    return -(-count // vector) * vector
