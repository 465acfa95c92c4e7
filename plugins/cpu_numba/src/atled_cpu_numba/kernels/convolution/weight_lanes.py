"""The gradient of a convolution with respect to its weight with the maps in the lanes, in float32.

Per image, gy is transposed to positions of vectors of maps, and x to padded positions of channels: all of them if they
are few, else a vector of them. There, what the windows of a position see along a row of the kernel lies in order, a run
of columns times channels; a register tile adds, position after position, some of a run, for some rows of the kernel,
times the maps' vector. Neither stride nor small images waste anything.

Shares are made of tiles; each transposes all of x and gy.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from atled.plugin import NamedTuple, Prepared
from atled_cpu_numba.kernels.products.panels import BLOCK_WORDS, PACK, PACK_SLACK, Pack
from atled_cpu_numba.kernels.shared.geometry import Pair
from atled_cpu_numba.kernels.shared.image_runs import in_runs
from atled_cpu_numba.kernels.shared.lanes import SIZES, host_lanes, lanes_of
from atled_cpu_numba.kernels.shared.launch import fitting_shares, kernels_by_dtype, launch, piece_starts, share_count
from atled_cpu_numba.kernels.shared.layout import filled, layout
from atled_cpu_numba.kernels.winograd.rows import COLLECT_ROWS, CollectRows

# Lines of the kernel and elements of their runs in a tile: 25 sums and a vector of maps leave few of 32 registers.
_TILES = ((1, 16), (3, 4), (3, 9), (5, 5))
_FLOPS_PER_US = 120e3  # a cautious rate of one core, for the number of shares
_COPIED_PER_US = 2e3
_FEW_CHANNELS = 12  # up to this many, a vector would have too many empty lanes
_MOST_WASTE = 1.4  # lanes per map
_SLACK = 32  # elements that the last tile may read behind the last run


@layout
class Block:
    """What the kernel reads; starts in bytes from a share's workspace."""

    collect_rows: int  # address of COLLECT_ROWS
    pack: int  # address of PACK
    x: int
    gy: int
    gw: int
    workspace: int
    share_bytes: int  # of workspace, which begins with the block of a piece
    images: int
    groups: int
    channels: int  # of x, per group
    height: int
    width: int
    maps: int  # of gy, per group
    rows: int
    columns: int
    kernel_h: int
    kernel_w: int
    pad_h: int
    pad_w: int
    stride_h: int
    stride_w: int
    dilation_h: int
    dilation_w: int
    lanes: int  # of the positions of x: the channels if they are few, else a vector's
    channel_vectors: int
    lines: int  # of padded x
    length: int
    kernel_lines: int  # rows, or places if they are dilated
    beside: int  # places in each line
    run: int  # elements of a line's run
    tile: int  # its kind
    tile_lines: int
    tile_elements: int
    sums_start: int
    gy_start: int  # of positions of gy
    x_start: int  # of positions of x
    flat_start: int  # of transposed elements
    lines_start: int  # of a tile's lines


class Problem(NamedTuple):
    """The gradient of a convolution over two axes; channels and maps are those of one group."""

    images: int
    groups: int
    channels: int
    maps: int
    source: Pair
    result: Pair
    kernel: Pair
    pad: Pair
    stride: Pair
    dilation: Pair
    dtype: str

    @property
    def padded(self) -> Pair:
        """Height and width of the source with its padding."""
        return self.source[0] + 2 * self.pad[0], self.source[1] + 2 * self.pad[1]


