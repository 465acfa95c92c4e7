"""Filters of single planes with kernels of five or seven rows, on padded planes: depthwise convolution.

Each plane is copied between margins of zeros first, with strides of 2 apart into its even and its odd columns. Then a
register tile is a vector of columns by some rows of the result: each vector of the plane is loaded once for all rows
that see it, and no tap asks whether it is inside. The adjoint of a convolution with stride 1 is one, too, with the
kernel turned around.

Shares are made of results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from atled.plugin import NamedTuple, Prepared
from atled_cpu_numba.kernels.depthwise.filter_words import Filter, arguments_of, sizes_of
from atled_cpu_numba.kernels.depthwise.plane_walk import make_plane_walk
from atled_cpu_numba.kernels.shared.geometry import Pair
from atled_cpu_numba.kernels.shared.lanes import SIZES, lanes_of
from atled_cpu_numba.kernels.shared.launch import (
    fitting_shares,
    kernels_by_dtype,
    launch,
    piece_starts,
    share_count,
)
from atled_cpu_numba.kernels.shared.layout import filled, layout

_HEIGHTS = (5, 7)  # of kernels
_TILE_ROWS = (7, 4, 1)  # with the weights of a column of the kernel, 7 rows fill 16 registers
# The same of 32. By llvm-mca, in which the 5 or 7 products of a sum in a column wait for each other, 14 rows take .8 of
# the time of 7 twice on Intel's processors; they load 18 or 20 vectors in place of 22 or 26.
_TALL_ROWS, _TALL_BYTES = 14, 64  # bytes of a vector under AVX-512
_PRODUCTS_PER_US = 12e3  # a cautious rate of one core, for the number of shares


@layout
class Block(Filter):
    """What the kernel reads; lengths in elements, starts in bytes of a share's workspace."""

    kernel_w: int
    pad_h: int
    pad_w: int
    stride_w: int  # 1 or 2
    turn: int  # 1, or -1 for kernels that are turned around
    copied_rows: int  # of the source
    copied_columns: int
    pitch: int  # of the padded plane's rows
    ahead: int  # from an element to the one beside it in the source, where that is in another plane; else 1
    tile_rows: int
    plane_start: int
    plane_elements: int
    tile_start: int  # of results narrower than a vector


class Problem(NamedTuple):
    """A depthwise convolution, or its adjoint, which is another one.

    results: planes per image; per_plane: of them from one plane of the source.
    turned: whether the kernel is to be turned around.
    """

    images: int
    source: Pair
    results: int
    per_plane: int
    result: Pair
    kernel: Pair
    pad: Pair
    stride: Pair
    dilation: Pair
    turned: bool
    dtype: str


def suits(problem: Problem) -> bool:
    """Whether there are tiles for the kernel and its strides."""
    p = problem
    return p.kernel[0] in _HEIGHTS and max(p.stride) <= 2 and p.dilation == (1, 1) and min(p.pad) >= 0


