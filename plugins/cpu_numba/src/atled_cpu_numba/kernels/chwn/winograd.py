"""Convolution with 3 x 3 kernels and stride 1 by Winograd's F(4x4, 3x3), batch innermost, in float32.

Tiles are transformed with the same element of many images in the lanes, read where they are and written where they are
to be; only what reaches beyond a border goes through a stage. In between stand 36 products of matrices,
(maps, channels) by (channels, tiles times images). It is as accurate as `kernels.winograd.forward`.

Shares are made of tiles and images; each transforms all weights.
"""

from __future__ import annotations

from collections.abc import Callable

from atled.plugin import Prepared
from atled_cpu_numba.kernels.chwn.problem import Problem
from atled_cpu_numba.kernels.chwn.tiles import SIDE
from atled_cpu_numba.kernels.shared.lanes import host_lanes
from atled_cpu_numba.kernels.shared.launch import fitting_shares, launch, optional_words, piece_starts, share_count
from atled_cpu_numba.kernels.shared.layout import filled, layout
from atled_cpu_numba.kernels.winograd import forward as planes
from atled_cpu_numba.store import Kernel

_BLOCK_BYTES = 640 << 10  # of transformed tiles and products at once, most of a level-2 cache
_FLOPS_PER_US = 90e3  # a cautious rate of one core, transformations included, for the number of shares
_LEAST_UNITS = 24  # of a share: below, transforming the weights takes longer than it saves


@layout
class Block:
    """What the kernel reads; strides in elements, starts in bytes from a share's workspace."""

    x: int  # address of x or gy
    weight: int
    bias: int  # or 0
    y: int  # or gx
    workspace: int
    share_bytes: int
    images: int
    channels: int
    height: int  # of the source
    width: int
    maps: int
    result_height: int
    result_width: int
    pad_h: int
    pad_w: int
    tile_lines: int  # rows of tiles
    tiles_in_line: int
    units_at_once: int  # tiles of a vector of images; a multiple of the vectors of a panel
    depth: int  # maps, in whole vectors
    x_channel: int
    x_row: int
    x_column: int
    y_image: int
    y_map: int
    y_row: int
    y_column: int
    weight_map: int
    weight_channel: int
    weight_row: int
    weight_column: int
    weight_first: int  # element of the first tap; the gradient turns the kernel around
    taps_start: int  # of kernels, for a vector of channels by one of maps
    bias_start: int
    weights_start: int  # of transformed weights
    tiles_start: int  # of transformed tiles
    products_start: int
    stage_start: int  # a tile


def planar(problem: Problem) -> planes.Problem:
    """The same, but for strides, as a problem of images in planes."""
    height, width = problem.axes[1:]
    source, result = (height.source, width.source), (height.result, width.result)
    pad = (height.pad, width.pad) if problem.forward else (2 - height.pad, 2 - width.pad)
    sizes = (problem.images, problem.channels, problem.maps, source, result, pad)
    return planes.Problem(*sizes, 0, 0, turned=not problem.forward)


def is_3x3(problem: Problem) -> bool:
    """Whether the kernel is one of 3 x 3 in a plane, with stride 1 and no dilation."""
    depth, height, width = problem.axes
    same = all((axis.kernel, axis.stride, axis.dilation) == (3, 1, 1) for axis in (height, width))
    return same and depth.is_passed_through and depth.source == 1


def suits(problem: Problem) -> bool:
    """Whether Winograd is allowed and pays."""
    return is_3x3(problem) and planes.suits(planar(problem))


