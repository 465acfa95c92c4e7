"""Pooling in the two cases that networks use most: windows of 2 x 2 that tile the planes, and averages of whole planes.

Kernels for averages make sums as well.

Shares are made of planes, the rows of which follow one another without gaps.
"""

from __future__ import annotations

from collections.abc import Callable

from atled_cpu_numba.kernels.pooling.block import PLACE_OUT_OF_RANGE, Block
from atled_cpu_numba.kernels.shared.elements import item_bytes, real_of
from atled_cpu_numba.kernels.shared.lanes import SIZES, lanes_of
from atled_cpu_numba.kernels.shared.launch import ANY, kernels_by_dtype

MOST_PAST_CACHES = 512
"""The widest planes whose gradient can be written past the caches."""

_BUFFERED = 2 * MOST_PAST_CACHES  # elements of rows that go to memory together; they stay in the nearest cache


def _build_forward(dtype: str, maxima: bool, places: bool) -> Callable[..., int]:
    from atled_cpu_numba.codegen import words
    from atled_cpu_numba.kernels.pooling.pair_blocks import make_average_block, make_max_alone_block, make_max_block
    from atled_cpu_numba.kernels.shared.options import kernel

    element, vector = item_bytes(dtype), lanes_of(real_of(dtype)).vector
    of_maxima = make_max_block if places else make_max_alone_block
    make = of_maxima if maxima else make_average_block
    in_row, one, two, four, eight = (make(min(columns, vector), dtype) for columns in (0, 1, 2, 4, 8))
    has_short = dtype in SIZES  # rows of few windows together: in half and bf16 it is not worth the code

    @kernel
    def pairs(block, part, parts):
        w = words(block)
        width, rows, columns, adds = w[Block.width], w[Block.rows], w[Block.columns], w[Block.adds]
        windows = rows * columns
        first, after = w[Block.planes] * part // parts, w[Block.planes] * (part + 1) // parts
        if has_short and columns < vector and columns & (columns - 1) == 0:
            for f in range(first * windows, after * windows, vector):
                x, y = w[Block.large] + 4 * element * f, w[Block.small] + element * f
                place, left = w[Block.place] + f if maxima else adds, after * windows - f
                if columns == 8:
                    eight((x, 0, y, place, left))
                elif columns == 4:
                    four((x, 0, y, place, left))
                elif columns == 2:
                    two((x, 0, y, place, left))
                else:
                    one((x, 0, y, place, left))
            return 0
        for row in range(first * rows, after * rows):
            top = w[Block.large] + 2 * element * row * width
            bottom = top + element * width
            for j in range(0, columns, vector):
                f = row * columns + j
                in_row(
                    (
                        top + 2 * element * j,
                        bottom + 2 * element * j,
                        w[Block.small] + element * f,
                        w[Block.place] + f if maxima else adds,
                        after * windows - f,
                    )
                )
        return 0

    return pairs


