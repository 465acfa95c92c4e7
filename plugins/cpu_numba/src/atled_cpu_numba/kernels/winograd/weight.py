"""The gradient of a 3 x 3 convolution with stride 1 with respect to its weight by Winograd's F(4x4, 3x3), in float32.

It is the transpose of what `winograd` computes in the kernel: tiles of x and of gy are transformed with channels and
maps in the lanes, 36 matrix products add over the tiles, and what they give is transformed back to kernels. It is as
accurate as there.

Shares are made of panels of maps; each transforms all tiles of x.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from atled.plugin import Prepared
from atled_cpu_numba.kernels.shared.image_runs import in_runs
from atled_cpu_numba.kernels.shared.lanes import SIZES, lanes_of
from atled_cpu_numba.kernels.shared.launch import fitting_shares, kernels_by_dtype, launch, piece_starts, share_count
from atled_cpu_numba.kernels.shared.layout import filled, layout
from atled_cpu_numba.kernels.winograd import forward as winograd
from atled_cpu_numba.kernels.winograd.rows import BLOCK_BYTES, COLLECT_ROWS, CollectRows

_TILES_AT_ONCE = 64  # their transformed tiles of a channel and a map stay in the level-1 cache
_LEAST_TILES = 16  # below, transforming the products takes longer than it saves
_FLOPS_PER_US = 40e3  # a cautious rate of one core, transformations included, for the number of shares


@layout
class Block:
    """What the kernel reads; starts in bytes from a share's workspace."""

    x: int  # address
    gy: int
    gw: int
    workspace: int
    share_bytes: int  # of workspace, which begins with the block of COLLECT_ROWS
    images: int
    channels: int
    height: int  # of x
    width: int
    maps: int
    rows: int  # of gy
    columns: int
    pad_h: int
    pad_w: int
    tile_lines: int  # rows of tiles per image
    tiles_in_line: int
    lines_at_once: int
    tile_step: int  # elements from tile to tile of x's transformed tiles
    shared_bytes: int  # before the workspaces of the shares: the products, each share in its part
    x_tiles_start: int  # of transformed tiles of x
    gy_tiles_start: int
    flat_start: int  # of transposed elements
    padded_start: int  # of padded rows of them
    collect_rows: int  # address of COLLECT_ROWS
    computed: int  # channels, as many as the tiles compute


