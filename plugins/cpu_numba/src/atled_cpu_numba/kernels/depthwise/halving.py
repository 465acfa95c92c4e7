"""Filters of single planes that halve them: depthwise convolution with 3 x 3 kernels and strides of 2.

As in `squares`, everything is vectors of columns, see `columns`: each row is loaded once for all windows that see it.

Shares are made of results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from atled.plugin import NamedTuple, Prepared
from atled_cpu_numba.kernels.depthwise.squares import LEAST_AFTER
from atled_cpu_numba.kernels.shared.geometry import Pair
from atled_cpu_numba.kernels.shared.lanes import SIZES, lanes_of
from atled_cpu_numba.kernels.shared.launch import in_lines, kernels_by_dtype, launch, optional_words, share_count
from atled_cpu_numba.kernels.shared.layout import filled, layout

_ELEMENTS_PER_US = 2e3  # a cautious rate of one core, for the number of shares


@layout
class Block:
    """What the kernel reads."""

    x: int  # address
    weight: int
    bias: int  # or 0
    y: int
    workspace: int
    share_bytes: int  # of workspace: zeros
    images: int
    height: int  # of the source
    width: int
    results: int  # per image
    rows: int  # of the result
    columns: int
    pad_h: int
    pad_w: int
    per_plane: int  # results per plane of the source
    after: int  # range kernel to run on what is written of y, or 0
    after_block: int


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
    from atled_cpu_numba.codegen import call3, words
    from atled_cpu_numba.kernels.depthwise.columns import make_halving_filter, zero_count
    from atled_cpu_numba.kernels.shared.options import Real, kernel

    element, floats = SIZES[dtype], Real(dtype).pointer
    vector, zero_floats = lanes_of(dtype).vector, zero_count(dtype)
    inside = make_halving_filter(dtype, inside=True)
    across = make_halving_filter(dtype)
    masked = make_halving_filter(dtype, masked=True)

    @kernel
    def depthwise_halving(block, part, parts):
        w = words(block)
        height, width, results, per_plane = w[Block.height], w[Block.width], w[Block.results], w[Block.per_plane]
        rows, columns = w[Block.rows], w[Block.columns]
        zeros_at = w[Block.workspace] + w[Block.share_bytes] * part
        zeros = floats(zeros_at)
        for i in range(zero_floats):
            zeros[i] = 0.0
        ahead, top = height * width, -w[Block.pad_h]
        units = w[Block.images] * results
        first, end = units * part // parts, units * (part + 1) // parts
        begin = first * rows * columns  # of what `after` is to see
        for unit in range(first, end):
            image = unit // results
            number = unit - image * results
            x = w[Block.x] + element * (image * (results // per_plane) + number // per_plane) * height * width
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
            behind = (unit + 1) * rows * columns
            if w[Block.after] != 0 and (unit + 1 == end or behind - begin >= LEAST_AFTER):
                call3(w[Block.after], w[Block.after_block], begin, behind)
                begin = behind
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
        share_bytes=share_bytes,
        images=p.images,
        height=p.source[0],
        width=p.source[1],
        results=p.results,
        rows=p.result[0],
        columns=p.result[1],
        pad_h=p.pad[0],
        pad_w=p.pad[1],
        per_plane=p.per_plane,
    )
    arguments = (Block.x, Block.weight, *optional_words(Block.bias, biases), Block.y, Block.workspace)
    return launch(
        DEPTHWISE_HALVING[p.dtype],
        words,
        arguments,
        parts=parts,
        workspace=share_bytes * parts,
        after={0: Block.after},
        note="depthwise, every second column in vectors",
    )
