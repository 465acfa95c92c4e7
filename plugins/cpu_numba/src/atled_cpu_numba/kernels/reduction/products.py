"""Prod over any axes, multiplied in float64.

A row is multiplied in 32 lanes, whatever the processor's vectors, and the lanes in halves. Few long rows are multiplied
stretch by stretch, which threads share, and the stretches in their order. A column is in the order of its rows, four at
a time. So a product depends neither on shares nor on vectors.

x may be of half or bf16. Of these two numbers are multiplied in float32 first, which holds all digits of the product:
that spares half of the conversions to float64. Of half always, of rows of bf16 where no number is so large or small
that a product might leave the range of float32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from atled.plugin import Call, Prepared
from atled_cpu_numba.kernels.reduction.groups import Reduction, columns_at_once, groups_of, takes_copies
from atled_cpu_numba.kernels.reduction.groups import accepts as accepts
from atled_cpu_numba.kernels.reduction.long_sums import STRETCH, are_long
from atled_cpu_numba.kernels.shared import carrying
from atled_cpu_numba.kernels.shared.carrying import Carried, columns_of
from atled_cpu_numba.kernels.shared.elements import item_bytes, real_of
from atled_cpu_numba.kernels.shared.lanes import SIZES
from atled_cpu_numba.kernels.shared.launch import (
    ANY,
    in_lines,
    is_brief,
    kernels_by_dtype,
    launch,
    narrow_dtypes,
    share_count,
)
from atled_cpu_numba.kernels.shared.layout import filled, layout, size_of

_ELEMENTS_PER_US = 4000.0  # a cautious rate of one core, for the number of shares
# bfloat16 as its bits: of numbers from 2**-63 on and below 2**64 products of two are normal numbers of float32.
_LEAST_FACTOR, _MOST_FACTOR = 64 << 7, 191 << 7
_RANGE = 8192  # elements of neighbouring steps that are computed at once, in whole fours of rows
_SHORTEST_RANGE = 64  # elements; below, a call for each range costs more than reading memory once more
_CHECKED = 2048  # numbers that are looked at together, about: so few are still in the nearest cache


@layout
class Block(Reduction):
    """What both kernels read."""

    workspace: int  # of columns and of stretches: address of the products
    stretch: int  # of rows: elements of a stretch, or 0 for whole rows
    done: int  # of stretches: shares that are; 0 before and after each run
    share_bytes: int  # of columns: of the workspace, per share
    unit_columns: int  # of columns: how many make a unit
    carried: int = size_of(Carried)  # of columns: an elementwise step that is computed before x is read
    rows_at_once: int  # of columns: rows that are looked at between two ranges of that step, whole fours


def _build_rows(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import add_atomically, floats64, words
    from atled_cpu_numba.kernels.shared.options import Real, inlined, kernel
    from atled_cpu_numba.kernels.shared.sums import GROUPS, LANES, plain_product, products_of_four

    real, are_pairs_exact = Real(real_of(dtype)), _make_are_pairs_exact(dtype)
    multiply, multiply_four = plain_product(dtype), products_of_four(dtype)
    multiply_pairs, multiply_four_pairs = multiply, multiply_four
    is_narrow = dtype not in SIZES
    if is_narrow:
        multiply_pairs, multiply_four_pairs = plain_product(dtype, paired=True), products_of_four(dtype, paired=True)
    number, floats, size = real.kind, real.pointer, item_bytes(dtype)

    @inlined
    def has_pairs(length):
        """Whether any numbers of such rows are multiplied in pairs: of two groups of lanes."""
        return is_narrow and length >= 2 * LANES

    @kernel
    def product_rows(block, part, parts):
        w = words(block)
        reduced_outer, kept_inner, length = w[Block.reduced_outer], w[Block.kept_inner], w[Block.reduced_inner]
        y, count, stretch = floats(w[Block.y]), w[Block.kept_outer] * kept_inner, w[Block.stretch]
        products = floats64(w[Block.workspace])
        per_row = (length + stretch - 1) // stretch if stretch > 0 else 1
        units = count * reduced_outer * per_row if stretch > 0 else count
        begin, end = units * part // parts, units * (part + 1) // parts
        is_short = stretch == 0 and reduced_outer == 1 and length <= LANES * GROUPS
        # The pairs of rows up to `known` are exact; those of some up to `alone` are not, so that each is looked at.
        known, alone, i = begin, begin, begin
        while i < end:
            if is_short and i >= alone and end - i >= 4:
                at = w[Block.x] + size * i * length
                if has_pairs(length) and i >= known:
                    after = i + 4 * min((end - i) // 4, max(1, _CHECKED // (4 * length)))
                    if are_pairs_exact(at, (after - i) * length):
                        known = after
                    else:
                        alone = after
                        continue
                if has_pairs(length):
                    p0, p1, p2, p3 = multiply_four_pairs(at, size * length, length)
                else:
                    p0, p1, p2, p3 = multiply_four(at, size * length, length)
                y[i] = number(p0)
                y[i + 1] = number(p1)
                y[i + 2] = number(p2)
                y[i + 3] = number(p3)
                i += 4
                continue
            if stretch > 0:
                row = i // per_row
                start = (i - row * per_row) * stretch
                first, terms, rows = row * length + start, min(stretch, length - start), 1
            else:
                outer = i // kept_inner
                first = (outer * reduced_outer * kept_inner + i - outer * kept_inner) * length
                terms, rows = length, reduced_outer
            product = 1.0
            for r in range(rows):
                at = w[Block.x] + size * (first + r * kept_inner * length)
                if has_pairs(terms) and are_pairs_exact(at, terms):
                    product *= multiply_pairs(at, terms)
                else:
                    product *= multiply(at, terms)
            if stretch > 0:
                products[i] = product
            else:
                y[i] = number(product)
            i += 1
        if stretch == 0 or add_atomically(block + 8 * Block.done, 1) + 1 < parts:
            return 0
        w[Block.done] = 0
        for i in range(count):
            outer = i // kept_inner
            product = 1.0
            for r in range(reduced_outer):
                row = (outer * reduced_outer + r) * kept_inner + i - outer * kept_inner
                for unit in range(row * per_row, (row + 1) * per_row):
                    product *= products[unit]
            y[i] = number(product)
        return 0

    return product_rows


def _build_columns(dtype: str) -> Callable[..., int]:
    import numpy as np

    from atled_cpu_numba.codegen import floats64, words
    from atled_cpu_numba.kernels.shared.narrow_vectors import make_reading
    from atled_cpu_numba.kernels.shared.options import Real, kernel

    real, (elements, read) = Real(real_of(dtype)), make_reading(dtype)
    number, floats, size, result_size = real.kind, real.pointer, item_bytes(dtype), real.size
    open_share, rows_at = columns_of(size, Block.carried)
    are_pairs_exact = dtype == "float16"  # looking at bfloat16 first, row by row, takes as long as it spares

    @kernel
    def product_columns(block, part, parts):
        w = words(block)
        rows, columns, step = w[Block.reduced_outer], w[Block.kept_inner], w[Block.unit_columns]
        at_once, own = w[Block.rows_at_once], open_share(w, w[Block.x], part)
        products = floats64(w[Block.workspace] + part * w[Block.share_bytes])
        blocks = (columns + step - 1) // step
        for unit in range(
            w[Block.kept_outer] * blocks * part // parts, w[Block.kept_outer] * blocks * (part + 1) // parts
        ):
            outer = unit // blocks
            first = (unit - outer * blocks) * step
            count = min(step, columns - first)
            for j in range(count):
                products[j] = 1.0
            for piece in range((rows + at_once - 1) // at_once):
                top = piece * at_once
                bottom = min(rows, top + at_once)
                start = (outer * rows + top) * columns + first
                at, stride = rows_at(w, w[Block.x], own, start, bottom - top, columns, count)
                for _ in range((bottom - top) // 4):
                    x0, x1 = elements(at), elements(at + size * stride)
                    x2, x3 = elements(at + size * 2 * stride), elements(at + size * 3 * stride)
                    if are_pairs_exact:
                        for j in range(count):
                            lower = np.float64(read(x0, j) * read(x1, j))
                            upper = np.float64(read(x2, j) * read(x3, j))
                            products[j] = products[j] * lower * upper
                    else:
                        for j in range(count):
                            lower = np.float64(read(x0, j)) * np.float64(read(x1, j))
                            upper = np.float64(read(x2, j)) * np.float64(read(x3, j))
                            products[j] = products[j] * lower * upper
                    at += size * 4 * stride
                for _ in range((bottom - top) % 4):
                    x = elements(at)
                    for j in range(count):
                        products[j] *= np.float64(read(x, j))
                    at += size * stride
            y = floats(w[Block.y] + result_size * (outer * columns + first))
            for j in range(count):
                y[j] = number(products[j])
        return 0

    return product_columns


def _make_are_pairs_exact(dtype: str) -> Any:
    """numba's function are_exact(address, count): whether float32 holds the product of any two of the numbers there."""
    from numba import types

    from atled_cpu_numba.codegen import ints16
    from atled_cpu_numba.kernels.shared.options import inlined

    @inlined
    def always(address, count):
        return True

    if dtype != "bfloat16":
        return always
    whole = types.int16

    @inlined
    def are_exact(address, count):
        words = ints16(address)
        least, most = whole(_LEAST_FACTOR), whole(_LEAST_FACTOR)
        for i in range(count):
            size = whole(words[i] & 0x7FFF)
            least, most = min(least, size), max(most, size)
        return least >= whole(_LEAST_FACTOR) and most < whole(_MOST_FACTOR)

    return are_exact


