"""Sum and Mean over any axes that collapse into four groups.

Block of both kernels (64-bit words), with the sizes of `groups.Groups`:
    0 x, 1 y, 2 kept_outer, 3 reduced_outer, 4 kept_inner, 5 reduced_inner
    6 scale, as the bits of a float64      1 for Sum, 1 / count for Mean
    7 workspace, 8 bytes of it per share, 9 columns per unit     of the kernel for columns only

Short stretches are summed in the array's dtype, in vectors; the stretches are added up in float64. So the error of a
float32 sum stays below that of pairwise summation.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from atled.call import Call, Prepared
from atled_cpu_numba.kernels import long_sums
from atled_cpu_numba.kernels.groups import Groups, collapse
from atled_cpu_numba.kernels.launch import float_bits, launch, refuse_floats, share_count
from atled_cpu_numba.store import Kernel

_BYTES_PER_US = 50e3  # a cautious rate of one core, for the number of shares
# Of one unit: as many as may be, since memory is read ahead where it goes on and on; the sums stay in the cache.
_MOST_COLUMNS = 2048
_FEWEST_COLUMNS = 256
_STRETCH = 4096
_STRETCH_ROWS = 256


def _build_rows(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import float64_of_bits, words
    from atled_cpu_numba.kernels.options import Real, reducing_kernel

    real = Real(dtype)
    number, floats, size = real.kind, real.pointer, real.size

    @reducing_kernel
    def sum_rows(block, part, parts):
        w = words(block)
        reduced_outer, kept_inner, length = w[3], w[4], w[5]
        y, scale = floats(w[1]), float64_of_bits(w[6])
        count = w[2] * kept_inner
        first, after = count * part // parts, count * (part + 1) // parts
        if reduced_outer == 1 and length <= _STRETCH:
            # Four at once: the ends of short rows take as long as their middles. Shares are of whole fours, since
            # which rows are added up together must not depend on the shares.
            first = count // 4 * part // parts * 4
            after = count if part == parts - 1 else count // 4 * (part + 1) // parts * 4
            for i in range(first, after - 3, 4):
                row = w[0] + size * i * length
                x0, x1 = floats(row), floats(row + size * length)
                x2, x3 = floats(row + size * 2 * length), floats(row + size * 3 * length)
                s0, s1, s2, s3 = number(0), number(0), number(0), number(0)
                for j in range(length):
                    s0 += x0[j]
                    s1 += x1[j]
                    s2 += x2[j]
                    s3 += x3[j]
                y[i] = number(float(s0) * scale)
                y[i + 1] = number(float(s1) * scale)
                y[i + 2] = number(float(s2) * scale)
                y[i + 3] = number(float(s3) * scale)
            first = after - after % 4
        for i in range(first, after):
            outer = i // kept_inner
            inner = i - outer * kept_inner
            total = 0.0
            for r in range(reduced_outer):
                row = w[0] + size * ((outer * reduced_outer + r) * kept_inner + inner) * length
                for start in range(0, length, _STRETCH):
                    x = floats(row + size * start)
                    stretch = number(0)
                    for j in range(min(_STRETCH, length - start)):
                        stretch += x[j]
                    total += stretch
            y[i] = number(total * scale)
        return 0

    return sum_rows


def _build_columns(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import float64_of_bits, floats64, words
    from atled_cpu_numba.kernels.options import Real, kernel

    real = Real(dtype)
    number, floats, size = real.kind, real.pointer, real.size

    @kernel
    def sum_columns(block, part, parts):
        w = words(block)
        rows, columns, step = w[3], w[4], w[9]
        scale = float64_of_bits(w[6])
        totals = floats64(w[7] + part * w[8])
        stretch = floats(w[7] + part * w[8] + 8 * step)
        blocks = (columns + step - 1) // step
        for unit in range(w[2] * blocks * part // parts, w[2] * blocks * (part + 1) // parts):
            outer = unit // blocks
            first = (unit - outer * blocks) * step
            count = min(step, columns - first)
            for j in range(count):
                totals[j] = 0.0
            for row in range(0, rows, _STRETCH_ROWS):
                after = min(rows, row + _STRETCH_ROWS)
                for j in range(count):
                    stretch[j] = number(0)
                at = w[0] + size * ((outer * rows + row) * columns + first)
                for _ in range((after - row) // 8):
                    x0, x1 = floats(at), floats(at + size * columns)
                    x2, x3 = floats(at + size * 2 * columns), floats(at + size * 3 * columns)
                    x4, x5 = floats(at + size * 4 * columns), floats(at + size * 5 * columns)
                    x6, x7 = floats(at + size * 6 * columns), floats(at + size * 7 * columns)
                    for j in range(count):
                        stretch[j] += ((x0[j] + x1[j]) + (x2[j] + x3[j])) + ((x4[j] + x5[j]) + (x6[j] + x7[j]))
                    at += size * 8 * columns
                for _ in range((after - row) % 8):
                    x = floats(at)
                    for j in range(count):
                        stretch[j] += x[j]
                    at += size * columns
                for j in range(count):
                    totals[j] += stretch[j]
            y = floats(w[1] + size * (outer * columns + first))
            for j in range(count):
                y[j] = number(totals[j] * scale)
        return 0

    return sum_columns


_DTYPES = ("float32", "float64")
_ROWS = {dtype: Kernel(f"sum_rows_{dtype}", partial(_build_rows, dtype), parameters=(dtype,)) for dtype in _DTYPES}
_COLUMN_SUMS = {
    dtype: Kernel(f"sum_columns_{dtype}", partial(_build_columns, dtype), parameters=(dtype,)) for dtype in _DTYPES
}


def accepts(call: Call) -> bool | str:
    """Whether x is float32 or float64 and its axes collapse into at most four groups."""
    refused = refuse_floats(call, _DTYPES, floats=(0,))
    if refused:
        return refused
    return _groups(call) is not None or "takes axes that collapse into the groups kept, reduced, kept, reduced"


def prepare(call: Call) -> Prepared:
    """Sum, Mean: x -> y."""
    groups = _groups(call)
    assert groups is not None
    dtype = call.outputs[0].dtype.name
    size = call.outputs[0].dtype.itemsize
    kept = groups.kept_outer * groups.kept_inner
    count = groups.reduced_outer * groups.reduced_inner
    scale = 1.0
    if call.spec.name == "Mean":
        scale = 1.0 / count if count else math.nan
    work_us = size * kept * count / _BYTES_PER_US
    if long_sums.are_long(groups, work_us):
        return long_sums.prepare(groups, dtype, scale, work_us)
    words = [0, 0, *groups, float_bits(scale)]
    if groups.reduced_inner != 1 or groups.kept_inner == 1:
        parts = share_count(work_us, kept)
        return launch(_ROWS[dtype], words, (0, 1), parts=parts, note="sums of rows")
    parts = share_count(work_us, groups.kept_outer * -(-groups.kept_inner // _FEWEST_COLUMNS))
    blocks = max(-(-parts // max(1, groups.kept_outer)), -(-groups.kept_inner // _MOST_COLUMNS))
    step = -(-groups.kept_inner // blocks) or 1
    share_bytes = -(-step * (8 + size) // 64) * 64
    words += [0, share_bytes, step]
    return launch(
        _COLUMN_SUMS[dtype], words, (0, 1, 7), parts=parts, workspace=share_bytes * parts, note="sums of columns"
    )


def _groups(call: Call) -> Groups | None:
    x = call.inputs[0]
    assert x is not None
    return collapse(x.shape, call.attributes["axes"])
