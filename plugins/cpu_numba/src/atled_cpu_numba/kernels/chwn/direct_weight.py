"""The gradient with respect to the weight as direct sums, for images with the batch innermost, in float32.

Each element of gw is a sum over positions and images. gy is transposed, a few positions at once, to a vector of maps
for each image; x is read where it is, image by image, for all taps and channels of one row of gy.

Shares are made of taps and channels; each transposes gy for itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from atled.plugin import Prepared
from atled_cpu_numba.kernels.chwn.axes import AXIS_WORDS, AxisWords, put_axes
from atled_cpu_numba.kernels.chwn.problem import Problem
from atled_cpu_numba.kernels.chwn.row_sums import BLOCK_BYTES, ROW_SUMS, RowSums
from atled_cpu_numba.kernels.shared.lanes import host_lanes
from atled_cpu_numba.kernels.shared.launch import fitting_shares, launch, piece_starts, share_count
from atled_cpu_numba.kernels.shared.layout import filled, layout
from atled_cpu_numba.store import Kernel

_FLOPS_PER_US = 120e3  # a cautious rate of one core, for the number of shares
_TERMS_AT_ONCE = 128  # of a sum: what is transposed of gy for them stays in the level-1 cache


@layout
class Block:
    """What the kernel reads; strides in elements, starts in bytes from a share's workspace."""

    x: int  # address
    gy: int
    gw: int
    workspace: int
    share_bytes: int  # of workspace, which begins with the block of ROW_SUMS
    shared_bytes: int  # before the workspaces of the shares: the sums, each share in its part
    images: int
    channels: int
    maps: int
    depth: int = AXIS_WORDS
    height: int = AXIS_WORDS
    width: int = AXIS_WORDS
    x_channel: int
    gy_map: int
    gw_map: int
    gw_channel: int
    columns_at_once: int  # positions of a row of gy
    image_chunks: int
    row_sums: int  # address of ROW_SUMS
    table_start: int
    maps_start: int  # of transposed gy


