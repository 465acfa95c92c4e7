"""Convolution with 3 or 7 taps along one axis and stride 1 by Winograd's F(4, 3) and F(4, 7).

For 4 results these take 6 multiplications instead of 12, and 10 instead of 28. The other axis, if there is one, is only
passed through. Tiles of as many elements as products, the kernels, and the products are transformed with channels and
maps in the lanes, as `forward` does along two axes; in between stand matrix products of (tiles, channels) by (channels,
maps), one for each. Dilation is only the distance of a tile's elements: elements of all residues stand in one line, and
so do their tiles.

Results are less accurate than direct sums, but of 3 taps more than those of `forward`, of 7 as much: one transformation
stands where two do there. What is said there of outliers and of Contexts holds here, too. Half and bf16 are widened as
lines are collected.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from atled.plugin import NamedTuple, Prepared
from atled_cpu_numba.kernels.shared.elements import item_bytes, real_of
from atled_cpu_numba.kernels.shared.lanes import SIZES, lanes_of
from atled_cpu_numba.kernels.shared.launch import (
    ANY,
    fitting_shares,
    kernels_by_dtype,
    launch,
    optional_words,
    piece_starts,
    share_count,
)
from atled_cpu_numba.kernels.shared.layout import filled, layout
from atled_cpu_numba.kernels.winograd import forward
from atled_cpu_numba.kernels.winograd.rows import BLOCK_BYTES
from atled_cpu_numba.kernels.winograd.transformed_weights import (
    PRODUCTS,
    TRANSFORM_WEIGHTS,
    Transform,
    taps_bytes,
    transformed_bytes,
    weights_transformed,
)

TAPS = 3, 7  # of a kernel
_RESULTS = 4  # of a tile

# Below, transforming takes longer than it saves.
_LEAST_CHANNELS = 12
_LEAST_PAIRS = 512  # of a channel and a map
_LEAST_TILES = 12  # below, transforming the weights does
_MOST_PRODUCTS = 0.65  # multiplications per one of the direct sums: tiles reach beyond the ends of a line

_BLOCK_BYTES = 256 << 10  # of transformed tiles and products at once: half of a level-2 cache
_MAPS_AT_ONCE = 128
_FLOPS_PER_US = 60e3  # a cautious rate of one core, transformations included, for the number of shares


@layout
class Block:
    """What the kernel reads; strides in elements, starts in bytes from a share's workspace."""

    x: int  # address of x or gy
    weight: int
    bias: int  # or 0
    y: int  # or gx
    workspace: int
    share_bytes: int  # of workspace, which begins with the block of TRANSFORM_WEIGHTS or COLLECT_LINE
    images: int
    channels: int
    maps: int
    rows: int  # of an image, each of which is a line
    width: int  # of a line of the source
    result_width: int
    pad: int
    dilation: int
    chunks: int  # of a line
    span: int  # results of a chunk, in whole tiles of all residues
    lines_at_once: int  # 1, unless a line is one chunk
    tiles_at_once: int  # whole tiles of registers
    maps_at_once: int
    weight_map: int  # strides of the weight
    weight_channel: int
    first_tap: int  # 0, or the last one for the gradient, which turns the kernel around
    tap_step: int  # 1, or -1
    weight_size: int  # elements
    bias_start: int
    weights_start: int  # of transformed weights
    taps_start: int  # of what TRANSFORM_WEIGHTS needs
    tiles_start: int  # of transformed tiles
    products_start: int
    seen_start: int  # of a chunk's elements, channels in lanes
    results_start: int
    collect_line: int  # address of COLLECT_LINE
    source_bytes: int  # of an element of x
    transform: int  # address of TRANSFORM_WEIGHTS
    transformed: int  # address of all weights as that makes them, or 0
    after: int  # range kernel to run on what is written of the result, or 0
    after_block: int


class Problem(NamedTuple):
    """A convolution with some TAPS along lines and stride 1, or the gradient of one, which is another one.

    rows: lines of an image.  source, result: length of a line.  weight_map, weight_channel: strides of the weight, in
    elements.  turned: whether the kernel is to be turned around.
    """

    images: int
    channels: int
    maps: int
    rows: int
    source: int
    result: int
    pad: int
    dilation: int
    weight_map: int
    weight_channel: int
    turned: bool
    taps: int
    dtype: str = "float32"

    @property
    def tiles(self) -> int:
        """Tiles of a line."""
        return _tiles(self.result, self.dilation)

    @property
    def products(self) -> int:
        """Of a tile, and its elements."""
        return PRODUCTS[self.taps]


