"""Convolution and its adjoint with the maps in the lanes, in float32: a way for small images, strides and wide kernels.

A register tile is a vector of maps by as many positions of the result, which it transposes before it writes them, so
that they arrive in y as they are to stay. The elements of the source are read one by one through a table of offsets:
with a stride they need not be sorted, nor columns unfolded, and where no padding is needed the source is read in place.

Four positions that follow one another in a row of the result form a quartet; a tile takes any quartets.

Block (64-bit words; offsets in elements):
    0 COPY_IMAGES, or 0 if the source is read in place; 1 PACK or 0
    2 x or gy, 3 weight, 4 bias or 0, 5 y or gx, 6 workspace, 7 bytes of it per share
    8 images, 9 groups, 10 channels, 11 height, 12 width      of the source, channels per group
    13 maps, 14 height, 15 width                              of the result, maps per group
    16 weight_map, 17 weight_channel                          strides of the weight; the kernel's places are contiguous
    18 weights from group to group, 19 taps in all
    20 channel_length, 21 front, 22 row_pitch                 of the planes
    23 step_h, 24 step_w                                      from a result's position to the next one in the source
    25 spread_h, 26 spread_w                                  and in the result
    27 results, 28 word where they start, 29 positions of all results
    30 word where the one phase of COPY_IMAGES is
    31 range kernel to run on what is written of the result, or 0, 32 its block
Each result: number of taps, start row, start column, rows, columns; then the taps as pairs of offset and place.
Shares are made of groups and images; each packs the weights of its groups for itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from atled.plugin import Prepared
from atled_cpu_numba.kernels.convolution.images import COPY_IMAGES
from atled_cpu_numba.kernels.products.panels import BLOCK_WORDS, PACK, PACK_SLACK
from atled_cpu_numba.kernels.shared.geometry import Layout, Pair, Result
from atled_cpu_numba.kernels.shared.lanes import host_lanes
from atled_cpu_numba.kernels.shared.launch import fitting_shares, launch, share_count
from atled_cpu_numba.store import Kernel

_QUARTET = 4
_WORDS = 34
_MOST_WASTE = 1.4  # lanes per map
_FLOPS_PER_US = 120e3  # a cautious rate of one core, for the number of shares
_WEIGHTS_PER_US = 3e3  # packed
_INNER_BYTES = 8 * BLOCK_WORDS


class Problem(NamedTuple):
    """A convolution over two axes, or its adjoint; channels and maps are those of one group.

    layout, results: how the source is read, with planes of one phase.  step: from a result's position to the next one
    in the source; spread: in the result.  weight: strides from map to map and from channel to channel.
    in_order: whether a map's weights lie in the order of channels and taps.
    """

    images: int
    groups: int
    channels: int
    maps: int
    source: Pair
    result: Pair
    layout: Layout
    results: tuple[Result, ...]
    step: Pair
    spread: Pair
    weight: Pair
    in_order: bool

    @property
    def in_place(self) -> bool:
        """Whether the planes would be a copy of the source."""
        layout = self.layout
        return (layout.front, layout.row_pitch, layout.image_rows) == (0, self.source[1], self.source[0])


def suits(problem: Problem) -> bool:
    """Whether the tiles fit the rows of the result and the maps fill the lanes."""
    vector = host_lanes().vector
    return (
        vector >= 8  # shorter vectors would wait for one another
        and all(found.counts[1] % _QUARTET == 0 and math.prod(found.counts) >= vector for found in problem.results)
        and problem.step[1] <= 2
        and (problem.spread[1] != 2 or problem.result[1] % 2 == 0)  # even and odd columns are written together
        and -(-problem.maps // vector) * vector <= _MOST_WASTE * problem.maps
    )


def _build() -> Callable[..., int]:
    from atled_cpu_numba.codegen import call3, floats32, words
    from atled_cpu_numba.kernels.convolution.lane_tiles import interleave_rows, make_lane_tile
    from atled_cpu_numba.kernels.shared.options import kernel, piece

    vector = host_lanes().vector
    tile_1, tile_2 = make_lane_tile(1), make_lane_tile(2)

    @piece
    def fill_tables(w, offsets_at, quartets_at):
        """Per result, channel and tap: where it lies in the planes; per result and quartet: where its windows do."""
        offsets, quartets = words(offsets_at), words(quartets_at)
        at, done, seen = w[28], 0, 0
        for _ in range(w[27]):
            taps, columns = w[at], w[at + 4]
            for channel in range(w[10]):
                for t in range(taps):
                    offsets[done + channel * taps + t] = channel * w[20] + w[21] + w[at + 5 + 2 * t]
            done += w[10] * taps
            for row in range(w[at + 3]):
                for j in range(columns // _QUARTET):
                    quartets[seen + j] = row * w[23] * w[22] + _QUARTET * j * w[24]
                seen += columns // _QUARTET
            at += 5 + 2 * taps

    @piece
    def pack_weights(w, q, inner, group, packed_at):
        """Vectors of maps, for each result in the order of its channels and taps."""
        channels, maps = w[10], w[13]
        at, to = w[28], packed_at
        for _ in range(w[27]):
            taps = w[at]
            if w[1] != 0:
                q[0], q[1], q[2], q[3] = w[3] + 4 * group * w[18], w[16], 1, maps
                q[4], q[5], q[6] = channels * taps, to, vector
                call3(w[1], inner, 0, 1)
            else:
                for first in range(0, maps, vector):
                    for channel in range(channels):
                        target = floats32(to + 4 * vector * (first * channels // vector + channel) * taps)
                        start = w[3] + 4 * (group * w[18] + first * w[16] + channel * w[17])
                        for t in range(taps):
                            source = floats32(start + 4 * w[at + 6 + 2 * t])
                            for m in range(min(vector, maps - first)):
                                target[vector * t + m] = source[m * w[16]]
            to += 4 * vector * ((maps + vector - 1) // vector) * channels * taps
            at += 5 + 2 * taps

    @piece
    def spread(w, target, maps, positions, scattered):
        """The results of a vector of maps, one behind the other, to their rows and columns of y."""
        height, width = w[14], w[15]
        for m in range(maps):
            at, source = w[28], scattered + 4 * m * positions
            for number in range(w[27]):
                rows, columns = w[at + 3], w[at + 4]
                to = target + 4 * ((m * height + w[at + 1]) * width + w[at + 2])
                if w[26] != 2:
                    for row in range(rows):
                        x, y = floats32(source + 4 * row * columns), floats32(to + 4 * row * w[25] * width)
                        for j in range(columns):
                            y[w[26] * j] = x[j]
                elif number % 2 == 0:  # with the following result: the even and the odd columns of the same rows
                    interleave_rows((source, source + 4 * rows * columns, columns, to, w[25] * width, rows))
                source += 4 * rows * columns
                at += 5 + 2 * w[at]

    @kernel
    def convolution_lanes(block, part, parts):
        w = words(block)
        images, groups, channels, maps, taps_in_all = w[8], w[9], w[10], w[13], w[19]
        size, plane, positions = w[11] * w[12], w[14] * w[15], w[29]
        vectors = (maps + vector - 1) // vector
        spreading = w[25] != 1 or w[26] != 1
        # Workspace: block of a piece, tables, bias, packed weights, results to be spread, planes.
        inner = w[6] + part * w[7]
        q = words(inner)
        bias_at = inner + _INNER_BYTES
        packed_at = bias_at + 4 * vectors * vector
        scattered = packed_at + 4 * (vectors * vector * channels * taps_in_all + PACK_SLACK)
        planes_at = scattered + (4 * vector * positions if spreading else 0)
        offsets_at = planes_at + 4 * (channels * w[20] if w[0] != 0 else 0)
        quartets_at = offsets_at + 8 * channels * taps_in_all
        first_unit, last_unit = groups * images * part // parts, groups * images * (part + 1) // parts
        if first_unit == last_unit:
            return 0
        fill_tables(w, offsets_at, quartets_at)
        bias = floats32(bias_at)
        for m in range(vectors * vector):
            bias[m] = 0.0
        if w[0] != 0:
            planes = floats32(planes_at)
            for i in range(channels * w[20]):
                planes[i] = 0.0
        packed_group = -1
        for unit in range(first_unit, last_unit):
            group = unit // images
            image = unit - group * images
            if group != packed_group:
                packed_group = group
                pack_weights(w, q, inner, group, packed_at)
                if w[4] != 0:
                    for m in range(maps):
                        bias[m] = floats32(w[4])[group * maps + m]
            x = w[2] + 4 * (image * groups + group) * channels * size
            if w[0] != 0:
                q[0], q[1], q[2], q[3], q[4], q[5] = x, 1, channels, 0, w[11], w[12]
                q[6], q[7], q[8], q[9], q[10], q[11] = planes_at, w[20], w[20], w[21], 0, w[22]
                q[12], q[13], q[14], q[15] = 1, 1, 1, block + 8 * w[30]
                call3(w[0], inner, 0, 1)
                x = planes_at
            y = w[5] + 4 * (image * groups + group) * maps * plane
            for first in range(0, maps, vector):
                taken = min(vector, maps - first)
                at, table, weights, quartets = w[28], offsets_at, packed_at, quartets_at
                to = scattered if spreading else y
                pitch = positions if spreading else plane
                for _ in range(w[27]):
                    k, end = channels * w[at], w[at + 3] * w[at + 4]
                    b = weights + 4 * first * k
                    for p in range(0, end, vector):
                        # The last tile may overlap the one before it.
                        here = min(p, end - vector)
                        if w[24] == 1:
                            tile_1(
                                (k, table, x, quartets + 2 * here, b, bias_at + 4 * first, to + 4 * here, pitch, taken)
                            )
                        else:
                            tile_2(
                                (k, table, x, quartets + 2 * here, b, bias_at + 4 * first, to + 4 * here, pitch, taken)
                            )
                    at += 5 + 2 * w[at]
                    table += 8 * k
                    weights += 4 * vectors * vector * k
                    quartets += 2 * end
                    to += 4 * end
                if spreading:
                    spread(w, y, taken, positions, scattered)
                y += 4 * vector * plane
            if w[31] != 0:
                start = (image * groups + group) * maps * plane
                call3(w[31], w[32], start, start + maps * plane)
        return 0

    return convolution_lanes


CONVOLUTION_LANES = Kernel("convolution_lanes", _build)


def prepare(problem: Problem, weight_size: int, arguments: Sequence[int]) -> Prepared:
    """The convolution of a problem that `suits`; arguments: 0 for the source, 1 weight, 2 bias if there is one."""
    p, vector = problem, host_lanes().vector
    layout, results = p.layout, p.results
    maps = -(-p.maps // vector) * vector
    taps = sum(len(found.taps) for found in results)
    positions = sum(math.prod(found.counts) for found in results)
    flops = 2.0 * p.channels * maps * sum(len(f.taps) * math.prod(f.counts) for f in results)
    work_us = p.images * p.groups * (flops + 20.0 * (p.channels * math.prod(p.source) + maps * positions))
    work_us /= _FLOPS_PER_US
    parts = share_count(work_us, p.groups * p.images)
    if p.groups == 1:  # every share packs all weights
        parts = max(1, min(parts, int(0.1 * work_us / (weight_size / _WEIGHTS_PER_US))))
    channel_length = math.prod(p.source) if p.in_place else layout.plane_length(1, 0)
    floats = maps + maps * p.channels * taps + PACK_SLACK
    floats += vector * positions if p.spread != (1, 1) else 0
    floats += 0 if p.in_place else p.channels * channel_length
    share_bytes = _INNER_BYTES + 8 * -(-floats // 2) + 8 * (p.channels * taps + positions // _QUARTET)
    share_bytes = -(-share_bytes // 64) * 64
    parts = fitting_shares(parts, share_bytes)
    words = [
        0 if p.in_place else COPY_IMAGES.address(),
        PACK.address() if p.in_order else 0,
        0,
        0,
        0,
        0,
        0,
        share_bytes,
    ]
    words += [p.images, p.groups, p.channels, *p.source, p.maps, *p.result, *p.weight, weight_size // p.groups, taps]
    words += [channel_length, layout.front, layout.row_pitch, *p.step, *p.spread, len(results), _WORDS, positions]
    words += [0]
    words += [0] * (_WORDS - len(words))
    for found in results:
        words += [len(found.taps), *found.start, *found.counts]
        words += [word for tap in found.taps for word in (layout.offset(tap), tap.place)]
    words += [0, 0]
    words[30] = len(words) - 2  # phase (0, 0)
    note = f"direct, maps in lanes, {'in place' if p.in_place else 'padded'}"
    workspace = share_bytes * parts
    return launch(CONVOLUTION_LANES, words, arguments, parts=parts, workspace=workspace, after={0: 31}, note=note)
