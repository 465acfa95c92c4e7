"""Matrix products: Affine and BatchMatmul.

A product takes one of these ways:

ROWS    A is read in place; B is copied panel by panel while the first rows of A are multiplied, or packed if it is
         stored by columns.
PACKED_ROWS  A is copied block by block to rows that are no power of two apart, for large matrices, or transposed, if
         it is stored by columns and there are many of B. B as before, or packed if its rows lie far apart.
ACROSS  The product is computed transposed, for few rows of A or columns of B. B is read in place; A is too, if it is
         stored by columns, else it is packed.
NARROW  A is read in place by rows, for few columns of B.

One row of A, or few, and very small products (see `small_products`) have kernels of their own, products of one term a
formula (`outer_products`). The first of the `ways` that pays is taken, or the one that a search finds the fastest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from atled.plugin import ArrayDesc, Call, NamedTuple, Prepared
from atled_cpu_numba.kernels.products import outer_products, small_products
from atled_cpu_numba.kernels.products.matmul_plan import (
    ACROSS,
    DOT_ROWS,
    NARROW,
    PACKED_ROWS,
    Plan,
    Product,
    has_short_dots,
    is_avx2,
    plan_ways,
    reads_panels_abreast,
    unit_sizes,
)
from atled_cpu_numba.kernels.products.matrices import Matrix, matrix
from atled_cpu_numba.kernels.products.packed_columns import columns_in_panels
from atled_cpu_numba.kernels.products.panels import (
    BLOCK_WORDS,
    NARROW_ROWS,
    PACK,
    PACK_SLACK,
    ZERO_PANELS,
    Narrow,
    Pack,
)
from atled_cpu_numba.kernels.products.row_products import MULTIPLY_FEW, MULTIPLY_ROWS, ROWS_AHEAD, Across, Rows
from atled_cpu_numba.kernels.products.small_products import ProductWords
from atled_cpu_numba.kernels.products.wide_products import MULTIPLY_WIDE
from atled_cpu_numba.kernels.shared.cache_lines import LINE_BYTES
from atled_cpu_numba.kernels.shared.elements import item_bytes, real_of
from atled_cpu_numba.kernels.shared.lanes import SIZES, lanes_of
from atled_cpu_numba.kernels.shared.launch import (
    ANY,
    REALS,
    fitting_shares,
    in_lines,
    kernels_by_dtype,
    launch,
    refuse_floats,
    share_count,
    unbounded,
)
from atled_cpu_numba.kernels.shared.layout import filled, layout, words_of
from atled_cpu_numba.kernels.shared.ways import Way, chosen, is_measured

DOT_PRODUCTS = "dot products"
"""The name of the way that `dot_products` prepares."""

_MEASURED_BEYOND = 4  # times the bound up to which the rules take a way: so far it is among those that are measured
_ROWS_AT_ONCE = 8  # of B, for one row of A: each is read as a stream

# Cautious rates of one core, for the number of shares.
_FLOPS_PER_US, _AVX2_FLOPS_PER_US = 150e3, 85e3
_ELEMENTS_PER_US = 5e3


@layout
class Block(ProductWords):
    """What the kernels read. Those for one row of A, or few, read from `batch` to `bias`.

    multiply: MULTIPLY_ROWS, MULTIPLY_WIDE, MULTIPLY_STREAM, MULTIPLY_ACROSS or MULTIPLY_NARROW.
    """

    inner: int  # matrices of a group, between which `a_batch` and the like are the strides
    a_outer: int  # strides from group to group
    b_outer: int
    y_outer: int
    workspace: int  # address
    share_bytes: int  # of the workspace, per share
    unit_rows: int  # of the pieces of y that shares are made of
    unit_columns: int
    k_step: int  # how much of A and B is packed at a time
    row_step: int
    column_step: int
    way: int  # one of ROWS, PACKED_ROWS, ACROSS, NARROW
    width: int  # by rows: of the panels of B
    packs_b: int  # by rows: whether B is packed first, rather than copied panel by panel
    panels: int  # address of B as PACK_STEPS packs it, or 0
    multiply_few: int  # address of MULTIPLY_FEW if it multiplies by `panels`, which are packed in one step then, or 0
    after: int  # range kernel to run on what is written of y, or 0
    after_block: int  # its block
    low: int  # the least number of y, where `multiply` knows bounds
    high: int  # the greatest


def _build(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import call3, words
    from atled_cpu_numba.kernels.shared.options import Real, kernel, piece

    lanes, element, floats = lanes_of(dtype), SIZES[dtype], Real(dtype).pointer
    vector, columns_at_once, line = lanes.vector, lanes.columns, LINE_BYTES // element
    block_bytes, zero_count = 8 * BLOCK_WORDS, ZERO_PANELS * columns_at_once

    # Each adds kc terms, from k0 on, to y[i0:i1, j0:j1] of one item.  calls: addresses of kernels.  a, b: of the first
    # of these terms, with strides.  c: address of the item, stride.  room: of zeros, and of memory to pack into.

    @piece
    def multiply_across(inner, calls, tile, terms, a, b, c, bias, room):
        (pack, multiply), (i0, i1, j0, j1), (k0, kc), q = calls, tile, terms, words(inner)
        (a_item, a_row, a_column), (b_item, b_row, b_column) = a, b
        (y_item, y_row), (zeros, first_packed) = c, room
        across = columns_at_once if i1 - i0 > vector else vector
        a_at, a_step, a_panel = a_item + element * i0 * a_row, a_column, across
        if a_row != 1:
            q[Pack.source], q[Pack.row], q[Pack.column] = a_at, a_row, a_column
            q[Pack.rows], q[Pack.k] = i1 - i0, kc
            q[Pack.target], q[Pack.width] = first_packed, across
            call3(pack, inner, 0, 1)
            a_at, a_step, a_panel = first_packed, across, across * kc
        c_at = y_item + element * (i0 * y_row + j0)
        rows, columns, b_at = j1 - j0, i1 - i0, b_item + element * j0 * b_column
        q[Across.k], q[Across.m], q[Across.n] = kc, rows, columns
        q[Across.a], q[Across.a_row] = b_at, b_column
        q[Across.b], q[Across.b_step], q[Across.b_panel], q[Across.c] = a_at, a_step, a_panel, c_at
        q[Across.c_row], q[Across.width], q[Across.a_column] = y_row, across, b_row
        # S: first the bias or zeros, then what is there already.
        if k0 > 0:
            q[Across.s], q[Across.s_row], q[Across.s_column] = c_at, y_row, 1
        elif bias != 0:
            q[Across.s], q[Across.s_row], q[Across.s_column] = bias + element * j0, 0, 1
        else:
            q[Across.s], q[Across.s_row], q[Across.s_column] = zeros, 0, 0
        call3(multiply, inner, 0, 1)

    @piece
    def multiply_narrow(inner, calls, tile, kc, m, n, a, b, c, bias, room):
        (pack, multiply), (i0, i1), q = calls, tile, words(inner)
        (a_item, a_row, a_column), (b_item, b_row, b_column) = a, b
        (y_item, y_row), (zeros, first_packed) = c, room
        q[Pack.source], q[Pack.row], q[Pack.column] = b_item, b_column, b_row
        q[Pack.rows], q[Pack.k], q[Pack.target] = n, kc, first_packed
        q[Pack.width] = vector
        call3(pack, inner, 0, 1)
        start = min(i0, m - NARROW_ROWS)
        q[Narrow.k], q[Narrow.m], q[Narrow.n] = kc, max(i1 - start, NARROW_ROWS), n
        q[Narrow.a], q[Narrow.a_row] = a_item + element * start * a_row, a_row
        q[Narrow.a_column], q[Narrow.b] = a_column, first_packed
        c_at, s = y_item + element * start * y_row, bias if bias != 0 else zeros
        q[Narrow.c], q[Narrow.c_row], q[Narrow.s], q[Narrow.s_row] = c_at, y_row, s, 0
        call3(multiply, inner, 0, 1)

    @piece
    def multiply_rows(block, inner, calls, tile, terms, sizes, steps, a, b, c, bias, room):
        w, q = words(block), words(inner)
        (pack, multiply), (i0, i1, j0, j1), (k0, kc), (k, n) = calls, tile, terms, sizes
        (a_item, a_row, a_column), (b_item, b_row, b_column) = a, b
        (y_item, y_row), (zeros, first_packed), (row_step, column_step, way, width) = c, room, steps
        padded_k = (kc // line + 1 | 1) * line  # as `matmul_plan.padded_row`
        for column_part in range((j1 - j0 + column_step - 1) // column_step):
            j = j0 + column_part * column_step
            columns = min(column_step, j1 - j)
            packed_b = first_packed + (
                element * row_step * padded_k + element * PACK_SLACK if way == PACKED_ROWS else 0
            )
            if w[Block.panels] != 0:
                padded = (n + width - 1) // width * width
                packed_b = w[Block.panels] + element * (k0 * padded + j * kc)
            elif w[Block.packs_b] != 0:
                b_at = b_item + element * j * b_column
                q[Pack.source], q[Pack.row], q[Pack.column] = b_at, b_column, b_row
                q[Pack.rows], q[Pack.k] = columns, kc
                q[Pack.target], q[Pack.width] = packed_b, width
                call3(pack, inner, 0, 1)
            for row_part in range((i1 - i0 + row_step - 1) // row_step):
                i = i0 + row_part * row_step
                rows = min(row_step, i1 - i)
                a_at, a_step, a_next = a_item + element * i * a_row, a_row, a_column
                if way == PACKED_ROWS:
                    q[Pack.source], q[Pack.row], q[Pack.column] = a_at, a_column, a_row
                    q[Pack.rows], q[Pack.k] = kc, rows
                    q[Pack.target], q[Pack.width] = first_packed, padded_k
                    call3(pack, inner, 0, 1)
                    a_at, a_step, a_next = first_packed, padded_k, 1
                c_at = y_item + element * (i * y_row + j)
                q[Rows.k], q[Rows.m], q[Rows.n], q[Rows.a], q[Rows.a_row] = kc, rows, columns, a_at, a_step
                in_panels = w[Block.packs_b] != 0 or w[Block.panels] != 0
                if not in_panels:
                    q[Rows.b], q[Rows.b_step], q[Rows.b_panel] = b_item + element * j, b_row, width
                    q[Rows.copy] = packed_b
                else:
                    q[Rows.b], q[Rows.b_step], q[Rows.b_panel] = packed_b, width, width * kc
                    q[Rows.copy] = 0
                ahead = ROWS_AHEAD * width if in_panels else width
                q[Rows.c], q[Rows.c_row], q[Rows.ahead], q[Rows.a_column] = c_at, y_row, ahead, a_next
                q[Rows.bounds] = block + 8 * Block.low if k0 + kc == k else 0
                q[Rows.k_step], q[Rows.is_back] = w[Block.k_step], 0
                if k0 > 0:
                    q[Rows.s], q[Rows.s_row], q[Rows.s_column] = c_at, y_row, 1
                elif bias != 0:
                    q[Rows.s], q[Rows.s_row], q[Rows.s_column] = bias + element * j, 0, 1
                else:
                    q[Rows.s], q[Rows.s_row], q[Rows.s_column] = zeros, 0, 0
                call3(multiply, inner, 0, 1)

    @kernel
    def matmul(block, part, parts):
        w = words(block)
        pack, multiply = w[Block.pack], w[Block.multiply]
        batch, m, k, n = w[Block.batch], w[Block.m], w[Block.k], w[Block.n]
        a, a_row, a_column, b = w[Block.a], w[Block.a_row], w[Block.a_column], w[Block.b]
        b_row, b_column, y, bias = w[Block.b_row], w[Block.b_column], w[Block.y], w[Block.bias]
        unit_rows, unit_columns, k_step = w[Block.unit_rows], w[Block.unit_columns], w[Block.k_step]
        row_step, column_step, way = w[Block.row_step], w[Block.column_step], w[Block.way]
        width = w[Block.width]
        if w[Block.panels] != 0 and w[Block.multiply_few] != 0:
            multiply, k_step = w[Block.multiply_few], k
        a_batch, b_batch, y_batch, y_row = w[Block.a_batch], w[Block.b_batch], w[Block.y_batch], w[Block.y_row]
        inner_items = w[Block.inner]
        inner = w[Block.workspace] + part * w[Block.share_bytes]
        zeros = inner + block_bytes
        room = zeros, zeros + element * zero_count
        zero = floats(zeros)
        for i in range(zero_count):
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
            group = item // inner_items
            place = item - group * inner_items
            a_matrix = a + element * (group * w[Block.a_outer] + place * a_batch)
            b_matrix = b + element * (group * w[Block.b_outer] + place * b_batch)
            y_item = y + element * (group * w[Block.y_outer] + place * y_batch)
            calls, tile, of_c = (pack, multiply), (i0, i1, j0, j1), (y_item, y_row)
            for step in range((k + k_step - 1) // k_step):  # a range with a step that is a variable could raise
                k0 = step * k_step
                kc = min(k_step, k - k0)
                of_a = a_matrix + element * k0 * a_column, a_row, a_column
                of_b = b_matrix + element * k0 * b_row, b_row, b_column
                if way == ACROSS:
                    multiply_across(inner, calls, tile, (k0, kc), of_a, of_b, of_c, bias, room)
                elif way == NARROW:
                    multiply_narrow(inner, calls, (i0, i1), kc, m, n, of_a, of_b, of_c, bias, room)
                else:
                    steps = row_step, column_step, way, width
                    multiply_rows(block, inner, calls, tile, (k0, kc), (k, n), steps, of_a, of_b, of_c, bias, room)
            if w[Block.after] != 0:
                at, rows = (item * m + i0) * n, i1 - i0
                if j1 - j0 == n:
                    call3(w[Block.after], w[Block.after_block], at, at + rows * n)
                else:
                    for _ in range(rows):
                        call3(w[Block.after], w[Block.after_block], at + j0, at + j1)
                        at += n
        return 0

    return matmul


def _build_rows_by_columns(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import words
    from atled_cpu_numba.kernels.shared.narrow_vectors import make_reading, make_writing
    from atled_cpu_numba.kernels.shared.options import kernel
    from atled_cpu_numba.kernels.shared.sums import dot

    element, dot_product = item_bytes(dtype), dot(dtype, real_of(dtype))
    (elements, read), write = make_reading(dtype), make_writing(dtype, alone=True)

    @kernel
    def rows_by_columns(block, part, parts):
        w = words(block)
        batch, m, k, n = w[Block.batch], w[Block.m], w[Block.k], w[Block.n]
        for column in range(batch * n * part // parts, batch * n * (part + 1) // parts):
            item = column // n
            j = column - item * n
            b = w[Block.b] + element * column * k
            for row in range(m):
                total = dot_product(w[Block.a] + element * (item * m + row) * k, b, k)
                if w[Block.bias] != 0:
                    total += read(elements(w[Block.bias]), j)
                write(elements(w[Block.y]), (item * m + row) * n + j, total)
        return 0

    return rows_by_columns


def _build_row_by_rows(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import call3, words
    from atled_cpu_numba.kernels.products.tiles import make_row_strip, make_row_sum
    from atled_cpu_numba.kernels.shared.options import kernel

    vector, element = lanes_of(dtype).vector, SIZES[dtype]
    add_rows, add_row = make_row_sum(_ROWS_AT_ONCE, dtype), make_row_sum(1, dtype)
    strip_2, strip_4, strip_8 = (make_row_strip(vectors, dtype) for vectors in (2, 4, 8))

    @kernel
    def row_by_rows(block, part, parts):
        w = words(block)
        batch, k, n, a = w[Block.batch], w[Block.k], w[Block.n], w[Block.a]
        b, y, bias = w[Block.b], w[Block.y], w[Block.bias]
        pieces = (n + vector - 1) // vector
        first, last = batch * pieces * part // parts, batch * pieces * (part + 1) // parts
        while first < last:
            item = first // pieces
            j0 = (first - item * pieces) * vector
            first = min(last, (item + 1) * pieces)
            columns = min(n, (first - item * pieces) * vector) - j0
            c = y + element * (item * n + j0)
            s, s_count = bias + element * j0, columns if bias != 0 else 0
            a_item, b_item = a + element * item * k, b + element * (item * k * n + j0)
            if vector <= columns <= 2 * vector:
                strip_2((columns, k, a_item, b_item, n, c, s if bias != 0 else 0))
            elif vector <= columns <= 4 * vector:
                strip_4((columns, k, a_item, b_item, n, c, s if bias != 0 else 0))
            elif vector <= columns <= 8 * vector:
                strip_8((columns, k, a_item, b_item, n, c, s if bias != 0 else 0))
            else:
                whole = k - k % _ROWS_AT_ONCE
                for i in range(0, whole, _ROWS_AT_ONCE):
                    add_rows((columns, a_item + element * i, b_item + element * i * n, n, c, s, s_count))
                    s, s_count = c, columns
                for i in range(whole, k):
                    add_row((columns, a_item + element * i, b_item + element * i * n, n, c, s, s_count))
                    s, s_count = c, columns
            if w[Block.after] != 0:
                call3(w[Block.after], w[Block.after_block], item * n + j0, item * n + j0 + columns)
        return 0

    return row_by_rows


MATMUL = kernels_by_dtype("matmul", _build)
ROWS_BY_COLUMNS = kernels_by_dtype("rows_by_columns", _build_rows_by_columns, dtypes=ANY)
ROW_BY_ROWS = kernels_by_dtype("row_by_rows", _build_row_by_rows)


def _affine(call: Call) -> Read | None:
    x, weight = call.inputs[0], call.inputs[1]
    assert x is not None
    assert weight is not None
    axis = call.attributes["base_axis"]
    read = _read(matrix(x, 0, axis), matrix(weight, 0, 1), matrix(call.outputs[0], 0, axis))
    has_bias = len(call.inputs) > 2 and call.inputs[2] is not None
    return None if has_bias and read is not None and read.is_transposed else read


def _batch_matmul(call: Call) -> Read | None:
    a, b = call.inputs[0], call.inputs[1]
    assert a is not None
    assert b is not None
    of_a, of_b, of_y = (matrix(desc, desc.ndim - 2, desc.ndim - 1) for desc in (a, b, call.outputs[0]))
    if of_a is not None and call.attributes["transpose_a"]:
        of_a = of_a.transposed()
    if of_b is not None and call.attributes["transpose_b"]:
        of_b = of_b.transposed()
    return _read(of_a, of_b, of_y)


class Read(NamedTuple):
    """A product as it is computed; is_transposed: of the two matrices transposed, in the other order."""

    product: Product
    is_transposed: bool


def _read(a: Matrix | None, b: Matrix | None, y: Matrix | None) -> Read | None:
    """The product whose rows are contiguous when they are written; None where there is none."""
    if a is None or b is None or y is None:
        return None
    is_transposed = y.column != 1
    if is_transposed:
        a, b, y = b.transposed(), a.transposed(), y.transposed()
    if y.column != 1:
        return None
    counts = {each.inner for each in (a, b, y) if each.is_in_groups} or {y.items}
    if len(counts) > 1:
        return None
    (inner,) = counts
    outer = (each.outer if each.is_in_groups else inner * each.item for each in (a, b, y))
    strides = a.row, a.column, b.row, b.column, a.item, b.item, y.item, y.row
    return Read(Product(y.items, y.rows, a.columns, y.columns, *strides, inner, *outer), is_transposed)


_PRODUCTS = {"Affine": _affine, "BatchMatmul": _batch_matmul}


def product_of(call: Call) -> Read | None:
    """The product that an Affine or BatchMatmul is; None where its matrices have no single strides."""
    return _PRODUCTS[call.spec.name](call)


def accepts(call: Call) -> bool | str:
    """Whether it is a product in float32 or float64 with terms to add up; BatchMatmul without broadcasting."""
    refused = refuse_floats(call, REALS, floats=(0, 1, 2))
    if refused:
        return refused
    if call.spec.name == "BatchMatmul":
        a, b = call.inputs[0], call.inputs[1]
        assert a is not None
        assert b is not None
        if math.prod(a.shape[:-2]) != math.prod(b.shape[:-2]):
            return f"takes batches of equal size, not {a.shape[:-2]} and {b.shape[:-2]}"
    read = product_of(call)
    if read is None:
        strides = "one stride for each axis, two for items"
        return f"takes matrices with {strides}; writes contiguous rows, or columns without a bias"
    if read.product.k == 0:
        return "takes no empty sums (inner size 0)"
    return True


def prepare(call: Call) -> Prepared:
    """Affine: x, weight, bias? -> y.  BatchMatmul: a, b -> y."""
    task = task_of(call)
    is_searched = is_measured(call) and _is_measurable(task.product)
    # The second matrix may be no weight, or one that is trained: then each run packs it, or does without.
    sizes = partial(sizes_of, call)
    return chosen(ways(task), task, sizes, task.dtype, is_measured=is_searched, keeps_packs=False)


class Task(NamedTuple):
    """All that the ways to compute a product depend on.

    arguments: names of the words of the call's inputs and of y, None for an input that is not there.
    carries: whether what is written has the elements in C order.
    """

    product: Product
    dtype: str
    arguments: tuple[str | None, ...]
    carries: bool

    @property
    def work_us(self) -> float:
        """Cautious time on one core."""
        p = self.product
        elements = p.batch * (p.m * p.k + p.k * p.n)
        rate = _AVX2_FLOPS_PER_US if is_avx2(real_of(self.dtype)) else _FLOPS_PER_US
        return max(2.0 * p.batch * p.m * p.k * p.n / rate, elements / _ELEMENTS_PER_US)


def task_of(call: Call) -> Task:
    """What an Affine or BatchMatmul that is accepted computes."""
    read = product_of(call)
    assert read is not None
    p, is_transposed = read
    if p.n == 1 and p.m > 1 and p.y_row == 1 and not call.inputs[2:]:
        # A matrix by one column: the column is the row of the transposed product.
        p, is_transposed = p.transposed(), not is_transposed
    operands = ("b", "a", "bias") if is_transposed else ("a", "b", "bias")
    inputs = [None if desc is None else name for desc, name in zip(call.inputs, operands, strict=False)]
    return Task(p, call.outputs[0].dtype.name, (*inputs, "y"), carries=call.outputs[0].strides is None)


def ways(task: Task) -> Iterator[Way]:
    """All ways to compute a product, in the order in which they are asked."""
    p, dtype = task.product, task.dtype
    steps = small_products.step_count(p.m, p.k, p.n, p.b_column)
    if small_products.are_few(steps // _MEASURED_BEYOND, p.b_column) and not p.is_in_groups:
        words = words_of(small_products.Block, *task.arguments)
        sizes = {name: size for name, size in p._asdict().items() if hasattr(small_products.Block, name)}
        yield Way(
            "small tiles",
            small_products.are_few(steps, p.b_column),
            lambda: small_products.prepare(sizes, words, steps, dtype, carries=task.carries),
        )
    if outer_products.can(p, task.arguments):
        yield Way(outer_products.NAME, True, lambda: outer_products.prepare(p, task.arguments, np.dtype(dtype)))
    if p.m <= _MEASURED_BEYOND * DOT_ROWS and (p.a_column, p.b_row, p.b_column) == (1, 1, p.k) and p.is_dense:
        pays = p.m <= DOT_ROWS and not has_short_dots(p, dtype)
        yield Way(DOT_PRODUCTS, pays, lambda: dot_products(task))
    if p.m == 1 and p.n > 1 and (p.a_column, p.b_row, p.b_column) == (1, p.n, 1) and p.is_dense:
        yield Way("sums of rows", True, lambda: _sums_of_rows(task))
    for way in plan_ways(p, dtype):
        yield Way(way.name, way.pays, partial(_in_tiles, task, way.plan))


def _is_measurable(p: Product) -> bool:
    """Whether there is something to measure, in arrays whose first element has the lowest address."""
    return min(p.batch * p.m * p.n, *p[4:]) > 0


def sizes_of(call: Call) -> list[int]:
    """Elements from the first of each argument to its last one; 0 for one that is not there."""
    return [0 if desc is None else _extent(desc) for desc in (*call.inputs, *call.outputs)]


def _extent(desc: ArrayDesc) -> int:
    if desc.strides is None:
        return desc.size
    return 1 + sum((size - 1) * stride for size, stride in zip(desc.shape, desc.strides, strict=True))


def dot_products(task: Task) -> Prepared:
    """The call; all of it may be narrow."""
    p, dtype = task.product, task.dtype
    words, parts = words_of(Block, *task.arguments), share_count(task.work_us, p.batch * p.n)
    return launch(ROWS_BY_COLUMNS[dtype], filled(Block, **p._asdict()), words, parts=parts, note=DOT_PRODUCTS)


def _sums_of_rows(task: Task) -> Prepared:
    p, dtype = task.product, task.dtype
    parts = share_count(task.work_us, p.batch * -(-p.n // lanes_of(dtype).vector))
    return launch(
        ROW_BY_ROWS[dtype],
        filled(Block, **p._asdict()),
        words_of(Block, *task.arguments),
        parts=parts,
        after={0: Block.after} if task.carries else None,
        note="sums of rows",
    )


def _in_tiles(task: Task, planned: Callable[[], Plan]) -> Prepared:
    p, dtype, plan = task.product, task.dtype, planned()
    arguments = words_of(Block, *task.arguments)
    parts = share_count(task.work_us, p.batch * -(-p.m // plan.least_rows) * -(-p.n // plan.least_columns))
    unit_rows, unit_columns = unit_sizes(p, plan, parts)
    share_bytes = in_lines(8 * BLOCK_WORDS + SIZES[dtype] * ZERO_PANELS * lanes_of(dtype).columns + plan.packed_bytes)
    parts = fitting_shares(min(parts, p.batch * -(-p.m // unit_rows) * -(-p.n // unit_columns)), share_bytes)
    block = filled(
        Block,
        pack=PACK[dtype].address(),
        multiply=plan.multiply.address(),
        share_bytes=share_bytes,
        unit_rows=unit_rows,
        unit_columns=unit_columns,
        k_step=plan.k_step,
        row_step=plan.row_step,
        column_step=plan.column_step,
        way=plan.way,
        width=plan.width,
        packs_b=plan.packs_b,
        **unbounded(dtype),
        **p._asdict(),
    )
    packs = []
    by_rows = plan.multiply in (MULTIPLY_ROWS[dtype], MULTIPLY_WIDE[dtype])
    if p.batch == 1 and arguments[1] == Block.b and by_rows:
        sizes, strides, k_step = (p.k, p.n), (p.b_row, p.b_column), plan.k_step
        if reads_panels_abreast(p, plan, dtype):
            block[Block.multiply_few], k_step = MULTIPLY_FEW[dtype].address(), p.k
        packs.append(columns_in_panels(Block.panels, 1, dtype, sizes, strides, k_step, plan.width))
    return launch(
        MATMUL[dtype],
        block,
        (*arguments, Block.workspace),
        parts=parts,
        workspace=share_bytes * parts,
        packs=packs,
        # For few columns, the last unit computes some rows of the one before it once more.
        after={0: Block.after} if task.carries and plan.way != NARROW else None,
        bounds={0: Block.low} if by_rows else None,
        note=plan.note,
    )