def _build(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import call3, words
    from atled_cpu_numba.kernels.shared.options import kernel, piece
    from atled_cpu_numba.kernels.winograd.blocks import make_outer_tile, tiles_of

    element = SIZES[dtype]
    tiles = tiles_of(dtype)
    gradient_tile, weight_gradient_tile = tiles.gradient, tiles.weight_gradient
    input_tile, store_transposed = tiles.input, tiles.store_transposed
    lanes = lanes_of(dtype)
    vector, tile_rows, tile_columns = lanes.vector, lanes.rows, lanes.columns
    vectors = tile_columns // vector
    third, two_thirds = tile_rows // 3, 2 * tile_rows // 3
    full = make_outer_tile(tile_rows, vectors, tile_columns, dtype)
    lower = make_outer_tile(two_thirds, vectors, tile_columns, dtype)
    lowest = make_outer_tile(third, vectors, tile_columns, dtype)
    slim_rows = _slim_rows(dtype)
    slim = make_outer_tile(slim_rows, 1, tile_columns, dtype)

    @piece
    def multiply(tiles, channels, maps, v, v_row, v_step, y, y_step, m, m_step, adding):
        """The 36 products of transformed tiles of x and of gy, for one panel of maps."""
        for _ in range(36):
            if maps <= vector:
                for r in range(0, channels, slim_rows):
                    slim((tiles, v + element * r, v_row, y, m + element * r * tile_columns, adding))
            for r in range(0, 0 if maps <= vector else channels, tile_rows):
                left, to = channels - r, m + element * r * tile_columns
                if left > two_thirds:
                    full((tiles, v + element * r, v_row, y, to, adding))
                elif left > third:
                    lower((tiles, v + element * r, v_row, y, to, adding))
                else:
                    lowest((tiles, v + element * r, v_row, y, to, adding))
            v += element * v_step
            y += element * y_step
            m += element * m_step

    @kernel
    def winograd_weight(block, part, parts):
        w = words(block)
        images, channels, height, width = w[Block.images], w[Block.channels], w[Block.height], w[Block.width]
        maps, rows, columns = w[Block.maps], w[Block.rows], w[Block.columns]
        tile_lines, tiles_in_line, lines_at_once = w[Block.tile_lines], w[Block.tiles_in_line], w[Block.lines_at_once]
        v_row = w[Block.tile_step]
        panels = (maps + tile_columns - 1) // tile_columns
        p0, p1 = panels * part // parts, panels * (part + 1) // parts
        if p0 == p1:
            return 0
        inner = w[Block.workspace] + w[Block.shared_bytes] + part * w[Block.share_bytes]
        q = words(inner)
        v, gy, flat = inner + w[Block.x_tiles_start], inner + w[Block.gy_tiles_start], inner + w[Block.flat_start]
        padded = inner + w[Block.padded_start]
        # A vector more than needed: a power of two apart, all 36 would compete for the same lines of the cache.
        v_step = lines_at_once * tiles_in_line * v_row + vector
        gy_step = lines_at_once * tiles_in_line * tile_columns + vector
        m_step = w[Block.computed] * tile_columns
        lines = images * tile_lines
        for b in range((lines + lines_at_once - 1) // lines_at_once):
            first, after = b * lines_at_once, min(lines, (b + 1) * lines_at_once)
            for channel in range(0, channels, vector):
                line, to = first, v + element * channel
                while line < after:
                    image = line // tile_lines
                    row = line - image * tile_lines
                    taken = min(tile_lines - row, after - line)
                    line += taken
                    length = 4 * tiles_in_line + 2
                    x = w[Block.x] + element * (image * channels + channel) * height * width
                    q[CollectRows.source], q[CollectRows.known] = x, min(vector, channels - channel)
                    top, wanted = 4 * row - w[Block.pad_h], 4 * taken + 2
                    q[CollectRows.height], q[CollectRows.width] = height, width
                    q[CollectRows.top], q[CollectRows.lines] = top, wanted
                    q[CollectRows.left], q[CollectRows.length] = w[Block.pad_w], length
                    q[CollectRows.flat], q[CollectRows.padded] = flat, padded
                    call3(w[Block.collect_rows], inner, 0, 1)
                    for i in range(taken):
                        at = padded + 4 * element * i * length * vector
                        for _ in range(tiles_in_line):
                            input_tile((at, length * vector, to, v_step))
                            at += 4 * element * vector
                            to += element * v_row
            for panel in range(p0, p1):
                left = maps - panel * tile_columns
                for lane in range(0, min(tile_columns, left), vector):
                    line, to = first, gy + element * lane
                    one = panel * tile_columns + lane
                    while line < after:
                        image = line // tile_lines
                        row = line - image * tile_lines
                        taken = min(tile_lines - row, after - line)
                        line += taken
                        length = 4 * tiles_in_line
                        y = w[Block.gy] + element * (image * maps + one) * rows * columns
                        q[CollectRows.source], q[CollectRows.known] = y, min(vector, maps - one)
                        top, wanted = 4 * row, 4 * taken
                        q[CollectRows.height], q[CollectRows.width] = rows, columns
                        q[CollectRows.top], q[CollectRows.lines] = top, wanted
                        q[CollectRows.left], q[CollectRows.length] = 0, length
                        q[CollectRows.flat], q[CollectRows.padded] = flat, padded
                        call3(w[Block.collect_rows], inner, 0, 1)
                        for i in range(taken):
                            at = padded + 4 * element * i * length * vector
                            for _ in range(tiles_in_line):
                                gradient_tile((at, length * vector, to, gy_step))
                                at += 4 * element * vector
                                to += element * tile_columns
                tiles, m = (after - first) * tiles_in_line, w[Block.workspace] + element * 36 * panel * m_step
                multiply(tiles, channels, left, v, v_row, v_step, gy, gy_step, m, m_step, 1 if b > 0 else 0)
        for panel in range(p0, p1):
            for lane in range(0, min(tile_columns, maps - panel * tile_columns), vector):
                one = panel * tile_columns + lane
                for channel in range(channels):
                    m = w[Block.workspace] + element * (36 * panel * m_step + channel * tile_columns + lane)
                    weight_gradient_tile((m, m_step, v + 9 * element * vector * channel))  # the tiles are used up
                count, gw = 9 * channels, w[Block.gw] + 9 * element * one * channels
                for p in range((count + vector - 1) // vector):
                    here = min(p * vector, count - vector)
                    source, known = v + element * vector * here, min(vector, maps - one)
                    store_transposed((source, vector, gw + element * here, count, known))
        return 0

    return winograd_weight


WINOGRAD_WEIGHT = kernels_by_dtype("winograd_weight", _build)


def _slim_rows(dtype: str) -> int:
    """Rows of the tile for maps of one vector: one of channels, if that is enough to keep two multipliers busy."""
    lanes = lanes_of(dtype)
    return lanes.vector if lanes.vector >= 8 else lanes.rows


def can(problem: winograd.Problem) -> bool:
    """Whether Winograd is allowed and computed here; problem: the convolution itself."""
    return winograd.can(problem) and math.prod(problem.result) >= lanes_of(problem.dtype).vector


def suits(problem: winograd.Problem) -> bool:
    """Whether it pays, too."""
    return can(problem) and winograd.suits(problem) and problem.images * math.prod(problem.tiles) >= _LEAST_TILES


def prepare(problem: winograd.Problem) -> Prepared:
    """x, gy -> gw of a problem that `suits`."""
    lanes, element = lanes_of(problem.dtype), SIZES[problem.dtype]
    rows, columns = problem.tiles
    lines = problem.images * rows
    at_once = max(1, min(lines, _TILES_AT_ONCE // columns))
    at_once = -(-lines // -(-lines // at_once))
    panels = -(-problem.maps // lanes.columns)
    starts = _starts(problem, at_once)
    work_us = 2.0 * 9 * problem.images * math.prod(problem.result) * problem.channels * problem.maps
    work_us /= 9 * _FLOPS_PER_US
    parts = fitting_shares(share_count(work_us, panels), starts["share_bytes"])
    shared_bytes = element * 36 * panels * _computed(problem) * lanes.columns
    words = filled(
        Block,
        images=problem.images,
        channels=problem.channels,
        height=problem.source[0],
        width=problem.source[1],
        maps=problem.maps,
        rows=problem.result[0],
        columns=problem.result[1],
        pad_h=problem.pad[0],
        pad_w=problem.pad[1],
        tile_lines=rows,
        tiles_in_line=columns,
        lines_at_once=at_once,
        tile_step=_tile_step(problem),
        shared_bytes=shared_bytes,
        collect_rows=COLLECT_ROWS[problem.dtype].address(),
        computed=_computed(problem),
        **starts,
    )
    prepared = launch(
        WINOGRAD_WEIGHT[problem.dtype],
        words,
        (Block.x, Block.gy, Block.gw, Block.workspace),
        parts=parts,
        workspace=shared_bytes + starts["share_bytes"] * parts,
        note=f"winograd 4x4, {at_once * columns} tiles at once",
    )
    if panels > 1:
        return prepared
    return in_runs(
        prepared,
        images=problem.images,
        images_word=Block.images,
        image_bytes=(
            element * problem.channels * math.prod(problem.source),
            element * problem.maps * math.prod(problem.result),
        ),
        size=9 * problem.channels * problem.maps,
        work_us=work_us,
        dtype=problem.dtype,
    )


def _computed(problem: winograd.Problem) -> int:
    """Channels, as many as the tiles compute."""
    return max(
        -(-problem.channels // step) * step for step in (lanes_of(problem.dtype).rows, _slim_rows(problem.dtype))
    )


def _tile_step(problem: winograd.Problem) -> int:
    """Elements from tile to tile of x's transformed tiles.

    A vector more than the channels need: powers of two apart, tiles would compete for the same lines of the cache.
    """
    vector = lanes_of(problem.dtype).vector
    return -(-problem.channels // vector) * vector + vector


def _starts(problem: winograd.Problem, at_once: int) -> dict[str, int]:
    """Words of the block: where the pieces of a share's workspace begin, and how many bytes it takes."""
    lanes, (rows, columns) = lanes_of(problem.dtype), problem.tiles
    together = min(at_once, rows)  # rows of tiles in one image
    # The tiles of x make room for kernels in the end.
    x_tiles = 36 * (at_once * columns * _tile_step(problem) + lanes.vector)
    x_tiles = max(x_tiles, 9 * lanes.vector * problem.channels)
    flat = max((4 * together + 2) * problem.source[1], 4 * together * problem.result[1]) + lanes.vector
    sizes = {
        "x_tiles_start": x_tiles + max(lanes.rows, _slim_rows(problem.dtype)),
        "gy_tiles_start": 36 * (at_once * columns * lanes.columns + lanes.vector),
        "flat_start": lanes.vector * flat,
        "padded_start": lanes.vector * (4 * together + 2) * (4 * columns + 2),
    }
    return piece_starts(BLOCK_BYTES, {name: SIZES[problem.dtype] * size for name, size in sizes.items()})
