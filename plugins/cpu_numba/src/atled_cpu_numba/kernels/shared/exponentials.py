"""numba intrinsics that write exponentials of the numbers of a row, or add them to sums side by side, one per column.

Importing this module imports numba; so kernel modules import it only inside the functions that build a kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from atled_cpu_numba.kernels.shared.options import Real
from atled_cpu_numba.kernels.shared.scalars import write_exp
from atled_cpu_numba.kernels.shared.vectors import Writer, vector_intrinsic

# Vectors side by side. In an exponential each operation waits for the one before, and there are so many that processors
# look no further ahead than to the next vector: one after the other, as LLVM has them in a loop of this length, takes
# half as long again in float64 on Zen 3, and a quarter in float32.
_AT_ONCE = 4


def make_add_exponentials(dtype: str, *, stored: bool) -> Any:
    """An intrinsic add_exponentials((x, top, total, p, count)): total[i] += exp(x[i] - top[i]) for i < count.

    x, top, total, p: addresses.  top: the greatest x of each column, or anything where one of these is a NaN.
    stored: whether p receives the exponentials; else it is 0, and an x that is `top` counts 1, infinities too, which
    have no difference.
    """

    def generate(w: Writer, *arguments: Any) -> None:
        builder, count = w.builder, arguments[-1]
        x, top, total, p = map(w.pointer, arguments[:-1])

        def add(at: Any, lanes: int) -> None:
            here = [w.at(start, at) for start in (x, top, total, p)]
            value, most, before = (w.load_lanes(place, lanes) for place in here[:3])
            term = write_exp(builder, builder.fsub(value, most), falls=True)
            if stored:
                w.store_lanes(term, here[3], lanes)
            else:
                ones = ir.Constant(value.type, [1.0] * lanes)
                term = builder.select(builder.fcmp_ordered("==", value, most), ones, term)
            w.store_lanes(builder.fadd(before, term), here[2], lanes)

        _for_all(w, count, add)

    return vector_intrinsic("add_exponentials", 5, generate, "Sums of exponentials; see make_add_exponentials.", dtype)


def make_write_exponentials(dtype: str) -> Any:
    """An intrinsic write_exponentials(x, top, p, count): p[i] = exp(x[i] - top) for i < count.

    x, p: addresses.  top: a number of `dtype`, the greatest x[i], or anything where one of these is a NaN.
    """

    def write_exponentials(typing_context, x, top, p, count):
        def code(context, builder, signature, values):
            w = Writer(builder, dtype)
            source, target = w.pointer(values[0]), w.pointer(values[2])

            def write(at: Any, lanes: int) -> None:
                value = w.load_lanes(w.at(source, at), lanes)
                term = write_exp(builder, builder.fsub(value, w.splat(values[1], value.type)), falls=True)
                w.store_lanes(term, w.at(target, at), lanes)

            _for_all(w, values[3], write)
            return context.get_dummy_value()

        return types.void(types.int64, Real(dtype).kind, types.int64, types.int64), code

    return intrinsic(write_exponentials)


def _for_all(w: Writer, count: Any, do: Callable[[Any, int], None]) -> None:
    """Have do(at, lanes) written for so many columns from `at` on, until that is done for `count` of them."""
    builder = w.builder

    def do_all(begin: Any, lanes: int) -> Any:
        """As many times as there are so many columns left; where others begin."""
        times = builder.sdiv(builder.sub(count, begin), w.number(lanes))
        with w.counted(times, [begin]) as (_, (at,), following):
            do(at, lanes)
            following.append(builder.add(at, w.number(lanes)))
        return following[0]

    at, lanes = do_all(do_all(w.number(0), _AT_ONCE * w.width), w.width), w.width
    # What is less than a vector one by one would wait for itself, once for each column.
    while lanes > 1:
        lanes //= 2
        part = builder.and_(count, w.number(lanes))
        with builder.if_then(builder.icmp_signed("!=", part, w.number(0))):
            do(at, lanes)
        at = builder.add(at, part)
