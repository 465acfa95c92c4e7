"""The gradient of a 3 x 3 convolution with respect to its weight by Winograd, for images with the batch innermost.

Tiles of x are transformed with images in the lanes, those of gy with maps: these are transposed first. So the 36
products add over tiles and images. It is as accurate as `kernels.winograd.weight`.

Shares are made of channels; each transforms all tiles of gy.
"""

from __future__ import annotations

from collections.abc import Callable

from atled.plugin import Prepared
from atled_cpu_numba.kernels.chwn.problem import Problem
from atled_cpu_numba.kernels.chwn.row_sums import BLOCK_BYTES, ROW_SUMS, RowSums
from atled_cpu_numba.kernels.chwn.tiles import SIDE
from atled_cpu_numba.kernels.chwn.winograd import is_3x3, planar
from atled_cpu_numba.kernels.shared.lanes import host_lanes
from atled_cpu_numba.kernels.shared.launch import fitting_shares, launch, piece_starts, share_count
from atled_cpu_numba.kernels.shared.layout import filled, layout
from atled_cpu_numba.kernels.winograd import weight as planes
from atled_cpu_numba.store import Kernel

_TERMS_AT_ONCE = 64  # tiles times images whose transformed tiles stay close
_FLOPS_PER_US = 40e3  # a cautious rate of one core, transformations included, for the number of shares


@layout
class Block:
    """What the kernel reads; strides in elements, starts in bytes from a share's workspace."""

    x: int  # address
    gy: int
    gw: int
    workspace: int
    share_bytes: int  # of workspace, which begins with the block of ROW_SUMS
    shared_bytes: int  # before the workspaces of the shares: the products, each share in its part
    images: int
    channels: int
    height: int  # of x
    width: int
    maps: int
    rows: int  # of gy
    columns: int
    pad_h: int
    pad_w: int
    tile_lines: int
    tiles_in_line: int
    tiles_at_once: int
    image_chunks: int
    terms: int  # tiles times images at once, at most
    x_channel: int
    x_row: int
    x_column: int
    gy_map: int
    gy_row: int
    gy_column: int
    gw_map: int
    gw_channel: int
    gw_row: int
    gw_column: int
    row_sums: int  # address of ROW_SUMS
    table_start: int
    x_tiles_start: int  # of transformed tiles of x
    gy_tiles_start: int
    stage_start: int  # a tile of x; or of gy for a vector of images, then of gw for a vector of maps


def suits(problem: Problem) -> bool:
    """Whether Winograd is allowed and pays."""
    return is_3x3(problem) and planes.suits(planar(problem))


