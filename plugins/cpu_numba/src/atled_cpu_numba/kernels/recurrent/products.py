"""Pieces of the recurrent kernels: products with a weight that was packed once, and rows copied and added.

Importing this module imports numba; so kernel modules import it only inside the functions that build a kernel.
A weight of k x n is packed in parts of K_STEP of k, each as panels of columns; see `panels`.
"""

from __future__ import annotations

from typing import Any

from atled.plugin import NamedTuple
from atled_cpu_numba.codegen import call3, words
from atled_cpu_numba.kernels.products.panels import Pack
from atled_cpu_numba.kernels.products.row_products import ROWS_AHEAD, Rows
from atled_cpu_numba.kernels.recurrent.sequences import K_STEP, ROW_STEP
from atled_cpu_numba.kernels.shared.lanes import SIZES
from atled_cpu_numba.kernels.shared.options import Real, piece


class Pieces(NamedTuple):
    """The pieces for one dtype."""

    padded: Any  # numba ships no types
    pack_weight: Any
    pack_columns: Any
    product: Any
    product_of_columns: Any
    copy_row: Any
    add_row: Any


def pieces_of(dtype: str) -> Pieces:
    """Those of "float32" or "float64"."""
    element, floats = SIZES[dtype], Real(dtype).pointer

    @piece
    def padded(n, columns):
        """`n` rounded up to whole panels of so many columns."""
        return (n + columns - 1) // columns * columns

    @piece
    def pack_columns(pack, inner, source, row, column, first, count, n, k, target, columns):
        """Of k x n elements, (i, j) of them at source[j * row + i * column], pack `count` columns from `first` on.

        columns: of a panel.  first: a multiple of them.
        """
        q = words(inner)
        for k_part in range((k + K_STEP - 1) // K_STEP):
            k0 = k_part * K_STEP
            at, kc = source + element * (first * row + k0 * column), min(K_STEP, k - k0)
            q[Pack.source], q[Pack.row], q[Pack.column], q[Pack.rows], q[Pack.k] = at, row, column, count, kc
            q[Pack.target], q[Pack.width] = target + element * (padded(n, columns) * k0 + first * kc), columns
            call3(pack, inner, 0, 1)

    @piece
    def pack_weight(pack, inner, source, row, column, n, k, target, columns):
        """Pack k x n elements, (i, j) of them at source[j * row + i * column]."""
        pack_columns(pack, inner, source, row, column, 0, n, n, k, target, columns)

    @piece
    def product_of_columns(
        multiply, inner, a, a_row, m, k, first, count, n, b, c, c_row, s, s_row, s_column, is_back, columns
    ):  # fmt: skip
        """C = A B + S, m x count elements: A in rows, S as for `multiply`, whose panels have so many columns.

        B: `count` columns from `first` on of the n that `pack_weight` leaves; first: as of `pack_columns`.
        is_back: by MULTIPLY_FEW, begin with the last panels of B.
        """
        q = words(inner)
        for row_part in range((m + ROW_STEP - 1) // ROW_STEP):
            i = row_part * ROW_STEP
            rows = min(ROW_STEP, m - i)
            c_at = c + element * i * c_row
            for k_part in range((k + K_STEP - 1) // K_STEP):
                k0 = k_part * K_STEP
                kc = min(K_STEP, k - k0)
                q[Rows.k], q[Rows.m], q[Rows.n], q[Rows.a], q[Rows.a_row] = (
                    kc,
                    rows,
                    count,
                    a + element * (i * a_row + k0),
                    a_row,
                )
                b_at = b + element * (padded(n, columns) * k0 + first * kc)
                q[Rows.b], q[Rows.b_step], q[Rows.b_panel] = b_at, columns, columns * kc
                q[Rows.c], q[Rows.c_row], q[Rows.copy], q[Rows.a_column] = c_at, c_row, 0, 1
                q[Rows.ahead] = ROWS_AHEAD * columns
                q[Rows.is_back], q[Rows.bounds], q[Rows.k_step] = is_back, 0, kc
                if k0 > 0:
                    q[Rows.s], q[Rows.s_row], q[Rows.s_column] = c_at, c_row, 1
                else:
                    q[Rows.s], q[Rows.s_row], q[Rows.s_column] = s + element * i * s_row, s_row, s_column
                call3(multiply, inner, 0, 1)

    @piece
    def product(multiply, inner, a, a_row, m, k, n, b, c, c_row, s, s_row, s_column, is_back, columns):
        """C = A B + S, m x n elements: all columns."""
        product_of_columns(multiply, inner, a, a_row, m, k, 0, n, n, b, c, c_row, s, s_row, s_column, is_back, columns)

    @piece
    def copy_row(source, target, count):
        """Copy `count` numbers; zeros if source is 0."""
        x, y = floats(source), floats(target)
        if source == 0:
            for i in range(count):
                y[i] = 0.0
        else:
            for i in range(count):
                y[i] = x[i]

    @piece
    def add_row(source, target, count):
        """Add `count` numbers to others."""
        x, y = floats(source), floats(target)
        for i in range(count):
            y[i] += x[i]

    return Pieces(padded, pack_weight, pack_columns, product, product_of_columns, copy_row, add_row)
