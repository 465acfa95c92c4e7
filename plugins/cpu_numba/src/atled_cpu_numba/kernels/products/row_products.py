"""Matrix products that read A in place: the pieces that multiply, called by address.

All compute C = A B + S (m x n, sums over k); a_row and a_column say how A is stored, quickest by rows. The pieces are
kernels of their own, called with a block in the caller's workspace, so that they are compiled once, however many
products use them. Strides are in elements.

Block of MULTIPLY_ROWS: 0 k, 1 m, 2 n, 3 a, 4 a_row, 5 b, 6 b_step, 7 b_panel, 8 c, 9 c_row, 10 s, 11 s_row,
12 s_column, 13 copy, 14 ahead, 15 a_column.
    B is stored by rows. With an address `copy` of k * `Lanes.columns` elements it is in place: b_step is from row
    to row, b_panel is `Lanes.columns`, n columns are read; the first rows of a panel are multiplied while the panel is
    copied, the others from the copy. What lies `ahead` elements behind B is prefetched. With copy 0, B is packed in
    panels (see `panels`): b_step is `Lanes.columns`, b_panel that times k. So weights are packed once by PACK, to
    `packed_bytes` bytes, and multiplied many times.
    s_column: 1, or 0 where all panels share one S, such as a panel of zeros.

MULTIPLY_STREAM takes the same block, for a large C and short sums: it reads B in place without `copy`, and writes C
past the caches if its rows are aligned to vectors; n must be a multiple of `Lanes.columns`.

Block of MULTIPLY_ACROSS: 0 k, 1 m, 2 n, 3 a, 4 a_row, 5 b, 6 b_step, 7 b_panel, 8 c, 9 c_row, 10 s, 11 s_row,
12 s_column, 13 width, 14 a_column: the same with C and S transposed: C[r, j] at c[j * c_row + r]. A may be stored by
columns as well; B is in place, or in panels of `width` columns: two vectors at most.
"""

from __future__ import annotations

from collections.abc import Callable

from atled_cpu_numba.kernels.products.panels import PACK_SLACK
from atled_cpu_numba.kernels.shared.lanes import host_lanes
from atled_cpu_numba.store import Kernel


