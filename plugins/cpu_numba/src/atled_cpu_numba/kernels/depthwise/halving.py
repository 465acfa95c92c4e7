"""Filters of single planes that halve them: depthwise convolution with 3 x 3 kernels and strides of 2.

As in `squares`, everything is vectors of columns, see `columns`: each row is loaded once for all windows that see it.

Shares are made of results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from atled.plugin import NamedTuple, Prepared
from atled_cpu_numba.kernels.depthwise.filter_words import Filter, arguments_of, sizes_of
from atled_cpu_numba.kernels.depthwise.plane_walk import make_plane_walk
from atled_cpu_numba.kernels.shared.geometry import Pair
from atled_cpu_numba.kernels.shared.lanes import SIZES, lanes_of
from atled_cpu_numba.kernels.shared.launch import in_lines, kernels_by_dtype, launch, share_count
from atled_cpu_numba.kernels.shared.layout import filled, layout

_ELEMENTS_PER_US = 2e3  # a cautious rate of one core, for the number of shares


@layout
class Block(Filter):
    """What the kernel reads; workspace is zeros."""

    pad_h: int
    pad_w: int


class Problem(NamedTuple):
    """A depthwise convolution with 3 x 3 kernels and strides of 2.

    source, result: height and width.  results: planes per image; per_plane: of them from one plane of the source.
    pad: not negative.
    """

    images: int
    source: Pair
    results: int
    per_plane: int
    result: Pair
    pad: Pair
    dtype: str


def _build(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import words
    from atled_cpu_numba.kernels.depthwise.columns import make_halving_filter, zero_count
    from atled_cpu_numba.kernels.shared.options import Real, kernel, piece

    element, floats = SIZES[dtype], Real(dtype).pointer
    vector, zero_floats = lanes_of(dtype).vector, zero_count(dtype)
    inside = make_halving_filter(dtype, inside=True)
    across = make_halving_filter(dtype)
    masked = make_halving_filter(dtype, masked=True)

    @piece
    def filter_plane(w, own, unit, end, number, plane):
        height, width, rows, columns, zeros_at = own
        ahead, top = height * width, -w[Block.pad_h]
        x = w[Block.x] + element * plane * height * width
        y = w[Block.y] + element * unit * rows * columns
        weight = w[Block.weight] + element * 9 * number
        bias = w[Block.bias] + element * number if w[Block.bias] != 0 else zeros_at
        room = (rows if unit + 1 == end else 2 * rows) * columns
        j = 0
        while j < columns:
            if columns - j < vector and j > 0:
                j = columns - vector  # overlapping is quicker than masks
            left, to = columns - j, y + element * j
            column = 2 * j - w[Block.pad_w]
            # Of a narrow plane, what is written beyond a row the next one replaces.
            whole = rows if left >= vector else max(0, min(rows, (room - vector) // columns + 1))
            seen, written = (x, height, width, top, column, ahead, zeros_at), (weight, 1, bias)
            if column >= 0 and column + 2 * vector + 2 <= width:
                inside((*seen, *written, to, columns, whole, 0))
            else:
                across((*seen, *written, to, columns, whole, 0))
            if whole < rows:
                seen = (x, height, width, top + 2 * whole, column, ahead, zeros_at)
                masked((*seen, *written, to + element * whole * columns, columns, rows - whole, 0, left))
            j += vector

    walk = make_plane_walk(Block, filter_plane)

    @kernel
    def depthwise_halving(block, part, parts):
        w = words(block)
        rows, columns = w[Block.rows], w[Block.columns]
        zeros_at = w[Block.workspace] + w[Block.share_bytes] * part
        zeros = floats(zeros_at)
        for i in range(zero_floats):
            zeros[i] = 0.0
        walk(w, part, parts, rows * columns, (w[Block.height], w[Block.width], rows, columns, zeros_at))
        return 0

    return depthwise_halving


DEPTHWISE_HALVING = kernels_by_dtype("depthwise_halving", _build)


def prepare(problem: Problem, biases: Sequence[bool]) -> Prepared:
    """The convolution of a problem; biases: for each input behind the weight, whether it is there."""
    p = problem
    units = p.images * p.results
    parts = share_count(units * p.result[0] * p.result[1] / _ELEMENTS_PER_US, units)
    # Of the zeros that `columns` needs: four vectors and 16 elements.
    share_bytes = in_lines(SIZES[p.dtype] * (4 * lanes_of(p.dtype).vector + 16))
    words = filled(
        Block,
        **sizes_of(p),
        share_bytes=share_bytes,
        pad_h=p.pad[0],
        pad_w=p.pad[1],
    )
    return launch(
        DEPTHWISE_HALVING[p.dtype],
        words,
        arguments_of(Block, biases),
        parts=parts,
        workspace=share_bytes * parts,
        after={0: Block.after},
        note="depthwise, every second column in vectors",
    )
