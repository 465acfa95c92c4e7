"""Matrix products in float32: Affine and BatchMatmul.

Block (64-bit words; strides in elements):
    0 PACK, 1 MULTIPLY, 2 MULTIPLY_NARROW  addresses of the pieces
    3 batch, 4 m, 5 k, 6 n                 y is (batch, m, n)
    7 a, 8 a_row, 9 a_column, 10 b, 11 b_row, 12 b_column, 13 y, 14 bias or 0
    15 workspace, 16 bytes of it per share
    17 unit_rows, 18 unit_columns          of the pieces of y that shares are made of
    19 k_step, 20 row_step                 how much of A is packed at a time
    21 way                                 1: A is read in place, for few columns; 2: B is, for few rows; 0: neither

The kernel for one row by b transposed reads words 3 to 14 alone. In the other one,
a share packs a part of B that stays in the level-2 cache, and, for each of its row blocks, a part of A.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from atled.call import Call, Prepared
from atled_cpu_numba.kernels.lanes import host_lanes
from atled_cpu_numba.kernels.launch import launch, refuse_floats, share_count
from atled_cpu_numba.kernels.panels import (
    BLOCK_WORDS,
    MULTIPLY,
    MULTIPLY_NARROW,
    NARROW_ROWS,
    PACK,
    PACK_SLACK,
    WIDEST_TILES,
)
from atled_cpu_numba.store import Kernel

# Measured on Zen 5: a panel of B (k_step x 32 float32) about fills the level-1 cache, the packed B half of level 2.
_K_STEP = 384
_ROW_STEP = 192
_COLUMN_STEP = 512

_PIECES = 16  # that y is divided into at most

_LEVEL_1_BYTES = 32 << 10  # a B that stays in the level-1 cache is not packed

_FLOPS_PER_US = 150e3  # a cautious rate of one core, for the number of shares


def _build() -> Callable[..., int]:
    from atled_cpu_numba.codegen import call3, floats32, words
    from atled_cpu_numba.kernels.options import kernel

    lanes = host_lanes()
    vector, tile_rows, tile_columns = lanes.vector, lanes.rows, lanes.columns
    block_bytes = 8 * BLOCK_WORDS
    zero_count = WIDEST_TILES * tile_columns

    @kernel
    def matmul(block, part, parts):
        w = words(block)
        pack, multiply, multiply_narrow = w[0], w[1], w[2]
        batch, m, k, n = w[3], w[4], w[5], w[6]
        a, a_row, a_column, b, b_row, b_column, y, bias = w[7], w[8], w[9], w[10], w[11], w[12], w[13], w[14]
        unit_rows, unit_columns, k_step, row_step, way = w[17], w[18], w[19], w[20], w[21]
        inner = w[15] + part * w[16]
        zeros = inner + block_bytes
        packed_b = zeros + 4 * zero_count
        b_panels = (min(unit_columns, n) + tile_columns - 1) // tile_columns
        packed_a = packed_b + 4 * b_panels * tile_columns * k_step + 4 * PACK_SLACK
        q, zero = words(inner), floats32(zeros)
        for i in range(zero_count):
            zero[i] = 0.0
        row_units = (m + unit_rows - 1) // unit_rows
        column_units = (n + unit_columns - 1) // unit_columns
        units = batch * row_units * column_units
        unit = units * part // parts
        last = units * (part + 1) // parts
        while unit < last:
            outer = unit // row_units
            first_unit = unit - outer * row_units
            taken = min(row_units - first_unit, last - unit)
            unit += taken
            item = outer // column_units
            j0 = (outer - item * column_units) * unit_columns
            j1 = min(n, j0 + unit_columns)
            i0 = first_unit * unit_rows
            i1 = min(m, (first_unit + taken) * unit_rows)
            a_item = a + 4 * item * m * k
            b_item = b + 4 * item * k * n
            y_item = y + 4 * item * m * n
            for k_part in range((k + k_step - 1) // k_step):  # a range with a step that is a variable could raise
                k0 = k_part * k_step
                kc = min(k_step, k - k0)
                # S: first the bias or zeros, then what is there already.
                s_bias = bias + 4 * j0 if bias != 0 else zeros
                # PACK: source, row stride, column stride, rows, k, target, width
                columns = j1 - j0
                in_place = columns - columns % tile_columns if way == 2 else 0
                q[0] = b_item + 4 * (k0 * b_row + (j0 + in_place) * b_column)
                q[1], q[2], q[3], q[4], q[5] = b_column, b_row, columns - in_place, kc, packed_b
                q[6] = vector if way == 1 else tile_columns
                call3(pack, inner, 0, 1)
                if way == 1:
                    # MULTIPLY_NARROW: k, m, n, a, a_row, a_column, b, c, c_row, s, s_row
                    start = min(i0, m - NARROW_ROWS)
                    q[0], q[1], q[2] = kc, max(i1 - start, NARROW_ROWS), j1 - j0
                    q[3], q[4], q[5], q[6] = a_item + 4 * start * a_row, a_row, a_column, packed_b
                    q[7], q[8], q[9], q[10] = y_item + 4 * (start * n + j0), n, s_bias, 0
                    call3(multiply_narrow, inner, 0, 1)
                    continue
                for row_part in range((i1 - i0 + row_step - 1) // row_step):
                    i = i0 + row_part * row_step
                    rows = min(row_step, i1 - i)
                    q[0] = a_item + 4 * (i * a_row + k0 * a_column)
                    q[1], q[2], q[3], q[4], q[5], q[6] = a_row, a_column, rows, kc, packed_a, tile_rows
                    call3(pack, inner, 0, 1)
                    c = y_item + 4 * (i * n + j0)
                    # MULTIPLY: k, m, n, a, b, b_step, b_panel, c, c_row, s, s_row, s_column
                    q[0], q[1], q[2], q[3] = kc, rows, in_place, packed_a
                    q[4], q[5], q[6] = b_item + 4 * (k0 * b_row + j0), b_row, tile_columns
                    q[7], q[8] = c, n
                    if k0 > 0:
                        q[9], q[10], q[11] = c, n, 1
                    elif bias != 0:
                        q[9], q[10], q[11] = s_bias, 0, 1
                    else:
                        q[9], q[10], q[11] = zeros, 0, 0
                    if in_place > 0:
                        call3(multiply, inner, 0, 1)
                    q[2] = columns - in_place
                    q[4], q[5], q[6] = packed_b, tile_columns, tile_columns * kc
                    q[7] = c + 4 * in_place
                    q[9] += 4 * in_place * q[11]
                    call3(multiply, inner, 0, 1)
        return 0

    return matmul


def _build_row() -> Callable[..., int]:
    from atled_cpu_numba.codegen import floats32, words
    from atled_cpu_numba.kernels.options import reducing_kernel

    @reducing_kernel
    def row_by_columns(block, part, parts):
        w = words(block)
        batch, k, n = w[3], w[5], w[6]
        for j in range(batch * n * part // parts, batch * n * (part + 1) // parts):
            a, b = floats32(w[7] + 4 * (j // n) * k), floats32(w[10] + 4 * j * k)
            total = np.float32(0)
            for i in range(k):
                total += a[i] * b[i]
            if w[14] != 0:
                total += floats32(w[14])[j % n]
            floats32(w[13])[j] = total
        return 0

    return row_by_columns


MATMUL = Kernel("matmul", _build)
ROW_BY_COLUMNS = Kernel("row_by_columns", _build_row)


class _Product(NamedTuple):
    """y (batch, m, n) = a (batch, m, k) b (batch, k, n), whose strides say whether they are transposed."""

    batch: int
    m: int
    k: int
    n: int
    a_row: int
    a_column: int
    b_row: int
    b_column: int


def _affine(call: Call) -> _Product:
    x, weight = call.inputs[0], call.inputs[1]
    assert x is not None
    assert weight is not None
    m = math.prod(x.shape[: call.attributes["base_axis"]])
    k = weight.shape[0]
    n = math.prod(weight.shape[1:])
    return _Product(1, m, k, n, k, 1, n, 1)


def _batch_matmul(call: Call) -> _Product:
    a, b = call.inputs[0], call.inputs[1]
    assert a is not None
    assert b is not None
    transpose_a, transpose_b = call.attributes["transpose_a"], call.attributes["transpose_b"]
    k, m = a.shape[-2:] if transpose_a else a.shape[:-3:-1]
    n = b.shape[-2] if transpose_b else b.shape[-1]
    a_strides = (1, m) if transpose_a else (k, 1)
    b_strides = (1, k) if transpose_b else (n, 1)
    return _Product(math.prod(a.shape[:-2]), m, k, n, *a_strides, *b_strides)


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
    inputs = tuple(-1 if desc is None else word for desc, word in zip(call.inputs, (7, 10, 14), strict=False))
    work_us = 2.0 * p.batch * p.m * p.k * p.n / _FLOPS_PER_US
    words = [PACK.address(), MULTIPLY.address(), MULTIPLY_NARROW.address(), p.batch, p.m, p.k, p.n]
    words += [0, p.a_row, p.a_column, 0, p.b_row, p.b_column, 0, 0]
    if p.m == 1 and (p.b_row, p.b_column) == (1, p.k):
        parts = share_count(10 * work_us, p.batch * p.n)  # bound by reading b
        return launch(ROW_BY_COLUMNS, words, (*inputs, 13), parts=parts, note="dot products")
    narrow = 0 < p.n <= lanes.vector and p.m >= NARROW_ROWS
    small = p.m <= lanes.rows or 4 * p.k * p.n <= _LEVEL_1_BYTES
    in_place = small and p.b_column == 1 and not narrow
    k_step = p.k if narrow else _even_step(p.k, _K_STEP, lanes.vector)
    unit_rows, unit_columns = _units(p, narrow)
    parts = share_count(work_us, p.batch * -(-p.m // unit_rows) * -(-p.n // unit_columns))
    panels = -(-min(unit_columns, p.n) // lanes.columns)
    packed_b = 4 * (panels * lanes.columns * k_step + PACK_SLACK)
    packed_a = 4 * (_round_up(min(_ROW_STEP, p.m), lanes.rows) * k_step + PACK_SLACK)
    share_bytes = _round_up(8 * BLOCK_WORDS + 4 * WIDEST_TILES * lanes.columns + packed_b + packed_a, 64)
    words += [0, share_bytes, unit_rows, unit_columns, k_step, _ROW_STEP, 1 if narrow else 2 if in_place else 0]
    note = "a in place" if narrow else "b in place" if in_place else "packed"
    return launch(
        MATMUL,
        words,
        (*inputs, 13, 15),
        parts=parts,
        workspace=share_bytes * parts,
        note=f"{note}, {NARROW_ROWS}x{lanes.vector} tiles" if narrow else f"{note}, {lanes.rows}x{lanes.columns} tiles",
    )


def _units(p: _Product, narrow: bool) -> tuple[int, int]:
    """Rows and columns of y in one piece that is not divided between shares.

    One share packs its part of B once for all its rows, so many rows of few columns cost the least; small products are
    divided along their longer side.
    """
    if narrow:
        return _round_up(-(-p.m // _PIECES), NARROW_ROWS), p.n
    lanes = host_lanes()
    columns = _even_step(p.n, _COLUMN_STEP, lanes.columns)
    rows = _ROW_STEP if p.m > _ROW_STEP else _round_up(p.m, lanes.rows)
    wanted = min(_PIECES, int(2.0 * p.batch * p.m * p.k * p.n / _FLOPS_PER_US / 15.0))
    while p.batch * -(-p.m // rows) * -(-p.n // columns) < wanted:
        if columns >= rows and columns > 2 * lanes.columns:
            columns = _round_up(-(-columns // 2), lanes.columns)
        elif rows > 4 * lanes.rows:
            rows = _round_up(-(-rows // 2), lanes.rows)
        elif columns > 2 * lanes.columns:
            columns = _round_up(-(-columns // 2), lanes.columns)
        else:
            break
    return rows, columns


def _even_step(size: int, most: int, multiple: int) -> int:
    """A step of at most about `most`, a multiple of `multiple`, that divides `size` into about equal steps."""
    steps = -(-size // most)
    return _round_up(-(-size // steps), multiple) if steps else multiple


def _round_up(size: int, multiple: int) -> int:
    """`size` rounded up to a multiple, at least one."""
    return max(1, -(-size // multiple)) * multiple