def _build() -> Callable[..., int]:
    from atled_cpu_numba.codegen import floats32, words
    from atled_cpu_numba.kernels.chwn.tiles import make_put, make_read_tile, make_taken
    from atled_cpu_numba.kernels.shared.options import kernel, piece
    from atled_cpu_numba.kernels.shared.vectors import make_copy, transpose_block
    from atled_cpu_numba.kernels.winograd.blocks import make_outer_tile, tiles_of

    apart_output_tile, weight_tile = tiles_of("float32").apart_output, tiles_of("float32").weight
    lanes = host_lanes()
    vector, tile_rows, tile_columns = lanes.vector, lanes.rows, lanes.columns
    vectors = tile_columns // vector
    third, two_thirds = tile_rows // 3, 2 * tile_rows // 3
    full = make_outer_tile(tile_rows, vectors, tile_columns)
    lower = make_outer_tile(two_thirds, vectors, tile_columns)
    lowest = make_outer_tile(third, vectors, tile_columns)
    copy = make_copy(vector)
    read_tile, put, taken = make_read_tile(), make_put(), make_taken()

    @piece
    def transform_weights(w, taps_at, target, step):
        """Per product and channel a row of maps."""
        channels, maps, depth = w[Block.channels], w[Block.maps], w[Block.depth]
        map_step, channel_step = w[Block.weight_map], w[Block.weight_channel]
        for m in range(0, maps, vector):
            known = min(vector, maps - m)
            for first in range(0, channels, vector):
                count = min(vector, channels - first)
                start = w[Block.weight_first] + m * map_step + first * channel_step
                for tap in range(9):
                    column = tap % 3 * w[Block.weight_column]
                    at = w[Block.weight] + 4 * (start + tap // 3 * w[Block.weight_row] + column)
                    to = taps_at + 4 * vector * vector * tap
                    if map_step == 1 and known == vector:
                        for c in range(count):
                            copy((at + 4 * c * channel_step, to + 4 * vector * c))
                    elif channel_step == 1 and count == vector:
                        transpose_block((at, map_step, known, to, vector))
                    else:
                        for c in range(count):
                            for k in range(known):
                                element = floats32(at + 4 * (c * channel_step + k * map_step))[0]
                                floats32(to + 4 * vector * c)[k] = element
                for c in range(count):
                    to = target + 4 * ((first + c) * depth + m)
                    weight_tile((taps_at + 4 * vector * c, vector * vector, to, step))

    @piece
    def multiply(w, panels, u, u_step, v, v_step, m, m_step):
        """The 36 products of transformed weights and tiles."""
        channels, maps, depth = w[Block.channels], w[Block.maps], w[Block.depth]
        for _ in range(36):
            for panel in range(panels):
                b, c = v + 4 * panel * channels * tile_columns, m + 4 * panel * depth * tile_columns
                r = 0
                while r < maps:
                    left, to = taken(maps - r), c + 4 * r * tile_columns
                    if left > two_thirds:
                        full((channels, u + 4 * r, depth, b, to, 0))
                    elif left > third:
                        lower((channels, u + 4 * r, depth, b, to, 0))
                    else:
                        lowest((channels, u + 4 * r, depth, b, to, 0))
                    r += left
            u += 4 * u_step
            v += 4 * v_step
            m += 4 * m_step

    @piece
    def deliver(w, m, m_step, bias_at, top, left, stage, y):
        """A tile of results to y."""
        rows, columns = min(4, w[Block.result_height] - top), min(4, w[Block.result_width] - left)
        target = y + 4 * (top * w[Block.y_row] + left * w[Block.y_column])
        to, row, column = stage, 4 * vector, vector
        whole = rows == 4 and columns == 4 and w[Block.y_image] == 1
        if whole:
            to, row, column = target, w[Block.y_row], w[Block.y_column]
        apart_output_tile((m, m_step, to, row, column, bias_at))
        if not whole:
            for i in range(rows):
                for j in range(columns):
                    at = target + 4 * (i * w[Block.y_row] + j * w[Block.y_column])
                    put(stage + 4 * vector * (4 * i + j), at, w[Block.y_image])

    @kernel
    def chwn_winograd(block, part, parts):
        w = words(block)
        images, channels, maps, depth = w[Block.images], w[Block.channels], w[Block.maps], w[Block.depth]
        tiles_in_line, at_once = w[Block.tiles_in_line], w[Block.units_at_once]
        inner = w[Block.workspace] + part * w[Block.share_bytes]
        bias_at, u, v = inner + w[Block.bias_start], inner + w[Block.weights_start], inner + w[Block.tiles_start]
        m, stage = inner + w[Block.products_start], inner + w[Block.stage_start]
        per_tile = (images + vector - 1) // vector
        units = w[Block.tile_lines] * tiles_in_line * per_tile
        blocks = (units + at_once - 1) // at_once
        b0, b1 = blocks * part // parts, blocks * (part + 1) // parts
        if b0 == b1:
            return 0
        # A vector more than needed: a power of two apart, all 36 would compete for the same lines of the cache.
        u_step = channels * depth + vector
        v_step = at_once // vectors * channels * tile_columns + vector
        m_step = at_once // vectors * depth * tile_columns + vector
        transform_weights(w, inner + w[Block.taps_start], u, u_step)
        bias = floats32(bias_at)
        for k in range(maps):
            for i in range(vector):
                bias[vector * k + i] = floats32(w[Block.bias])[k] if w[Block.bias] != 0 else 0.0
        for b in range(b0, b1):
            first, after = b * at_once, min(units, (b + 1) * at_once)
            for channel in range(channels):
                x = w[Block.x] + 4 * channel * w[Block.x_channel]
                for unit in range(first, after):
                    tile = unit // per_tile
                    # The last vector of images overlaps the one before it.
                    image = min((unit - tile * per_tile) * vector, images - vector)
                    line = tile // tiles_in_line
                    top, left = 4 * line - w[Block.pad_h], 4 * (tile - line * tiles_in_line) - w[Block.pad_w]
                    panel = (unit - first) // vectors
                    to = v + 4 * ((panel * channels + channel) * tile_columns + (unit - first) % vectors * vector)
                    height, width = w[Block.height], w[Block.width]
                    row, column = w[Block.x_row], w[Block.x_column]
                    read_tile(
                        x + 4 * image, row, column, top, left, height, width, stage, to, v_step, 4 * w[Block.x_channel]
                    )
            multiply(w, (after - first + vectors - 1) // vectors, u, u_step, v, v_step, m, m_step)
            for k in range(maps):
                for unit in range(first, after):
                    tile = unit // per_tile
                    image = min((unit - tile * per_tile) * vector, images - vector)
                    line = tile // tiles_in_line
                    panel = (unit - first) // vectors
                    at = m + 4 * ((panel * depth + k) * tile_columns + (unit - first) % vectors * vector)
                    y = w[Block.y] + 4 * (image * w[Block.y_image] + k * w[Block.y_map])
                    left = 4 * (tile - line * tiles_in_line)
                    deliver(w, at, m_step, bias_at + 4 * vector * k, 4 * line, left, stage, y)
        return 0

    return chwn_winograd


CHWN_WINOGRAD = Kernel("chwn_winograd", _build)


def prepare(problem: Problem) -> Prepared:
    """The convolution or adjoint of a problem that `suits`."""
    lanes, flat = host_lanes(), planar(problem)
    vector, vectors = lanes.vector, lanes.columns // lanes.vector
    depth = -(-problem.maps // vector) * vector
    lines, in_line = flat.tiles
    units = lines * in_line * -(-problem.images // vector)
    panels = max(2, _BLOCK_BYTES // (4 * 36 * (problem.channels + depth) * lanes.columns))
    at_once = min(panels, -(-units // vectors)) * vectors
    sizes = {
        "taps_start": 9 * vector * vector,
        "bias_start": vector * problem.maps,
        "weights_start": 36 * (problem.channels * depth + vector),
        "tiles_start": 36 * (at_once * vector * problem.channels + vector),
        "products_start": 36 * (at_once * vector * depth + vector),
        "stage_start": SIDE * SIDE * vector,
    }
    starts = piece_starts(0, {name: 4 * size for name, size in sizes.items()})
    work_us = 2.0 * 36 * units * vector * problem.channels * depth / _FLOPS_PER_US / 2.25
    parts = share_count(work_us, max(1, min(-(-units // at_once), units // _LEAST_UNITS)))
    parts = fitting_shares(parts, starts["share_bytes"])
    row, column = problem.weight[3:]
    words = filled(
        Block,
        images=problem.images,
        channels=problem.channels,
        height=flat.source[0],
        width=flat.source[1],
        maps=problem.maps,
        result_height=flat.result[0],
        result_width=flat.result[1],
        pad_h=flat.pad[0],
        pad_w=flat.pad[1],
        tile_lines=lines,
        tiles_in_line=in_line,
        units_at_once=at_once,
        depth=depth,
        x_channel=problem.source[1],
        x_row=problem.source[3],
        x_column=problem.source[4],
        y_image=problem.result[0],
        y_map=problem.result[1],
        y_row=problem.result[3],
        y_column=problem.result[4],
        weight_map=problem.weight[0],
        weight_channel=problem.weight[1],
        weight_row=row if problem.forward else -row,
        weight_column=column if problem.forward else -column,
        weight_first=0 if problem.forward else 2 * (row + column),
        **starts,
    )
    biased = optional_words(Block.bias, problem.biases)
    return launch(
        CHWN_WINOGRAD,
        words,
        (Block.x, Block.weight, *biased, Block.y, Block.workspace),
        parts=parts,
        workspace=starts["share_bytes"] * parts,
        note=f"winograd 4x4, batch innermost, {at_once} tiles at once of {vector} images",
    )
