"""Which of the register tiles of one size multiplies some rows of A, by where A is read from and how it is stored."""

from __future__ import annotations

from typing import Any


def make_chosen_tile(rows: int, vectors: int, dtype: str, terms: int = 0) -> Any:
    """A function that computes one tile of C = A B + S, for kernels to be inlined in.

    multiply(is_near, k, a, a_row, a_column, b, b_row, c, c_row, s, s_row, m, n, wanted, down, bounds): as the tiles of
    `make_row_tile` and `make_near_tile`, of up to `rows` rows and `vectors` vectors.
    is_near: whether A is in a near cache.  wanted: how many elements behind B are prefetched, or 0.
    terms: of sums, between two steps of a loop, where A is near and stored by rows; 0: as many as the registers allow.
    """
    from atled_cpu_numba.kernels.products.tiles import make_near_tile, make_row_tile
    from atled_cpu_numba.kernels.shared.options import piece

    plain = make_row_tile(rows, vectors, dtype)
    near = make_near_tile(rows, vectors, dtype, terms=terms)
    asking = make_near_tile(rows, vectors, dtype, terms=terms, asks=True)
    by_columns = make_near_tile(rows, vectors, dtype, by_columns=True)

    @piece
    def multiply(is_near, k, a, a_row, a_column, b, b_row, c, c_row, s, s_row, m, n, wanted, down, bounds):
        if is_near and a_column == 1 and wanted != 0:
            asking((k, a, a_row, 1, b, c, c_row, s, s_row, m, n, wanted, bounds))
        elif is_near and a_column == 1:
            near((k, a, a_row, 1, b, c, c_row, s, s_row, m, n, 0, bounds))
        elif is_near and wanted == 0:
            by_columns((k, a, a_row, a_column, b, c, c_row, s, s_row, m, n, 0, bounds))
        else:
            plain((k, a, a_row, a_column, b, b_row, c, c_row, s, s_row, m, n, 0, wanted, down, bounds))

    return multiply
