"""Matrix products that read A in place: the pieces that multiply, called by address.

All compute C = A B + S (m x n, sums over k); a_row and a_column say how A is stored, quickest by rows. The pieces are
kernels of their own, called with a block in the caller's workspace, so that they are compiled once, however many
products use them. Strides are in elements.
"""

from __future__ import annotations

from collections.abc import Callable

from atled_cpu_numba.kernels.products.panels import PACK_SLACK
from atled_cpu_numba.kernels.shared.lanes import SIZES, lanes_of
from atled_cpu_numba.kernels.shared.launch import kernels_by_dtype
from atled_cpu_numba.kernels.shared.layout import layout

# Of B in panels: where an earlier run packed it, it comes from memory. So many rows are asked for before they are read.
ROWS_AHEAD = 24
AVX2_BYTES = 32  # of a vector
NEAR_BYTES = 768 << 10  # of A that is multiplied by one panel of B after the other: it is read from a near cache
FEW_ROWS = 3
# As many sums as hide the time that an addition takes, and fit in the registers of AVX2 beside what is multiplied. More
# panels are more streams of memory: products of two rows take up to .1 less with 3 panels than with 2, and .2 to .4
# less than with one (Zen 3, 1 MB to 64 MB of weights).
_ONE_ROW_PANELS, _TWO_ROWS_PANELS, _THREE_ROWS_PANELS = 4, 3, 2


@layout
class Rows:
    """What MULTIPLY_ROWS, MULTIPLY_FEW and MULTIPLY_STREAM read, and `wide_products.MULTIPLY_WIDE`.

    B is stored by rows. With an address `copy` it is in place: the first rows of a panel are multiplied while the panel
    is copied, the others from the copy. With copy 0, B is packed in panels (see `panels`); so weights are packed once
    by PACK, to `packed_bytes` bytes, and multiplied many times. Panels have `Lanes.columns` columns, those of
    MULTIPLY_WIDE `wide_columns`.

    MULTIPLY_FEW is for at most FEW_ROWS rows of A, stored by rows, and B in panels: it reads several of them at once.
    It adds up k_step terms at a time, as if it were called once for so many, but reads each panel from end to end.
    Where B is larger than a cache and is multiplied again, every second time it is to begin with the last panels, which
    are still there.

    MULTIPLY_STREAM is for a large C and short sums: it reads B in place without `copy` and `ahead`, and writes C past
    the caches if its rows are aligned to vectors; n must be a multiple of `Lanes.columns`.
    """

    k: int  # length of the sums
    m: int  # rows of C
    n: int  # columns of C
    a: int  # address of A
    a_row: int
    b: int  # address of B
    b_step: int  # in place: from row to row; in panels: their columns
    b_panel: int  # in place: the columns of a panel; in panels: that times k
    c: int  # address of C
    c_row: int
    s: int  # address of S
    s_row: int
    s_column: int  # 1, or 0 where all panels share one S, such as a panel of zeros
    copy: int  # address of k elements for each column of a panel, or 0
    ahead: int  # how many elements behind B are prefetched, where it is not read the second time
    a_column: int
    is_back: int  # of MULTIPLY_FEW: 1 to begin with the last panels
    # Not of MULTIPLY_STREAM: address of two words, the least and the greatest number of C, or 0.
    bounds: int
    k_step: int  # of MULTIPLY_FEW


@layout
class Across:
    """What MULTIPLY_ACROSS reads: the same with C and S transposed, C[r, j] at c[j * c_row + r].

    A may be stored by columns as well; B is in place, or in panels of `width` columns.
    """

    k: int  # length of the sums
    m: int  # rows of A
    n: int  # columns of B
    a: int  # address of A
    a_row: int
    b: int  # address of B
    b_step: int  # from row to row
    b_panel: int  # from panel to panel
    c: int  # address of C
    c_row: int
    s: int  # address of S
    s_row: int
    s_column: int  # 1, or 0 where all panels share one S
    width: int  # of the panels: one vector or two
    a_column: int


