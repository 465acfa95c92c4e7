"""Sum and Mean over any axes.

Stretches of neighbouring elements are summed in the array's dtype, narrow ones in float32, as `sums` says, and columns
eight rows at a time; the stretches are added up in float64, in their order. That order does not depend on shares, on
vectors, on the ranges of a step before.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from atled.plugin import Call, Prepared
from atled_cpu_numba.kernels.products import small_products
from atled_cpu_numba.kernels.reduction import long_sums
from atled_cpu_numba.kernels.reduction.groups import (
    Groups,
    Reduction,
    columns_at_once,
    groups_as_it_lies,
    groups_of,
    takes_copies,
)
from atled_cpu_numba.kernels.shared import carrying
from atled_cpu_numba.kernels.shared.carrying import Carried, columns_of, ranges_of
from atled_cpu_numba.kernels.shared.elements import item_bytes, real_of
from atled_cpu_numba.kernels.shared.lanes import SIZES, lanes_of
from atled_cpu_numba.kernels.shared.launch import (
    ANY,
    REALS,
    STREAMED_BYTES,
    float_bits,
    in_lines,
    is_brief,
    kernels_by_dtype,
    launch,
    most_shares,
    narrow_dtypes,
    refuse_floats,
    share_count,
)
from atled_cpu_numba.kernels.shared.layout import filled, layout, size_of

_BYTES_PER_US = 50e3  # a cautious rate of one core, for the number of shares
_STRETCH = 4096
_STRETCH_ROWS = 256
_RANGE = 8192  # elements of neighbouring steps that are computed at once, if they are no more than some rows
_LEAST_SPREAD = 1 << 20  # bytes of columns that have left the nearer caches before their sums are known
_SPREAD_RANGE = 1 << 16  # elements of such columns' rows that are computed at once: long, since memory is read ahead
_SHORTEST_RANGE = 64  # elements; below, a call for each range costs more than reading memory once more


def _most_columns(dtype: str) -> int:
    """Up to so many are few: LLVM's loop takes four vectors at a time."""
    return 4 * lanes_of(dtype).vector - 1


@layout
class Block(Reduction):
    """What both kernels read. x may be narrow, y is of the dtype that is computed in."""

    scale: int  # bits of a float64: 1 for Sum, 1 / count for Mean
    workspace: int  # of columns: address
    share_bytes: int  # of columns: bytes of the workspace per share
    unit_columns: int  # of columns: how many make a unit
    carried: int = size_of(Carried)  # an elementwise step that is computed before x is read
    rows_at_once: int  # rows that are looked at between two ranges of that step; of columns whole eights
    after: int  # range kernel to run on sums that are written, or 0
    after_block: int  # its block
    spread: int  # the same on the elements that they are sums of, after that
    spread_block: int  # its block


