"""The gradient of a 1 x 1 convolution with stride 1 with respect to its weight, in float32: a sum of matrix products.

gw (maps, channels) = sum over images of gy (maps, positions) by x transposed (positions, channels).

Shares are made of pieces of gw; each packs its channels of x.
"""

from __future__ import annotations

from collections.abc import Callable

from atled.plugin import Prepared
from atled_cpu_numba.kernels.products.panels import BLOCK_WORDS, PACK, ZERO_PANELS, Pack
from atled_cpu_numba.kernels.products.row_products import MULTIPLY_ROWS, Rows, packed_bytes
from atled_cpu_numba.kernels.products.wide_products import MULTIPLY_WIDE, WIDE_ROWS, are_wide, wide_columns
from atled_cpu_numba.kernels.shared.lanes import SIZES, lanes_of
from atled_cpu_numba.kernels.shared.launch import fitting_shares, in_lines, kernels_by_dtype, launch, share_count
from atled_cpu_numba.kernels.shared.layout import filled, layout

LEAST_POSITIONS = 32  # of an image: sums this long, or reading and writing gw for each image takes longer

_POSITIONS_AT_ONCE = 384
_MAPS_AT_ONCE = 192
_FLOPS_PER_US = 150e3  # a cautious rate of one core, for the number of shares


@layout
class Block:
    """What the kernel reads."""

    pack: int  # address of PACK
    multiply: int  # address of MULTIPLY_ROWS or MULTIPLY_WIDE
    panel_columns: int
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


def _build(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import call3, words
    from atled_cpu_numba.kernels.shared.options import Real, kernel

    element, floats = SIZES[dtype], Real(dtype).pointer
    block_bytes, zero_count = 8 * BLOCK_WORDS, ZERO_PANELS * lanes_of(dtype).columns

    @kernel
    def pointwise_weight(block, part, parts):
        w = words(block)
        images, channels, maps, positions = w[Block.images], w[Block.channels], w[Block.maps], w[Block.positions]
        at_once, rows_at_once, piece_channels = w[Block.at_once], w[Block.maps_at_once], w[Block.piece_channels]
        piece_maps, panel_columns = w[Block.piece_maps], w[Block.panel_columns]
        across = (maps + piece_maps - 1) // piece_maps
        pieces = (channels + piece_channels - 1) // piece_channels * across
        inner = w[Block.workspace] + part * w[Block.share_bytes]
        zeros = inner + block_bytes
        packed_x = zeros + element * zero_count
        q, zero = words(inner), floats(zeros)
        for i in range(zero_count):
            zero[i] = 0.0
        for piece in range(pieces * part // parts, pieces * (part + 1) // parts):
            c0, m0 = piece // across * piece_channels, piece % across * piece_maps
            columns, rows = min(piece_channels, channels - c0), min(piece_maps, maps - m0)
            for image in range(images):
                for step in range((positions + at_once - 1) // at_once):
                    k0 = step * at_once
                    k = min(at_once, positions - k0)
                    x = w[Block.x] + element * ((image * channels + c0) * positions + k0)
                    q[Pack.source], q[Pack.row], q[Pack.column] = x, positions, 1
                    q[Pack.rows], q[Pack.k], q[Pack.target], q[Pack.width] = columns, k, packed_x, panel_columns
                    call3(w[Block.pack], inner, 0, 1)
                    for block_of_maps in range((rows + rows_at_once - 1) // rows_at_once):
                        m = m0 + block_of_maps * rows_at_once
                        gw = w[Block.gw] + element * (m * channels + c0)
                        q[Rows.k], q[Rows.m], q[Rows.n] = k, min(rows_at_once, m0 + rows - m), columns
                        gy = w[Block.gy] + element * ((image * maps + m) * positions + k0)
                        q[Rows.a], q[Rows.a_row] = gy, positions
                        q[Rows.b], q[Rows.b_step], q[Rows.b_panel] = packed_x, panel_columns, panel_columns * k
                        q[Rows.c], q[Rows.c_row] = gw, channels
                        q[Rows.copy], q[Rows.ahead], q[Rows.a_column], q[Rows.bounds] = 0, 0, 1, 0
                        if image == 0 and k0 == 0:
                            q[Rows.s], q[Rows.s_row], q[Rows.s_column] = zeros, 0, 0
                        else:
                            q[Rows.s], q[Rows.s_row], q[Rows.s_column] = gw, channels, 1
                        call3(w[Block.multiply], inner, 0, 1)
        return 0

    return pointwise_weight


POINTWISE_WEIGHT = kernels_by_dtype("pointwise_weight", _build)


def prepare(images: int, channels: int, maps: int, positions: int, dtype: str) -> Prepared:
    """x, gy -> gw, for one group and at least LEAST_POSITIONS positions per image."""
    lanes, element = lanes_of(dtype), SIZES[dtype]
    work_us = 2.0 * images * channels * maps * positions / _FLOPS_PER_US
    is_wide = are_wide(maps, channels, lanes)
    tile = (WIDE_ROWS, wide_columns(lanes)) if is_wide else (lanes.rows, lanes.columns)
    parts = share_count(work_us, -(-channels // tile[1]) * -(-maps // (4 * tile[0])))
    piece_channels, piece_maps = _pieces(channels, maps, parts, tile)
    parts = min(parts, -(-channels // piece_channels) * -(-maps // piece_maps))
    at_once = min(positions, _POSITIONS_AT_ONCE)
    packed = packed_bytes(at_once, piece_channels, dtype, tile[1])
    share_bytes = in_lines(8 * BLOCK_WORDS + element * ZERO_PANELS * lanes.columns + packed)
    parts = fitting_shares(parts, share_bytes)
    words = filled(
        Block,
        pack=PACK[dtype].address(),
        multiply=(MULTIPLY_WIDE if is_wide else MULTIPLY_ROWS)[dtype].address(),
        panel_columns=tile[1],
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
    return launch(POINTWISE_WEIGHT[dtype], words, arguments, parts=parts, workspace=workspace, note="product per image")


def _pieces(channels: int, maps: int, parts: int, tile: tuple[int, int]) -> tuple[int, int]:
    """Channels and maps of a piece of gw, of which there are about as many as shares.

    Rather fewer channels than maps: what is packed is packed for each piece of the maps again.
    """
    panels, tiles = -(-channels // tile[1]), -(-maps // tile[0])
    along = min(panels, parts)
    across = -(-parts // along)
    return -(-panels // along) * tile[1], -(-tiles // across) * tile[0]
