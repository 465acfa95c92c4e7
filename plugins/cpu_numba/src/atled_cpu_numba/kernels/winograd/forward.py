"""Convolution with 3 x 3 kernels and stride 1 by Winograd's F(4x4, 3x3), in float32: a quarter of the multiplications.

Tiles of 6 x 6 elements, the kernels, and 36 products for 4 x 4 results are transformed with channels and maps in the
lanes, see `winograd_blocks`; in between stand 36 matrix products of (tiles, channels) by (channels, maps).

The results are less accurate than direct sums: where they are of scale 1, the largest errors are about 5e-5 instead of
5e-6, with 512 channels 7e-5 instead of 1e-5; a weight's gradient has 2e-5 instead of 1e-6. Equal
inputs give equal bits. An error is in proportion to the largest element of its tile, whose 6 x 6 elements may lie
outside the window of a result: an outlier spoils up to 16 results around, an infinity makes them NaN. Contexts with
`local_errors=True` or `deterministic=True` have everything computed directly, and so has all work after `ENABLED =
False` was set.

Block (64-bit words; strides in elements):
    0 x or gy, 1 weight, 2 bias or 0, 3 y or gx, 4 workspace, 5 bytes of it per share
    6 images, 7 channels, 8 height, 9 width   of the source
    10 maps, 11 height, 12 width              of the result
    13 pad_h, 14 pad_w
    15 rows of tiles per image, 16 tiles in a row, 17 rows of tiles at once
    18 maps_shared                            1: shares are made of maps, 0: of rows of tiles
    19 weight_map, 20 weight_channel          strides of the weight
    21 first tap, 22 from tap to tap          0 and 1, or 8 and -1 for the gradient, which turns the kernel around
    23 maps at once, 24 elements of weight
    25 to 31: where the pieces of a share's workspace begin, in bytes: bias, transformed weights, transformed tiles,
        products, transposed elements (first taps, then positions of the source), padded rows of them, results; before
        them the block of COLLECT_ROWS
    32 bytes before the workspaces of the shares, for the transformed weights if the shares are made of maps
    33 COLLECT_ROWS
    34 range kernel to run on what is written of the result, or 0, 35 its block
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from atled.plugin import Call, Prepared
from atled_cpu_numba.kernels.shared.lanes import host_lanes
from atled_cpu_numba.kernels.shared.launch import fitting_shares, launch, share_count
from atled_cpu_numba.kernels.winograd.rows import BLOCK_BYTES, COLLECT_ROWS
from atled_cpu_numba.store import Kernel

# False: for work that wants the accuracy of direct sums everywhere.
ENABLED = True

# Below, transforming takes longer than it saves.
_LEAST_CHANNELS = 8
_LEAST_MAPS = 16
_LEAST_PAIRS = 256  # of a channel and a map
_LEAST_TILES = 12  # below, transforming the weights does
_MOST_WASTE = 1.8  # results computed per result wanted: tiles reach beyond the borders
_MOST_TILES_IN_A_ROW = 96

_BLOCK_BYTES = 640 << 10  # of transformed tiles and products at once, most of a level-2 cache
_MAPS_AT_ONCE = 128
_FLOPS_PER_US = 90e3  # a cautious rate of one core, transformations included, for the number of shares


class Problem(NamedTuple):
    """A convolution with 3 x 3 kernels and stride 1, or the gradient of one, which is another one.

    source, result: height and width.  weight_map, weight_channel: strides of the weight, in elements.
    turned: whether the kernel is to be turned around.
    """

    images: int
    channels: int
    maps: int
    source: tuple[int, int]
    result: tuple[int, int]
    pad: tuple[int, int]
    weight_map: int
    weight_channel: int
    turned: bool

    @property
    def tiles(self) -> tuple[int, int]:
        """Tiles per image: rows, and in a row."""
        return -(-self.result[0] // 4), -(-self.result[1] // 4)


def excluded_for(call: Call) -> str:
    """The flag of the Context that excludes this algorithm; "" where none does."""
    return next((flag for flag in ("local_errors", "deterministic") if getattr(call, flag)), "")


def told(prepared: Prepared, flag: str) -> Prepared:
    """The direct sums that are computed in this algorithm's place, with a note that says for which flag."""
    prepared.note += f", for {flag}"
    return prepared