_ROWS = kernels_by_dtype("product_rows", _build_rows, dtypes=ANY, depends=carrying.PARAMETERS)
_COLUMNS = kernels_by_dtype("product_columns", _build_columns, dtypes=ANY, depends=carrying.PARAMETERS)


def narrow_arguments(call: Call) -> tuple[int, ...]:
    """Which arguments are taken as they are where they are narrow: x."""
    x = call.inputs[0]
    assert x is not None
    return (0,) if x.dtype.name in narrow_dtypes() else ()


@takes_copies
def prepare(call: Call) -> Prepared:
    """Prod: x -> y; x may be narrow (`narrow_arguments`)."""
    groups, x = groups_of(call), call.inputs[0]
    assert x is not None
    dtype = x.dtype.name
    kept = groups.kept_outer * groups.kept_inner
    work_us = kept * groups.reduced_outer * groups.reduced_inner / _ELEMENTS_PER_US
    words = filled(Block, **groups._asdict())
    if groups.reduced_inner != 1 or groups.kept_inner == 1:
        if not are_long(groups):
            parts = share_count(work_us, kept)
            brief = is_brief(work_us, kept)
            return launch(_ROWS[dtype], words, (Block.x, Block.y), parts=parts, is_brief=brief, note="products of rows")
        words[Block.stretch] = STRETCH
        units = kept * groups.reduced_outer * -(-groups.reduced_inner // STRETCH)
        return launch(
            _ROWS[dtype],
            words,
            (Block.x, Block.y, Block.workspace),
            parts=share_count(work_us, units),
            workspace=8 * max(1, units),
            note="products of stretches",
        )
    parts, words[Block.unit_columns] = columns_at_once(groups, work_us)
    words[Block.share_bytes] = share_bytes = in_lines(8 * words[Block.unit_columns])
    words[Block.rows_at_once] = rows_at_once = max(4, _RANGE // words[Block.unit_columns] // 4 * 4)
    carried_bytes = carrying.share_bytes(x.dtype.itemsize * rows_at_once * words[Block.unit_columns])
    words[Block.carried + Carried.share_bytes] = carried_bytes
    can_carry = words[Block.unit_columns] * min(groups.reduced_outer, rows_at_once) >= _SHORTEST_RANGE
    return launch(
        _COLUMNS[dtype],
        words,
        (Block.x, Block.y, Block.workspace),
        parts=parts,
        workspace=share_bytes * parts,
        before={0: Block.carried} if can_carry else None,
        range_bytes={0: carried_bytes} if can_carry else None,
        note="products of columns",
    )
