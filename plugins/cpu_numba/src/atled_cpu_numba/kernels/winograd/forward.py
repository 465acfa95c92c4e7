"""Convolution with stride 1 by Winograd's F(4x4, 3x3) and F(2x2, 5x5): a quarter of the multiplications, or 36 %.

Tiles of 6 x 6 elements, the kernels, and 36 products for 4 x 4 or 2 x 2 results are transformed with channels and maps
in the lanes, see `blocks`; in between stand 36 matrix products of (tiles, channels) by (channels, maps).

In float32 the results are less accurate than direct sums: where they are of scale 1, the largest errors are about 5e-5
instead of 5e-6, with 512 channels 7e-5 instead of 1e-5; a weight's gradient has 2e-5 instead of 1e-6. Equal inputs give
equal bits. An error is in proportion to the largest element of its tile, whose 6 x 6 elements may lie outside the
window of a result: an outlier spoils up to 16 results around (by kernels of 5 x 5: 4), an infinity makes them NaN.
Contexts with `local_errors=True` or `deterministic=True` have everything computed directly, and so has all work after
`ENABLED = False` was set.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from atled.plugin import Call, NamedTuple, Prepared
from atled_cpu_numba.kernels.shared.lanes import SIZES, host_lanes, lanes_of
from atled_cpu_numba.kernels.shared.launch import (
    fitting_shares,
    kernels_by_dtype,
    launch,
    optional_words,
    piece_starts,
    share_count,
)
from atled_cpu_numba.kernels.shared.layout import filled, layout
from atled_cpu_numba.kernels.winograd.rows import BLOCK_BYTES, COLLECT_ROWS, CollectRows
from atled_cpu_numba.kernels.winograd.transformed_weights import TRANSFORM_WEIGHTS, Transform, weights_transformed

# False: for work that wants the accuracy of direct sums everywhere.
ENABLED = True

# Below, transforming takes longer than it saves.
_LEAST_CHANNELS = 6
_MOST_LANES = 1.6  # per map, where these are less than two vectors
_LEAST_PAIRS = 128  # of a channel and a map
# Below, transforming the weights takes longer. Those of a convolution mostly stay as they are from run to run, and so
# does their transform; where it has to be made anew, few of them take no longer than direct sums.
_LEAST_TILES, _LEAST_CONVOLVED_TILES, _LEAST_OF_FEW_WEIGHTS = 12, 8, 4
_FEW_WEIGHTS = 128 * 128  # pairs of a channel and a map
# Multiplications per one of the direct sums: tiles reach beyond the borders.
_MOST_PRODUCTS = 0.66
_MOST_TILES_IN_A_ROW = 96

# Of transformed tiles and products at once: most of a level-2 cache; in double, what half as many tiles save there
# takes reading the weights twice as often.
_BLOCK_BYTES = {"float32": 640 << 10, "float64": 1 << 20}
# The same beside transformed weights of at most so many bytes under AVX2, with which go smaller level-2 caches: in 512
# KiB, convolutions of 16 to 32 channels and maps take .95 of their time.
_NEAR_BLOCK_BYTES, _NEAR_WEIGHTS_BYTES = 232 << 10, 160 << 10
_MAPS_AT_ONCE = 128
_FLOPS_PER_US = 90e3  # a cautious rate of one core, transformations included, for the number of shares


@layout
class Block:
    """What the kernel reads; strides in elements, starts in bytes from a share's workspace."""

    x: int  # address of x or gy
    weight: int
    bias: int  # or 0
    y: int  # or gx
    workspace: int
    share_bytes: int  # of workspace, which begins with the block of COLLECT_ROWS
    images: int
    channels: int
    height: int  # of the source
    width: int
    maps: int
    result_height: int
    result_width: int
    pad_h: int
    pad_w: int
    tile_lines: int  # rows of tiles per image
    tiles_in_line: int
    lines_at_once: int
    maps_shared: int  # 1: shares are made of maps, 0: of rows of tiles
    weight_map: int  # strides of the weight
    weight_channel: int
    first_tap: int  # 0, or the last one for the gradient, which turns the kernel around
    tap_step: int  # 1, or -1
    maps_at_once: int
    weight_size: int  # elements
    bias_start: int
    weights_start: int  # of transformed weights
    tiles_start: int  # of transformed tiles
    products_start: int
    flat_start: int  # of transposed elements: first taps, then positions of the source
    padded_start: int  # of padded rows of them
    columns_start: int  # of a row of tiles, transformed by columns
    results_start: int
    shared_bytes: int  # before the workspaces of the shares, for the transformed weights if shares are made of maps
    collect_rows: int  # address of COLLECT_ROWS
    source_bytes: int  # of an element of x
    transform: int  # address of TRANSFORM_WEIGHTS
    transformed: int  # address of all weights as that makes them, or 0
    after: int  # range kernel to run on what is written of the result, or 0
    after_block: int