def suits(problem: Problem) -> bool:
    """Whether Winograd is allowed and pays."""
    rows, columns = problem.tiles
    wanted = problem.result[0] * problem.result[1]
    return (
        ENABLED
        and problem.channels >= _LEAST_CHANNELS
        and problem.maps >= _LEAST_MAPS
        and problem.channels * problem.maps >= _LEAST_PAIRS
        and problem.images * rows * columns >= _LEAST_TILES
        and 16 * rows * columns <= _MOST_WASTE * wanted
        and columns <= _MOST_TILES_IN_A_ROW
        and min(problem.pad) >= 0
        and math.prod(problem.source) >= host_lanes().vector
    )


def _build() -> Callable[..., int]:
    from atled_cpu_numba.codegen import call3, floats32, words
    from atled_cpu_numba.kernels.shared.options import kernel, piece
    from atled_cpu_numba.kernels.shared.vectors import transpose_block
    from atled_cpu_numba.kernels.winograd.blocks import (
        input_tile,
        make_panel_tile,
        output_tile,
        store_transposed,
        weight_tile,
    )

    lanes = host_lanes()
    vector, tile_rows, tile_columns = lanes.vector, lanes.rows, lanes.columns
    vectors = tile_columns // vector
    third, two_thirds = tile_rows // 3, 2 * tile_rows // 3
    full = make_panel_tile(tile_rows, vectors, tile_columns)
    lower = make_panel_tile(two_thirds, vectors, tile_columns)
    lowest = make_panel_tile(third, vectors, tile_columns)
    slim = make_panel_tile(tile_rows, 1, tile_columns)
    taps_at_once = min(9, vector)

    @piece
    def transform_weights(w, first_map, count, taps_at, target):
        """Panels of `tile_columns` maps, in each the 36 products, in each channel by channel."""
        channels = w[7]
        step = channels * tile_columns + vector
        end = w[1] + 4 * w[24]
        for m in range(0, count, vector):
            known = min(vector, count - m)
            first = first_map + m
            to = target + 4 * (m // tile_columns * 36 * step + m % tile_columns)
            for channel in range(channels):
                start = w[1] + 4 * (first * w[19] + channel * w[20])
                last = start + 4 * (known - 1) * w[19]
                for tap in range(0, 9, taps_at_once):
                    # Vectors may be longer than the taps: at the end of the weight they reach to the left instead.
                    here = min(tap, 9 - taps_at_once)
                    if last + 4 * (here + vector) > end:
                        here = 9 - vector
                    transpose_block((start + 4 * here, w[19], known, taps_at + 4 * vector * (vector + here), vector))
                source = taps_at + 4 * vector * (vector + w[21])
                weight_tile((source, w[22] * vector, to, step))
                to += 4 * tile_columns

    @piece
    def multiply(channels, tiles, maps, v, v_panel, v_step, u, u_step, m, m_row, m_step):
        """The 36 products of transformed tiles and weights."""
        for _ in range(36):
            b, c = u, m
            for first in range(0, maps, tile_columns):
                for r in range(0, tiles, tile_rows):
                    left = tiles - r
                    a, to = v + 4 * r * vector, c + 4 * r * m_row
                    if maps - first <= vector:
                        slim((channels, a, v_panel, b, to, m_row))
                    elif left > two_thirds:
                        full((channels, a, v_panel, b, to, m_row))
                    elif left > third:
                        lower((channels, a, v_panel, b, to, m_row))
                    else:
                        lowest((channels, a, v_panel, b, to, m_row))
                b += 4 * 36 * u_step
                c += 4 * tile_columns
            v += 4 * v_step
            u += 4 * u_step
            m += 4 * m_step

    @piece
    def deliver(w, image, first_map, maps, first_row, rows, results):
        """Results of `rows` rows of tiles, a vector of maps wide, to y."""
        height, width = w[11], w[12]
        count = min(4 * rows, height - 4 * first_row) * width
        target = w[3] + 4 * (((image * w[10] + first_map) * height + 4 * first_row) * width)
        for p in range((count + vector - 1) // vector):
            here = max(0, min(p * vector, count - vector))
            source = results + 4 * vector * here
            store_transposed((source, min(vector, count), target + 4 * here, height * width, maps))
        if w[34] != 0:
            start = (target - w[3]) // 4
            for _ in range(maps):
                call3(w[34], w[35], start, start + count)
                start += height * width

    @kernel
    def winograd(block, part, parts):
        w = words(block)
        images, channels, maps, tile_lines, tiles_in_line, lines_at_once = w[6], w[7], w[10], w[15], w[16], w[17]
        inner = w[4] + w[32] + part * w[5]
        q = words(inner)
        bias_at, u, v, m = inner + w[25], inner + w[26], inner + w[27], inner + w[28]
        flat, padded, results = inner + w[29], inner + w[30], inner + w[31]
        # A vector more than needed: a power of two apart, all 36 would compete for the same lines of the cache.
        u_step = channels * tile_columns + vector
        lines = images * tile_lines
        panels = (maps + tile_columns - 1) // tile_columns
        m0, m1 = 0, maps
        b0, b1 = 0, (lines + lines_at_once - 1) // lines_at_once
        if w[18] != 0:
            m0, m1 = panels * part // parts * tile_columns, min(maps, panels * (part + 1) // parts * tile_columns)
        else:
            b0, b1 = b1 * part // parts, b1 * (part + 1) // parts
        if w[18] != 0:  # each share fills its part of one array, however many shares there are
            u = w[4] + 4 * 36 * u_step * (m0 // tile_columns)
        if m0 >= m1 or b0 >= b1:
            return 0
        panels = (m1 - m0 + tile_columns - 1) // tile_columns
        transform_weights(w, m0, m1 - m0, flat, u)
        bias = floats32(bias_at)
        for i in range(panels * tile_columns):
            bias[i] = floats32(w[2])[m0 + i] if w[2] != 0 and m0 + i < m1 else 0.0
        tiles_at_once = (lines_at_once * tiles_in_line + tile_rows - 1) // tile_rows * tile_rows
        v_panel, m_row = tiles_at_once * vector, w[23]
        v_step = v_panel * ((channels + vector - 1) // vector) + vector
        m_step = tiles_at_once * m_row + vector
        row_length, width = vector * (4 * tiles_in_line + 2), w[12]
        for b in range(b0, b1):
            first, after = b * lines_at_once, min(lines, (b + 1) * lines_at_once)
            for channel in range(0, channels, vector):
                line, to = first, v + 4 * channel // vector * v_panel
                while line < after:
                    image = line // tile_lines
                    row = line - image * tile_lines
                    rows = min(tile_lines - row, after - line)
                    line += rows
                    size = w[8] * w[9]
                    q[0], q[1] = w[0] + 4 * (image * channels + channel) * size, min(vector, channels - channel)
                    q[2], q[3], q[4], q[5] = w[8], w[9], 4 * row - w[13], 4 * rows + 2
                    q[6], q[7], q[8], q[9] = w[14], 4 * tiles_in_line + 2, flat, padded
                    call3(w[33], inner, 0, 1)
                    for i in range(rows):
                        at = padded + 16 * i * row_length
                        for _ in range(tiles_in_line):
                            input_tile((at, row_length, to, v_step))
                            at += 16 * vector
                            to += 4 * vector
            tiles = (after - first) * tiles_in_line
            for chunk in range((panels * tile_columns + m_row - 1) // m_row):
                k0 = chunk * m_row
                taken = min(m_row, m1 - m0 - k0)
                multiply(
                    channels,
                    tiles,
                    taken,
                    v,
                    v_panel,
                    v_step,
                    u + 4 * 36 * u_step * (k0 // tile_columns),
                    u_step,
                    m,
                    m_row,
                    m_step,
                )
                for k in range(0, taken, vector):
                    line, at = first, m + 4 * k
                    while line < after:
                        image = line // tile_lines
                        row = line - image * tile_lines
                        rows = min(tile_lines - row, after - line)
                        line += rows
                        for i in range(rows):
                            # From right to left: what reaches beyond a row is replaced by the beginning of the next.
                            for j in range(tiles_in_line - 1, -1, -1):
                                to = results + 16 * vector * (i * width + j)
                                source = at + 4 * (i * tiles_in_line + j) * m_row
                                output_tile((source, m_step, to, vector * width, bias_at + 4 * (k0 + k)))
                        at += 4 * rows * tiles_in_line * m_row
                        left = min(vector, m1 - m0 - k0 - k)
                        deliver(w, image, m0 + k0 + k, left, row, rows, results)
        return 0

    return winograd


WINOGRAD = Kernel("winograd", _build)


def prepare(problem: Problem, weight_size: int, arguments: tuple[int, ...]) -> Prepared:
    """The convolution of a problem that `suits`; arguments: words of the inputs and outputs, without the workspace."""
    lanes = host_lanes()
    rows, columns = problem.tiles
    width = -(-problem.maps // lanes.columns) * lanes.columns
    depth = -(-problem.channels // lanes.vector) * lanes.vector
    maps_at_once = min(width, _MAPS_AT_ONCE)
    lines = problem.images * rows
    at_once = _lines_at_once(columns, lines, _BLOCK_BYTES // (4 * 36 * (depth + maps_at_once)))
    by_maps = problem.maps > lines * columns
    work_us = 2.0 * 36 * lines * columns * depth * width / _FLOPS_PER_US / 2.25
    parts = share_count(work_us, width // lanes.columns if by_maps else -(-lines // at_once))
    if not by_maps:  # every share transforms all weights
        parts = max(1, min(parts, lines * columns // 24))
    tiles = -(-at_once * columns // lanes.rows) * lanes.rows
    together = min(at_once, rows)  # rows of tiles in one image
    transformed = 36 * (problem.channels * lanes.columns + lanes.vector) * (width // lanes.columns)
    # The flat copy holds taps first, with a vector on both sides.
    flat = max(lanes.vector * 3 + 9, (4 * together + 2) * problem.source[1] + lanes.vector)
    padded = (4 * together + 2) * (4 * columns + 2)
    results = (4 * together + 1) * problem.result[1] + 4 * columns + lanes.vector
    sizes = [width, 0 if by_maps else transformed, 36 * (tiles * depth + lanes.vector)]
    sizes += [36 * (tiles * maps_at_once + lanes.vector)]
    sizes += [lanes.vector * size for size in (flat, padded, results)]
    starts = [BLOCK_BYTES]
    for size in sizes:
        starts.append(starts[-1] + -(-4 * size // 64) * 64)
    share_bytes = starts.pop()
    parts = fitting_shares(parts, share_bytes)
    words = [0, 0, 0, 0, 0, share_bytes, problem.images, problem.channels, *problem.source, problem.maps]
    words += [*problem.result, *problem.pad, rows, columns, at_once, int(by_maps)]
    words += [problem.weight_map, problem.weight_channel, *((8, -1) if problem.turned else (0, 1))]
    shared_bytes = 4 * transformed if by_maps else 0
    words += [maps_at_once, weight_size, *starts, shared_bytes, COLLECT_ROWS.address(), 0, 0]
    assert len(words) == 36
    note = f"winograd 4x4, {at_once * columns} tiles at once"
    workspace = shared_bytes + share_bytes * parts
    return launch(WINOGRAD, words, (*arguments, 4), parts=parts, workspace=workspace, after={0: 34}, note=note)


def _lines_at_once(columns: int, lines: int, tiles: int) -> int:
    """How many rows of tiles are transformed at once: about `tiles` tiles, that waste little of the register tiles."""
    step = host_lanes().rows // 3
    most = max(1, min(lines, max(2 * host_lanes().rows, tiles) // columns))

    def waste(count: int) -> float:
        return -(-count * columns // step) * step / (count * columns)

    return min(range(1, most + 1), key=lambda count: (round(waste(count), 2), -count))
