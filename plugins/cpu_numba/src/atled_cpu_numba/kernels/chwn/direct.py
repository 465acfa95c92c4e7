"""Convolution and its adjoint as direct sums, for images with the batch innermost, in float32: any kernel and steps.

The same element of many images is a vector, read where it is: nothing is packed but the weights. For each position of
the result a table is made of the taps that see something there; so padding and strides cost nothing.

Shares are made of positions; each packs all weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from atled.plugin import Prepared
from atled_cpu_numba.kernels.chwn.axes import AXIS_WORDS, AxisWords, put_axes
from atled_cpu_numba.kernels.chwn.problem import Problem
from atled_cpu_numba.kernels.shared.lanes import host_lanes
from atled_cpu_numba.kernels.shared.launch import fitting_shares, launch, optional_words, piece_starts, share_count
from atled_cpu_numba.kernels.shared.layout import filled, layout
from atled_cpu_numba.store import Kernel

_FLOPS_PER_US = 120e3  # a cautious rate of one core, for the number of shares
_LEAST_IMAGES = 64  # times positions of a share: below, packing the weights takes too long


@layout
class Block:
    """What the kernel reads; strides in elements, starts in bytes from a share's workspace."""

    x: int  # address of x or gy
    weight: int
    bias: int  # or 0
    y: int  # or gx
    workspace: int
    share_bytes: int
    forward: int  # 0: the adjoint
    images: int
    channels: int
    maps: int
    depth: int = AXIS_WORDS
    height: int = AXIS_WORDS
    width: int = AXIS_WORDS
    x_channel: int
    y_image: int
    y_map: int
    weight_map: int
    weight_channel: int
    weights_start: int
    bias_start: int
    table_start: int
    stage_start: int


