"""The pieces that all matrix products share: packing a matrix into panels, and multiplying by one narrow panel.

A panel holds `width` rows of a matrix, k by k: element (r, i) of panel p is at p * width * k + i * width + r. A is
packed by rows (width `Lanes.rows`), B by columns (width `Lanes.columns`). The pieces are kernels of their own, called
by address with a block in the caller's workspace, so that they are compiled once, however many products use them.
"""

from __future__ import annotations

from collections.abc import Callable

from atled_cpu_numba.kernels.shared.lanes import SIZES, lanes_of
from atled_cpu_numba.kernels.shared.launch import kernels_by_dtype
from atled_cpu_numba.kernels.shared.layout import layout

PACK_SLACK = 64
ZERO_PANELS = 2  # of `Lanes.columns`: as many zeros as any panel of B has columns
BLOCK_WORDS = (
    24  # room that a caller reserves for the block of any piece: what follows it begins with a line of the cache
)
NARROW_ROWS = 8
_PANEL_GROUP = 16


@layout
class Pack:
    """What PACK reads; strides in elements.

    Rows missing in the last panel hold anything. Writes up to PACK_SLACK elements behind the last panel.
    """

    source: int  # address of the matrix
    row: int  # stride from row to row
    column: int  # stride from one k to the next
    rows: int  # of the matrix
    k: int
    target: int  # address of the panels
    width: int  # rows of a panel


@layout
class Narrow:
    """What MULTIPLY_NARROW reads: C = A B + S for n <= `Lanes.vector` columns; strides in elements."""

    k: int  # length of the sums
    m: int  # rows of C, at least NARROW_ROWS
    n: int  # columns of C
    a: int  # address of A, which is read in place
    a_row: int
    a_column: int
    b: int  # address of B, packed to panels of width `Lanes.vector`
    c: int  # address of C
    c_row: int
    s: int  # address of S
    s_row: int


def _build_pack(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import words
    from atled_cpu_numba.kernels.shared.options import Real, kernel
    from atled_cpu_numba.kernels.shared.vectors import make_copy, make_copy_rows, make_transpose_block

    lanes, element, floats = lanes_of(dtype), SIZES[dtype], Real(dtype).pointer
    vector, a_width, b_width = lanes.vector, lanes.rows, lanes.columns
    copy_a, copy_b, copy_wide = (make_copy(count, dtype) for count in (lanes.rows, lanes.columns, 3 * vector))
    copy_rows, transpose_block = make_copy_rows(dtype), make_transpose_block(dtype)

    @kernel
    def pack(block, part, parts):
        w = words(block)
        source, row, column, rows = w[Pack.source], w[Pack.row], w[Pack.column], w[Pack.rows]
        k, target, width = w[Pack.k], w[Pack.target], w[Pack.width]
        x, y = floats(source), floats(target)
        panels = (rows + width - 1) // width
        if row == 1:
            whole_panels = rows // width if width != vector else 0
            # Some panels at once: their rows share cache lines, which a large power of two as stride would evict.
            for group in range((whole_panels + _PANEL_GROUP - 1) // _PANEL_GROUP):
                p0, p1 = group * _PANEL_GROUP, min(whole_panels, (group + 1) * _PANEL_GROUP)
                for i in range(k):
                    at, to = (
                        source + element * (i * column + p0 * width),
                        target + element * (p0 * width * k + i * width),
                    )
                    for _ in range(p0, p1):
                        if width == a_width:
                            copy_a((at, to))
                        elif width == b_width:
                            copy_b((at, to))
                        else:
                            copy_wide((at, to))
                        at += element * width
                        to += element * width * k
            for panel in range(whole_panels, panels):
                first = panel * width
                to = target + element * first * k
                copy_rows((source + element * first, column, to, width, k, min(width, rows - first)))
            return 0
        for panel in range(panels):  # a range with a step that is a variable could raise
            first = panel * width
            count = min(width, rows - first)
            base = first * k
            whole = k - k % vector if column == 1 else 0
            # From the last rows to the first: what they write behind the panel's row is the beginning of the next one.
            for h in range((count - 1) // vector * vector, -1, -vector):
                at = source + element * (first + h) * row
                for i in range(0, whole, vector):
                    transpose_block(
                        (
                            at + element * i,
                            row,
                            min(vector, count - h),
                            target + element * (base + i * width + h),
                            width,
                        )
                    )
            for i in range(whole, k):
                for r in range(count):
                    y[base + i * width + r] = x[(first + r) * row + i * column]
        return 0

    return pack


def _build_multiply_narrow(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import words
    from atled_cpu_numba.kernels.products.tiles import make_tile
    from atled_cpu_numba.kernels.shared.options import kernel

    vector, element = lanes_of(dtype).vector, SIZES[dtype]
    tile = make_tile(NARROW_ROWS, 1, dtype)

    @kernel
    def multiply_narrow(block, part, parts):
        w = words(block)
        k, m, n, a = w[Narrow.k], w[Narrow.m], w[Narrow.n], w[Narrow.a]
        a_row, a_column, b, c = w[Narrow.a_row], w[Narrow.a_column], w[Narrow.b], w[Narrow.c]
        c_row, s, s_row = w[Narrow.c_row], w[Narrow.s], w[Narrow.s_row]
        for i in range(0, m, NARROW_ROWS):
            # The tile reads all its rows of A: the last one moves up and computes some rows again.
            i = min(i, m - NARROW_ROWS)
            tile(
                (
                    k,
                    a + element * i * a_row,
                    a_row,
                    a_column,
                    b,
                    vector,
                    c + element * i * c_row,
                    c_row,
                    s + element * i * s_row,
                    s_row,
                    NARROW_ROWS,
                    n,
                )
            )
        return 0

    return multiply_narrow


PACK = kernels_by_dtype("pack", _build_pack)
MULTIPLY_NARROW = kernels_by_dtype("multiply_narrow", _build_multiply_narrow)