def _build_rows(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import call3, float64_of_bits, words
    from atled_cpu_numba.kernels.shared.options import Real, kernel
    from atled_cpu_numba.kernels.shared.sums import plain_sum, sums_of_four

    real, sum_up, sum_four = Real(real_of(dtype)), plain_sum(dtype), sums_of_four(dtype)
    number, floats, size = real.kind, real.pointer, item_bytes(dtype)
    open_share, range_at = ranges_of(size, Block.carried)

    @kernel
    def sum_rows(block, part, parts):
        w = words(block)
        reduced_outer, kept_inner, length = w[Block.reduced_outer], w[Block.kept_inner], w[Block.reduced_inner]
        y, scale = floats(w[Block.y]), float64_of_bits(w[Block.scale])
        own = open_share(w, w[Block.x], part)
        count = w[Block.kept_outer] * kept_inner
        first, after = count * part // parts, count * (part + 1) // parts
        if reduced_outer == 1 and length <= _STRETCH:
            for piece in range((after - first + w[Block.rows_at_once] - 1) // w[Block.rows_at_once]):
                start = first + piece * w[Block.rows_at_once]
                stop = min(start + w[Block.rows_at_once], after)
                at = range_at(w, w[Block.x], own, start * length, stop * length, 0)
                fours = stop - (stop - start) % 4
                for i in range(start, fours, 4):
                    s0, s1, s2, s3 = sum_four(at, size * length, length)
                    y[i] = number(s0 * scale)
                    y[i + 1] = number(s1 * scale)
                    y[i + 2] = number(s2 * scale)
                    y[i + 3] = number(s3 * scale)
                    at += size * 4 * length
                for i in range(fours, stop):
                    y[i] = number(sum_up(at, length) * scale)
                    at += size * length
                if w[Block.after] != 0:
                    call3(w[Block.after], w[Block.after_block], start, stop)
                if w[Block.spread] != 0:
                    call3(w[Block.spread], w[Block.spread_block], start * length, stop * length)
            return 0
        for i in range(first, after):
            outer = i // kept_inner
            inner = i - outer * kept_inner
            total = 0.0
            for r in range(reduced_outer):
                row = ((outer * reduced_outer + r) * kept_inner + inner) * length
                for start in range(row, row + length, _STRETCH):
                    stop = min(start + _STRETCH, row + length)
                    total += sum_up(range_at(w, w[Block.x], own, start, stop, 0), stop - start)
            y[i] = number(total * scale)
            if w[Block.after] != 0:
                call3(w[Block.after], w[Block.after_block], i, i + 1)
            if w[Block.spread] != 0:
                call3(w[Block.spread], w[Block.spread_block], i * length, (i + 1) * length)
        return 0

    return sum_rows


def _build_columns(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import call3, float64_of_bits, floats64, words
    from atled_cpu_numba.kernels.reduction.narrow_columns import make_add_columns
    from atled_cpu_numba.kernels.shared.narrow_vectors import make_reading
    from atled_cpu_numba.kernels.shared.options import Real, kernel

    real, (elements, read), add_columns = Real(real_of(dtype)), make_reading(dtype), make_add_columns(real_of(dtype))
    number, floats, size, result_size = real.kind, real.pointer, item_bytes(dtype), real.size
    few = _most_columns(dtype) if dtype in SIZES else 0  # few narrow ones are not taken
    open_share, rows_at = columns_of(size, Block.carried)

    @kernel
    def sum_columns(block, part, parts):
        w = words(block)
        rows, columns, step = w[Block.reduced_outer], w[Block.kept_inner], w[Block.unit_columns]
        scale, own = float64_of_bits(w[Block.scale]), open_share(w, w[Block.x], part)
        totals = floats64(w[Block.workspace] + part * w[Block.share_bytes])
        stretch = floats(w[Block.workspace] + part * w[Block.share_bytes] + 8 * step)
        blocks = (columns + step - 1) // step
        for unit in range(
            w[Block.kept_outer] * blocks * part // parts, w[Block.kept_outer] * blocks * (part + 1) // parts
        ):
            outer = unit // blocks
            first = (unit - outer * blocks) * step
            count = min(step, columns - first)
            for j in range(count):
                totals[j] = 0.0
            for row in range(0, rows, _STRETCH_ROWS):
                after = min(rows, row + _STRETCH_ROWS)
                for j in range(count):
                    stretch[j] = number(0)
                for piece in range((after - row + w[Block.rows_at_once] - 1) // w[Block.rows_at_once]):
                    top = row + piece * w[Block.rows_at_once]
                    bottom = min(after, top + w[Block.rows_at_once])
                    start = (outer * rows + top) * columns + first
                    at, stride = rows_at(w, w[Block.x], own, start, bottom - top, columns, count)
                    if count <= few:
                        sums_at = w[Block.workspace] + part * w[Block.share_bytes] + 8 * step
                        add_columns((at, stride, bottom - top, count, sums_at))
                        continue
                    for _ in range((bottom - top) // 8):
                        x0, x1 = elements(at), elements(at + size * stride)
                        x2, x3 = elements(at + size * 2 * stride), elements(at + size * 3 * stride)
                        x4, x5 = elements(at + size * 4 * stride), elements(at + size * 5 * stride)
                        x6, x7 = elements(at + size * 6 * stride), elements(at + size * 7 * stride)
                        for j in range(count):
                            upper = (read(x0, j) + read(x1, j)) + (read(x2, j) + read(x3, j))
                            lower = (read(x4, j) + read(x5, j)) + (read(x6, j) + read(x7, j))
                            stretch[j] += upper + lower
                        at += size * 8 * stride
                    for _ in range((bottom - top) % 8):
                        x = elements(at)
                        for j in range(count):
                            stretch[j] += read(x, j)
                        at += size * stride
                for j in range(count):
                    totals[j] += stretch[j]
            y = floats(w[Block.y] + result_size * (outer * columns + first))
            for j in range(count):
                y[j] = number(totals[j] * scale)
            if w[Block.after] != 0:
                start = outer * columns + first
                call3(w[Block.after], w[Block.after_block], start, start + count)
            if w[Block.spread] != 0:
                # The last rows first: they are still in the cache.
                at_once, start = max(1, _SPREAD_RANGE // columns), outer * rows * columns
                for piece in range((rows + at_once - 1) // at_once):
                    bottom = rows - piece * at_once
                    top = max(0, bottom - at_once)
                    call3(w[Block.spread], w[Block.spread_block], start + top * columns, start + bottom * columns)
        return 0

    return sum_columns


_ROWS = kernels_by_dtype("sum_rows", _build_rows, dtypes=ANY, depends=carrying.PARAMETERS)
_COLUMN_SUMS = kernels_by_dtype("sum_columns", _build_columns, dtypes=ANY, depends=carrying.PARAMETERS)


def accepts(call: Call) -> bool | str:
    """Whether floats are float32 or float64, and x lies without gaps or in rows: these are copied quickly."""
    x = call.inputs[0]
    assert x is not None
    refused = refuse_floats(call, REALS, floats=(0,))
    if refused or x.strides is None or groups_as_it_lies(call) is not None:
        return refused or True
    last = [stride for stride, size in zip(x.strides, x.shape, strict=True) if size != 1][-1:]
    return last in ([], [1]) or "takes arrays whose last axis lies in rows, or whose kept axes lie as in the result"


def narrow_arguments(call: Call) -> tuple[int, ...]:
    """Which arguments are taken as they are where they are narrow: x, but for few columns."""
    x, groups = call.inputs[0], groups_of(call)
    assert x is not None
    are_few = not _along_rows(groups) and groups.kept_inner <= _most_columns(real_of(x.dtype.name))
    return (0,) if x.dtype.name in narrow_dtypes() and not are_few else ()


def _along_rows(groups: Groups) -> bool:
    return groups.reduced_inner != 1 or groups.kept_inner == 1


@takes_copies
def prepare(call: Call) -> Prepared:
    """Sum, Mean: x -> y.

    x may be narrow (`narrow_arguments`).
    """
    groups, x = groups_of(call), call.inputs[0]
    assert x is not None
    dtype, size = x.dtype.name, x.dtype.itemsize
    kept = groups.kept_outer * groups.kept_inner
    count = groups.reduced_outer * groups.reduced_inner
    scale = 1.0
    if call.spec.name == "Mean":
        scale = 1.0 / count if count else math.nan
    work_us = size * kept * count / _BYTES_PER_US
    if long_sums.are_long(groups):
        return long_sums.prepare(groups, dtype, scale, work_us)
    if call.spec.name == "Sum" and dtype == "float32" and (groups.kept_outer, groups.reduced_inner) == (1, 1):
        small = small_products.column_sums(groups.reduced_outer, groups.kept_inner)
        if small is not None:
            return small
    if _along_rows(groups):
        return _prepare_rows(groups, dtype, scale, work_us)
    parts, step = columns_at_once(groups, work_us)
    share_bytes = in_lines(step * (8 + call.outputs[0].dtype.itemsize))
    rows_at_once = max(8, min(_STRETCH_ROWS, _RANGE // step // 8 * 8))
    carried_bytes = carrying.share_bytes(size * rows_at_once * step)
    words = filled(
        Block,
        scale=float_bits(scale),
        share_bytes=share_bytes,
        unit_columns=step,
        rows_at_once=rows_at_once,
        **groups._asdict(),
    )
    words[Block.carried + Carried.share_bytes] = carried_bytes
    # Pieces of rows are read more slowly than all once more.
    can_spread = step >= groups.kept_inner and _LEAST_SPREAD <= size * kept * count < STREAMED_BYTES
    can_carry = min(step, groups.kept_inner) * min(groups.reduced_outer, rows_at_once) >= _SHORTEST_RANGE
    return launch(
        _COLUMN_SUMS[dtype],
        words,
        (Block.x, Block.y, Block.workspace),
        parts=parts,
        workspace=share_bytes * parts,
        before={0: Block.carried} if can_carry else None,
        range_bytes={0: carried_bytes} if can_carry else None,
        after={0: Block.after} if can_carry else None,
        spread={0: Block.spread} if can_carry and can_spread else None,
        spread_inner={0: groups.kept_inner},
        note="sums of columns",
    )


def _prepare_rows(groups: Groups, dtype: str, scale: float, work_us: float) -> Prepared:
    """x -> y, along rows."""
    kept = groups.kept_outer * groups.kept_inner
    length, is_simple = groups.reduced_inner, groups.reduced_outer == 1
    rows_at_once = max(1, _RANGE // max(1, length))
    longest = min(length, _STRETCH)
    if is_simple and length <= _STRETCH:
        longest *= rows_at_once
    carried_bytes = carrying.share_bytes(item_bytes(dtype) * longest)
    words = filled(Block, scale=float_bits(scale), rows_at_once=rows_at_once, **groups._asdict())
    words[Block.carried + Carried.share_bytes] = carried_bytes
    can_carry = longest >= _SHORTEST_RANGE
    return launch(
        _ROWS[dtype],
        words,
        (Block.x, Block.y),
        parts=share_count(work_us, kept),
        most_parts=most_shares(kept),
        is_brief=is_brief(work_us, kept),
        before={0: Block.carried} if can_carry else None,
        range_bytes={0: carried_bytes} if can_carry else None,
        after={0: Block.after} if can_carry and is_simple else None,
        spread={0: Block.spread} if can_carry and is_simple else None,
        note="sums of rows",
    )