def suits(problem: Problem) -> bool:
    """Whether there are registers enough and the maps fill the lanes."""
    vector = lanes_of(problem.dtype).vector
    return host_lanes().vector >= 16 and -(-problem.maps // vector) * vector <= _MOST_WASTE * problem.maps


def _build(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import call3, ints64, words
    from atled_cpu_numba.kernels.convolution.lane_tiles import make_run_tile
    from atled_cpu_numba.kernels.shared.options import Real, kernel, piece
    from atled_cpu_numba.kernels.shared.vectors import make_copy_rows

    element, floats = SIZES[dtype], Real(dtype).pointer
    copy_rows = make_copy_rows(dtype)
    vector = lanes_of(dtype).vector
    tile_0, tile_1, tile_2, tile_3 = (make_run_tile(*shape, dtype) for shape in _TILES)

    @piece
    def collect_x(w, inner, image, group, x_at, flat):
        """The image's positions with their channels, padded."""
        channels, height, width, lanes = w[Block.channels], w[Block.height], w[Block.width], w[Block.lanes]
        lines, length = w[Block.lines], w[Block.length]
        size = height * width
        source = w[Block.x] + element * (image * w[Block.groups] + group) * channels * size
        if lanes == vector and size >= vector:  # COLLECT_ROWS takes whole vectors
            q = words(inner)
            for first in range(0, channels, vector):
                planes, known = source + element * first * size, min(vector, channels - first)
                q[CollectRows.source], q[CollectRows.known] = planes, known
                q[CollectRows.height], q[CollectRows.width] = height, width
                top, left = -w[Block.pad_h], w[Block.pad_w]
                q[CollectRows.top], q[CollectRows.lines], q[CollectRows.left] = top, lines, left
                q[CollectRows.length], q[CollectRows.flat] = length, flat
                q[CollectRows.padded] = x_at + element * first * lines * length
                call3(w[Block.collect_rows], inner, 0, 1)
            return
        target = x_at + element * (w[Block.pad_h] * length + w[Block.pad_w]) * lanes
        if lanes == 1:
            copy_rows((source, width, target, length, height, width))
            return
        for i in range(height):
            for channel in range(channels):
                x = floats(source + element * (channel * size + i * width))
                y = floats(target + element * (i * length * lanes + channel))
                for j in range(width):
                    y[lanes * j] = x[j]

    @piece
    def accumulate(w, t, x_at, gy_at, sums_at, lines):
        """Add one image to the sums of tile `t` of a group."""
        kind, tile_lines, elements = w[Block.tile], w[Block.tile_lines], w[Block.tile_elements]
        kernel_lines = w[Block.kernel_lines]
        blocks = (w[Block.run] + elements - 1) // elements
        tiles = (kernel_lines + tile_lines - 1) // tile_lines * blocks
        channel_vector = t // tiles
        maps_vector = channel_vector // w[Block.channel_vectors]
        line = (t - channel_vector * tiles) // blocks
        block = t - channel_vector * tiles - line * blocks
        channel_vector -= maps_vector * w[Block.channel_vectors]
        lanes, length = w[Block.lanes], w[Block.length]
        for i in range(tile_lines):
            number = min(line * tile_lines + i, kernel_lines - 1)  # what is beyond is dropped in the end
            row = number * w[Block.beside] // w[Block.kernel_w]
            column = number * w[Block.beside] - row * w[Block.kernel_w]
            ints64(lines)[i] = (row * w[Block.dilation_h] * length + column * w[Block.dilation_w]) * lanes
        x = x_at + element * (channel_vector * lanes * w[Block.lines] * length + block * elements)
        gy = gy_at + element * vector * maps_vector * w[Block.rows] * w[Block.columns]
        x_row, x_step = w[Block.stride_h] * length * lanes, w[Block.stride_w] * lanes
        if kind == 0:
            tile_0((x, lines, x_row, x_step, gy, w[Block.rows], w[Block.columns], sums_at))
        elif kind == 1:
            tile_1((x, lines, x_row, x_step, gy, w[Block.rows], w[Block.columns], sums_at))
        elif kind == 2:
            tile_2((x, lines, x_row, x_step, gy, w[Block.rows], w[Block.columns], sums_at))
        else:
            tile_3((x, lines, x_row, x_step, gy, w[Block.rows], w[Block.columns], sums_at))

    @piece
    def deliver(w, group, t, sums_at):
        """The sums of tile `t` to gw."""
        tile_lines, elements, kernel_lines = w[Block.tile_lines], w[Block.tile_elements], w[Block.kernel_lines]
        lanes = w[Block.lanes]
        blocks = (w[Block.run] + elements - 1) // elements
        tiles = (kernel_lines + tile_lines - 1) // tile_lines * blocks
        channel_vector = t // tiles
        maps_vector = channel_vector // w[Block.channel_vectors]
        line = (t - channel_vector * tiles) // blocks
        block = t - channel_vector * tiles - line * blocks
        first = (channel_vector - maps_vector * w[Block.channel_vectors]) * lanes
        places = w[Block.kernel_h] * w[Block.kernel_w]
        known = min(vector, w[Block.maps] - vector * maps_vector)
        gw_at = w[Block.gw] + element * (group * w[Block.maps] + vector * maps_vector) * w[Block.channels] * places
        for i in range(min(tile_lines, kernel_lines - line * tile_lines)):
            for e in range(min(elements, w[Block.run] - block * elements)):
                beside = (block * elements + e) // lanes
                channel = first + block * elements + e - beside * lanes
                if channel < w[Block.channels]:
                    place = (line * tile_lines + i) * w[Block.beside] + beside
                    sums = floats(sums_at + element * vector * (i * elements + e))
                    gw = floats(gw_at + element * (channel * places + place))
                    for m in range(known):
                        gw[m * w[Block.channels] * places] = sums[m]

    @kernel
    def weight_lanes(block, part, parts):
        w = words(block)
        images, groups, maps = w[Block.images], w[Block.groups], w[Block.maps]
        positions = w[Block.rows] * w[Block.columns]
        inner = w[Block.workspace] + part * w[Block.share_bytes]
        q = words(inner)
        sums_at, gy_at, x_at = inner + w[Block.sums_start], inner + w[Block.gy_start], inner + w[Block.x_start]
        flat, lines = inner + w[Block.flat_start], inner + w[Block.lines_start]
        size = w[Block.tile_lines] * w[Block.tile_elements] * vector
        tiles = (
            (w[Block.kernel_lines] + w[Block.tile_lines] - 1)
            // w[Block.tile_lines]
            * ((w[Block.run] + w[Block.tile_elements] - 1) // w[Block.tile_elements])
        )
        per_group = (maps + vector - 1) // vector * w[Block.channel_vectors] * tiles
        first, after = groups * per_group * part // parts, groups * per_group * (part + 1) // parts
        if first == after:
            return 0
        x = floats(x_at)
        for i in range(w[Block.channel_vectors] * w[Block.lanes] * w[Block.lines] * w[Block.length] + _SLACK):
            x[i] = 0.0
        for group in range(first // per_group, (after + per_group - 1) // per_group):
            t0, t1 = max(0, first - group * per_group), min(per_group, after - group * per_group)
            sums = floats(sums_at)
            for i in range((t1 - t0) * size):
                sums[i] = 0.0
            for image in range(images):
                collect_x(w, inner, image, group, x_at, flat)
                gy = w[Block.gy] + element * (image * groups + group) * maps * positions
                q[Pack.source], q[Pack.row], q[Pack.column] = gy, positions, 1
                q[Pack.rows], q[Pack.k], q[Pack.target], q[Pack.width] = maps, positions, gy_at, vector
                call3(w[Block.pack], inner, 0, 1)
                for t in range(t0, t1):
                    accumulate(w, t, x_at, gy_at, sums_at + element * (t - t0) * size, lines)
            for t in range(t0, t1):
                deliver(w, group, t, sums_at + element * (t - t0) * size)
        return 0

    return weight_lanes


WEIGHT_LANES = kernels_by_dtype("weight_lanes", _build)


def prepare(problem: Problem) -> Prepared:
    """x, gy -> gw of a problem that `suits`."""
    p, t = problem, _tiling(problem)
    starts = _starts(p, t)
    work_us = 2.0 * p.images * p.groups * math.prod(p.result) * t.sums / _FLOPS_PER_US
    parts = fitting_shares(_share_count(p, t, work_us), starts["share_bytes"])
    tile_lines, tile_elements = _TILES[t.tile]
    words = filled(
        Block,
        collect_rows=COLLECT_ROWS[p.dtype].address(),
        pack=PACK[p.dtype].address(),
        images=p.images,
        groups=p.groups,
        channels=p.channels,
        height=p.source[0],
        width=p.source[1],
        maps=p.maps,
        rows=p.result[0],
        columns=p.result[1],
        kernel_h=p.kernel[0],
        kernel_w=p.kernel[1],
        pad_h=p.pad[0],
        pad_w=p.pad[1],
        stride_h=p.stride[0],
        stride_w=p.stride[1],
        dilation_h=p.dilation[0],
        dilation_w=p.dilation[1],
        lanes=t.lanes,
        channel_vectors=t.channel_vectors,
        lines=p.padded[0],
        length=p.padded[1],
        kernel_lines=t.kernel_lines,
        beside=t.beside,
        run=t.run,
        tile=t.tile,
        tile_lines=tile_lines,
        tile_elements=tile_elements,
        **starts,
    )
    prepared = launch(
        WEIGHT_LANES[p.dtype],
        words,
        (Block.x, Block.gy, Block.gw, Block.workspace),
        parts=parts,
        workspace=starts["share_bytes"] * parts,
        note=f"maps in lanes, {tile_lines}x{tile_elements} elements of the kernel at once",
    )
    if p.groups * t.pieces > 1:
        return prepared
    return in_runs(
        prepared,
        images=p.images,
        images_word=Block.images,
        image_bytes=(SIZES[p.dtype] * p.channels * math.prod(p.source), SIZES[p.dtype] * p.maps * math.prod(p.result)),
        size=p.maps * p.channels * math.prod(p.kernel),
        work_us=work_us,
        dtype=p.dtype,
    )


class _Tiling(NamedTuple):
    """How the gradient is divided into register tiles.

    lanes: of the positions of x.  channel_vectors, maps_vectors: of a group.  beside: places in a line of the kernel.
    run: elements of a line's run.  tile: the number of one of _TILES.  vector: lanes of one.
    """

    lanes: int
    channel_vectors: int
    maps_vectors: int
    beside: int
    kernel_lines: int
    run: int
    tile: int
    vector: int

    @property
    def pieces(self) -> int:
        """Tiles of a group."""
        lines, elements = _TILES[self.tile]
        return self.maps_vectors * self.channel_vectors * -(-self.kernel_lines // lines) * -(-self.run // elements)

    @property
    def sums(self) -> int:
        """Elements of a group's tiles."""
        return self.pieces * math.prod(_TILES[self.tile]) * self.vector


def _tiling(p: Problem) -> _Tiling:
    vector = lanes_of(p.dtype).vector
    lanes = p.channels if p.channels <= _FEW_CHANNELS or math.prod(p.source) < vector else vector
    # Beside one another, the columns of the kernel make one run.
    beside = p.kernel[1] if p.dilation[1] == 1 else 1
    kernel_lines, run = math.prod(p.kernel) // beside, lanes * beside
    vectors = -(-p.channels // lanes), -(-p.maps // vector)
    return _Tiling(lanes, *vectors, beside, kernel_lines, run, _choose_tile(kernel_lines, run), vector)


def _share_count(p: Problem, t: _Tiling, work_us: float) -> int:
    parts = share_count(work_us, p.groups * t.pieces)
    if p.groups > 1:
        return parts
    copying_us = p.images * (math.prod(p.source) * p.channels + math.prod(p.result) * p.maps) / _COPIED_PER_US
    return min(parts, 1 + int(0.2 * work_us / copying_us))


def _starts(p: Problem, t: _Tiling) -> dict[str, int]:
    """Words of the block: where the pieces of a share's workspace begin, and how many bytes it takes."""
    vector, (lines, length) = t.vector, p.padded
    sizes = {
        # A share may get all tiles of a group: fewer threads may run than there are shares.
        "sums_start": t.sums,
        "gy_start": t.maps_vectors * vector * math.prod(p.result) + PACK_SLACK,
        "x_start": t.channel_vectors * t.lanes * lines * length + _SLACK,
        "flat_start": vector * (lines * p.source[1] + vector),
        "lines_start": 2 * _TILES[t.tile][0],
    }
    return piece_starts(8 * BLOCK_WORDS, {name: SIZES[p.dtype] * size for name, size in sizes.items()})


def _choose_tile(lines: int, run: int) -> int:
    """The number of the tile that takes the fewest cycles: two sums in each, or two loads."""

    def cycles(tile: tuple[int, int]) -> float:
        tiles = -(-lines // tile[0]) * -(-run // tile[1])
        return tiles * (max(8, tile[0] * tile[1]) + 2)

    return min(range(len(_TILES)), key=lambda kind: cycles(_TILES[kind]))