def _build() -> Callable[..., int]:
    from atled_cpu_numba.codegen import call3, floats32, words
    from atled_cpu_numba.kernels.shared.options import kernel, piece
    from atled_cpu_numba.kernels.shared.vectors import transpose_block

    lanes = host_lanes()
    vector, tile_rows, tile_columns = lanes.vector, lanes.rows, lanes.columns

    @piece
    def make_table(w, depth, height, width, table):
        """Per tap and channel the place of its elements behind the corner of a window."""
        row = 0
        for i in range(depth[AxisWords.kernel]):
            for j in range(height[AxisWords.kernel]):
                for k in range(width[AxisWords.kernel]):
                    at = i * depth[AxisWords.dilation] * depth[AxisWords.x]
                    at += j * height[AxisWords.dilation] * height[AxisWords.x]
                    at += k * width[AxisWords.dilation] * width[AxisWords.x]
                    for channel in range(w[Block.channels]):
                        table[row] = at + channel * w[Block.x_channel]
                        row += 1

    @piece
    def first_inside(axis, tap):
        """The first place along an axis whose window has a tap inside."""
        outside = axis[AxisWords.pad] - tap * axis[AxisWords.dilation]
        return max(0, (outside + axis[AxisWords.stride] - 1) // axis[AxisWords.stride])

    @piece
    def after_inside(axis, tap):
        """The place behind the last such one."""
        last = axis[AxisWords.source] - 1 + axis[AxisWords.pad] - tap * axis[AxisWords.dilation]
        return min(axis[AxisWords.result], last // axis[AxisWords.stride] + 1)

    @piece
    def transpose(w, column, first, gy, columns, count, target):
        """Some maps of some positions: per position and image the maps."""
        for m in range(0, min(tile_columns, w[Block.maps] - first), vector):
            for q in range(columns):
                at = gy + 4 * ((first + m) * w[Block.gy_map] + q * column)
                for n in range(0, count, vector):
                    here = min(n, count - vector)
                    to = target + 4 * ((q * count + here) * tile_columns + m)
                    known = min(vector, w[Block.maps] - first - m)
                    transpose_block((at + 4 * here, w[Block.gy_map], known, to, tile_columns))

    @piece
    def add_products(w, height, width, own, operands, taps, positions, wanted):
        """The products of some positions of a row of gy with what they see through taps d, h0 to h1.

        All of these at once in the middle, zone 0; elsewhere one by one, where they see x.  wanted: range of sums.
        """
        (x, maps_at, count), (d, h0, h1), (zone, low, high, q0) = operands, taps, positions
        r = words(own)
        in_line, channels = width[AxisWords.kernel], w[Block.channels]
        stride, x_column = width[AxisWords.stride], width[AxisWords.x]
        joined = stride == 1 and x_column == count and w[Block.image_chunks] == 1
        for t in range(1 if zone == 0 else (h1 - h0) * in_line):
            begin = (d * height[AxisWords.kernel] + h0) * in_line * channels
            end = begin + (h1 - h0) * in_line * channels
            first, after = low, high
            if zone != 0:
                begin += t * channels
                end = begin + channels
                tap = t % in_line
                first, after = max(low, first_inside(width, tap)), min(high, after_inside(width, tap))
            begin, end = max(begin, wanted[0]), min(end, wanted[1])
            if begin < end and first < after:
                pieces = 1 if joined else after - first
                for p in range(pieces):
                    at = first + p
                    r[RowSums.k] = (after - first) * count if joined else count
                    r[RowSums.a] = x + 4 * (at * stride - width[AxisWords.pad]) * x_column
                    r[RowSums.table] = own + w[Block.table_start] + 8 * begin
                    r[RowSums.rows] = end - begin
                    r[RowSums.b] = maps_at + 4 * (at - q0) * count * tile_columns
                    r[RowSums.c] = w[Block.workspace] + 4 * begin * tile_columns
                    call3(w[Block.row_sums], own, 0, 1)

    @kernel
    def chwn_direct_weight(block, part, parts):
        w = words(block)
        depth, height = words(block + 8 * Block.depth), words(block + 8 * Block.height)
        width = words(block + 8 * Block.width)
        images, channels, maps = w[Block.images], w[Block.channels], w[Block.maps]
        own = w[Block.workspace] + w[Block.shared_bytes] + part * w[Block.share_bytes]
        r, maps_at = words(own), own + w[Block.maps_start]
        tap_lines, in_line = height[AxisWords.kernel], width[AxisWords.kernel]
        rows = depth[AxisWords.kernel] * tap_lines * in_line * channels
        units = (rows + tile_rows - 1) // tile_rows
        i0, i1 = units * part // parts * tile_rows, min(rows, units * (part + 1) // parts * tile_rows)
        if i0 >= i1:
            return 0
        make_table(w, depth, height, width, words(own + w[Block.table_start]))
        chunks, columns, at_once = w[Block.image_chunks], width[AxisWords.result], w[Block.columns_at_once]
        # Where windows see x through all columns of the kernel.
        middle, behind = first_inside(width, 0), after_inside(width, in_line - 1)
        sums = w[Block.workspace]
        for panel in range(0, maps, tile_columns):
            zeros = floats32(sums + 4 * i0 * tile_columns)
            for i in range((i1 - i0) * tile_columns):
                zeros[i] = 0.0
            r[RowSums.columns] = maps - panel
            for line in range(depth[AxisWords.result] * height[AxisWords.result]):
                a = line // height[AxisWords.result]
                b = line - a * height[AxisWords.result]
                front = a * depth[AxisWords.stride] - depth[AxisWords.pad]
                top = b * height[AxisWords.stride] - height[AxisWords.pad]
                h0, h1 = 0, tap_lines
                while h0 < h1 and top + h0 * height[AxisWords.dilation] < 0:
                    h0 += 1
                while h0 < h1 and top + (h1 - 1) * height[AxisWords.dilation] >= height[AxisWords.source]:
                    h1 -= 1
                for piece_number in range((columns + at_once - 1) // at_once * chunks):
                    q0 = piece_number // chunks * at_once
                    q1 = min(columns, q0 + at_once)
                    chunk = piece_number % chunks
                    n0, n1 = images * chunk // chunks, images * (chunk + 1) // chunks
                    gy = a * depth[AxisWords.y] + b * height[AxisWords.y] + q0 * width[AxisWords.y] + n0
                    transpose(w, width[AxisWords.y], panel, w[Block.gy] + 4 * gy, q1 - q0, n1 - n0, maps_at)
                    x = w[Block.x] + 4 * (n0 + front * depth[AxisWords.x] + top * height[AxisWords.x])
                    z0, z1 = min(max(middle, q0), q1), min(max(behind, q0), q1)
                    z1 = max(z0, z1)
                    for d in range(depth[AxisWords.kernel]):
                        at = front + d * depth[AxisWords.dilation]
                        if at < 0 or at >= depth[AxisWords.source]:
                            continue
                        for zone in range(3):
                            low, high = z0, z1
                            if zone == 1:
                                low, high = q0, z0
                            elif zone == 2:
                                low, high = z1, q1
                            if low < high:
                                operands, taps = (x, maps_at, n1 - n0), (d, h0, h1)
                                positions = (zone, low, high, q0)
                                add_products(w, height, width, own, operands, taps, positions, (i0, i1))
            for row in range(i0, i1):
                tap = row // channels
                line = tap // in_line
                at = (row - tap * channels) * w[Block.gw_channel] + panel * w[Block.gw_map]
                at += line // tap_lines * depth[AxisWords.weight] + line % tap_lines * height[AxisWords.weight]
                at += (tap - line * in_line) * width[AxisWords.weight]
                gw, found = w[Block.gw] + 4 * at, floats32(sums + 4 * row * tile_columns)
                for m in range(min(tile_columns, maps - panel)):
                    floats32(gw + 4 * m * w[Block.gw_map])[0] = found[m]
        return 0

    return chwn_direct_weight


CHWN_DIRECT_WEIGHT = Kernel("chwn_direct_weight", _build)


def prepare(problem: Problem) -> Prepared:
    """x, gy -> gw of any problem."""
    p, lanes = problem, host_lanes()
    rows = p.channels * math.prod(axis.kernel for axis in p.axes)
    chunks = max(1, p.images // max(_TERMS_AT_ONCE, lanes.vector))
    columns_at_once = max(1, _TERMS_AT_ONCE // p.images)
    most = max(columns_at_once * p.images, -(-p.images // chunks)) if chunks == 1 else -(-p.images // chunks)
    sizes = {"table_start": 8 * rows, "maps_start": 4 * lanes.columns * most}
    starts = piece_starts(BLOCK_BYTES, sizes)
    shared_bytes = 4 * lanes.columns * rows
    parts = share_count(p.flops / _FLOPS_PER_US, -(-rows // lanes.rows))
    parts = fitting_shares(parts, starts["share_bytes"])
    words = filled(
        Block,
        shared_bytes=shared_bytes,
        images=p.images,
        channels=p.channels,
        maps=p.maps,
        x_channel=p.source[1],
        gy_map=p.result[1],
        gw_map=p.weight[0],
        gw_channel=p.weight[1],
        columns_at_once=columns_at_once if chunks == 1 else 1,
        image_chunks=chunks,
        row_sums=ROW_SUMS.address(),
        **starts,
    )
    put_axes(words, p, (Block.depth, Block.height, Block.width))
    return launch(
        CHWN_DIRECT_WEIGHT,
        words,
        (Block.x, Block.gy, Block.gw, Block.workspace),
        parts=parts,
        workspace=shared_bytes + starts["share_bytes"] * parts,
        owner=(CHWN_DIRECT_WEIGHT, ROW_SUMS),
        note="direct, batch innermost",
    )
