"""Convolution and its adjoint with stride 1 and vectors along the rows of the result, in float32.

A register tile is some maps by two vectors of positions, anywhere in the image; the last vector of a row overlaps the
one before it. So results are stored where they belong at once, and none are computed beyond the rows. Where no padding
is needed, the source is read in place.

Block (64-bit words; offsets in elements):
    0 COPY_IMAGES, or 0 if the source is read in place; 1 PACK or 0
    2 x or gy, 3 weight, 4 bias or 0, 5 y or gx, 6 workspace, 7 bytes of it per share
    8 images, 9 groups, 10 channels, 11 height, 12 width      of the source, channels per group
    13 maps, 14 height, 15 width                              of the result, maps per group
    16 weight_map, 17 weight_channel                          strides of the weight; the kernel's places are contiguous
    18 weights from group to group, 19 taps
    20 channel_length, 21 front, 22 row_pitch                 of the planes
    23 range kernel to run on what is written of the result, or 0, 24 its block
    25 the one phase of COPY_IMAGES, as a pair; then the taps as pairs of offset and place
Shares are made of groups and images; each packs the weights of its groups for itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from atled.plugin import Prepared
from atled_cpu_numba.kernels.convolution.images import COPY_IMAGES
from atled_cpu_numba.kernels.convolution.map_lanes import Problem
from atled_cpu_numba.kernels.products.panels import BLOCK_WORDS, PACK, PACK_SLACK
from atled_cpu_numba.kernels.shared.lanes import host_lanes
from atled_cpu_numba.kernels.shared.launch import fitting_shares, launch, share_count
from atled_cpu_numba.store import Kernel

_PHASE, _TAPS = 25, 27  # words of the block
_MOST_WASTE = 1.1  # positions computed per result
_LEAST_MAPS = 4  # rows of the lowest tile
_FLOPS_PER_US = 120e3  # a cautious rate of one core, for the number of shares
_WEIGHTS_PER_US = 3e3  # packed
_INNER_BYTES = 8 * BLOCK_WORDS


def suits(problem: Problem) -> bool:
    """Whether neighbouring windows see neighbouring elements, and vectors fit the rows of the result."""
    width, vector = problem.result[1], host_lanes().vector
    return (
        (problem.step, problem.spread) == ((1, 1), (1, 1))
        and width >= vector
        and -(-width // vector) * vector <= _MOST_WASTE * width
        and problem.maps >= _LEAST_MAPS
    )


def _build() -> Callable[..., int]:
    from atled_cpu_numba.codegen import call3, floats32, words
    from atled_cpu_numba.kernels.products.tiles import make_pair_tile
    from atled_cpu_numba.kernels.shared.options import kernel, piece

    lanes = host_lanes()
    vector, tile_rows = lanes.vector, lanes.rows
    third, two_thirds = tile_rows // 3, 2 * tile_rows // 3
    full = make_pair_tile(tile_rows, packed_rows=tile_rows)
    lower = make_pair_tile(two_thirds, packed_rows=tile_rows)
    lowest = make_pair_tile(third, packed_rows=tile_rows)

    @piece
    def fill_tables(w, offsets_at, windows_at, results_at):
        """Where the elements of a sum are in the planes, and where vectors have their windows and their results."""
        offsets, windows, results = words(offsets_at), words(windows_at), words(results_at)
        for channel in range(w[10]):
            for t in range(w[19]):
                offsets[channel * w[19] + t] = channel * w[20] + w[21] + w[_TAPS + 2 * t]
        per_row = (w[15] + vector - 1) // vector
        for row in range(w[14]):
            for j in range(per_row):
                column = min(j * vector, w[15] - vector)
                windows[row * per_row + j] = row * w[22] + column
                results[row * per_row + j] = row * w[15] + column

    @piece
    def pack_weights(w, q, inner, group, packed_at):
        """Panels of the group's weights in the order of its channels and taps."""
        channels, maps, taps = w[10], w[13], w[19]
        if w[1] != 0:
            # PACK: source, row stride, column stride, rows, k, target, width
            q[0], q[1], q[2], q[3] = w[3] + 4 * group * w[18], w[16], 1, maps
            q[4], q[5], q[6] = channels * taps, packed_at, tile_rows
            call3(w[1], inner, 0, 1)
            return
        for first in range(0, maps, tile_rows):
            for channel in range(channels):
                target = floats32(packed_at + 4 * (first * channels + channel * tile_rows) * taps)
                for t in range(taps):
                    for m in range(min(tile_rows, maps - first)):
                        place = group * w[18] + (first + m) * w[16] + channel * w[17] + w[_TAPS + 2 * t + 1]
                        target[t * tile_rows + m] = floats32(w[3])[place]

    @kernel
    def convolution_rows(block, part, parts):
        w = words(block)
        images, groups, channels, maps, size, plane = w[8], w[9], w[10], w[13], w[11] * w[12], w[14] * w[15]
        k, panels = channels * w[19], (maps + tile_rows - 1) // tile_rows
        vectors = w[14] * ((w[15] + vector - 1) // vector)
        # Workspace: block of a piece, tables, bias, packed weights, planes.
        inner = w[6] + part * w[7]
        offsets_at = inner + _INNER_BYTES
        windows_at = offsets_at + 8 * k
        results_at = windows_at + 8 * vectors
        bias_at = results_at + 8 * vectors
        packed_at = bias_at + 4 * panels * tile_rows
        planes_at = packed_at + 4 * (panels * tile_rows * k + PACK_SLACK)
        first_unit, last_unit = groups * images * part // parts, groups * images * (part + 1) // parts
        if first_unit == last_unit:
            return 0
        fill_tables(w, offsets_at, windows_at, results_at)
        q, bias, planes = words(inner), floats32(bias_at), floats32(planes_at)
        for m in range(panels * tile_rows):
            bias[m] = 0.0
        if w[0] != 0:
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
                q[12], q[13], q[14], q[15] = 1, 1, 1, block + 8 * _PHASE
                call3(w[0], inner, 0, 1)
                x = planes_at
            start = (image * groups + group) * maps * plane
            windows, results = words(windows_at), words(results_at)
            for first in range(0, maps, tile_rows):
                left = maps - first
                a, s, y = packed_at + 4 * first * k, bias_at + 4 * first, w[5] + 4 * (start + first * plane)
                for v in range(0, vectors, 2):
                    beside = min(v + 1, vectors - 1)
                    x0, x1, y0, y1 = (
                        4 * windows[v] + x,
                        4 * windows[beside] + x,
                        4 * results[v] + y,
                        4 * results[beside] + y,
                    )
                    if left > two_thirds:
                        full((k, a, offsets_at, x0, x1, s, y0, y1, plane, left))
                    elif left > third:
                        lower((k, a, offsets_at, x0, x1, s, y0, y1, plane, left))
                    else:
                        lowest((k, a, offsets_at, x0, x1, s, y0, y1, plane, left))
            if w[23] != 0:
                call3(w[23], w[24], start, start + maps * plane)
        return 0

    return convolution_rows


CONVOLUTION_ROWS = Kernel("convolution_rows", _build)


def prepare(problem: Problem, weight_size: int, arguments: Sequence[int]) -> Prepared:
    """The convolution of a problem that `suits`; arguments: those of `convolution_lanes.prepare`."""
    p, lanes = problem, host_lanes()
    layout, (found,) = p.layout, p.results
    taps = len(found.taps)
    maps = -(-p.maps // lanes.rows) * lanes.rows
    vectors = p.result[0] * -(-p.result[1] // lanes.vector)
    flops = 2.0 * p.channels * taps * maps * vectors * lanes.vector
    work_us = p.images * p.groups * (flops + 20.0 * p.channels * math.prod(p.source)) / _FLOPS_PER_US
    parts = share_count(work_us, p.groups * p.images)
    if p.groups == 1:  # every share packs all weights
        parts = max(1, min(parts, int(0.1 * work_us / (weight_size / _WEIGHTS_PER_US))))
    channel_length = math.prod(p.source) if p.in_place else layout.plane_length(1, 0)
    floats = maps * (1 + p.channels * taps) + PACK_SLACK + (0 if p.in_place else p.channels * channel_length)
    share_bytes = -(-(_INNER_BYTES + 8 * (p.channels * taps + 2 * vectors) + 4 * floats) // 64) * 64
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
    words += [channel_length, layout.front, layout.row_pitch, 0, 0, 0, 0]
    assert len(words) == _TAPS
    words += [word for tap in found.taps for word in (layout.offset(tap), tap.place)]
    note = f"direct, rows in vectors, {'in place' if p.in_place else 'padded'}"
    workspace = share_bytes * parts
    return launch(CONVOLUTION_ROWS, words, arguments, parts=parts, workspace=workspace, after={0: 23}, note=note)
