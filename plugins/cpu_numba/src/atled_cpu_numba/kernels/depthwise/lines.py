"""Filters of single planes with kernels of one row and strides of 1, on padded rows: depthwise convolution of signals.

Each row is copied between margins of zeros first, so that no tap asks whether it is inside, and filtered some vectors
at a time, see `line_blocks`. The copy widens half and bf16, which are taken as they are. The adjoint of such a
convolution is one, too, with the kernel turned around.

Shares are made of results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from atled.plugin import Prepared
from atled_cpu_numba.kernels.depthwise.filter_words import Filter, arguments_of, sizes_of
from atled_cpu_numba.kernels.depthwise.padded import Problem
from atled_cpu_numba.kernels.depthwise.plane_walk import LEAST_AFTER
from atled_cpu_numba.kernels.shared.elements import item_bytes, real_of
from atled_cpu_numba.kernels.shared.lanes import SIZES, lanes_of
from atled_cpu_numba.kernels.shared.launch import (
    ANY,
    fitting_shares,
    in_lines,
    kernels_by_dtype,
    launch,
    piece_starts,
    share_count,
)
from atled_cpu_numba.kernels.shared.layout import filled, layout

_MOST_BYTES = 1 << 17  # of a padded row: it is to stay in the level-2 cache
_PRODUCTS_PER_US = 12e3  # a cautious rate of one core, for the number of shares


@layout
class Block(Filter):
    """What the kernel reads; lengths in elements, starts in bytes of a share's workspace."""

    taps: int
    tap_step: int
    pad: int
    turn: int  # 1, or -1 for kernels that are turned around
    copied: int  # elements of a row of the source
    taps_start: int  # of a filter's taps as they are computed with, turned around if that is wanted
    row_bytes: int  # of a padded row, in whole lines of the caches
    rows_start: int  # of two padded rows
    tile_start: int  # of a row of results whose last vector would reach beyond the share


def suits(problem: Problem) -> bool:
    """Whether it is a filter of rows, with strides of 1."""
    p = problem
    is_along_rows = p.kernel[0] == 1 and p.pad[0] == 0 and p.source[0] == p.result[0] and min(p.result) > 0
    fits = SIZES[real_of(p.dtype)] * _padded(p) <= _MOST_BYTES
    return is_along_rows and p.stride == (1, 1) and p.pad[1] >= 0 and p.kernel[1] > 1 and fits


def _copied(p: Problem) -> int:
    """How many elements of a row windows see."""
    return min(p.source[1], p.result[1] + (p.kernel[1] - 1) * p.dilation[1] - p.pad[1])