def packed_bytes(k: int, n: int, dtype: str, columns: int) -> int:
    """Bytes that PACK writes for a k x n matrix in panels of so many columns, those behind it included."""
    return SIZES[dtype] * (-(-n // columns) * columns * k + PACK_SLACK)


def _build_rows(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import words
    from atled_cpu_numba.kernels.products.chosen_tiles import make_chosen_tile
    from atled_cpu_numba.kernels.products.tiles import make_near_tile, make_row_tile
    from atled_cpu_numba.kernels.shared.options import kernel

    lanes, element = lanes_of(dtype), SIZES[dtype]
    rows, columns, vector = lanes.rows, lanes.columns, lanes.vector
    vectors = columns // vector
    has_near = element * vector >= AVX2_BYTES  # measured there; above it, by llvm-mca
    third, two_thirds = rows // 3, 2 * rows // 3
    # Lower tiles for the last rows: a full one would waste up to 11 of 12.
    copying = make_row_tile(rows, vectors, dtype, copies=True)
    copying_two_thirds = make_row_tile(two_thirds, vectors, dtype, copies=True)
    copying_third = make_row_tile(third, vectors, dtype, copies=True)
    chosen, near_two_thirds = make_chosen_tile(rows, vectors, dtype), make_near_tile(two_thirds, vectors, dtype)
    asking_two_thirds = make_near_tile(two_thirds, vectors, dtype, asks=True)
    plain_two_thirds = make_row_tile(two_thirds, vectors, dtype)
    plain_third = make_row_tile(third, vectors, dtype)
    # For the last columns, all heights.
    copying_slim = make_row_tile(rows, 1, dtype, copies=True)
    plain_slim = make_row_tile(rows, 1, dtype)
    # Six sums, under AVX2, wait for each other longer than for what is read.
    has_near_slim = has_near and not lanes.has_short_tiles
    near_slim = make_near_tile(rows, 1, dtype)

    @kernel
    def multiply_rows(block, part, parts):
        w = words(block)
        k, m, n, a, a_row = w[Rows.k], w[Rows.m], w[Rows.n], w[Rows.a], w[Rows.a_row]
        b, b_step, b_panel, c, c_row = w[Rows.b], w[Rows.b_step], w[Rows.b_panel], w[Rows.c], w[Rows.c_row]
        s, s_row, s_column = w[Rows.s], w[Rows.s_row], w[Rows.s_column]
        copy, ahead, a_column, bounds = w[Rows.copy], w[Rows.ahead], w[Rows.a_column], w[Rows.bounds]
        for j in range(0, n, columns):
            b_at = b + element * (j // columns) * b_panel
            b_row = b_step
            left = n - j
            a_is_near = has_near and (j > 0 or element * m * k <= NEAR_BYTES)
            is_by_rows = a_column == 1
            first = 0
            # Rows without gaps are one piece: those of the next tile are prefetched, when A is read the first time.
            down = rows * a_row if j == 0 and a_row == k else 0
            if copy != 0:
                c_at, s_at = c + element * j, s + element * j * s_column
                copied = (k, a, a_row, a_column, b_at, b_step, c_at, c_row, s_at, s_row)
                if left <= vector:
                    first = min(m, rows)
                    copying_slim((*copied, first, left, copy, ahead, down, bounds))
                elif third < m <= two_thirds or rows < m <= 2 * two_thirds:
                    first = min(m, two_thirds)
                    copying_two_thirds((*copied, first, left, copy, ahead, down, bounds))
                elif m > third:
                    first = min(m, rows)
                    copying((*copied, first, left, copy, ahead, down, bounds))
                else:
                    first = m
                    copying_third((*copied, m, left, copy, ahead, down, bounds))
                b_at, b_row = copy, vector if left <= vector else columns
            i = first
            while i < m:
                # Two tiles of two thirds rather than a full one and a third: so few sums wait for each other.
                rest = two_thirds if rows < m - i <= rows + third else min(rows, m - i)
                a_at = a + element * i * a_row
                c_at, s_at = c + element * (i * c_row + j), s + element * (i * s_row + j * s_column)
                plain = (k, a_at, a_row, a_column, b_at, b_row, c_at, c_row, s_at, s_row)
                near = (k, a_at, a_row, 1, b_at, c_at, c_row, s_at, s_row)
                wanted = ahead if copy == 0 and i == 0 else 0
                if has_near_slim and left <= vector and a_is_near and is_by_rows and b_row == vector:
                    near_slim((*near, rest, left, 0, bounds))
                elif left <= vector:
                    plain_slim((*plain, rest, left, 0, wanted, down, bounds))
                elif rest > two_thirds:
                    chosen(a_is_near, *plain, rest, left, wanted, down, bounds)
                elif a_is_near and is_by_rows and wanted != 0 and rest > third:
                    asking_two_thirds((*near, rest, left, wanted, bounds))
                elif has_near and is_by_rows and rest > third:
                    near_two_thirds((*near, rest, left, 0, bounds))
                elif rest > third:
                    plain_two_thirds((*plain, rest, left, 0, wanted, down, bounds))
                else:
                    plain_third((*plain, rest, left, 0, wanted, down, bounds))
                i += rest
        return 0

    return multiply_rows


def _build_stream(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import words
    from atled_cpu_numba.kernels.products.tiles import make_row_tile
    from atled_cpu_numba.kernels.shared.options import kernel

    lanes, element = lanes_of(dtype), SIZES[dtype]
    rows, columns = lanes.rows, lanes.columns
    vector_bytes = element * lanes.vector
    streaming = make_row_tile(rows, columns // lanes.vector, dtype, streams=True)
    plain = make_row_tile(rows, columns // lanes.vector, dtype)

    @kernel
    def multiply_stream(block, part, parts):
        w = words(block)
        k, m, n, a, a_row = w[Rows.k], w[Rows.m], w[Rows.n], w[Rows.a], w[Rows.a_row]
        b, b_step, b_panel, c, c_row = w[Rows.b], w[Rows.b_step], w[Rows.b_panel], w[Rows.c], w[Rows.c_row]
        s, s_row, s_column, a_column = w[Rows.s], w[Rows.s_row], w[Rows.s_column], w[Rows.a_column]
        aligned = c % vector_bytes == 0 and (element * c_row) % vector_bytes == 0
        for i in range(0, m, rows):
            m_left = min(rows, m - i)
            a_at = a + element * i * a_row
            for j in range(0, n, columns):
                b_at = b + element * (j // columns) * b_panel
                c_at, s_at = c + element * (i * c_row + j), s + element * (i * s_row + j * s_column)
                given = (k, a_at, a_row, a_column, b_at, b_step, c_at, c_row, s_at, s_row)
                if aligned and m_left == rows:
                    streaming((*given, rows, columns, 0, 0, 0, 0))
                else:
                    plain((*given, m_left, columns, 0, 0, 0, 0))
        return 0

    return multiply_stream


def _build_across(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import words
    from atled_cpu_numba.kernels.products.tiles import make_across_tile
    from atled_cpu_numba.kernels.shared.options import kernel

    lanes, element = lanes_of(dtype), SIZES[dtype]
    vector = lanes.vector
    rows = min(lanes.rows, vector)  # a row of the transposed tile is one vector
    wide = make_across_tile(rows, lanes.columns // vector, dtype)
    slim = make_across_tile(rows, 1, dtype)

    @kernel
    def multiply_across(block, part, parts):
        w = words(block)
        k, m, n, a, a_row = w[Across.k], w[Across.m], w[Across.n], w[Across.a], w[Across.a_row]
        b, b_step, b_panel, c, c_row = w[Across.b], w[Across.b_step], w[Across.b_panel], w[Across.c], w[Across.c_row]
        s, s_row, s_column = w[Across.s], w[Across.s_row], w[Across.s_column]
        width, a_column = w[Across.width], w[Across.a_column]
        for i in range(0, m, rows):
            m_left = min(rows, m - i)
            a_at = a + element * i * a_row
            for panel in range((n + width - 1) // width):  # a range with a step that is a variable could raise
                j = panel * width
                b_at = b + element * panel * b_panel
                n_left = min(width, n - j)
                ahead = rows * a_row if j == 0 else 0
                c_at = c + element * (j * c_row + i)
                s_at = s + element * (j * s_row + i * s_column)
                if n_left > vector:
                    wide((k, a_at, a_row, a_column, b_at, b_step, c_at, c_row, s_at, s_row, m_left, n_left, ahead))
                else:
                    slim((k, a_at, a_row, a_column, b_at, b_step, c_at, c_row, s_at, s_row, m_left, n_left, ahead))
        return 0

    return multiply_across


def _build_few(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import words
    from atled_cpu_numba.kernels.products.tiles import make_few_rows_tile, make_row_tile
    from atled_cpu_numba.kernels.shared.options import kernel

    lanes, element = lanes_of(dtype), SIZES[dtype]
    columns, vectors = lanes.columns, lanes.columns // lanes.vector
    one_row, two_rows = make_few_rows_tile(1, _ONE_ROW_PANELS, dtype), make_few_rows_tile(2, _TWO_ROWS_PANELS, dtype)
    three_rows = make_few_rows_tile(3, _THREE_ROWS_PANELS, dtype)
    one_panel = make_row_tile(FEW_ROWS, vectors, dtype)

    @kernel
    def multiply_few(block, part, parts):
        w = words(block)
        k, m, n, a, a_row = w[Rows.k], w[Rows.m], w[Rows.n], w[Rows.a], w[Rows.a_row]
        b, b_panel, c, c_row = w[Rows.b], w[Rows.b_panel], w[Rows.c], w[Rows.c_row]
        s, s_row, s_column = w[Rows.s], w[Rows.s_row], w[Rows.s_column]
        k_step = w[Rows.k_step]
        panels = _ONE_ROW_PANELS if m == 1 else _TWO_ROWS_PANELS if m == 2 else _THREE_ROWS_PANELS
        steps = max(1, (k + k_step - 1) // k_step)
        whole = n // columns // panels
        for number in range(whole):
            first = (whole - 1 - number if w[Rows.is_back] != 0 else number) * panels
            c_at = c + element * columns * first
            s_at, s_next, s_panel = s + element * columns * first * s_column, s_row, columns * s_column
            for step in range(steps):
                k0 = step * k_step
                kc = min(k_step, k - k0)
                a_at, b_at = a + element * k0, b + element * (first * b_panel + k0 * columns)
                bounds = w[Rows.bounds] if step == steps - 1 else 0
                given = (kc, a_at, a_row, b_at, b_panel, c_at, c_row, s_at, s_next, s_panel, m, bounds)
                if m == 1:
                    one_row(given)
                elif m == 2:
                    two_rows(given)
                else:
                    three_rows(given)
                s_at, s_next, s_panel = c_at, c_row, columns
        for panel in range(whole * panels, (n + columns - 1) // columns):
            j = panel * columns
            c_at = c + element * j
            s_at, s_next = s + element * j * s_column, s_row
            for step in range(steps):
                k0 = step * k_step
                kc = min(k_step, k - k0)
                a_at, b_at = a + element * k0, b + element * (panel * b_panel + k0 * columns)
                bounds = w[Rows.bounds] if step == steps - 1 else 0
                one_panel((kc, a_at, a_row, 1, b_at, columns, c_at, c_row, s_at, s_next, m, n - j, 0, 0, 0, bounds))
                s_at, s_next = c_at, c_row
        return 0

    return multiply_few


MULTIPLY_ROWS = kernels_by_dtype("multiply_rows", _build_rows)
MULTIPLY_STREAM = kernels_by_dtype("multiply_stream", _build_stream)
MULTIPLY_ACROSS = kernels_by_dtype("multiply_across", _build_across)
MULTIPLY_FEW = kernels_by_dtype("multiply_few", _build_few)
