"""The gradient of a convolution with respect to its weight with the maps in the lanes, in float32.

Per image, gy is transposed to positions of vectors of maps, and x to padded positions of channels: all of them if they
are few, else a vector of them. There, what the windows of a position see along a row of the kernel lies in order, a run
of columns times channels; a register tile adds, position after position, some of a run, for some rows of the kernel,
times the maps' vector. Neither stride nor small images waste anything.

Block (64-bit words):
    0 COLLECT_ROWS, 1 PACK
    2 x, 3 gy, 4 gw, 5 workspace, 6 bytes of it per share
    7 images, 8 groups, 9 channels, 10 height, 11 width       of x, channels per group
    12 maps, 13 rows, 14 columns                              of gy, maps per group
    15 kernel_h, 16 kernel_w, 17 pad_h, 18 pad_w, 19 stride_h, 20 stride_w, 21 dilation_h, 22 dilation_w
    23 lanes of the positions of x: the channels if they are few, else a vector's; 24 vectors of channels
    25 lines, 26 length                                       of padded x
    27 lines of the kernel: rows, or places if they are dilated; 28 places in each, 29 elements of its run
    30 kind of the tile, 31 its lines, 32 its elements
    33 to 37: where the pieces of a share's workspace begin, in bytes: sums, positions of gy, positions of x, transposed
        elements, a tile's lines; before them the block of a piece
Shares are made of tiles; each transposes all of x and gy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from atled.plugin import Prepared
from atled_cpu_numba.kernels.products.panels import BLOCK_WORDS, PACK, PACK_SLACK
from atled_cpu_numba.kernels.shared.geometry import Pair
from atled_cpu_numba.kernels.shared.image_runs import in_runs
from atled_cpu_numba.kernels.shared.lanes import host_lanes
from atled_cpu_numba.kernels.shared.launch import fitting_shares, launch, share_count
from atled_cpu_numba.kernels.winograd.rows import COLLECT_ROWS
from atled_cpu_numba.store import Kernel

# Lines of the kernel and elements of their runs in a tile: 25 sums and a vector of maps leave few of 32 registers.
_TILES = ((1, 16), (3, 4), (3, 9), (5, 5))
_FLOPS_PER_US = 120e3  # a cautious rate of one core, for the number of shares
_COPIED_PER_US = 2e3
_FEW_CHANNELS = 12  # up to this many, a vector would have too many empty lanes
_MOST_WASTE = 1.4  # lanes per map
_SLACK = 32  # elements that the last tile may read behind the last run


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


def suits(problem: Problem) -> bool:
    """Whether there are registers enough and the maps fill the lanes."""
    vector = host_lanes().vector
    return vector >= 16 and -(-problem.maps // vector) * vector <= _MOST_WASTE * problem.maps


def _build() -> Callable[..., int]:
    from atled_cpu_numba.codegen import call3, floats32, words
    from atled_cpu_numba.kernels.convolution.lane_tiles import make_run_tile
    from atled_cpu_numba.kernels.shared.options import kernel, piece
    from atled_cpu_numba.kernels.shared.vectors import copy_rows

    vector = host_lanes().vector
    tile_0, tile_1, tile_2, tile_3 = (make_run_tile(*shape) for shape in _TILES)

    @piece
    def collect_x(w, inner, image, group, x_at, flat):
        """The image's positions with their channels, padded."""
        channels, height, width, lanes, lines, length = w[9], w[10], w[11], w[23], w[25], w[26]
        size = height * width
        source = w[2] + 4 * (image * w[8] + group) * channels * size
        if lanes == vector and size >= vector:  # COLLECT_ROWS takes whole vectors
            q = words(inner)
            for first in range(0, channels, vector):
                q[0], q[1], q[2], q[3] = source + 4 * first * size, min(vector, channels - first), height, width
                q[4], q[5], q[6], q[7], q[8] = -w[17], lines, w[18], length, flat
                q[9] = x_at + 4 * first * lines * length
                call3(w[0], inner, 0, 1)
            return
        target = x_at + 4 * (w[17] * length + w[18]) * lanes
        if lanes == 1:
            copy_rows((source, width, target, length, height, width))
            return
        for i in range(height):
            for channel in range(channels):
                x = floats32(source + 4 * (channel * size + i * width))
                y = floats32(target + 4 * (i * length * lanes + channel))
                for j in range(width):
                    y[lanes * j] = x[j]

    @piece
    def accumulate(w, t, x_at, gy_at, sums_at, lines):
        """Add one image to the sums of tile `t` of a group."""
        kind, tile_lines, elements, kernel_lines = w[30], w[31], w[32], w[27]
        blocks = (w[29] + elements - 1) // elements
        tiles = (kernel_lines + tile_lines - 1) // tile_lines * blocks
        channel_vector = t // tiles
        maps_vector = channel_vector // w[24]
        line = (t - channel_vector * tiles) // blocks
        block = t - channel_vector * tiles - line * blocks
        channel_vector -= maps_vector * w[24]
        lanes, length = w[23], w[26]
        for i in range(tile_lines):
            number = min(line * tile_lines + i, kernel_lines - 1)  # what is beyond is dropped in the end
            row = number * w[28] // w[16]
            column = number * w[28] - row * w[16]
            words(lines)[i] = (row * w[21] * length + column * w[22]) * lanes
        x = x_at + 4 * (channel_vector * lanes * w[25] * length + block * elements)
        gy = gy_at + 4 * vector * maps_vector * w[13] * w[14]
        x_row, x_step = w[19] * length * lanes, w[20] * lanes
        if kind == 0:
            tile_0((x, lines, x_row, x_step, gy, w[13], w[14], sums_at))
        elif kind == 1:
            tile_1((x, lines, x_row, x_step, gy, w[13], w[14], sums_at))
        elif kind == 2:
            tile_2((x, lines, x_row, x_step, gy, w[13], w[14], sums_at))
        else:
            tile_3((x, lines, x_row, x_step, gy, w[13], w[14], sums_at))

    @piece
    def deliver(w, group, t, sums_at):
        """The sums of tile `t` to gw."""
        tile_lines, elements, kernel_lines, lanes = w[31], w[32], w[27], w[23]
        blocks = (w[29] + elements - 1) // elements
        tiles = (kernel_lines + tile_lines - 1) // tile_lines * blocks
        channel_vector = t // tiles
        maps_vector = channel_vector // w[24]
        line = (t - channel_vector * tiles) // blocks
        block = t - channel_vector * tiles - line * blocks
        first = (channel_vector - maps_vector * w[24]) * lanes
        places = w[15] * w[16]
        known = min(vector, w[12] - vector * maps_vector)
        gw_at = w[4] + 4 * (group * w[12] + vector * maps_vector) * w[9] * places
        for i in range(min(tile_lines, kernel_lines - line * tile_lines)):
            for e in range(min(elements, w[29] - block * elements)):
                beside = (block * elements + e) // lanes
                channel = first + block * elements + e - beside * lanes
                if channel < w[9]:
                    place = (line * tile_lines + i) * w[28] + beside
                    sums = floats32(sums_at + 4 * vector * (i * elements + e))
                    gw = floats32(gw_at + 4 * (channel * places + place))
                    for m in range(known):
                        gw[m * w[9] * places] = sums[m]

    @kernel
    def weight_lanes(block, part, parts):
        w = words(block)
        images, groups, maps, positions = w[7], w[8], w[12], w[13] * w[14]
        inner = w[5] + part * w[6]
        q = words(inner)
        sums_at, gy_at, x_at, flat, lines = inner + w[33], inner + w[34], inner + w[35], inner + w[36], inner + w[37]
        size = w[31] * w[32] * vector
        tiles = (w[27] + w[31] - 1) // w[31] * ((w[29] + w[32] - 1) // w[32])
        per_group = (maps + vector - 1) // vector * w[24] * tiles
        first, after = groups * per_group * part // parts, groups * per_group * (part + 1) // parts
        if first == after:
            return 0
        x = floats32(x_at)
        for i in range(w[24] * w[23] * w[25] * w[26] + _SLACK):
            x[i] = 0.0
        for group in range(first // per_group, (after + per_group - 1) // per_group):
            t0, t1 = max(0, first - group * per_group), min(per_group, after - group * per_group)
            sums = floats32(sums_at)
            for i in range((t1 - t0) * size):
                sums[i] = 0.0
            for image in range(images):
                collect_x(w, inner, image, group, x_at, flat)
                q[0], q[1], q[2] = w[3] + 4 * (image * groups + group) * maps * positions, positions, 1
                q[3], q[4], q[5], q[6] = maps, positions, gy_at, vector
                call3(w[1], inner, 0, 1)
                for t in range(t0, t1):
                    accumulate(w, t, x_at, gy_at, sums_at + 4 * (t - t0) * size, lines)
            for t in range(t0, t1):
                deliver(w, group, t, sums_at + 4 * (t - t0) * size)
        return 0

    return weight_lanes


WEIGHT_LANES = Kernel("weight_lanes", _build)


def prepare(problem: Problem) -> Prepared:
    """x, gy -> gw of a problem that `suits`."""
    p, vector = problem, host_lanes().vector
    height, width = p.source
    lanes = p.channels if p.channels <= _FEW_CHANNELS or height * width < vector else vector
    channel_vectors = -(-p.channels // lanes)
    # Beside one another, the columns of the kernel make one run.
    beside = p.kernel[1] if p.dilation[1] == 1 else 1
    kernel_lines, run = p.kernel[0] * p.kernel[1] // beside, lanes * beside
    kind = _choose_tile(kernel_lines, run)
    tile_lines, elements = _TILES[kind]
    tiles = -(-kernel_lines // tile_lines) * -(-run // elements)
    maps_vectors = -(-p.maps // vector)
    lines, length = height + 2 * p.pad[0], width + 2 * p.pad[1]
    positions = p.result[0] * p.result[1]

    images = p.images * p.groups
    work_us = 2.0 * images * positions * maps_vectors * vector * channel_vectors * tiles * tile_lines * elements
    work_us /= _FLOPS_PER_US
    copying_us = images * (height * width * p.channels + positions * p.maps) / _COPIED_PER_US
    pieces = p.groups * maps_vectors * channel_vectors * tiles
    parts = share_count(work_us, pieces)
    if p.groups == 1:
        parts = min(parts, 1 + int(0.2 * work_us / copying_us))
    # A share may get all tiles of a group: fewer threads may run than there are shares.
    sums = maps_vectors * channel_vectors * tiles * tile_lines * elements * vector
    sizes = [sums, maps_vectors * vector * positions + PACK_SLACK]
    sizes += [channel_vectors * lanes * lines * length + _SLACK, vector * (lines * width + vector), 2 * tile_lines]
    starts = [8 * BLOCK_WORDS]
    for size in sizes:
        starts.append(starts[-1] + -(-4 * size // 64) * 64)
    share_bytes = starts.pop()
    parts = fitting_shares(parts, share_bytes)
    words = [COLLECT_ROWS.address(), PACK.address(), 0, 0, 0, 0, share_bytes, p.images, p.groups, p.channels, *p.source]
    words += [p.maps, *p.result, *p.kernel, *p.pad, *p.stride, *p.dilation, lanes, channel_vectors, lines, length]
    words += [kernel_lines, beside, run, kind, tile_lines, elements, *starts]
    assert len(words) == 38
    note = f"maps in lanes, {tile_lines}x{elements} elements of the kernel at once"
    prepared = launch(WEIGHT_LANES, words, (2, 3, 4, 5), parts=parts, workspace=share_bytes * parts, note=note)
    if pieces > 1:
        return prepared
    image_bytes = 4 * p.channels * height * width, 4 * p.maps * positions
    size = p.maps * p.channels * p.kernel[0] * p.kernel[1]
    return in_runs(prepared, images=p.images, images_word=7, image_bytes=image_bytes, size=size, work_us=work_us)


def _choose_tile(lines: int, run: int) -> int:
    """The number of the tile that takes the fewest cycles: two sums in each, or two loads."""

    def cycles(tile: tuple[int, int]) -> float:
        tiles = -(-lines // tile[0]) * -(-run // tile[1])
        return tiles * (max(8, tile[0] * tile[1]) + 2)

    return min(range(len(_TILES)), key=lambda kind: cycles(_TILES[kind]))
