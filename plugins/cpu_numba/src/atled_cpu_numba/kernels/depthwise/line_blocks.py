"""numba intrinsics for filters of one row: its padded copy, and some vectors of its windows at a time.

Importing this module imports numba; so kernel modules import it only inside the functions that build a kernel.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from atled_cpu_numba.kernels.shared.elements import real_of
from atled_cpu_numba.kernels.shared.lanes import SIZES, lanes_of
from atled_cpu_numba.kernels.shared.narrow_vectors import make_widen_rows
from atled_cpu_numba.kernels.shared.narrow_writer import NarrowWriter
from atled_cpu_numba.kernels.shared.vectors import make_copy_rows, vector_intrinsic

_FAR_AT_ONCE = 8  # vectors: as many independent sums as keep two multipliers busy that take four cycles each
_NEAR_AT_ONCE = 4  # with what they see by three taps, and two taps, they fill 16 registers


def make_copy_line(dtype: str) -> Any:
    """An intrinsic as that of `make_copy_rows`, from rows of any float; what is narrow becomes float32."""
    return make_copy_rows(dtype) if dtype in SIZES else make_widen_rows(dtype, lanes_of("float32").vector)


def make_filter_line(dtype: str) -> Any:
    """An intrinsic filter_line((x, taps, tap_step, weight, bias, y, vectors)).

    x: address of what the first window sees by the first tap; tap_step: from there to what it sees by the next one.
    weight: address of `taps` taps.  bias: address of what is added.  y: address of so many vectors of results.
    x and weight are of floats as they are computed with, bias and y of `dtype`. One float is read behind what the last
    window sees.
    """

    def generate(w, x, taps, tap_step, weight, bias, y, vectors):
        builder = w.builder
        memory = w if dtype in SIZES else NarrowWriter(builder, dtype, moves=False)
        x, weight, y = w.pointer(x), w.pointer(weight), memory.pointer(y)
        begin = w.splat(memory.load_one(memory.pointer(bias)))

        def add_far(j: Any, count: int) -> list[Any]:
            """Sums of taps that are any distance apart."""
            with w.counted(taps, [*[begin] * count, w.at(x, j), weight]) as (_, phis, following):
                seen, tap = phis[count:]
                factor = w.splat(w.load_one(tap))
                for part, total in enumerate(phis[:count]):
                    following.append(w.multiply_add(factor, w.load(w.at(seen, part * w.width)), total))
                following += [w.at(seen, tap_step), w.at(tap, 1)]
            return following[:count]

        def add_near(j: Any, count: int) -> list[Any]:
            """Sums of taps beside each other: what every other one sees is put together of what its neighbours do."""
            first = [w.load(w.at(w.at(x, j), part * w.width)) for part in range(count)]
            pairs = builder.sdiv(taps, w.number(2))
            carried = [*[begin] * count, *first, w.at(x, j), weight]
            with w.counted(pairs, carried) as (_, phis, following):
                totals, seen_by_even, (seen, tap) = phis[:count], phis[count : 2 * count], phis[2 * count :]
                seen = w.at(seen, 2)
                even, odd = (w.splat(w.load_one(w.at(tap, n))) for n in range(2))
                next_seen = []
                for part, (total, left) in enumerate(zip(totals, seen_by_even, strict=True)):
                    right = w.load(w.at(seen, part * w.width))
                    next_seen.append(right)
                    total = w.multiply_add(even, left, total)
                    following.append(w.multiply_add(odd, _between(w, left, right), total))
                following += [*next_seen, seen, w.at(tap, 2)]
            with w.counted(builder.and_(taps, w.number(1)), following[:count]) as (_, phis, last):
                factor = w.splat(w.load_one(following[-1]))
                last += [
                    w.multiply_add(factor, seen, total)
                    for total, seen in zip(phis, following[count : 2 * count], strict=True)
                ]
            return last

        def write(add: Any, j: Any, count: int) -> None:
            """The vectors from window `j` on."""
            for part, total in enumerate(add(j, count)):
                memory.store(total, memory.at(memory.at(y, j), part * w.width))

        def write_all(add: Any, at_once: int) -> None:
            rounds = builder.sdiv(vectors, w.number(at_once))
            with w.counted(rounds, []) as (i, _, _following):
                write(add, builder.mul(i, w.number(at_once * w.width)), at_once)
            done = builder.mul(rounds, w.number(at_once))
            rest, j = builder.sub(vectors, done), builder.mul(done, w.number(w.width))
            for count in range(1, at_once):
                with builder.if_then(builder.icmp_signed("==", rest, w.number(count))):
                    write(add, j, count)

        if w.size == 8:  # to load half as many elements takes as long as to put them together
            write_all(add_far, _FAR_AT_ONCE)
            return
        with builder.if_else(builder.icmp_signed("==", tap_step, w.number(1))) as (near, far):
            with near:
                write_all(add_near, _NEAR_AT_ONCE)
            with far:
                write_all(add_far, _FAR_AT_ONCE)

    return vector_intrinsic("filter_line", 7, generate, "A filtered row; see make_filter_line.", real_of(dtype))


def _between(w: Any, left: Any, right: Any) -> Any:
    """The vector of float32 one element behind `left` and one in front of `right`, which begins two behind `left`.

    One instruction on any processor: of each four elements, the middle ones of both. Every other vector that is not
    aligned lies in two lines of the cache, or each, and takes as long as two to load.
    """
    fours = range(0, w.width, 4)
    lanes = [lane for at in fours for lane in (at + 1, at + 2, w.width + at + 1, w.width + at + 2)]
    return w.builder.shuffle_vector(left, right, ir.Constant(ir.VectorType(ir.IntType(32), w.width), lanes))