def _build_backward(dtype: str, maxima: bool, past: bool) -> Callable[..., int]:
    """past: whether the gradient is written past the caches."""
    from atled_cpu_numba.codegen import bytes8, words
    from atled_cpu_numba.kernels.pooling.pair_blocks import make_place_block, make_spread_block
    from atled_cpu_numba.kernels.shared.options import kernel
    from atled_cpu_numba.kernels.shared.past_caches import make_buffer, make_move_lines, settle_lines

    element, vector = item_bytes(dtype), lanes_of(real_of(dtype)).vector
    make = make_place_block if maxima else make_spread_block
    in_row, one, two, four, eight = (make(min(columns, vector), dtype) for columns in (0, 1, 2, 4, 8))
    has_short = dtype in SIZES  # rows of few windows together: in half and bf16 it is not worth the code
    # A vector of windows may reach beyond its row.
    buffer = make_buffer(_BUFFERED + 16 + 2 * vector, real_of(dtype))
    move_lines = make_move_lines(real_of(dtype))

    @kernel
    def pairs_grad(block, part, parts):
        w = words(block)
        width, rows, columns, adds = w[Block.width], w[Block.rows], w[Block.columns], w[Block.adds]
        windows = rows * columns
        first, after = w[Block.planes] * part // parts, w[Block.planes] * (part + 1) // parts
        if maxima:
            places, wrong = bytes8(w[Block.place]), 0
            for f in range(first * windows, after * windows):
                wrong |= places[f] & 252
            if wrong != 0:
                return PLACE_OUT_OF_RANGE
        if has_short and columns < vector and columns & (columns - 1) == 0:
            for f in range(first * windows, after * windows, vector):
                gy, place = w[Block.small] + element * f, w[Block.place] + f if maxima else adds
                gx, left = w[Block.large] + 4 * element * f, after * windows - f
                if columns == 8:
                    eight((gy, place, 0, gx, left))
                elif columns == 4:
                    four((gy, place, 0, gx, left))
                elif columns == 2:
                    two((gy, place, 0, gx, left))
                else:
                    one((gy, place, 0, gx, left))
            return 0
        gx_row, last = 2 * first * rows, 2 * after * rows
        while gx_row < last:
            band = min(last - gx_row, 2 * (_BUFFERED // (2 * width))) if past else last - gx_row
            target = w[Block.large] + element * gx_row * width
            gx = buffer() + target % 64 if past else target
            for row in range(gx_row, gx_row + band):
                f = row // 2 * columns
                for j in range(0, columns, vector):
                    # Both what is left of gx, in pairs, and of gy: the last row may not reach beyond gy either.
                    left = min((last - row) * columns, (after * rows - row // 2) * columns) - j
                    in_row(
                        (
                            w[Block.small] + element * (f + j),
                            w[Block.place] + f + j if maxima else adds,
                            row % 2,
                            gx + 2 * element * j,
                            left,
                        )
                    )
                gx += element * width
            if past:
                move_lines((gx - element * width * band, target, width * band))
            gx_row += band
        if past:
            settle_lines((0,))
        return 0

    return pairs_grad


def _build_plane_average(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import words
    from atled_cpu_numba.kernels.pooling.pair_blocks import make_sum_plane
    from atled_cpu_numba.kernels.shared.options import Real, kernel

    element, floats, sum_plane = SIZES[dtype], Real(dtype).pointer, make_sum_plane(dtype)

    @kernel
    def plane_average(block, part, parts):
        w = words(block)
        size = w[Block.height] * w[Block.width]
        for plane in range(w[Block.planes] * part // parts, w[Block.planes] * (part + 1) // parts):
            y = w[Block.small] + element * plane
            sum_plane((w[Block.large] + element * plane * size, size, y))
            if w[Block.adds] == 0:
                floats(y)[0] /= size
        return 0

    return plane_average


def _build_plane_average_grad(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import words
    from atled_cpu_numba.kernels.shared.options import Real, kernel

    element, floats = SIZES[dtype], Real(dtype).pointer

    @kernel
    def plane_average_grad(block, part, parts):
        w = words(block)
        size = w[Block.height] * w[Block.width]
        for plane in range(w[Block.planes] * part // parts, w[Block.planes] * (part + 1) // parts):
            gx, value = floats(w[Block.large] + element * plane * size), floats(w[Block.small])[plane]
            if w[Block.adds] == 0:
                value /= size
            for j in range(size):
                gx[j] = value
        return 0

    return plane_average_grad


_AVERAGE_PAIRS = kernels_by_dtype("average_pairs", _build_forward, False, False, dtypes=ANY)
_AVERAGE_PAIRS_GRAD = kernels_by_dtype("average_pairs_grad", _build_backward, False, False, dtypes=ANY)
_AVERAGE_PAIRS_GRAD_PAST = kernels_by_dtype("average_pairs_grad_past", _build_backward, False, True)
_PLANE_AVERAGE = kernels_by_dtype("plane_average", _build_plane_average)
_PLANE_AVERAGE_GRAD = kernels_by_dtype("plane_average_grad", _build_plane_average_grad)

PAIRS = {
    "MaxPooling": kernels_by_dtype("max_pairs", _build_forward, True, True, dtypes=ANY),
    "MaxPoolingGrad": kernels_by_dtype("max_pairs_grad", _build_backward, True, False, dtypes=ANY),
    "AveragePooling": _AVERAGE_PAIRS,
    "AveragePoolingGrad": _AVERAGE_PAIRS_GRAD,
    "SumPooling": _AVERAGE_PAIRS,
    "SumPoolingGrad": _AVERAGE_PAIRS_GRAD,
}
PAIRS_ALONE = kernels_by_dtype("max_pairs_alone", _build_forward, True, False, dtypes=ANY)
"""Maxima without their places."""

PAIRS_PAST_CACHES = {
    "MaxPoolingGrad": kernels_by_dtype("max_pairs_grad_past", _build_backward, True, True),
    "AveragePoolingGrad": _AVERAGE_PAIRS_GRAD_PAST,
    "SumPoolingGrad": _AVERAGE_PAIRS_GRAD_PAST,
}
PLANES = {
    "AveragePooling": _PLANE_AVERAGE,
    "AveragePoolingGrad": _PLANE_AVERAGE_GRAD,
    "SumPooling": _PLANE_AVERAGE,
    "SumPoolingGrad": _PLANE_AVERAGE_GRAD,
}
