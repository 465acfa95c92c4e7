"""Matrix products that read A in place, in tiles of few rows and many columns: under AVX2.

A tile of 4 rows and 3 vectors loads 4 numbers of A and 3 vectors of B for each term of its 12 sums, one of 6 rows and 2
vectors 6 and 2. Multiplications are what takes the time where a core runs one thread; where it runs two, it is the
number of instructions, of which there are 20 instead of 22. Measured on Zen 3, products take .9 of their time beside
another thread, and .96 to 1 alone.
"""

from __future__ import annotations

from collections.abc import Callable

from atled_cpu_numba.kernels.products.row_products import NEAR_BYTES, Rows
from atled_cpu_numba.kernels.shared.cache_lines import LINE_BYTES
from atled_cpu_numba.kernels.shared.lanes import SIZES, Lanes, lanes_of
from atled_cpu_numba.kernels.shared.launch import kernels_by_dtype

WIDE_ROWS, _VECTORS = 4, 3
_TWO_HEIGHT, _ONE_HEIGHT = 6, 8  # rows of the tiles for the last columns, of two vectors and of one
_TERMS = 4  # of sums, between two steps of a loop
# Of the next panel, at each such step of the first two tiles: half of what they read of their own, which is all of it.
_ASKED_LINES = 3
# Time for a row of so many vectors of columns, in that of one vector in tiles of 6 x 2 of them; and in those of
# MULTIPLY_ROWS.
_COSTS, _ROWS_COSTS = (0.0, 1.4, 2.1, 2.76), (0.0, 2.0, 2.0)


def wide_columns(lanes: Lanes) -> int:
    """Columns of a panel of B."""
    return _VECTORS * lanes.vector


def are_wide(m: int, n: int, lanes: Lanes) -> bool:
    """Whether a product of m rows and n columns takes less time in these tiles than in those of MULTIPLY_ROWS."""
    if not lanes.has_short_tiles:
        return False
    panels, rest = divmod(-(-n // lanes.vector), _VECTORS)
    whole = -(-m // WIDE_ROWS) * WIDE_ROWS
    cost = whole * panels * _COSTS[_VECTORS] + m * _COSTS[rest]
    even = -(-m // 2) * 2  # where the last rows are few, tiles are lower
    panels, rest = divmod(-(-n // lanes.vector), lanes.columns // lanes.vector)
    return cost < even * (panels * _ROWS_COSTS[2] + _ROWS_COSTS[rest])


def _build(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import words
    from atled_cpu_numba.kernels.products.chosen_tiles import make_chosen_tile
    from atled_cpu_numba.kernels.products.tiles import make_near_tile, make_row_tile
    from atled_cpu_numba.kernels.shared.options import kernel

    element, vector = SIZES[dtype], lanes_of(dtype).vector
    columns, asked = _VECTORS * vector, _ASKED_LINES * LINE_BYTES // element
    copying = make_row_tile(WIDE_ROWS, _VECTORS, dtype, copies=True)
    chosen = make_chosen_tile(WIDE_ROWS, _VECTORS, dtype, _TERMS)
    asking_next = make_near_tile(WIDE_ROWS, _VECTORS, dtype, terms=_TERMS, asked_lines=_ASKED_LINES)
    slender = (_TWO_HEIGHT, 2), (_ONE_HEIGHT, 1)  # for the last columns
    copying_two, copying_one = (
        make_row_tile(height, vectors, dtype, copies=True, panel_vectors=_VECTORS) for height, vectors in slender
    )
    plain_two, plain_one = (make_row_tile(height, vectors, dtype) for height, vectors in slender)
    near_two, near_one = (make_near_tile(height, vectors, dtype, panel_vectors=_VECTORS) for height, vectors in slender)

    @kernel
    def multiply_wide(block, part, parts):
        w = words(block)
        k, m, n, a, a_row = w[Rows.k], w[Rows.m], w[Rows.n], w[Rows.a], w[Rows.a_row]
        b, b_step, b_panel, c, c_row = w[Rows.b], w[Rows.b_step], w[Rows.b_panel], w[Rows.c], w[Rows.c_row]
        s, s_row, s_column = w[Rows.s], w[Rows.s_row], w[Rows.s_column]
        copy, ahead, a_column, bounds = w[Rows.copy], w[Rows.ahead], w[Rows.a_column], w[Rows.bounds]
        is_by_rows = a_column == 1
        for j in range(0, n, columns):
            b_at, left = b + element * (j // columns) * b_panel, n - j
            has_one, has_two = left <= vector, left <= 2 * vector
            height = _ONE_HEIGHT if has_one else _TWO_HEIGHT if has_two else WIDE_ROWS
            a_is_near = j > 0 or element * m * k <= NEAR_BYTES
            # Rows without gaps are one piece: those of the next tile are prefetched, when A is read the first time.
            down = height * a_row if j == 0 and a_row == k else 0
            i = 0
            if copy != 0:
                c_at, s_at, i = c + element * j, s + element * j * s_column, min(m, height)
                copied = (k, a, a_row, a_column, b_at, b_step, c_at, c_row, s_at, s_row)
                if has_one:
                    copying_one((*copied, i, left, copy, ahead, down, bounds))
                elif has_two:
                    copying_two((*copied, i, left, copy, ahead, down, bounds))
                else:
                    copying((*copied, i, left, copy, ahead, down, bounds))
                b_at = copy
            while i < m:
                rest = min(height, m - i)
                a_at = a + element * i * a_row
                c_at, s_at = c + element * (i * c_row + j), s + element * (i * s_row + j * s_column)
                plain = (k, a_at, a_row, a_column, b_at, columns, c_at, c_row, s_at, s_row)
                near = (k, a_at, a_row, 1, b_at, c_at, c_row, s_at, s_row)
                wanted = ahead if copy == 0 and i == 0 else 0
                if has_one and a_is_near and is_by_rows:
                    near_one((*near, rest, left, 0, bounds))
                elif has_one:
                    plain_one((*plain, rest, left, 0, 0, down, bounds))
                elif has_two and a_is_near and is_by_rows:
                    near_two((*near, rest, left, 0, bounds))
                elif has_two:
                    plain_two((*plain, rest, left, 0, 0, down, bounds))
                elif a_is_near and is_by_rows and copy == 0 and i < 2 * WIDE_ROWS and m > WIDE_ROWS:
                    next_lines = b_panel + i // WIDE_ROWS * (k // _TERMS) * asked
                    asking_next((*near, rest, left, next_lines, bounds))
                else:
                    chosen(a_is_near, *plain, rest, left, wanted, down, bounds)
                i += rest
        return 0

    return multiply_wide


MULTIPLY_WIDE = kernels_by_dtype("multiply_wide", _build)
"""As MULTIPLY_ROWS, on panels of `wide_columns` columns, in place or packed."""
