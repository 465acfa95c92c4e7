"""The gradient of a 1 x 1 convolution with stride 1 with respect to its weight, in float32: a sum of matrix products.

gw (maps, channels) = sum over images of gy (maps, positions) by x transposed (positions, channels).

Shares are made of pieces of gw; each packs its channels of x.
"""

from __future__ import annotations

from collections.abc import Callable

from atled.plugin import Prepared
from atled_cpu_numba.kernels.products.panels import BLOCK_WORDS, PACK, Pack
from atled_cpu_numba.kernels.products.row_products import MULTIPLY_ROWS, Rows, packed_bytes
from atled_cpu_numba.kernels.shared.lanes import host_lanes
from atled_cpu_numba.kernels.shared.launch import fitting_shares, in_lines, launch, share_count
from atled_cpu_numba.kernels.shared.layout import filled, layout
from atled_cpu_numba.store import Kernel

LEAST_POSITIONS = 32  # of an image: sums this long, or reading and writing gw for each image takes longer

_POSITIONS_AT_ONCE = 384
_MAPS_AT_ONCE = 192
_FLOPS_PER_US = 150e3  # a cautious rate of one core, for the number of shares


@layout
class Block:
    """What the kernel reads."""

    pack: int  # address of PACK
    multiply_rows: int  # address of MULTIPLY_ROWS
    x: int
    gy: int
    gw: int
    workspace: int
    share_bytes: int  # of workspace
    images: int
    channels: int
    maps: int
    positions: int
    at_once: int  # positions
    maps_at_once: int
    piece_channels: int
    piece_maps: int


def _build() -> Callable[..., int]:
    from atled_cpu_numba.codegen import call3, floats32, words
    from atled_cpu_numba.kernels.shared.options import kernel

    tile_columns = host_lanes().columns
    block_bytes = 8 * BLOCK_WORDS

    @kernel
    def pointwise_weight(block, part, parts):
        w = words(block)
        images, channels, maps, positions = w[Block.images], w[Block.channels], w[Block.maps], w[Block.positions]
        at_once, rows_at_once, piece_channels = w[Block.at_once], w[Block.maps_at_once], w[Block.piece_channels]
        piece_maps = w[Block.piece_maps]
        across = (maps + piece_maps - 1) // piece_maps
        pieces = (channels + piece_channels - 1) // piece_channels * across
        inner = w[Block.workspace] + part * w[Block.share_bytes]
        zeros = inner + block_bytes
        packed_x = zeros + 4 * tile_columns
        q, zero = words(inner), floats32(zeros)
        for i in range(tile_columns):
            zero[i] = 0.0
        for piece in range(pieces * part // parts, pieces * (part + 1) // parts):
            c0, m0 = piece // across * piece_channels, piece % across * piece_maps
            columns, rows = min(piece_channels, channels - c0), min(piece_maps, maps - m0)
            for image in range(images):
                for step in range((positions + at_once - 1) // at_once):
                    k0 = step * at_once
                    k = min(at_once, positions - k0)
                    x = w[Block.x] + 4 * ((image * channels + c0) * positions + k0)
                    q[Pack.source], q[Pack.row], q[Pack.column] = x, positions, 1
                    q[Pack.rows], q[Pack.k], q[Pack.target], q[Pack.width] = columns, k, packed_x, tile_columns
                    call3(w[Block.pack], inner, 0, 1)
                    for block_of_maps in range((rows + rows_at_once - 1) // rows_at_once):
                        m = m0 + block_of_maps * rows_at_once
                        gw = w[Block.gw] + 4 * (m * channels + c0)
                        q[Rows.k], q[Rows.m], q[Rows.n] = k, min(rows_at_once, m0 + rows - m), columns
                        gy = w[Block.gy] + 4 * ((image * maps + m) * positions + k0)
                        q[Rows.a], q[Rows.a_row] = gy, positions
                        q[Rows.b], q[Rows.b_step], q[Rows.b_panel] = packed_x, tile_columns, tile_columns * k
                        q[Rows.c], q[Rows.c_row] = gw, channels
                        q[Rows.copy], q[Rows.ahead], q[Rows.a_column] = 0, 0, 1
                        if image == 0 and k0 == 0:
                            q[Rows.s], q[Rows.s_row], q[Rows.s_column] = zeros, 0, 0
                        else:
                            q[Rows.s], q[Rows.s_row], q[Rows.s_column] = gw, channels, 1
                        call3(w[Block.multiply_rows], inner, 0, 1)
        return 0

    return pointwise_weight


POINTWISE_WEIGHT = Kernel("pointwise_weight", _build)


def prepare(images: int, channels: int, maps: int, positions: int) -> Prepared:
    """x, gy -> gw, for one group and at least LEAST_POSITIONS positions per image."""
    lanes = host_lanes()
    work_us = 2.0 * images * channels * maps * positions / _FLOPS_PER_US
    parts = share_count(work_us, -(-channels // lanes.columns) * -(-maps // (4 * lanes.rows)))
    piece_channels, piece_maps = _pieces(channels, maps, parts)
    parts = min(parts, -(-channels // piece_channels) * -(-maps // piece_maps))
    at_once = min(positions, _POSITIONS_AT_ONCE)
    packed = packed_bytes(at_once, piece_channels)
    share_bytes = in_lines(8 * BLOCK_WORDS + 4 * lanes.columns + packed)
    parts = fitting_shares(parts, share_bytes)
    words = filled(
        Block,
        pack=PACK["float32"].address(),
        multiply_rows=MULTIPLY_ROWS["float32"].address(),
        share_bytes=share_bytes,
        images=images,
        channels=channels,
        maps=maps,
        positions=positions,
        at_once=at_once,
        maps_at_once=min(piece_maps, _MAPS_AT_ONCE),
        piece_channels=piece_channels,
        piece_maps=piece_maps,
    )
    arguments = (Block.x, Block.gy, Block.gw, Block.workspace)
    workspace = share_bytes * parts
    return launch(POINTWISE_WEIGHT, words, arguments, parts=parts, workspace=workspace, note="product per image")


def _pieces(channels: int, maps: int, parts: int) -> tuple[int, int]:
    """Channels and maps of a piece of gw, of which there are about as many as shares.

    Rather fewer channels than maps: what is packed is packed for each piece of the maps again.
    """
    lanes = host_lanes()
    panels, tiles = -(-channels // lanes.columns), -(-maps // lanes.rows)
    along = min(panels, parts)
    across = -(-parts // along)
    return -(-panels // along) * lanes.columns, -(-tiles // across) * lanes.rows
