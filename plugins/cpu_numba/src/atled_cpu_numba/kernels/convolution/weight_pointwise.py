"""The gradient of a 1 x 1 convolution with stride 1 with respect to its weight, in float32: a sum of matrix products.

gw (maps, channels) = sum over images of gy (maps, positions) by x transposed (positions, channels).

Block (64-bit words):
    0 PACK, 1 MULTIPLY_ROWS                   addresses of the pieces
    2 x, 3 gy, 4 gw, 5 workspace, 6 bytes of it per share
    7 images, 8 channels, 9 maps, 10 positions
    11 positions at once, 12 maps at once
    13 channels in a piece, 14 maps in a piece
Shares are made of pieces of gw; each packs its channels of x.
"""

from __future__ import annotations

from collections.abc import Callable

from atled.plugin import Prepared
from atled_cpu_numba.kernels.products.panels import BLOCK_WORDS, PACK
from atled_cpu_numba.kernels.products.row_products import MULTIPLY_ROWS, packed_bytes
from atled_cpu_numba.kernels.shared.lanes import host_lanes
from atled_cpu_numba.kernels.shared.launch import fitting_shares, launch, share_count
from atled_cpu_numba.store import Kernel

LEAST_POSITIONS = 32  # of an image: sums this long, or reading and writing gw for each image takes longer

_POSITIONS_AT_ONCE = 384
_MAPS_AT_ONCE = 192
_FLOPS_PER_US = 150e3  # a cautious rate of one core, for the number of shares


def _build() -> Callable[..., int]:
    from atled_cpu_numba.codegen import call3, floats32, words
    from atled_cpu_numba.kernels.shared.options import kernel

    tile_columns = host_lanes().columns
    block_bytes = 8 * BLOCK_WORDS

    @kernel
    def pointwise_weight(block, part, parts):
        w = words(block)
        images, channels, maps, positions = w[7], w[8], w[9], w[10]
        at_once, rows_at_once, piece_channels, piece_maps = w[11], w[12], w[13], w[14]
        across = (maps + piece_maps - 1) // piece_maps
        pieces = (channels + piece_channels - 1) // piece_channels * across
        inner = w[5] + part * w[6]
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
                    # PACK: source, row stride, column stride, rows, k, target, width
                    q[0], q[1], q[2] = w[2] + 4 * ((image * channels + c0) * positions + k0), positions, 1
                    q[3], q[4], q[5], q[6] = columns, k, packed_x, tile_columns
                    call3(w[0], inner, 0, 1)
                    for block_of_maps in range((rows + rows_at_once - 1) // rows_at_once):
                        m = m0 + block_of_maps * rows_at_once
                        gw = w[4] + 4 * (m * channels + c0)
                        # MULTIPLY_ROWS: k, m, n, a, a_row, b, b_step, b_panel, c, c_row, s, s_row, s_column, copy,
                        # ahead, a_column
                        q[0], q[1], q[2] = k, min(rows_at_once, m0 + rows - m), columns
                        q[3], q[4] = w[3] + 4 * ((image * maps + m) * positions + k0), positions
                        q[5], q[6], q[7] = packed_x, tile_columns, tile_columns * k
                        q[8], q[9], q[13], q[14], q[15] = gw, channels, 0, 0, 1
                        if image == 0 and k0 == 0:
                            q[10], q[11], q[12] = zeros, 0, 0
                        else:
                            q[10], q[11], q[12] = gw, channels, 1
                        call3(w[1], inner, 0, 1)
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
    share_bytes = -(-(8 * BLOCK_WORDS + 4 * lanes.columns + packed) // 64) * 64
    parts = fitting_shares(parts, share_bytes)
    words = [PACK.address(), MULTIPLY_ROWS.address(), 0, 0, 0, 0, share_bytes, images, channels, maps, positions]
    words += [at_once, min(piece_maps, _MAPS_AT_ONCE), piece_channels, piece_maps]
    workspace = share_bytes * parts
    return launch(POINTWISE_WEIGHT, words, (2, 3, 4, 5), parts=parts, workspace=workspace, note="product per image")


def _pieces(channels: int, maps: int, parts: int) -> tuple[int, int]:
    """Channels and maps of a piece of gw, of which there are about as many as shares.

    Rather fewer channels than maps: what is packed is packed for each piece of the maps again.
    """
    lanes = host_lanes()
    panels, tiles = -(-channels // lanes.columns), -(-maps // lanes.rows)
    along = min(panels, parts)
    across = -(-parts // along)
    return -(-panels // along) * lanes.columns, -(-tiles // across) * lanes.rows