def _padded(p: Problem) -> int:
    """Elements of a padded row: what whole vectors of windows see, and one more, which is read besides."""
    vector = lanes_of(real_of(p.dtype)).vector
    return -(-p.result[1] // vector) * vector + (p.kernel[1] - 1) * p.dilation[1] + 1


def _build(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import call3, ints16, ints32, ints64, words
    from atled_cpu_numba.kernels.depthwise.line_blocks import make_copy_line, make_filter_line
    from atled_cpu_numba.kernels.shared.narrow_vectors import make_element_access
    from atled_cpu_numba.kernels.shared.options import Real, inlined, kernel

    element, real = item_bytes(dtype), real_of(dtype)
    size, floats, vector = SIZES[real], Real(real).pointer, lanes_of(real).vector
    filter_line, copy_line = make_filter_line(dtype), make_copy_line(dtype)
    if dtype == real:
        load_element = inlined(lambda address, i: floats(address)[i])
    else:
        load_element, _ = make_element_access(dtype)
    moved = {2: ints16, 4: ints32, 8: ints64}[element]

    @kernel
    def depthwise_lines(block, part, parts):
        w = words(block)
        results, per_plane, width, rows = w[Block.results], w[Block.per_plane], w[Block.width], w[Block.rows]
        columns, taps, turn = w[Block.columns], w[Block.taps], w[Block.turn]
        last_tap = taps - 1 if turn < 0 else 0
        share = w[Block.workspace] + part * w[Block.share_bytes]
        rows_at, row_bytes, tile_at = share + w[Block.rows_start], w[Block.row_bytes], share + w[Block.tile_start]
        weight_at = share + w[Block.taps_start]
        no_bias, padded, own_weight = floats(share), floats(rows_at), floats(weight_at)
        no_bias[0] = 0.0
        for i in range(2 * row_bytes // size):
            padded[i] = 0.0
        vectors = (columns + vector - 1) // vector
        units = w[Block.images] * results
        first, end = units * part // parts, units * (part + 1) // parts
        begin = first * rows * columns  # of what `after` is to see
        copied_unit = unit = first
        copied_row = row = 0
        x = bias = share
        # A row is copied before the one in front of it is filtered, into the other place: what is read of a place has
        # long been written there. A processor would wait to read a vector of two that are being written.
        for step in range((end - first) * rows + 1):
            ahead = rows_at + row_bytes * (step & 1)
            if copied_unit < end:
                if copied_row == 0:
                    image = copied_unit // results
                    plane = image * (results // per_plane) + (copied_unit - image * results) // per_plane
                    x = w[Block.x] + element * plane * rows * width
                copy_line((x, 0, ahead + size * w[Block.pad], 0, 1, w[Block.copied]))
                x += element * width
                copied_row += 1
                if copied_row == rows:
                    copied_row = 0
                    copied_unit += 1
            if step == 0:
                continue
            if row == 0:
                number = unit % results
                weight = w[Block.weight] + element * number * taps
                for i in range(taps):
                    own_weight[i] = load_element(weight, last_tap + turn * i)
                bias = w[Block.bias] + element * number if w[Block.bias] != 0 else share
            at = (unit * rows + row) * columns
            # What is written beyond a row the following ones replace.
            y, is_last = w[Block.y] + element * at, end * rows * columns - at < vectors * vector
            to = tile_at if is_last else y
            filter_line(
                (
                    rows_at + row_bytes * (1 - (step & 1)),
                    taps,
                    w[Block.tap_step],
                    weight_at,
                    bias,
                    to,
                    vectors,
                )
            )
            if is_last:
                result, tile = moved(y), moved(tile_at)
                for i in range(columns):
                    result[i] = tile[i]
            row += 1
            if row == rows:
                row = 0
                unit += 1
                behind = unit * rows * columns
                if w[Block.after] != 0 and (unit == end or behind - begin >= LEAST_AFTER):
                    call3(w[Block.after], w[Block.after_block], begin, behind)
                    begin = behind
        return 0

    return depthwise_lines


DEPTHWISE_LINES = kernels_by_dtype("depthwise_lines", _build, dtypes=ANY)


def prepare(problem: Problem, biases: Sequence[bool]) -> Prepared:
    """The convolution of a problem that `suits`; biases: for each input behind the weight, whether it is there."""
    p = problem
    results = p.images * p.results
    size = SIZES[real_of(p.dtype)]
    row_bytes = in_lines(size * _padded(p))
    starts = piece_starts(64, {"taps_start": size * p.kernel[1], "rows_start": 2 * row_bytes, "tile_start": row_bytes})
    products = results * p.kernel[1] * p.result[0] * p.result[1]
    parts = fitting_shares(share_count(products / _PRODUCTS_PER_US, results), starts["share_bytes"])
    words = filled(
        Block,
        **sizes_of(p),
        taps=p.kernel[1],
        tap_step=p.dilation[1],
        pad=p.pad[1],
        turn=-1 if p.turned else 1,
        copied=max(0, _copied(p)),
        row_bytes=row_bytes,
        **starts,
    )
    return launch(
        DEPTHWISE_LINES[p.dtype],
        words,
        arguments_of(Block, biases),
        parts=parts,
        workspace=starts["share_bytes"] * parts,
        after={0: Block.after},
        note="depthwise, rows padded",
    )