class Problem(NamedTuple):
    """A convolution with 3 x 3 or 5 x 5 kernels and stride 1, or the gradient of one, which is another one.

    source, result: height and width.  weight_map, weight_channel: strides of the weight, in elements.
    turned: whether the kernel is to be turned around.  kernel: its side.
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
    dtype: str = "float32"
    kernel: int = 3

    @property
    def step(self) -> int:
        """Rows and columns of the results of a tile."""
        return results_of(self.kernel)

    @property
    def tiles(self) -> tuple[int, int]:
        """Tiles per image: rows, and in a row."""
        return -(-self.result[0] // self.step), -(-self.result[1] // self.step)


def results_of(kernel: int) -> int:
    """Rows and columns of the results that a tile of 6 x 6 has for kernels of a side."""
    return 7 - kernel


def excluded_for(call: Call) -> str:
    """The flag of the Context that excludes this algorithm; "" where none does."""
    return next((flag for flag in ("local_errors", "deterministic") if getattr(call, flag)), "")


def told(prepared: Prepared, flag: str) -> Prepared:
    """The direct sums that are computed in this algorithm's place, with a note that says for which flag."""
    prepared.note += f", for {flag}"
    return prepared


def can(problem: Problem) -> bool:
    """Whether Winograd is allowed and computed here."""
    return (
        ENABLED
        and problem.tiles[1] <= _MOST_TILES_IN_A_ROW
        and min(problem.pad) >= 0
        and math.prod(problem.source) >= lanes_of(problem.dtype).vector
    )


def suits(problem: Problem, *, is_cut: bool = False) -> bool:
    """Whether it pays, too; is_cut: as one of several groups, which are collected before."""
    # Of a gradient of wide kernels, direct sums of many registers (`convolution.adjoint_lanes`) multiply the elements
    # that are there, fewer than those of the result.
    positions = math.prod(problem.result)
    if problem.turned and problem.kernel > 3 and not host_lanes().has_short_tiles:
        positions = min(positions, math.prod(problem.source))
    return (
        can(problem)
        and problem.channels >= _LEAST_CHANNELS
        and fills_lanes(problem.maps, problem.dtype)
        and problem.channels * problem.maps >= _LEAST_PAIRS
        and problem.images * math.prod(problem.tiles) >= (_LEAST_TILES if is_cut else _least_tiles(problem))
        and has_few_products(problem, positions)
    )


def _least_tiles(problem: Problem) -> int:
    if problem.turned:
        return _LEAST_TILES
    is_small = problem.channels * problem.maps <= _FEW_WEIGHTS
    return _LEAST_OF_FEW_WEIGHTS if is_small else _LEAST_CONVOLVED_TILES


def fills_lanes(maps: int, dtype: str) -> bool:
    """Whether few lanes are computed in vain."""
    vector = lanes_of(dtype).vector
    return maps > vector or vector <= _MOST_LANES * maps


def has_few_products(problem: Problem, positions: float) -> bool:
    """Whether all tiles multiply much less than direct sums for so many positions of an image."""
    return 36 * math.prod(problem.tiles) <= _MOST_PRODUCTS * problem.kernel**2 * positions