def _build(dtype: str, height: int, stride: int) -> Callable[..., int]:
    from atled_cpu_numba.codegen import words
    from atled_cpu_numba.kernels.depthwise.phases import make_split_pairs
    from atled_cpu_numba.kernels.depthwise.tall_tiles import make_padded_filter
    from atled_cpu_numba.kernels.shared.options import Real, kernel, piece
    from atled_cpu_numba.kernels.shared.vectors import make_copy_rows

    element, floats = SIZES[dtype], Real(dtype).pointer
    vector = lanes_of(dtype).vector
    copy_rows, split_pairs = make_copy_rows(dtype), make_split_pairs(dtype)
    has_tall = _has_tall_tiles(dtype)
    high, low, single = (make_padded_filter(height, stride, rows, dtype) for rows in _TILE_ROWS)
    tall = make_padded_filter(height, stride, _TALL_ROWS, dtype) if has_tall else high
    high_rows, low_rows, _single_rows = _TILE_ROWS

    @piece
    def copy_plane(w, x, plane_at):
        """The source's plane between its margins, which are zeros already."""
        to = plane_at + element * w[Block.pad_h] * w[Block.pitch]
        width, rows, columns, pitch = w[Block.width], w[Block.copied_rows], w[Block.copied_columns], w[Block.pitch]
        if w[Block.stride_w] == 1:
            copy_rows((x, width, to + element * w[Block.pad_w], pitch, rows, columns))
        else:
            split_pairs((x, width, width, -w[Block.pad_w], rows, to, w[Block.ahead], pitch, 0))

    @piece
    def filter_plane(w, own, unit, end, number, seen):
        rows, columns, kernel_w, pitch, turn, tile_rows, ahead, step, share, plane_at, tile_at, first = own
        if unit == first or number % w[Block.per_plane] == 0:  # else it is there
            copy_plane(w, w[Block.x] + element * seen * w[Block.height] * w[Block.width], plane_at)
        weight = w[Block.weight] + element * number * height * kernel_w
        if turn < 0:
            weight += element * (height * kernel_w - 1)
        y, bias = w[Block.y] + element * unit * rows * columns, share
        if w[Block.bias] != 0:
            bias = w[Block.bias] + element * number
        for tile in range((rows + tile_rows - 1) // tile_rows):
            i = min(tile * tile_rows, rows - tile_rows)  # the last one overlaps the one before
            for strip in range((columns + vector - 1) // vector):
                j = max(0, min(strip * vector, columns - vector))
                x = plane_at + element * (i * stride * pitch + j)
                to, to_row = y + element * (i * columns + j), columns
                if columns < vector:
                    to, to_row = tile_at, vector
                if has_tall and tile_rows == _TALL_ROWS:
                    tall((x, pitch, ahead, step, kernel_w, weight, turn, bias, to, to_row))
                elif tile_rows == high_rows:
                    high((x, pitch, ahead, step, kernel_w, weight, turn, bias, to, to_row))
                elif tile_rows == low_rows:
                    low((x, pitch, ahead, step, kernel_w, weight, turn, bias, to, to_row))
                else:
                    single((x, pitch, ahead, step, kernel_w, weight, turn, bias, to, to_row))
            if columns < vector:
                copy_rows((tile_at, vector, y + element * i * columns, columns, tile_rows, columns))

    walk = make_plane_walk(Block, filter_plane)

    @kernel
    def depthwise_padded(block, part, parts):
        w = words(block)
        rows, columns, kernel_w, pitch = w[Block.rows], w[Block.columns], w[Block.kernel_w], w[Block.pitch]
        share = w[Block.workspace] + part * w[Block.share_bytes]
        plane_at, tile_at = share + w[Block.plane_start], share + w[Block.tile_start]
        plane, no_bias = floats(plane_at), floats(share)
        no_bias[0] = 0.0
        for i in range(w[Block.plane_elements]):
            plane[i] = 0.0
        step = 2 if w[Block.stride_w] == 1 else 1
        first = w[Block.images] * w[Block.results] * part // parts
        tiled = (rows, columns, kernel_w, pitch, w[Block.turn], w[Block.tile_rows], w[Block.ahead], step)
        walk(w, part, parts, rows * columns, (*tiled, share, plane_at, tile_at, first))
        return 0

    return depthwise_padded


DEPTHWISE_PADDED = {
    (height, stride): kernels_by_dtype(f"depthwise_padded_{height}_{stride}", _build, height, stride)
    for height in _HEIGHTS
    for stride in (1, 2)
}


def prepare(problem: Problem, biases: Sequence[bool]) -> Prepared:
    """The convolution of a problem that `suits`; biases: for each input behind the weight, whether it is there."""
    p, vector, element = problem, lanes_of(problem.dtype).vector, SIZES[problem.dtype]
    products = p.images * p.results * p.kernel[0] * p.kernel[1] * p.result[0] * p.result[1]
    # What windows see: of the source, and of its margins.
    seen = tuple((n - 1) * s + k for n, s, k in zip(p.result, p.stride, p.kernel, strict=True))
    copied = tuple(min(n, extent - pad) for n, extent, pad in zip(p.source, seen, p.pad, strict=True))
    apart = p.stride[1]
    pitch = max(seen[1], p.pad[1] + copied[1])
    if apart == 2:  # whole vectors, which leave the margin below as it is
        pitch = -(-pitch // (2 * vector)) * vector
    # A vector of a narrow result reaches beyond its row.
    length = max(seen[0], p.pad[0] + copied[0]) * pitch + 2 * vector
    plane_elements, tile_rows = length * apart, _tile_rows(p.result[0], p.dtype)
    starts = piece_starts(
        64,
        {
            "plane_start": element * plane_elements,
            "tile_start": element * tile_rows * vector,
        },
    )
    parts = fitting_shares(share_count(products / _PRODUCTS_PER_US, p.images * p.results), starts["share_bytes"])
    words = filled(
        Block,
        **sizes_of(p),
        kernel_w=p.kernel[1],
        pad_h=p.pad[0],
        pad_w=p.pad[1],
        stride_w=apart,
        turn=-1 if p.turned else 1,
        copied_rows=max(0, copied[0]),
        copied_columns=max(0, copied[1]),
        pitch=pitch,
        ahead=length if apart == 2 else 1,
        tile_rows=tile_rows,
        plane_elements=plane_elements,
        **starts,
    )
    return launch(
        DEPTHWISE_PADDED[p.kernel[0], p.stride[0]][p.dtype],
        words,
        arguments_of(Block, biases),
        parts=parts,
        workspace=starts["share_bytes"] * parts,
        after={0: Block.after},
        note=f"depthwise, {p.kernel[0]} rows of windows in registers",
    )


def _has_tall_tiles(dtype: str) -> bool:
    return SIZES[dtype] * lanes_of(dtype).vector == _TALL_BYTES


def _tile_rows(rows: int, dtype: str) -> int:
    """The rows of the tiles that take the fewest cycles for so many: each waits for its sums, as four rows do."""
    heights = (_TALL_ROWS, *_TILE_ROWS) if _has_tall_tiles(dtype) else _TILE_ROWS
    return min((r for r in heights if r <= rows), key=lambda r: -(-rows // r) * max(r + 1, 5))