def _build() -> Callable[..., int]:
    from atled_cpu_numba.codegen import floats32, words
    from atled_cpu_numba.kernels.chwn.products import make_tap_tile
    from atled_cpu_numba.kernels.chwn.tiles import make_put, make_taken
    from atled_cpu_numba.kernels.shared.options import kernel, piece

    lanes = host_lanes()
    vector, rows = lanes.vector, lanes.rows
    third, two_thirds = rows // 3, 2 * rows // 3
    full = make_tap_tile(rows, 2, packed_rows=rows)
    lower = make_tap_tile(two_thirds, 2, packed_rows=rows)
    lowest = make_tap_tile(third, 2, packed_rows=rows)
    slim = make_tap_tile(rows, 1, packed_rows=rows)
    put, taken = make_put(), make_taken()

    @piece
    def pack_weights(w, depth, height, width, target, bias_at):
        """Per tile, tap and channel: `rows` weights, as many of them as the tile has maps."""
        channels, maps = w[Block.channels], w[Block.maps]
        lines, in_line = height[AxisWords.kernel], width[AxisWords.kernel]
        taps = depth[AxisWords.kernel] * lines * in_line
        bias = floats32(bias_at)
        for i in range(maps):
            bias[i] = floats32(w[Block.bias])[i] if w[Block.bias] != 0 else 0.0
        first = 0
        while first < maps:
            known = taken(maps - first)
            for tap in range(taps):
                a, b, c = tap // (lines * in_line), tap // in_line % lines, tap % in_line
                start = a * depth[AxisWords.weight] + b * height[AxisWords.weight] + c * width[AxisWords.weight]
                start += first * w[Block.weight_map]
                packed = floats32(target + 4 * rows * tap * channels)
                for channel in range(channels):
                    at = w[Block.weight] + 4 * (start + channel * w[Block.weight_channel])
                    for i in range(known):
                        packed[channel * rows + i] = floats32(at + 4 * i * w[Block.weight_map])[0]
            first += known
            target += 4 * rows * taps * channels

    @piece
    def seen(forward, axis, place, tap):
        """The element of the source that a place of the result sees through a tap of one axis, or -1."""
        if forward != 0:
            at = place * axis[AxisWords.stride] - axis[AxisWords.pad] + tap * axis[AxisWords.dilation]
        else:
            from_first = place + axis[AxisWords.pad] - tap * axis[AxisWords.dilation]
            at = from_first // axis[AxisWords.stride]
            if at * axis[AxisWords.stride] != from_first:
                at = -1
        return at if at < axis[AxisWords.source] else -1

    @piece
    def find_taps(w, depth, height, width, a, b, c, table):
        """Fills the table for a position; how many taps see something."""
        count, place, per_tap = 0, 0, rows * w[Block.channels]
        for i in range(depth[AxisWords.kernel]):
            d = seen(w[Block.forward], depth, a, i)
            for j in range(height[AxisWords.kernel]):
                h = seen(w[Block.forward], height, b, j)
                for k in range(width[AxisWords.kernel]):
                    e = seen(w[Block.forward], width, c, k)
                    if d >= 0 and h >= 0 and e >= 0:
                        table[2 * count] = d * depth[AxisWords.x] + h * height[AxisWords.x] + e * width[AxisWords.x]
                        table[2 * count + 1] = place * per_tap
                        count += 1
                    place += 1
        return count

    @kernel
    def chwn_direct(block, part, parts):
        w = words(block)
        depth, height = words(block + 8 * Block.depth), words(block + 8 * Block.height)
        width = words(block + 8 * Block.width)
        images, channels, maps = w[Block.images], w[Block.channels], w[Block.maps]
        inner = w[Block.workspace] + part * w[Block.share_bytes]
        weights, bias = inner + w[Block.weights_start], inner + w[Block.bias_start]
        table, stage = inner + w[Block.table_start], inner + w[Block.stage_start]
        columns = width[AxisWords.result]
        positions = depth[AxisWords.result] * height[AxisWords.result] * columns
        p0, p1 = positions * part // parts, positions * (part + 1) // parts
        if p0 == p1:
            return 0
        pack_weights(w, depth, height, width, weights, bias)
        per_tile = 4 * rows * depth[AxisWords.kernel] * height[AxisWords.kernel] * width[AxisWords.kernel] * channels
        in_place, x_channel = w[Block.y_image] == 1, w[Block.x_channel]
        map_step = w[Block.y_map] if in_place else 2 * vector
        for p in range(p0, p1):
            line = p // columns
            column = p - line * columns
            a = line // height[AxisWords.result]
            b = line - a * height[AxisWords.result]
            taps = find_taps(w, depth, height, width, a, b, column, words(table))
            y = w[Block.y] + 4 * (a * depth[AxisWords.y] + b * height[AxisWords.y] + column * width[AxisWords.y])
            for image in range(0, images, 2 * vector):
                # The last vector of images overlaps the one before it.
                n0, n1 = min(image, images - vector), min(image + vector, images - vector)
                x0, x1 = w[Block.x] + 4 * n0, w[Block.x] + 4 * n1
                k, start = 0, weights
                while k < maps:
                    to0 = y + 4 * (n0 * w[Block.y_image] + k * w[Block.y_map])
                    to1 = y + 4 * (n1 * w[Block.y_image] + k * w[Block.y_map])
                    y0, y1 = (to0, to1) if in_place else (stage, stage + 4 * vector)
                    increments, m = bias + 4 * k, taken(maps - k)
                    if image + vector >= images:
                        slim((taps, table, channels, x_channel, x0, x1, start, increments, y0, y1, map_step, m))
                    elif m > two_thirds:
                        full((taps, table, channels, x_channel, x0, x1, start, increments, y0, y1, map_step, m))
                    elif m > third:
                        lower((taps, table, channels, x_channel, x0, x1, start, increments, y0, y1, map_step, m))
                    else:
                        lowest((taps, table, channels, x_channel, x0, x1, start, increments, y0, y1, map_step, m))
                    for i in range(0 if in_place else m):
                        at = stage + 4 * i * map_step
                        put(at, to0 + 4 * i * w[Block.y_map], w[Block.y_image])
                        if image + vector < images:
                            put(at + 4 * vector, to1 + 4 * i * w[Block.y_map], w[Block.y_image])
                    k += m
                    start += per_tile
        return 0

    return chwn_direct


CHWN_DIRECT = Kernel("chwn_direct", _build)


def prepare(problem: Problem) -> Prepared:
    """The convolution or adjoint of any problem."""
    p, lanes = problem, host_lanes()
    positions, taps = (math.prod(getattr(axis, name) for axis in p.axes) for name in ("result", "kernel"))
    tiles = -(-p.maps // lanes.rows) + 1  # the last two may share what one and a third would take
    maps = tiles * lanes.rows
    starts = piece_starts(
        0,
        {
            "weights_start": 4 * maps * taps * p.channels,
            "bias_start": 4 * maps,
            "table_start": 16 * taps,
            "stage_start": 4 * lanes.rows * 2 * lanes.vector,
        },
    )
    units = max(1, min(positions, positions * p.images // _LEAST_IMAGES))
    parts = fitting_shares(share_count(p.flops / _FLOPS_PER_US, units), starts["share_bytes"])
    words = filled(
        Block,
        forward=int(p.forward),
        images=p.images,
        channels=p.channels,
        maps=p.maps,
        x_channel=p.source[1],
        y_image=p.result[0],
        y_map=p.result[1],
        weight_map=p.weight[0],
        weight_channel=p.weight[1],
        **starts,
    )
    put_axes(words, p, (Block.depth, Block.height, Block.width))
    biased = optional_words(Block.bias, p.biases)
    return launch(
        CHWN_DIRECT,
        words,
        (Block.x, Block.weight, *biased, Block.y, Block.workspace),
        parts=parts,
        workspace=starts["share_bytes"] * parts,
        note="direct, batch innermost",
    )
