"""Filters of single planes: depthwise convolution with 3 x 3 kernels and stride 1, and its gradients.

A result is the sum of `terms` filtered planes of the source: one in a convolution, which may give several results from
one plane; as many as it has filters per channel in its gradient. Everything is vectors of columns, see
`columns`.

Shares are made of results; for the weight's gradient, of filters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from atled.plugin import NamedTuple, Prepared
from atled_cpu_numba.kernels.depthwise.plane_walk import LEAST_AFTER
from atled_cpu_numba.kernels.shared.lanes import SIZES, lanes_of
from atled_cpu_numba.kernels.shared.launch import (
    STREAMED_BYTES,
    in_lines,
    kernels_by_dtype,
    launch,
    optional_words,
    share_count,
)
from atled_cpu_numba.kernels.shared.layout import filled, layout
from atled_cpu_numba.store import Kernel

_ELEMENTS_PER_US = 4e3  # a cautious rate of one core, for the number of shares
_BAND_BYTES = 16 << 10  # of rows that are written past the caches together: with their source, in the nearest cache
_LEAST_BAND = 4


@layout
class Block:
    """What both kernels read."""

    x: int  # address of x or gy
    weight: int  # or gy, for the weight's gradient
    bias: int  # or 0
    y: int  # or gx, gw
    workspace: int
    images: int
    height: int  # of the source
    width: int
    results: int  # per image
    rows: int  # of the result; for the weight's gradient, of gy
    columns: int
    pad_h: int
    pad_w: int
    terms: int
    per_plane: int  # results per plane of the source
    first_tap: int  # 0, or 8 for the gradient, which turns the kernel around
    tap_step: int  # 1, or -1
    after: int  # range kernel to run on what is written of y or gx, or 0
    after_block: int
    share_bytes: int  # of workspace
    band: int  # rows that are collected before they are written past the caches, or 0


class Problem(NamedTuple):
    """A depthwise convolution with 3 x 3 kernels and stride 1, or its gradient with respect to x or the weight.

    source, result: height and width.  results: planes per image.  terms, per_plane: see the module.
    turned: whether the kernel is to be turned around.
    """

    images: int
    source: tuple[int, int]
    results: int
    result: tuple[int, int]
    pad: tuple[int, int]
    terms: int
    per_plane: int
    turned: bool
    dtype: str


def _build(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import call3, words
    from atled_cpu_numba.kernels.depthwise.columns import make_filter, zero_count
    from atled_cpu_numba.kernels.shared.options import Real, kernel, piece
    from atled_cpu_numba.kernels.shared.past_caches import make_move_lines, settle_lines

    element, floats = SIZES[dtype], Real(dtype).pointer
    move_lines = make_move_lines(dtype)
    vector, zero_floats = lanes_of(dtype).vector, zero_count(dtype)
    one, two, three, four = (make_filter(vectors, dtype) for vectors in (1, 2, 3, 4))
    masked, adding_masked = (make_filter(1, dtype, masked=True, adds=adds) for adds in (False, True))

    @piece
    def filter_rows(w, x, weight, bias, adding, y, row, rows, room, zeros):
        """Rows of results, from `row` on; room: elements from y on that may be written, if they are set later on."""
        height, width, columns = w[Block.height], w[Block.width], w[Block.columns]
        ahead = w[Block.height] * w[Block.width]
        top, step = row - w[Block.pad_h], w[Block.tap_step]
        j = 0
        while j < columns:
            left = columns - j
            column = j - w[Block.pad_w]
            vectors = min(4, (left + vector - 1) // vector)
            last = min(vectors * vector, left) - vector
            inner = column + vector >= 0 and column + (vectors - 1) * vector + 2 <= width
            to = y + element * j
            # Overlapping is quicker than masks, but adds twice.
            if adding != 0:
                adding_masked(
                    (x, height, width, top, column, ahead, zeros, weight, step, bias, to, columns, rows, 0, left)
                )
                j += vector
                continue
            if vectors == 1 or (vectors > 2 and not inner):
                if left < vector and j > 0:
                    column, to, left = column - (vector - left), to - element * (vector - left), vector
                # Of a narrow plane, what is written beyond a row the next one replaces.
                whole = rows if left >= vector else max(0, min(rows, (room - vector) // columns + 1))
                one((x, height, width, top, column, ahead, zeros, weight, step, bias, to, columns, whole, 0))
                if whole < rows:
                    top_left, to = top + whole, to + element * whole * columns
                    seen = (x, height, width, top_left, column, ahead, zeros)
                    masked((*seen, weight, step, bias, to, columns, rows - whole, 0, left))
                j += vector
                continue
            if vectors == 2:
                two((x, height, width, top, column, ahead, zeros, weight, step, bias, to, columns, rows, last))
            elif vectors == 3:
                three((x, height, width, top, column, ahead, zeros, weight, step, bias, to, columns, rows, last))
            else:
                four((x, height, width, top, column, ahead, zeros, weight, step, bias, to, columns, rows, last))
            j += vectors * vector

    @kernel
    def depthwise(block, part, parts):
        w = words(block)
        images, height, width, results = w[Block.images], w[Block.height], w[Block.width], w[Block.results]
        rows, columns = w[Block.rows], w[Block.columns]
        terms, per_plane = w[Block.terms], w[Block.per_plane]
        sources = results * terms // per_plane
        zeros_at = w[Block.workspace] + w[Block.share_bytes] * part
        zeros = floats(zeros_at)
        for i in range(zero_floats):
            zeros[i] = 0.0
        lines_at = zeros_at + element * zero_floats
        streams = w[Block.band] != 0 and w[Block.after] == 0
        band = w[Block.band] if streams else rows
        first, end = images * results * part // parts, images * results * (part + 1) // parts
        begin = first * rows * columns  # of what `after` is to see
        for unit in range(first, end):
            image = unit // results
            result = unit - image * results
            row = 0
            while row < rows:
                count = min(band, rows - row)
                y = w[Block.y] + element * (unit * rows + row) * columns
                to = lines_at + y % 64 if streams else y
                room = (count if streams or unit + 1 == end else rows - row + rows) * columns
                for term in range(terms):
                    filter_number = result * terms + term
                    x = w[Block.x] + element * (image * sources + filter_number // per_plane) * height * width
                    weight = w[Block.weight] + element * (9 * filter_number + w[Block.first_tap])
                    bias = w[Block.bias] + element * result if w[Block.bias] != 0 and term == 0 else zeros_at
                    filter_rows(w, x, weight, bias, 1 if term > 0 else 0, to, row, count, room, zeros_at)
                if streams:
                    move_lines((to, y, count * columns))
                row += count
            behind = (unit + 1) * rows * columns
            if w[Block.after] != 0 and (unit + 1 == end or behind - begin >= LEAST_AFTER):
                call3(w[Block.after], w[Block.after_block], begin, behind)
                begin = behind
        if streams:
            settle_lines((0,))
        return 0

    return depthwise


def _build_weight(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import words
    from atled_cpu_numba.kernels.depthwise.columns import make_correlate, make_store_total, zero_count
    from atled_cpu_numba.kernels.shared.options import Real, kernel, piece

    element, floats = SIZES[dtype], Real(dtype).pointer
    vector, zero_floats, store_total = lanes_of(dtype).vector, zero_count(dtype), make_store_total(dtype)
    one, two, three, four = (make_correlate(vectors, dtype) for vectors in (1, 2, 3, 4))

    @piece
    def correlate(w, x, gy, zeros, sums):
        """Add what one plane brings."""
        height, width, rows, columns = w[Block.height], w[Block.width], w[Block.rows], w[Block.columns]
        top, ahead, gy_ahead = -w[Block.pad_h], height * width, rows * columns
        j = 0
        while j < columns:
            left, column, at = columns - j, j - w[Block.pad_w], gy + element * j
            vectors = min(4, (left + vector - 1) // vector)
            if column + vector < 0 or column + (vectors - 1) * vector + 2 > width:
                vectors = min(2, vectors)
            if vectors == 1:
                one((x, height, width, top, column, ahead, zeros, at, columns, rows, left, gy_ahead, sums))
            elif vectors == 2:
                two((x, height, width, top, column, ahead, zeros, at, columns, rows, left, gy_ahead, sums))
            elif vectors == 3:
                three((x, height, width, top, column, ahead, zeros, at, columns, rows, left, gy_ahead, sums))
            else:
                four((x, height, width, top, column, ahead, zeros, at, columns, rows, left, gy_ahead, sums))
            j += vectors * vector

    @kernel
    def depthwise_weight(block, part, parts):
        w = words(block)
        images, height, width, results = w[Block.images], w[Block.height], w[Block.width], w[Block.results]
        rows, columns, per_plane = w[Block.rows], w[Block.columns], w[Block.per_plane]
        first, after = results * part // parts, results * (part + 1) // parts
        zeros_at = w[Block.workspace] + w[Block.share_bytes] * part
        sums_at = (
            w[Block.workspace] + w[Block.share_bytes] * parts + 9 * element * vector * first
        )  # nine vectors per filter
        zeros, sums = floats(zeros_at), floats(sums_at)
        for i in range(zero_floats):
            zeros[i] = 0.0
        for i in range(9 * vector * (after - first)):
            sums[i] = 0.0
        # Images outside: the planes of one follow one another in memory.
        for image in range(images):
            for result in range(first, after):
                x = w[Block.x] + element * (image * (results // per_plane) + result // per_plane) * height * width
                gy = w[Block.weight] + element * (image * results + result) * rows * columns
                correlate(w, x, gy, zeros_at, sums_at + 9 * element * vector * (result - first))
        for i in range(9 * (after - first)):
            store_total((sums_at + element * vector * i, w[Block.y] + element * (9 * first + i)))
        return 0

    return depthwise_weight


DEPTHWISE = kernels_by_dtype("depthwise", _build)
DEPTHWISE_WEIGHT = kernels_by_dtype("depthwise_weight", _build_weight)


def prepare(problem: Problem, biases: Sequence[bool]) -> Prepared:
    """The convolution or its gradient with respect to x; biases: whether each input behind the weight is there."""
    parts = share_count(_work_us(problem), problem.images * problem.results)
    rows, columns = problem.result
    element = SIZES[problem.dtype]
    result_bytes = element * problem.images * problem.results * rows * columns
    band = min(rows, max(_LEAST_BAND, _BAND_BYTES // (element * columns))) if result_bytes >= STREAMED_BYTES else 0
    share_bytes = _zeros_bytes(problem) + (64 + in_lines(element * band * columns) if band else 0)
    arguments = (Block.x, Block.weight, *optional_words(Block.bias, biases), Block.y)
    return _launch(DEPTHWISE[problem.dtype], problem, arguments, parts, share_bytes, share_bytes * parts, band)


def prepare_weight(problem: Problem) -> Prepared:
    """The gradient with respect to the weight; x, gy -> gw."""
    parts = share_count(_work_us(problem), problem.results)
    zeros, lanes = _zeros_bytes(problem), lanes_of(problem.dtype)
    workspace = zeros * parts + SIZES[problem.dtype] * 9 * lanes.vector * problem.results
    arguments = (Block.x, Block.weight, Block.y)
    return _launch(DEPTHWISE_WEIGHT[problem.dtype], problem, arguments, parts, zeros, workspace, 0)


def _zeros_bytes(problem: Problem) -> int:
    """Of the zeros that `columns` needs: four vectors and 16 elements, in whole lines."""
    return in_lines(SIZES[problem.dtype] * (4 * lanes_of(problem.dtype).vector + 16))


def _work_us(problem: Problem) -> float:
    elements = problem.images * problem.results * problem.terms * problem.result[0] * problem.result[1]
    return elements / _ELEMENTS_PER_US


def _launch(
    kernel: Kernel,
    problem: Problem,
    arguments: tuple[int, ...],
    parts: int,
    share_bytes: int,
    workspace: int,
    band: int,
) -> Prepared:
    words = filled(
        Block,
        images=problem.images,
        height=problem.source[0],
        width=problem.source[1],
        results=problem.results,
        rows=problem.result[0],
        columns=problem.result[1],
        pad_h=problem.pad[0],
        pad_w=problem.pad[1],
        terms=problem.terms,
        per_plane=problem.per_plane,
        first_tap=8 if problem.turned else 0,
        tap_step=-1 if problem.turned else 1,
        share_bytes=share_bytes,
        band=band,
    )
    after = {0: Block.after} if kernel is DEPTHWISE[problem.dtype] else None
    note = "depthwise, columns in vectors" + (", past the caches" if band else "")
    return launch(
        kernel, words, (*arguments, Block.workspace), parts=parts, workspace=workspace, after=after, note=note
    )