def _tiles(results: int, dilation: int) -> int:
    """Tiles for so many results from the first one on: one for each residue that is there, for each `span`."""
    whole, rest = divmod(results, _RESULTS * dilation)
    return whole * dilation + min(rest, dilation)


def can(problem: Problem) -> bool:
    """Whether Winograd is allowed and computed here."""
    is_long = min(problem.source, problem.result) >= lanes_of(problem.dtype).vector
    return forward.ENABLED and problem.pad >= 0 and is_long


def suits(problem: Problem) -> bool:
    """Whether it pays, too."""
    return (
        can(problem)
        and problem.channels >= _LEAST_CHANNELS
        and forward.fills_lanes(problem.maps, problem.dtype)
        and problem.channels * problem.maps >= _LEAST_PAIRS
        and problem.images * problem.rows * problem.tiles >= _LEAST_TILES
        and problem.products * problem.tiles <= _MOST_PRODUCTS * problem.taps * problem.result
    )


@layout
class CollectLine:
    """The block of COLLECT_LINE."""

    source: int  # address of the line in the first plane
    plane: int  # elements from plane to plane
    width: int  # of the line, at least a vector
    known: int  # planes, at most as many as a vector has lanes; the last one is repeated in further lanes
    first: int  # element of the line that is wanted first, may be negative
    length: int  # elements wanted
    seen: int  # address of the result: `length` vectors, and room for a vector of vectors on both sides


