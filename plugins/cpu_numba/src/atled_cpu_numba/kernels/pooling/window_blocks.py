"""numba intrinsics for pooling by short windows: maxima or sums of elements of some rows, a vector at a time.

Importing this module imports numba; so kernel modules import it only inside the functions that build a kernel.
Of equal maxima the first counts, so that of zeros its sign does; a NaN makes the maximum NaN.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from atled_cpu_numba.kernels.shared.elements import real_of
from atled_cpu_numba.kernels.shared.narrow_writer import memory_intrinsic
from atled_cpu_numba.kernels.shared.paired_windows import PairedLanes
from atled_cpu_numba.kernels.shared.short_windows import Lanes, in_parts
from atled_cpu_numba.kernels.shared.vectors import Writer


def _maximum(lanes: Lanes, rows: Sequence[Sequence[Any]]) -> Any:
    """Of some rows of vectors, lane by lane."""
    builder = lanes.w.builder
    # A comparison gives what was there before where either is NaN, so that a NaN in the first one stays.
    others = [value for row in rows for value in row][1:]
    best = _greatest(lanes, [_greatest(lanes, row) for row in rows])
    pairs = zip(others[::2], [*others[1::2], others[-1]], strict=False)
    is_nan = functools.reduce(builder.or_, [builder.fcmp_unordered("uno", *pair) for pair in pairs])
    numbers = ir.VectorType(ir.IntType(8 * lanes.w.size), lanes.width)
    nan, bits = ir.Constant(numbers, [-1] * lanes.width), builder.bitcast(best, numbers)
    return builder.bitcast(builder.select(is_nan, nan, bits), lanes.vector)


def _greatest(lanes: Lanes, values: Sequence[Any]) -> Any:
    """The first one of equal ones: one instruction for each of the others."""
    builder = lanes.w.builder
    return functools.reduce(lambda a, b: builder.select(builder.fcmp_ordered(">", b, a), b, a), values)


def _total(lanes: Lanes, rows: Sequence[Sequence[Any]]) -> Any:
    """The sum of the sums of the rows, from left to right."""
    add = lanes.w.builder.fadd
    return functools.reduce(add, [functools.reduce(add, row) for row in rows])


def make_windows(kernel: int, stride: int, dtype: str, *, maxima: bool, words: int = 0) -> Any:
    """An intrinsic windows((a, b, c, columns, left, right, factors, factor, y)): one row of windows.

    kernel, stride: 2 and 2, 3 and 2, or 3 and 1: y[j] of so many elements, from stride * j - left on, of each of the
        rows at a, b and, if it is 3, c.
    left, right: by how many elements the first window is cut, 0 or 1, and the last one, 0 to 2, no other being cut.
        At least two windows if one is cut; each sees something.
    maxima: whether y[j] is the maximum; else the sum times factors[j] * factor[0], floats at those addresses, float32
        for rows in half and bf16.
    words: of two neighbours in bf16, in vectors: at least twice as many windows, and one more if one is cut; 0: none.
    """

    def generate(w, a, b, c, columns, left, right, factors, factor, y):
        builder = w.builder
        rows, y, floats = [w.pointer(row) for row in (a, b, c)[:kernel]], w.pointer(y), Writer(builder, real_of(dtype))
        factors = floats.pointer(factors)
        common = None if maxima else floats.load_one(floats.pointer(factor))

        def finish(lanes, j, left, right):
            begin = builder.sub(builder.mul(j, w.number(stride)), cut)
            nothing = None if maxima else ir.Constant(lanes.vector, [0.0] * lanes.width)
            seen = [lanes.elements(kernel, stride, row, begin, left, right, otherwise=nothing) for row in rows]
            made = (_maximum if maxima else _total)(lanes, seen)
            if stride != 1:
                made = lanes.in_order(made)
            if not maxima:
                own = lanes.as_elements(floats.load_lanes(floats.at(factors, j), lanes.width))
                made = builder.fmul(made, builder.fmul(own, lanes.splat(common)))
            lanes.store(made, w.at(y, j))

        def write(lanes, j, left, right):
            if right is None:
                finish(lanes, j, left, 0)
            elif kernel == 2 or stride == 1:
                finish(lanes, j, left, 1)
            else:
                with builder.if_else(builder.icmp_signed("==", right, w.number(1))) as (by_one, by_two):
                    for number, branch in enumerate((by_one, by_two), 1):
                        with branch:
                            finish(lanes, j, left, number)

        cut = left
        lanes_of = [PairedLanes(w, words, stride)] if words else []
        in_parts(w, columns, left, right, write, lanes_of=lanes_of)

    doc = "One row of short windows; see make_windows."
    return memory_intrinsic("windows", 9, generate, doc, dtype, moves=maxima, compared=maxima)
