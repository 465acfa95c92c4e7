"""The piece that the Winograd kernels share: matrix products of transformed tiles and weights, of several points each.

Importing this module is cheap; what it makes imports numba.
"""

from __future__ import annotations

from typing import Any

from atled_cpu_numba.kernels.shared.lanes import SIZES, lanes_of


def make_products(points: int, dtype: str) -> Any:
    """A piece that computes `points` products of (tiles, channels) by (channels, maps).

    multiply(channels, tiles, maps, v, v_panel, v_step, u, u_step, m, m_row, m_step): tiles at v, as
    `blocks.make_panel_tile` reads them, `v_step` elements from point to point; weights at u as `TRANSFORM_WEIGHTS`
    writes them, `u_step` from point to point; results at m, rows of tiles `m_row` apart, `m_step` from point to point.
    It writes whole tiles of registers: some rows more than `tiles`.
    """
    from atled_cpu_numba.kernels.shared.options import piece
    from atled_cpu_numba.kernels.winograd.blocks import make_panel_tile

    element, lanes = SIZES[dtype], lanes_of(dtype)
    vector, tile_rows, tile_columns = lanes.vector, lanes.rows, lanes.columns
    vectors = tile_columns // vector
    third, two_thirds = tile_rows // 3, 2 * tile_rows // 3
    full = make_panel_tile(tile_rows, vectors, tile_columns, dtype)
    lower = make_panel_tile(two_thirds, vectors, tile_columns, dtype)
    lowest = make_panel_tile(third, vectors, tile_columns, dtype)
    slim = make_panel_tile(tile_rows, 1, tile_columns, dtype)

    @piece
    def multiply(channels, tiles, maps, v, v_panel, v_step, u, u_step, m, m_row, m_step):
        for _ in range(points):
            b, c = u, m
            for first in range(0, maps, tile_columns):
                for r in range(0, tiles, tile_rows):
                    left = tiles - r
                    a, to = v + element * r * vector, c + element * r * m_row
                    if maps - first <= vector:
                        slim((channels, a, v_panel, b, to, m_row))
                    elif left > two_thirds:
                        full((channels, a, v_panel, b, to, m_row))
                    elif left > third:
                        lower((channels, a, v_panel, b, to, m_row))
                    else:
                        lowest((channels, a, v_panel, b, to, m_row))
                b += element * points * u_step
                c += element * tile_columns
            v += element * v_step
            u += element * u_step
            m += element * m_step

    return multiply