def _build() -> Callable[..., int]:
    from atled_cpu_numba.codegen import call3, floats32, words
    from atled_cpu_numba.kernels.chwn.products import make_prefetch
    from atled_cpu_numba.kernels.chwn.tiles import make_read_tile
    from atled_cpu_numba.kernels.shared.options import kernel, piece
    from atled_cpu_numba.kernels.shared.vectors import transpose_block
    from atled_cpu_numba.kernels.winograd.blocks import tiles_of

    lanes = host_lanes()
    vector, tile_rows, tile_columns = lanes.vector, lanes.rows, lanes.columns
    read_tile, prefetch = make_read_tile(), make_prefetch(vector, 1)
    tiles = tiles_of("float32")
    gradient_tile, weight_gradient_tile = tiles.gradient, tiles.weight_gradient

    @piece
    def transform_maps(w, gy, known, top, left, stage, target, step):
        """A tile of gy of a vector of images and `known` maps."""
        zeros = floats32(stage)
        if top + 4 > w[Block.rows] or left + 4 > w[Block.columns]:
            for i in range(16 * vector * vector):
                zeros[i] = 0.0
        for i in range(min(4, w[Block.rows] - top)):
            for j in range(min(4, w[Block.columns] - left)):
                at = gy + 4 * ((top + i) * w[Block.gy_row] + (left + j) * w[Block.gy_column])
                prefetch((at + 16 * w[Block.gy_column], w[Block.gy_map], 0))  # of the next tile
                transpose_block((at, w[Block.gy_map], known, stage + 4 * vector * (4 * i + j), 16 * vector))
        for n in range(vector):
            gradient_tile((stage + 64 * vector * n, 4 * vector, target + 4 * n * tile_columns, step))

    @piece
    def deliver(w, panel, channel, m, m_step, stage):
        """The kernels of some maps for a channel to gw."""
        for lane in range(0, min(tile_columns, w[Block.maps] - panel), vector):
            weight_gradient_tile((m + 4 * lane, m_step, stage))
            at = w[Block.gw] + 4 * ((panel + lane) * w[Block.gw_map] + channel * w[Block.gw_channel])
            for i in range(3):
                for j in range(3):
                    gw = at + 4 * (i * w[Block.gw_row] + j * w[Block.gw_column])
                    found = floats32(stage + 4 * vector * (3 * i + j))
                    for k in range(min(vector, w[Block.maps] - panel - lane)):
                        floats32(gw + 4 * k * w[Block.gw_map])[0] = found[k]

    @kernel
    def chwn_winograd_weight(block, part, parts):
        w = words(block)
        images, channels, maps = w[Block.images], w[Block.channels], w[Block.maps]
        units = (channels + tile_rows - 1) // tile_rows
        c0, c1 = units * part // parts * tile_rows, min(channels, units * (part + 1) // parts * tile_rows)
        if c0 >= c1:
            return 0
        own = w[Block.workspace] + w[Block.shared_bytes] + part * w[Block.share_bytes]
        r, table, v = words(own), words(own + w[Block.table_start]), own + w[Block.x_tiles_start]
        gy_tiles, stage = own + w[Block.gy_tiles_start], own + w[Block.stage_start]
        # A vector more than needed: a power of two apart, they would compete for the same lines of the cache.
        v_row = w[Block.terms] + vector
        v_step, gy_step = channels * v_row + vector, w[Block.terms] * tile_columns + vector
        m_step = channels * tile_columns
        for channel in range(c0, c1):
            table[channel - c0] = channel * v_row
        for panel in range(0, maps, tile_columns):
            for product in range(36):
                zeros = floats32(w[Block.workspace] + 4 * ((36 * (panel // tile_columns) + product) * m_step))
                for i in range(c0 * tile_columns, c1 * tile_columns):
                    zeros[i] = 0.0
        tiles_in_line, at_once, chunks = w[Block.tiles_in_line], w[Block.tiles_at_once], w[Block.image_chunks]
        tiles = w[Block.tile_lines] * tiles_in_line
        for b in range((tiles + at_once - 1) // at_once * chunks):
            first = b // chunks * at_once
            after, chunk = min(tiles, first + at_once), b % chunks
            n0 = images * chunk // chunks
            count = images * (chunk + 1) // chunks - n0
            for channel in range(c0, c1):
                for tile in range(first, after):
                    line = tile // tiles_in_line
                    top, left = 4 * line - w[Block.pad_h], 4 * (tile - line * tiles_in_line) - w[Block.pad_w]
                    for n in range(0, count, vector):
                        here = min(n, count - vector)
                        x = w[Block.x] + 4 * (channel * w[Block.x_channel] + n0 + here)
                        to = v + 4 * (channel * v_row + (tile - first) * count + here)
                        height, width = w[Block.height], w[Block.width]
                        row, column = w[Block.x_row], w[Block.x_column]
                        read_tile(x, row, column, top, left, height, width, stage, to, v_step, 4 * w[Block.x_channel])
            for panel in range(0, maps, tile_columns):
                for lane in range(0, min(tile_columns, maps - panel), vector):
                    for tile in range(first, after):
                        line = tile // tiles_in_line
                        top, left = 4 * line, 4 * (tile - line * tiles_in_line)
                        for n in range(0, count, vector):
                            here = min(n, count - vector)
                            gy = w[Block.gy] + 4 * ((panel + lane) * w[Block.gy_map] + n0 + here)
                            to = gy_tiles + 4 * (((tile - first) * count + here) * tile_columns + lane)
                            known = min(vector, maps - panel - lane)
                            transform_maps(w, gy, known, top, left, stage, to, gy_step)
                r[RowSums.k], r[RowSums.rows] = (after - first) * count, c1 - c0
                r[RowSums.table], r[RowSums.columns] = own + w[Block.table_start], maps - panel
                for product in range(36):
                    m = w[Block.workspace] + 4 * ((36 * (panel // tile_columns) + product) * m_step)
                    r[RowSums.a], r[RowSums.b] = v + 4 * product * v_step, gy_tiles + 4 * product * gy_step
                    r[RowSums.c] = m + 4 * c0 * tile_columns
                    call3(w[Block.row_sums], own, 0, 1)
        for panel in range(0, maps, tile_columns):
            for channel in range(c0, c1):
                m = w[Block.workspace] + 4 * (36 * (panel // tile_columns) * m_step + channel * tile_columns)
                deliver(w, panel, channel, m, m_step, stage)
        return 0

    return chwn_winograd_weight


CHWN_WINOGRAD_WEIGHT = Kernel("chwn_winograd_weight", _build)


def prepare(problem: Problem) -> Prepared:
    """x, gy -> gw of a problem that `suits`."""
    p, lanes, flat = problem, host_lanes(), planar(problem)
    vector = lanes.vector
    lines, in_line = flat.tiles
    chunks = max(1, p.images // max(_TERMS_AT_ONCE, vector))
    tiles_at_once = 1 if chunks > 1 else max(1, min(lines * in_line, _TERMS_AT_ONCE // p.images))
    terms = tiles_at_once * -(-p.images // chunks)
    panels = -(-p.maps // lanes.columns)
    sizes = {
        "table_start": 2 * p.channels,
        "x_tiles_start": 36 * (p.channels * (terms + vector) + vector),
        "gy_tiles_start": 36 * (terms * lanes.columns + vector),
        "stage_start": max(SIDE * SIDE, 16 * vector) * vector,
    }
    starts = piece_starts(BLOCK_BYTES, {name: 4 * size for name, size in sizes.items()})
    shared_bytes = 4 * 36 * panels * p.channels * lanes.columns
    work_us = p.flops / (9 * _FLOPS_PER_US)
    parts = fitting_shares(share_count(work_us, -(-p.channels // lanes.rows)), starts["share_bytes"])
    words = filled(
        Block,
        shared_bytes=shared_bytes,
        images=p.images,
        channels=p.channels,
        height=flat.source[0],
        width=flat.source[1],
        maps=p.maps,
        rows=flat.result[0],
        columns=flat.result[1],
        pad_h=flat.pad[0],
        pad_w=flat.pad[1],
        tile_lines=lines,
        tiles_in_line=in_line,
        tiles_at_once=tiles_at_once,
        image_chunks=chunks,
        terms=terms,
        x_channel=p.source[1],
        x_row=p.source[3],
        x_column=p.source[4],
        gy_map=p.result[1],
        gy_row=p.result[3],
        gy_column=p.result[4],
        gw_map=p.weight[0],
        gw_channel=p.weight[1],
        gw_row=p.weight[3],
        gw_column=p.weight[4],
        row_sums=ROW_SUMS.address(),
        **starts,
    )
    return launch(
        CHWN_WINOGRAD_WEIGHT,
        words,
        (Block.x, Block.gy, Block.gw, Block.workspace),
        parts=parts,
        workspace=shared_bytes + starts["share_bytes"] * parts,
        owner=(CHWN_WINOGRAD_WEIGHT, ROW_SUMS),
        note=f"winograd 4x4, batch innermost, {tiles_at_once} tiles at once of {-(-p.images // chunks)} images",
    )