def packed_bytes(k: int, n: int) -> int:
    """Bytes that PACK writes for a k x n matrix in panels of `Lanes.columns` columns, those behind it included."""
    columns = host_lanes().columns
    return 4 * (-(-n // columns) * columns * k + PACK_SLACK)


def _build_rows() -> Callable[..., int]:
    from atled_cpu_numba.codegen import words
    from atled_cpu_numba.kernels.products.tiles import make_row_tile
    from atled_cpu_numba.kernels.shared.options import kernel

    lanes = host_lanes()
    rows, columns, vector = lanes.rows, lanes.columns, lanes.vector
    vectors = columns // vector
    third, two_thirds = rows // 3, 2 * rows // 3
    # Lower tiles for the last rows: a full one would waste up to 11 of 12.
    copying = make_row_tile(rows, vectors, copies=True)
    copying_two_thirds = make_row_tile(two_thirds, vectors, copies=True)
    copying_third = make_row_tile(third, vectors, copies=True)
    plain = make_row_tile(rows, vectors)
    plain_two_thirds = make_row_tile(two_thirds, vectors)
    plain_third = make_row_tile(third, vectors)
    # For the last columns, all heights.
    copying_slim = make_row_tile(rows, 1, copies=True)
    plain_slim = make_row_tile(rows, 1)

    @kernel
    def multiply_rows(block, part, parts):
        w = words(block)
        k, m, n, a, a_row, b, b_step, b_panel, c, c_row = w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9]
        s, s_row, s_column, copy, ahead, a_column = w[10], w[11], w[12], w[13], w[14], w[15]
        for j in range(0, n, columns):
            b_at = b + 4 * (j // columns) * b_panel
            b_row = b_step
            n_left = n - j
            first = 0
            if copy != 0:
                c_at, s_at = c + 4 * j, s + 4 * j * s_column
                if n_left <= vector:
                    first = min(m, rows)
                    copying_slim(
                        (k, a, a_row, a_column, b_at, b_step, c_at, c_row, s_at, s_row, first, n_left, copy, ahead)
                    )
                elif third < m <= two_thirds or rows < m <= 2 * two_thirds:
                    first = min(m, two_thirds)
                    copying_two_thirds(
                        (k, a, a_row, a_column, b_at, b_step, c_at, c_row, s_at, s_row, first, n_left, copy, ahead)
                    )
                elif m > third:
                    first = min(m, rows)
                    copying((k, a, a_row, a_column, b_at, b_step, c_at, c_row, s_at, s_row, first, n_left, copy, ahead))
                else:
                    first = m
                    copying_third(
                        (k, a, a_row, a_column, b_at, b_step, c_at, c_row, s_at, s_row, m, n_left, copy, ahead)
                    )
                b_at, b_row = copy, vector if n_left <= vector else columns
            for i in range(first, m, rows):
                m_left = min(rows, m - i)
                a_at = a + 4 * i * a_row
                c_at, s_at = c + 4 * (i * c_row + j), s + 4 * (i * s_row + j * s_column)
                if n_left <= vector:
                    plain_slim((k, a_at, a_row, a_column, b_at, b_row, c_at, c_row, s_at, s_row, m_left, n_left, 0, 0))
                elif m_left > two_thirds:
                    plain((k, a_at, a_row, a_column, b_at, b_row, c_at, c_row, s_at, s_row, m_left, n_left, 0, 0))
                elif m_left > third:
                    plain_two_thirds(
                        (k, a_at, a_row, a_column, b_at, b_row, c_at, c_row, s_at, s_row, m_left, n_left, 0, 0)
                    )
                else:
                    plain_third((k, a_at, a_row, a_column, b_at, b_row, c_at, c_row, s_at, s_row, m_left, n_left, 0, 0))
        return 0

    return multiply_rows


def _build_stream() -> Callable[..., int]:
    from atled_cpu_numba.codegen import words
    from atled_cpu_numba.kernels.products.tiles import make_row_tile
    from atled_cpu_numba.kernels.shared.options import kernel

    lanes = host_lanes()
    rows, columns = lanes.rows, lanes.columns
    vector_bytes = 4 * lanes.vector
    streaming = make_row_tile(rows, columns // lanes.vector, streams=True)
    plain = make_row_tile(rows, columns // lanes.vector)

    @kernel
    def multiply_stream(block, part, parts):
        w = words(block)
        k, m, n, a, a_row, b, b_step, b_panel, c, c_row = w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9]
        s, s_row, s_column, a_column = w[10], w[11], w[12], w[15]
        aligned = c % vector_bytes == 0 and (4 * c_row) % vector_bytes == 0
        for i in range(0, m, rows):
            m_left = min(rows, m - i)
            a_at = a + 4 * i * a_row
            for j in range(0, n, columns):
                b_at = b + 4 * (j // columns) * b_panel
                c_at, s_at = c + 4 * (i * c_row + j), s + 4 * (i * s_row + j * s_column)
                if aligned and m_left == rows:
                    streaming((k, a_at, a_row, a_column, b_at, b_step, c_at, c_row, s_at, s_row, rows, columns, 0, 0))
                else:
                    plain((k, a_at, a_row, a_column, b_at, b_step, c_at, c_row, s_at, s_row, m_left, columns, 0, 0))
        return 0

    return multiply_stream


def _build_across() -> Callable[..., int]:
    from atled_cpu_numba.codegen import words
    from atled_cpu_numba.kernels.products.tiles import make_across_tile
    from atled_cpu_numba.kernels.shared.options import kernel

    lanes = host_lanes()
    vector = lanes.vector
    rows = min(lanes.rows, vector)  # a row of the transposed tile is one vector
    wide = make_across_tile(rows, lanes.columns // vector)
    slim = make_across_tile(rows, 1)

    @kernel
    def multiply_across(block, part, parts):
        w = words(block)
        k, m, n, a, a_row, b, b_step, b_panel, c, c_row = w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9]
        s, s_row, s_column, width, a_column = w[10], w[11], w[12], w[13], w[14]
        for i in range(0, m, rows):
            m_left = min(rows, m - i)
            a_at = a + 4 * i * a_row
            for panel in range((n + width - 1) // width):  # a range with a step that is a variable could raise
                j = panel * width
                b_at = b + 4 * panel * b_panel
                n_left = min(width, n - j)
                ahead = rows * a_row if j == 0 else 0
                c_at = c + 4 * (j * c_row + i)
                s_at = s + 4 * (j * s_row + i * s_column)
                if n_left > vector:
                    wide((k, a_at, a_row, a_column, b_at, b_step, c_at, c_row, s_at, s_row, m_left, n_left, ahead))
                else:
                    slim((k, a_at, a_row, a_column, b_at, b_step, c_at, c_row, s_at, s_row, m_left, n_left, ahead))
        return 0

    return multiply_across


MULTIPLY_ROWS = Kernel("multiply_rows", _build_rows)
MULTIPLY_STREAM = Kernel("multiply_stream", _build_stream)
MULTIPLY_ACROSS = Kernel("multiply_across", _build_across)