def _build(dtype: str, side: int) -> Callable[..., int]:
    """The kernel for kernels of `side` x `side`."""
    from atled_cpu_numba.codegen import call3, words
    from atled_cpu_numba.kernels.shared.options import Real, kernel, piece
    from atled_cpu_numba.kernels.winograd.blocks import tiles_of
    from atled_cpu_numba.kernels.winograd.products import make_products

    element, floats = SIZES[dtype], Real(dtype).pointer
    made, step = tiles_of(dtype, side), results_of(side)
    beside = side - 1  # rows and columns of a tile beside those of its results
    input_column, input_rows = made.input_column, made.input_rows
    output_tile, store_transposed = made.output, made.store_transposed
    lanes = lanes_of(dtype)
    vector, tile_rows, tile_columns = lanes.vector, lanes.rows, lanes.columns
    multiply = make_products(36, dtype)

    @piece
    def deliver(w, image, first_map, maps, first_row, rows, results):
        """Results of `rows` rows of tiles, a vector of maps wide, to y."""
        height, width = w[Block.result_height], w[Block.result_width]
        count = min(step * rows, height - step * first_row) * width
        target = w[Block.y] + element * (((image * w[Block.maps] + first_map) * height + step * first_row) * width)
        for p in range((count + vector - 1) // vector):
            here = max(0, min(p * vector, count - vector))
            source = results + element * vector * here
            store_transposed((source, min(vector, count), target + element * here, height * width, maps))
        if w[Block.after] != 0:
            start = (target - w[Block.y]) // element
            for _ in range(maps):
                call3(w[Block.after], w[Block.after_block], start, start + count)
                start += height * width

    @kernel
    def winograd(block, part, parts):
        w = words(block)
        images, channels, maps, tile_lines = w[Block.images], w[Block.channels], w[Block.maps], w[Block.tile_lines]
        tiles_in_line, lines_at_once = w[Block.tiles_in_line], w[Block.lines_at_once]
        inner = w[Block.workspace] + w[Block.shared_bytes] + part * w[Block.share_bytes]
        q = words(inner)
        bias_at, u, v = inner + w[Block.bias_start], inner + w[Block.weights_start], inner + w[Block.tiles_start]
        m = inner + w[Block.products_start]
        flat, padded = inner + w[Block.flat_start], inner + w[Block.padded_start]
        columns = inner + w[Block.columns_start]
        results = inner + w[Block.results_start]
        # A vector more than needed: a power of two apart, all 36 would compete for the same lines of the cache.
        u_step = channels * tile_columns + vector
        lines = images * tile_lines
        panels = (maps + tile_columns - 1) // tile_columns
        m0, m1 = 0, maps
        b0, b1 = 0, (lines + lines_at_once - 1) // lines_at_once
        if w[Block.maps_shared] != 0:
            m0, m1 = panels * part // parts * tile_columns, min(maps, panels * (part + 1) // parts * tile_columns)
        else:
            b0, b1 = b1 * part // parts, b1 * (part + 1) // parts
        if w[Block.maps_shared] != 0:  # each share fills its part of one array, however many shares there are
            u = w[Block.workspace] + element * 36 * u_step * (m0 // tile_columns)
        if m0 >= m1 or b0 >= b1:
            return 0
        panels = (m1 - m0 + tile_columns - 1) // tile_columns
        if w[Block.transformed] != 0:
            u = w[Block.transformed] + element * 36 * u_step * (m0 // tile_columns)
        else:
            weight, weight_map, weight_channel = w[Block.weight], w[Block.weight_map], w[Block.weight_channel]
            first_tap, tap_step, weight_size = w[Block.first_tap], w[Block.tap_step], w[Block.weight_size]
            q[Transform.weight], q[Transform.target], q[Transform.taps] = weight, u, flat
            q[Transform.channels], q[Transform.maps], q[Transform.first_map] = channels, m1 - m0, m0
            q[Transform.weight_map], q[Transform.weight_channel] = weight_map, weight_channel
            q[Transform.first_tap], q[Transform.tap_step], q[Transform.weight_size] = first_tap, tap_step, weight_size
            call3(w[Block.transform], inner, 0, 1)
        bias = floats(bias_at)
        for i in range(panels * tile_columns):
            bias[i] = floats(w[Block.bias])[m0 + i] if w[Block.bias] != 0 and m0 + i < m1 else 0.0
        tiles_at_once = (lines_at_once * tiles_in_line + tile_rows - 1) // tile_rows * tile_rows
        v_panel, m_row = tiles_at_once * vector, w[Block.maps_at_once]
        v_step = v_panel * ((channels + vector - 1) // vector) + vector
        m_step = tiles_at_once * m_row + vector
        row_length, width = vector * (step * tiles_in_line + beside), w[Block.result_width]
        for b in range(b0, b1):
            first, after = b * lines_at_once, min(lines, (b + 1) * lines_at_once)
            for channel in range(0, channels, vector):
                line, to = first, v + element * channel // vector * v_panel
                while line < after:
                    image = line // tile_lines
                    row = line - image * tile_lines
                    rows = min(tile_lines - row, after - line)
                    line += rows
                    size = w[Block.height] * w[Block.width]
                    x = w[Block.x] + w[Block.source_bytes] * (image * channels + channel) * size
                    q[CollectRows.source], q[CollectRows.known] = x, min(vector, channels - channel)
                    height, source_width, top = w[Block.height], w[Block.width], step * row - w[Block.pad_h]
                    wanted = step * rows + beside
                    q[CollectRows.height], q[CollectRows.width] = height, source_width
                    q[CollectRows.top], q[CollectRows.lines] = top, wanted
                    q[CollectRows.left], q[CollectRows.length] = w[Block.pad_w], step * tiles_in_line + beside
                    q[CollectRows.flat], q[CollectRows.padded] = flat, padded
                    call3(w[Block.collect_rows], inner, 0, 1)
                    for i in range(rows):
                        # Neighbours share columns: their first transformation is done once.
                        at = padded + step * element * i * row_length
                        for j in range(0, row_length, vector):
                            input_column((at + element * j, row_length, columns + element * j, row_length))
                        at = columns
                        for _ in range(tiles_in_line):
                            input_rows((at, row_length, to, v_step))
                            at += step * element * vector
                            to += element * vector
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
                    u + element * 36 * u_step * (k0 // tile_columns),
                    u_step,
                    m,
                    m_row,
                    m_step,
                )
                for k in range(0, taken, vector):
                    line, at = first, m + element * k
                    while line < after:
                        image = line // tile_lines
                        row = line - image * tile_lines
                        rows = min(tile_lines - row, after - line)
                        line += rows
                        for i in range(rows):
                            # From right to left: what reaches beyond a row is replaced by the beginning of the next.
                            for j in range(tiles_in_line - 1, -1, -1):
                                to = results + step * element * vector * (i * width + j)
                                source = at + element * (i * tiles_in_line + j) * m_row
                                output_tile((source, m_step, to, vector * width, bias_at + element * (k0 + k)))
                        at += element * rows * tiles_in_line * m_row
                        left = min(vector, m1 - m0 - k0 - k)
                        deliver(w, image, m0 + k0 + k, left, row, rows, results)
        return 0

    return winograd


WINOGRAD = {3: kernels_by_dtype("winograd", _build, 3), 5: kernels_by_dtype("winograd_5x5", _build, 5)}
"""By the side of the kernels, then by dtype."""


def prepare(problem: Problem, weight_size: int, biases: Sequence[bool]) -> Prepared:
    """The convolution of a problem that `suits`; biases: for each input behind the weight, whether it is there."""
    plan = _plan(problem)
    starts = _starts(problem, plan)
    parts = fitting_shares(_share_count(problem, plan), starts["share_bytes"])
    words = filled(
        Block,
        images=problem.images,
        channels=problem.channels,
        height=problem.source[0],
        width=problem.source[1],
        maps=problem.maps,
        result_height=problem.result[0],
        result_width=problem.result[1],
        pad_h=problem.pad[0],
        pad_w=problem.pad[1],
        tile_lines=problem.tiles[0],
        tiles_in_line=problem.tiles[1],
        lines_at_once=plan.at_once,
        maps_shared=int(plan.by_maps),
        weight_map=problem.weight_map,
        weight_channel=problem.weight_channel,
        first_tap=problem.kernel**2 - 1 if problem.turned else 0,
        tap_step=-1 if problem.turned else 1,
        maps_at_once=plan.maps_at_once,
        weight_size=weight_size,
        collect_rows=COLLECT_ROWS[problem.dtype].address(),
        source_bytes=SIZES[problem.dtype],
        transform=TRANSFORM_WEIGHTS[problem.kernel**2][problem.dtype].address(),
        **starts,
    )
    strides = problem.weight_map, problem.weight_channel
    transformed = weights_transformed(
        Block.transformed,
        problem.channels,
        problem.maps,
        strides,
        weight_size,
        problem.dtype,
        taps=problem.kernel**2,
        turned=problem.turned,
    )
    biased = optional_words(Block.bias, biases)
    return launch(
        WINOGRAD[problem.kernel][problem.dtype],
        words,
        (Block.x, Block.weight, *biased, Block.y, Block.workspace),
        parts=parts,
        workspace=starts["shared_bytes"] + starts["share_bytes"] * parts,
        after={0: Block.after},
        packs=(transformed,),
        note=f"winograd {problem.step}x{problem.step}, {plan.at_once * problem.tiles[1]} tiles at once",
    )


class _Plan(NamedTuple):
    """How a convolution is computed.

    width, depth: its maps and channels, in whole panels and vectors.  at_once, maps_at_once: rows of tiles, and maps.
    by_maps: whether shares are made of maps.
    """

    width: int
    depth: int
    at_once: int
    maps_at_once: int
    by_maps: bool


def _plan(problem: Problem) -> _Plan:
    lanes, (rows, columns) = lanes_of(problem.dtype), problem.tiles
    width = -(-problem.maps // lanes.columns) * lanes.columns
    depth = -(-problem.channels // lanes.vector) * lanes.vector
    maps_at_once = min(width, _MAPS_AT_ONCE)
    lines = problem.images * rows
    product_bytes, block_bytes = SIZES[problem.dtype] * 36, _BLOCK_BYTES[problem.dtype]
    if host_lanes().has_short_tiles and product_bytes * depth * width <= _NEAR_WEIGHTS_BYTES:
        block_bytes = _NEAR_BLOCK_BYTES
    at_once = _lines_at_once(columns, lines, block_bytes // (product_bytes * (depth + maps_at_once)))
    return _Plan(width, depth, at_once, maps_at_once, by_maps=problem.maps > lines * columns)


def _share_count(problem: Problem, plan: _Plan) -> int:
    rows, columns = problem.tiles
    lines = problem.images * rows
    work_us = 2.0 * 36 * lines * columns * plan.depth * plan.width / _FLOPS_PER_US / 2.25
    parts = share_count(
        work_us, plan.width // lanes_of(problem.dtype).columns if plan.by_maps else -(-lines // plan.at_once)
    )
    # Unless shares are made of maps, each transforms all weights.
    return parts if plan.by_maps else max(1, min(parts, lines * columns // 24))


def _starts(problem: Problem, plan: _Plan) -> dict[str, int]:
    """Words of the block: where the pieces of a share's workspace begin, and how many bytes the workspace takes."""
    lanes, (rows, columns) = lanes_of(problem.dtype), problem.tiles
    tiles = -(-plan.at_once * columns // lanes.rows) * lanes.rows
    together = min(plan.at_once, rows)  # rows of tiles in one image
    transformed = 36 * (problem.channels * lanes.columns + lanes.vector) * (plan.width // lanes.columns)
    # The flat copy holds taps first, with a vector on both sides.
    step, beside = problem.step, problem.kernel - 1
    flat = max(lanes.vector * 3 + problem.kernel**2, (step * together + beside) * problem.source[1] + lanes.vector)
    sizes = {
        "bias_start": plan.width,
        "weights_start": 0 if plan.by_maps else transformed,
        "tiles_start": 36 * (tiles * plan.depth + lanes.vector),
        "products_start": 36 * (tiles * plan.maps_at_once + lanes.vector),
        "flat_start": lanes.vector * flat,
        "padded_start": lanes.vector * (step * together + beside) * (step * columns + beside),
        "columns_start": lanes.vector * 6 * (step * columns + beside),
        "results_start": lanes.vector * ((step * together + 1) * problem.result[1] + step * columns + lanes.vector),
    }
    starts = piece_starts(BLOCK_BYTES, {name: SIZES[problem.dtype] * size for name, size in sizes.items()})
    return {**starts, "shared_bytes": SIZES[problem.dtype] * transformed if plan.by_maps else 0}


def _lines_at_once(columns: int, lines: int, tiles: int) -> int:
    """How many rows of tiles are transformed at once: about `tiles` tiles, that waste little of the register tiles."""
    step = host_lanes().rows // 3
    most = max(1, min(lines, max(2 * host_lanes().rows, tiles) // columns))

    def waste(count: int) -> float:
        whole, rest = divmod(lines, count)
        taken = whole * -(-count * columns // step) + -(-rest * columns // step)
        return taken * step / (lines * columns)

    return min(range(1, most + 1), key=lambda count: (round(waste(count), 2), -count))
