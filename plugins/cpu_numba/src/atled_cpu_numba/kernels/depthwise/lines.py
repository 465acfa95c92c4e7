"""Filters of single planes with kernels of one row and strides of 1, on padded rows: depthwise convolution of signals.

Each row is copied between margins of zeros first, so that no tap asks whether it is inside, and filtered some vectors
at a time, see `line_blocks`. The adjoint of such a convolution is one, too, with the kernel turned around.

Shares are made of results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from atled.plugin import Prepared
from atled_cpu_numba.kernels.depthwise.filter_words import Filter, arguments_of, sizes_of
from atled_cpu_numba.kernels.depthwise.padded import Problem
from atled_cpu_numba.kernels.depthwise.plane_walk import LEAST_AFTER
from atled_cpu_numba.kernels.shared.lanes import SIZES, lanes_of
from atled_cpu_numba.kernels.shared.launch import (
    fitting_shares,
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
    padded: int  # elements of a padded row
    row_start: int
    tile_start: int  # of a row of results whose last vector would reach beyond the share


def suits(problem: Problem) -> bool:
    """Whether it is a filter of rows, with strides of 1."""
    p = problem
    is_along_rows = p.kernel[0] == 1 and p.pad[0] == 0 and p.source[0] == p.result[0] and min(p.result) > 0
    fits = SIZES[p.dtype] * _padded(p) <= _MOST_BYTES
    return is_along_rows and p.stride == (1, 1) and p.pad[1] >= 0 and p.kernel[1] > 1 and fits


def _copied(p: Problem) -> int:
    """How many elements of a row windows see."""
    return min(p.source[1], p.result[1] + (p.kernel[1] - 1) * p.dilation[1] - p.pad[1])


def _padded(p: Problem) -> int:
    """Elements of a padded row: what whole vectors of windows see."""
    vector = lanes_of(p.dtype).vector
    return -(-p.result[1] // vector) * vector + (p.kernel[1] - 1) * p.dilation[1]


def _build(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import call3, words
    from atled_cpu_numba.kernels.depthwise.line_blocks import make_filter_line
    from atled_cpu_numba.kernels.shared.options import Real, kernel
    from atled_cpu_numba.kernels.shared.vectors import make_copy_rows

    element, floats, vector = SIZES[dtype], Real(dtype).pointer, lanes_of(dtype).vector
    filter_line, copy_rows = make_filter_line(dtype), make_copy_rows(dtype)

    @kernel
    def depthwise_lines(block, part, parts):
        w = words(block)
        results, per_plane, width, rows = w[Block.results], w[Block.per_plane], w[Block.width], w[Block.rows]
        columns, taps, turn = w[Block.columns], w[Block.taps], w[Block.turn]
        share = w[Block.workspace] + part * w[Block.share_bytes]
        row_at, tile_at = share + w[Block.row_start], share + w[Block.tile_start]
        no_bias, padded = floats(share), floats(row_at)
        no_bias[0] = 0.0
        for i in range(w[Block.padded]):
            padded[i] = 0.0
        vectors = (columns + vector - 1) // vector
        units = w[Block.images] * results
        first, end = units * part // parts, units * (part + 1) // parts
        begin = first * rows * columns  # of what `after` is to see
        for unit in range(first, end):
            image = unit // results
            number = unit - image * results
            plane = image * (results // per_plane) + number // per_plane
            weight = w[Block.weight] + element * number * taps
            if turn < 0:
                weight += element * (taps - 1)
            bias = w[Block.bias] + element * number if w[Block.bias] != 0 else share
            for i in range(rows):
                x, at = w[Block.x] + element * (plane * rows + i) * width, (unit * rows + i) * columns
                copy_rows((x, 0, row_at + element * w[Block.pad], 0, 1, w[Block.copied]))
                # What is written beyond a row the following ones replace.
                y, is_last = w[Block.y] + element * at, end * rows * columns - at < vectors * vector
                to = tile_at if is_last else y
                filter_line((row_at, taps, w[Block.tap_step], weight, turn, bias, to, vectors))
                if is_last:
                    copy_rows((tile_at, 0, y, 0, 1, columns))
            behind = (unit + 1) * rows * columns
            if w[Block.after] != 0 and (unit + 1 == end or behind - begin >= LEAST_AFTER):
                call3(w[Block.after], w[Block.after_block], begin, behind)
                begin = behind
        return 0

    return depthwise_lines


DEPTHWISE_LINES = kernels_by_dtype("depthwise_lines", _build)


def prepare(problem: Problem, biases: Sequence[bool]) -> Prepared:
    """The convolution of a problem that `suits`; biases: for each input behind the weight, whether it is there."""
    p, element = problem, SIZES[problem.dtype]
    results = p.images * p.results
    row_bytes = element * _padded(p)
    starts = piece_starts(64, {"row_start": row_bytes, "tile_start": row_bytes})
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
        padded=_padded(p),
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
