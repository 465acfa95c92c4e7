"""Matrix products in float32: Affine and BatchMatmul.

Block (64-bit words; strides in elements):
    0 PACK, 1 MULTIPLY_ROWS, MULTIPLY_STREAM, MULTIPLY_ACROSS or MULTIPLY_NARROW  addresses of the pieces
    2 batch, 3 m, 4 k, 5 n                      y is (batch, m, n)
    6 a, 7 a_row, 8 a_column, 9 b, 10 b_row, 11 b_column, 12 y, 13 bias or 0
    14 workspace, 15 bytes of it per share
    16 unit_rows, 17 unit_columns               of the pieces of y that shares are made of
    18 k_step, 19 row_step, 20 column_step      how much of A and B is packed at a time
    21 way                                      one of ROWS, TRANSPOSED_ROWS, ACROSS, NARROW
    22 range kernel to run on what is written of y, or 0, 23 its block

The kernels for one row of A, or few, read words 2 to 13 alone; very small products have a kernel of their own, see
`small_products`. The other one multiplies in one of these ways:

ROWS    A is read in place; B is copied panel by panel while the first rows of A are multiplied, or packed if it is
         stored by columns.
TRANSPOSED_ROWS  The same with A transposed, if it is large and stored by columns.
ACROSS  The product is computed transposed, for few rows of A or columns of B. B is read in place; A is too, if it is
         stored by columns, else it is packed.
NARROW  A is read in place by rows, for few columns of B.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from atled.plugin import Call, Prepared
from atled_cpu_numba.kernels.products import small_products
from atled_cpu_numba.kernels.products.matmul_plan import (
    ACROSS,
    NARROW,
    TRANSPOSED_ROWS,
    Product,
    plan_product,
    round_up,
    unit_sizes,
)
from atled_cpu_numba.kernels.products.panels import BLOCK_WORDS, NARROW_ROWS, PACK, PACK_SLACK
from atled_cpu_numba.kernels.products.small_products import SMALL_PRODUCT
from atled_cpu_numba.kernels.shared.lanes import host_lanes
from atled_cpu_numba.kernels.shared.launch import fitting_shares, launch, refuse_floats, share_count
from atled_cpu_numba.store import Kernel

_DOT_ROWS = 4  # of A, by B transposed: more of them would read B too often
_ROWS_AT_ONCE = 8  # of B, for one row of A: each is read as a stream

# Cautious rates of one core, for the number of shares.
_FLOPS_PER_US = 150e3
_ELEMENTS_PER_US = 5e3


def _build() -> Callable[..., int]:
    from atled_cpu_numba.codegen import call3, floats32, words
    from atled_cpu_numba.kernels.shared.options import kernel

    lanes = host_lanes()
    vector, columns_at_once = lanes.vector, lanes.columns
    block_bytes = 8 * BLOCK_WORDS

    @kernel
    def matmul(block, part, parts):
        w = words(block)
        pack, multiply = w[0], w[1]
        batch, m, k, n = w[2], w[3], w[4], w[5]
        a, a_row, a_column, b, b_row, b_column, y, bias = w[6], w[7], w[8], w[9], w[10], w[11], w[12], w[13]
        unit_rows, unit_columns, k_step, row_step, column_step, way = w[16], w[17], w[18], w[19], w[20], w[21]
        inner = w[14] + part * w[15]
        zeros = inner + block_bytes
        first_packed = zeros + 4 * columns_at_once
        q, zero = words(inner), floats32(zeros)
        for i in range(columns_at_once):
            zero[i] = 0.0
        row_units = (m + unit_rows - 1) // unit_rows
        column_units = (n + unit_columns - 1) // unit_columns
        units = batch * row_units * column_units
        for unit in range(units * part // parts, units * (part + 1) // parts):
            outer = unit // row_units
            item = outer // column_units
            i0 = (unit - outer * row_units) * unit_rows
            j0 = (outer - item * column_units) * unit_columns
            i1, j1 = min(m, i0 + unit_rows), min(n, j0 + unit_columns)
            for step in range((k + k_step - 1) // k_step):  # a range with a step that is a variable could raise
                k0 = step * k_step
                kc = min(k_step, k - k0)
                a_item = a + 4 * (item * m * k + k0 * a_column)
                b_item = b + 4 * (item * k * n + k0 * b_row)
                y_item = y + 4 * item * m * n
                if way == ACROSS:
                    width = columns_at_once if i1 - i0 > vector else vector
                    a_at, a_step, a_panel = a_item + 4 * i0 * a_row, a_column, width
                    if a_row != 1:
                        # PACK: source, row stride, column stride, rows, k, target, width
                        q[0], q[1], q[2], q[3], q[4] = a_at, a_row, a_column, i1 - i0, kc
                        q[5], q[6] = first_packed, width
                        call3(pack, inner, 0, 1)
                        a_at, a_step, a_panel = first_packed, width, width * kc
                    c = y_item + 4 * (i0 * n + j0)
                    # MULTIPLY_ACROSS: k, m, n, a, a_row, b, b_step, b_panel, c, c_row, s, s_row, s_column, width,
                    # a_column
                    q[0], q[1], q[2], q[3], q[4] = kc, j1 - j0, i1 - i0, b_item + 4 * j0 * b_column, b_column
                    q[5], q[6], q[7], q[8], q[9], q[13], q[14] = a_at, a_step, a_panel, c, n, width, b_row
                    # S: first the bias or zeros, then what is there already.
                    if k0 > 0:
                        q[10], q[11], q[12] = c, n, 1
                    elif bias != 0:
                        q[10], q[11], q[12] = bias + 4 * j0, 0, 1
                    else:
                        q[10], q[11], q[12] = zeros, 0, 0
                    call3(multiply, inner, 0, 1)
                elif way == NARROW:
                    q[0], q[1], q[2], q[3], q[4], q[5] = b_item, b_column, b_row, n, kc, first_packed
                    q[6] = vector
                    call3(pack, inner, 0, 1)
                    # MULTIPLY_NARROW: k, m, n, a, a_row, a_column, b, c, c_row, s, s_row
                    start = min(i0, m - NARROW_ROWS)
                    q[0], q[1], q[2] = kc, max(i1 - start, NARROW_ROWS), n
                    q[3], q[4], q[5], q[6] = a_item + 4 * start * a_row, a_row, a_column, first_packed
                    q[7], q[8], q[9], q[10] = y_item + 4 * start * n, n, bias if bias != 0 else zeros, 0
                    call3(multiply, inner, 0, 1)
                else:
                    # A transposed has rows of whole vectors, which is how they are written.
                    padded_k = (kc + vector - 1) // vector * vector
                    for column_part in range((j1 - j0 + column_step - 1) // column_step):
                        j = j0 + column_part * column_step
                        columns = min(column_step, j1 - j)
                        packed_b = first_packed + (
                            4 * row_step * padded_k + 4 * PACK_SLACK if way == TRANSPOSED_ROWS else 0
                        )
                        if b_column != 1:
                            q[0], q[1], q[2] = b_item + 4 * j * b_column, b_column, b_row
                            q[3], q[4], q[5], q[6] = columns, kc, packed_b, columns_at_once
                            call3(pack, inner, 0, 1)
                        for row_part in range((i1 - i0 + row_step - 1) // row_step):
                            i = i0 + row_part * row_step
                            rows = min(row_step, i1 - i)
                            a_at, a_step, a_next = a_item + 4 * i * a_row, a_row, a_column
                            if way == TRANSPOSED_ROWS:
                                q[0], q[1], q[2], q[3], q[4] = a_at, a_column, a_row, kc, rows
                                q[5], q[6] = first_packed, padded_k
                                call3(pack, inner, 0, 1)
                                a_at, a_step, a_next = first_packed, padded_k, 1
                            c = y_item + 4 * (i * n + j)
                            # MULTIPLY_ROWS: k, m, n, a, a_row, b, b_step, b_panel, c, c_row, s, s_row, s_column, copy,
                            # ahead, a_column
                            q[0], q[1], q[2], q[3], q[4] = kc, rows, columns, a_at, a_step
                            if b_column == 1:
                                q[5], q[6], q[7], q[13] = b_item + 4 * j, b_row, columns_at_once, packed_b
                            else:
                                q[5], q[6], q[7], q[13] = packed_b, columns_at_once, columns_at_once * kc, 0
                            q[8], q[9], q[14], q[15] = c, n, columns_at_once, a_next
                            if k0 > 0:
                                q[10], q[11], q[12] = c, n, 1
                            elif bias != 0:
                                q[10], q[11], q[12] = bias + 4 * j, 0, 1
                            else:
                                q[10], q[11], q[12] = zeros, 0, 0
                            call3(multiply, inner, 0, 1)
            if w[22] != 0:
                at, rows = (item * m + i0) * n, i1 - i0
                if j1 - j0 == n:
                    call3(w[22], w[23], at, at + rows * n)
                else:
                    for _ in range(rows):
                        call3(w[22], w[23], at + j0, at + j1)
                        at += n
        return 0

    return matmul


def _build_rows_by_columns() -> Callable[..., int]:
    from atled_cpu_numba.codegen import floats32, words
    from atled_cpu_numba.kernels.shared.options import kernel
    from atled_cpu_numba.kernels.shared.sums import dot

    dot_product = dot("float32", "float32")

    @kernel
    def rows_by_columns(block, part, parts):
        w = words(block)
        batch, m, k, n = w[2], w[3], w[4], w[5]
        for column in range(batch * n * part // parts, batch * n * (part + 1) // parts):
            item = column // n
            j = column - item * n
            b = w[9] + 4 * column * k
            for row in range(m):
                total = dot_product(w[6] + 4 * (item * m + row) * k, b, k)
                if w[13] != 0:
                    total += floats32(w[13])[j]
                floats32(w[12])[(item * m + row) * n + j] = total
        return 0

    return rows_by_columns


def _build_row_by_rows() -> Callable[..., int]:
    from atled_cpu_numba.codegen import words
    from atled_cpu_numba.kernels.products.tiles import make_row_sum
    from atled_cpu_numba.kernels.shared.options import kernel

    vector = host_lanes().vector
    add_rows, add_row = make_row_sum(_ROWS_AT_ONCE), make_row_sum(1)

    @kernel
    def row_by_rows(block, part, parts):
        w = words(block)
        batch, k, n, a, b, y, bias = w[2], w[4], w[5], w[6], w[9], w[12], w[13]
        pieces = (n + vector - 1) // vector
        first, last = batch * pieces * part // parts, batch * pieces * (part + 1) // parts
        while first < last:
            item = first // pieces
            j0 = (first - item * pieces) * vector
            first = min(last, (item + 1) * pieces)
            columns = min(n, (first - item * pieces) * vector) - j0
            c = y + 4 * (item * n + j0)
            s, s_count = bias + 4 * j0, columns if bias != 0 else 0
            whole = k - k % _ROWS_AT_ONCE
            for i in range(0, whole, _ROWS_AT_ONCE):
                add_rows((columns, a + 4 * (item * k + i), b + 4 * ((item * k + i) * n + j0), n, c, s, s_count))
                s, s_count = c, columns
            for i in range(whole, k):
                add_row((columns, a + 4 * (item * k + i), b + 4 * ((item * k + i) * n + j0), n, c, s, s_count))
                s, s_count = c, columns
        return 0

    return row_by_rows


MATMUL = Kernel("matmul", _build)
ROWS_BY_COLUMNS = Kernel("rows_by_columns", _build_rows_by_columns)
ROW_BY_ROWS = Kernel("row_by_rows", _build_row_by_rows)


def _affine(call: Call) -> Product:
    x, weight = call.inputs[0], call.inputs[1]
    assert x is not None
    assert weight is not None
    m = math.prod(x.shape[: call.attributes["base_axis"]])
    k = weight.shape[0]
    n = math.prod(weight.shape[1:])
    return Product(1, m, k, n, k, 1, n, 1)


def _batch_matmul(call: Call) -> Product:
    a, b = call.inputs[0], call.inputs[1]
    assert a is not None
    assert b is not None
    transpose_a, transpose_b = call.attributes["transpose_a"], call.attributes["transpose_b"]
    k, m = a.shape[-2:] if transpose_a else a.shape[:-3:-1]
    n = b.shape[-2] if transpose_b else b.shape[-1]
    a_strides = (1, m) if transpose_a else (k, 1)
    b_strides = (1, k) if transpose_b else (n, 1)
    return Product(math.prod(a.shape[:-2]), m, k, n, *a_strides, *b_strides)


_PRODUCTS = {"Affine": _affine, "BatchMatmul": _batch_matmul}


def accepts(call: Call) -> bool | str:
    """Whether the call is a float32 product with a sum of at least one term; BatchMatmul without broadcasting."""
    refused = refuse_floats(call, ("float32",), floats=(0, 1, 2))
    if refused:
        return refused
    if call.spec.name == "BatchMatmul":
        a, b = call.inputs[0], call.inputs[1]
        assert a is not None
        assert b is not None
        if math.prod(a.shape[:-2]) != math.prod(b.shape[:-2]):
            return f"takes batches of equal size, not {a.shape[:-2]} and {b.shape[:-2]}"
    if _PRODUCTS[call.spec.name](call).k == 0:
        return "takes no empty sums (inner size 0)"
    return True


def prepare(call: Call) -> Prepared:
    """Affine: x, weight, bias? -> y.  BatchMatmul: a, b -> y."""
    p = _PRODUCTS[call.spec.name](call)
    lanes = host_lanes()
    # Words of the inputs; an absent bias has none.
    a_word, b_word = (6, 9) if p.n != 1 or p.m <= 1 or call.inputs[2:] else (9, 6)
    if a_word > b_word:  # a matrix by one column: the column is the row of the transposed product
        p = Product(p.batch, 1, p.k, p.m, p.k, 1, p.a_column, p.a_row)
    words = (a_word, b_word, 13)
    inputs = tuple(-1 if desc is None else word for desc, word in zip(call.inputs, words, strict=False))
    sizes = [p.batch, p.m, p.k, p.n, 0, p.a_row, p.a_column, 0, p.b_row, p.b_column, 0, 0]
    read = p.batch * (p.m * p.k + p.k * p.n)
    work_us = max(2.0 * p.batch * p.m * p.k * p.n / _FLOPS_PER_US, read / _ELEMENTS_PER_US)
    tile_steps = small_products.step_count(p.m, p.k, p.n, p.b_column)
    if small_products.are_few(tile_steps, p.b_column):
        parts = share_count(small_products.time_us(p.batch, tile_steps), p.batch)
        block = [0, 0, *sizes, 0, 0]
        return launch(SMALL_PRODUCT, block, (*inputs, 12), parts=parts, after={0: 14}, note="small tiles")
    if p.m <= _DOT_ROWS and (p.a_column, p.b_row, p.b_column) == (1, 1, p.k):
        parts = share_count(work_us, p.batch * p.n)
        return launch(ROWS_BY_COLUMNS, [0, 0, *sizes], (*inputs, 12), parts=parts, note="dot products")
    if p.m == 1 and p.n > 1:
        parts = share_count(work_us, p.batch * -(-p.n // lanes.vector))
        return launch(ROW_BY_ROWS, [0, 0, *sizes], (*inputs, 12), parts=parts, note="sums of rows")
    plan = plan_product(p)
    parts = share_count(work_us, p.batch * -(-p.m // plan.least_rows) * -(-p.n // plan.least_columns))
    unit_rows, unit_columns = unit_sizes(p, plan, parts)
    share_bytes = round_up(8 * BLOCK_WORDS + 4 * lanes.columns + plan.packed_bytes, 64)
    parts = fitting_shares(min(parts, p.batch * -(-p.m // unit_rows) * -(-p.n // unit_columns)), share_bytes)
    steps = [unit_rows, unit_columns, plan.k_step, plan.row_step, plan.column_step, plan.way, 0, 0]
    block = [PACK.address(), plan.multiply.address(), *sizes, 0, share_bytes, *steps]
    workspace = share_bytes * parts
    # For few columns, the last unit computes some rows of the one before it once more.
    after = None if plan.way == NARROW else {0: 22}
    return launch(MATMUL, block, (*inputs, 12, 14), parts=parts, workspace=workspace, after=after, note=plan.note)