def _build_collect_line(dtype: str) -> Callable[..., int]:
    """Elements of a line of some planes with the planes in the lanes, and zeros outside of it, of any float."""
    from atled_cpu_numba.codegen import words
    from atled_cpu_numba.kernels.shared.narrow_writer import make_widening_transpose_block
    from atled_cpu_numba.kernels.shared.options import Real, kernel

    real, source_element = real_of(dtype), item_bytes(dtype)
    element, floats, vector = SIZES[real], Real(real).pointer, lanes_of(real).vector
    transpose_block = make_widening_transpose_block(dtype)

    @kernel
    def collect_line(block, part, parts):
        w = words(block)
        source, plane, width = w[CollectLine.source], w[CollectLine.plane], w[CollectLine.width]
        first, length, seen = w[CollectLine.first], w[CollectLine.length], w[CollectLine.seen]
        line, known = floats(seen), w[CollectLine.known]
        begin, end = max(0, first), min(width, first + length)
        for j in range(vector * min(length, begin - first)):
            line[j] = 0.0
        for p in range((max(0, end - begin) + vector - 1) // vector):
            here = min(begin + p * vector, width - vector)
            to = seen + element * vector * (here - first)
            transpose_block((source + source_element * here, plane, known, to, vector))
        for j in range(vector * max(0, end - first), vector * length):
            line[j] = 0.0
        return 0

    return collect_line


COLLECT_LINE = kernels_by_dtype("collect_line", _build_collect_line, dtypes=ANY)
"""A kernel of its own, called by address with a block in the caller's workspace, so that it is compiled once."""


def _build(dtype: str, taps: int) -> Callable[..., int]:
    """The kernel for so many taps."""
    from atled_cpu_numba.codegen import call3, words
    from atled_cpu_numba.kernels.shared.options import Real, kernel, piece
    from atled_cpu_numba.kernels.winograd.blocks import tiles_of
    from atled_cpu_numba.kernels.winograd.columns import columns_of
    from atled_cpu_numba.kernels.winograd.products import make_products

    element, floats = SIZES[dtype], Real(dtype).pointer
    columns, lanes, products = columns_of(dtype, taps), lanes_of(dtype), PRODUCTS[taps]
    input_column, output_column, store_transposed = columns.input, columns.output, tiles_of(dtype).store_transposed
    vector, tile_columns = lanes.vector, lanes.columns
    multiply = make_products(products, dtype)

    @piece
    def deliver(w, place, maps, count, results):
        """Results of a chunk, a vector of maps wide, to y from element `place` on."""
        plane = w[Block.rows] * w[Block.result_width]
        target = w[Block.y] + element * place
        for p in range((count + vector - 1) // vector):
            here = max(0, min(p * vector, count - vector))
            source = results + element * vector * here
            store_transposed((source, min(vector, count), target + element * here, plane, maps))
        if w[Block.after] != 0:
            for _ in range(maps):
                call3(w[Block.after], w[Block.after_block], place, place + count)
                place += plane

    @kernel
    def winograd_lines(block, part, parts):
        w = words(block)
        channels, maps, rows, dilation = w[Block.channels], w[Block.maps], w[Block.rows], w[Block.dilation]
        chunks, span, at_once = w[Block.chunks], w[Block.span], w[Block.lines_at_once]
        lines = w[Block.images] * rows
        units = (lines + at_once - 1) // at_once * chunks
        first_unit, last_unit = units * part // parts, units * (part + 1) // parts
        if first_unit == last_unit:
            return 0
        inner = w[Block.workspace] + part * w[Block.share_bytes]
        q, bias = words(inner), floats(inner + w[Block.bias_start])
        u, v, m = inner + w[Block.weights_start], inner + w[Block.tiles_start], inner + w[Block.products_start]
        seen, results = inner + w[Block.seen_start] + element * vector * vector, inner + w[Block.results_start]
        # A vector more than needed: a power of two apart, all products would compete for the same lines of the cache.
        u_step = channels * tile_columns + vector
        panels = (maps + tile_columns - 1) // tile_columns
        if w[Block.transformed] != 0:
            u = w[Block.transformed]
        else:
            q[Transform.weight], q[Transform.target] = w[Block.weight], u
            q[Transform.taps] = inner + w[Block.taps_start]
            q[Transform.channels], q[Transform.maps], q[Transform.first_map] = channels, maps, 0
            q[Transform.weight_map], q[Transform.weight_channel] = w[Block.weight_map], w[Block.weight_channel]
            q[Transform.first_tap], q[Transform.tap_step] = w[Block.first_tap], w[Block.tap_step]
            q[Transform.weight_size] = w[Block.weight_size]
            call3(w[Block.transform], inner, 0, 1)
        for i in range(panels * tile_columns):
            bias[i] = floats(w[Block.bias])[i] if w[Block.bias] != 0 and i < maps else 0.0
        v_panel, m_row = w[Block.tiles_at_once] * vector, w[Block.maps_at_once]
        v_step = v_panel * ((channels + vector - 1) // vector) + vector
        m_step = w[Block.tiles_at_once] * m_row + vector
        for unit in range(first_unit, last_unit):
            group = unit // chunks
            start = (unit - group * chunks) * span
            count = min(span, w[Block.result_width] - start)
            turns = (count + 4 * dilation - 1) // (4 * dilation)
            first_line, last_line = group * at_once, min(lines, (group + 1) * at_once)
            for channel in range(0, channels, vector):
                to = v + element * channel // vector * v_panel
                for line in range(first_line, last_line):
                    image = line // rows
                    plane = (image * channels + channel) * rows + line - image * rows
                    q[CollectLine.source] = w[Block.x] + w[Block.source_bytes] * plane * w[Block.width]
                    q[CollectLine.plane], q[CollectLine.width] = rows * w[Block.width], w[Block.width]
                    q[CollectLine.known], q[CollectLine.first] = min(vector, channels - channel), start - w[Block.pad]
                    q[CollectLine.length], q[CollectLine.seen] = (4 * turns + taps - 1) * dilation, seen
                    call3(w[Block.collect_line], inner, 0, 1)
                    for turn in range(turns):
                        at = seen + element * vector * 4 * dilation * turn
                        for _ in range(min(dilation, count - 4 * dilation * turn)):
                            input_column((at, dilation * vector, to, v_step))
                            at += element * vector
                            to += element * vector
            tiles = ((to - v) // element - (channels - 1) // vector * v_panel) // vector
            for chunk in range((panels * tile_columns + m_row - 1) // m_row):
                k0 = chunk * m_row
                taken = min(m_row, maps - k0)
                weights = u + element * products * u_step * (k0 // tile_columns)
                multiply(channels, tiles, taken, v, v_panel, v_step, weights, u_step, m, m_row, m_step)
                for k in range(0, taken, vector):
                    at, bias_at = m + element * k, inner + w[Block.bias_start] + element * (k0 + k)
                    for line in range(first_line, last_line):
                        for turn in range(turns):
                            to = results + element * vector * 4 * dilation * turn
                            for _ in range(min(dilation, count - 4 * dilation * turn)):
                                output_column((at, m_step, to, dilation * vector, bias_at))
                                at += element * m_row
                                to += element * vector
                        image = line // rows
                        plane = (image * maps + k0 + k) * rows + line - image * rows
                        place = plane * w[Block.result_width] + start
                        deliver(w, place, min(vector, taken - k), count, results)
        return 0

    return winograd_lines


WINOGRAD_LINES = {
    3: kernels_by_dtype("winograd_lines", _build, 3),
    7: kernels_by_dtype("winograd_lines_7", _build, 7),
}
"""By the taps of a kernel, then by dtype."""


def prepare(problem: Problem, weight_size: int, biases: Sequence[bool]) -> Prepared:
    """The convolution of a problem that `suits`; biases: for each input behind the weight, whether it is there."""
    dtype, taps, products = problem.dtype, problem.taps, problem.products
    lanes, lines = lanes_of(dtype), problem.images * problem.rows
    width = -(-problem.maps // lanes.columns) * lanes.columns
    depth = -(-problem.channels // lanes.vector) * lanes.vector
    maps_at_once = min(width, _MAPS_AT_ONCE)
    work_us = 2.0 * products * lines * problem.tiles * depth * width / _FLOPS_PER_US
    turn = _RESULTS * problem.dilation
    turns = -(-problem.result // turn)
    # Each share transforms all weights.
    wanted = max(1, min(share_count(work_us, lines * turns), lines * problem.tiles // 24))
    tiles = max(1, _BLOCK_BYTES // (products * SIZES[dtype] * (depth + maps_at_once)))
    chunks = max(1, min(turns, max(-(-problem.tiles // tiles), -(-wanted // lines))))
    span = -(-turns // chunks) * turn
    chunks = -(-problem.result // span)
    lines_at_once = 1
    if chunks == 1:
        lines_at_once = max(1, min(tiles // problem.tiles, -(-lines // wanted)))
    tiles_at_once = -(-lines_at_once * _tiles(min(span, problem.result), problem.dilation) // lanes.rows) * lanes.rows
    sizes = {
        "bias_start": width,
        "weights_start": transformed_bytes(problem.channels, problem.maps, dtype, taps) // SIZES[dtype],
        "taps_start": taps_bytes(dtype, taps) // SIZES[dtype],
        "tiles_start": products * (tiles_at_once * depth + lanes.vector),
        "products_start": products * (tiles_at_once * maps_at_once + lanes.vector),
        "seen_start": lanes.vector * (span + (taps - 1) * problem.dilation + 2 * lanes.vector),
        "results_start": lanes.vector * (span + lanes.vector),
    }
    starts = piece_starts(BLOCK_BYTES, {name: SIZES[dtype] * size for name, size in sizes.items()})
    parts = fitting_shares(min(wanted, -(-lines // lines_at_once) * chunks), starts["share_bytes"])
    words = filled(
        Block,
        images=problem.images,
        channels=problem.channels,
        maps=problem.maps,
        rows=problem.rows,
        width=problem.source,
        result_width=problem.result,
        pad=problem.pad,
        dilation=problem.dilation,
        chunks=chunks,
        span=span,
        lines_at_once=lines_at_once,
        tiles_at_once=tiles_at_once,
        maps_at_once=maps_at_once,
        weight_map=problem.weight_map,
        weight_channel=problem.weight_channel,
        first_tap=taps - 1 if problem.turned else 0,
        tap_step=-1 if problem.turned else 1,
        weight_size=weight_size,
        collect_line=COLLECT_LINE[dtype].address(),
        source_bytes=SIZES[dtype],
        transform=TRANSFORM_WEIGHTS[taps][dtype].address(),
        **starts,
    )
    strides = problem.weight_map, problem.weight_channel
    transformed = weights_transformed(
        Block.transformed,
        problem.channels,
        problem.maps,
        strides,
        weight_size,
        dtype,
        taps=taps,
        turned=problem.turned,
    )
    return launch(
        WINOGRAD_LINES[taps][dtype],
        words,
        (Block.x, Block.weight, *optional_words(Block.bias, biases), Block.y, Block.workspace),
        parts=parts,
        workspace=starts["share_bytes"] * parts,
        after={0: Block.after},
        packs=(transformed,),
        note=f"winograd 4 of {taps} taps along one axis, {tiles_at_once} tiles at once",
    )
