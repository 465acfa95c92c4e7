"""The product that the gradients with respect to weights share: rows at places of a table times columns, added up.

ROW_SUMS is a kernel of its own, called by address with a block in the caller's workspace, so that it is compiled once.
"""

from __future__ import annotations

from collections.abc import Callable

from atled_cpu_numba.kernels.shared.lanes import host_lanes
from atled_cpu_numba.kernels.shared.layout import layout
from atled_cpu_numba.store import Kernel

BLOCK_BYTES = 64  # room that a caller reserves for the block


@layout
class RowSums:
    """The block of ROW_SUMS: C += A B, with B and C `Lanes.columns` wide."""

    k: int  # length of the sums
    a: int  # address from which the table counts
    table: int  # address of int64: where each row of A begins, in elements
    rows: int
    b: int
    c: int
    columns: int  # that count; of at most one vector, the others are not computed


def _build() -> Callable[..., int]:
    from atled_cpu_numba.codegen import words
    from atled_cpu_numba.kernels.chwn.products import make_sum_tile
    from atled_cpu_numba.kernels.chwn.tiles import make_taken
    from atled_cpu_numba.kernels.shared.options import kernel

    lanes = host_lanes()
    vector, tile_rows, columns = lanes.vector, lanes.rows, lanes.columns
    vectors, third, two_thirds = columns // vector, tile_rows // 3, 2 * tile_rows // 3
    full = make_sum_tile(tile_rows, vectors, columns)
    lower = make_sum_tile(two_thirds, vectors, columns)
    lowest = make_sum_tile(third, vectors, columns)
    taken = make_taken()
    slim = make_sum_tile(tile_rows, 1, columns)

    @kernel
    def row_sums(block, part, parts):
        w = words(block)
        k, a, b, rows = w[RowSums.k], w[RowSums.a], w[RowSums.b], w[RowSums.rows]
        r = 0
        while r < rows:
            table, to, left = w[RowSums.table] + 8 * r, w[RowSums.c] + 4 * r * columns, taken(rows - r)
            if w[RowSums.columns] <= vector:
                slim((k, a, table, b, to, left))
            elif left > two_thirds:
                full((k, a, table, b, to, left))
            elif left > third:
                lower((k, a, table, b, to, left))
            else:
                lowest((k, a, table, b, to, left))
            r += left
        return 0

    return row_sums


ROW_SUMS = Kernel("row_sums", _build)
