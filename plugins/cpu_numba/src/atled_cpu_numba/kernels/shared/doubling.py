"""A numba intrinsic that writes each number of a row twice, a vector at a time.

Importing this module imports numba; so kernel modules import it only inside the functions that build a kernel.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from atled_cpu_numba.kernels.shared.vectors import Writer, vector_intrinsic


def make_double_row(size: int) -> Any:
    """An intrinsic double_row((x, y, count)): y[2 * i] and y[2 * i + 1] are x[i], of `size` bytes, for i < count.

    What is left of a row overlaps what has been; rows shorter than a vector are taken in halves of one, and so on.
    """
    number = ir.IntType(8 * size)

    def generate(w: Writer, x: Any, y: Any, count: Any) -> None:
        builder = w.builder
        source, target = (builder.inttoptr(address, number.as_pointer()) for address in (x, y))

        def double(at: Any, lanes: int) -> None:
            kind, twice = ir.VectorType(number, lanes), ir.VectorType(number, 2 * lanes)
            value = builder.load(builder.bitcast(w.at(source, at), kind.as_pointer()), align=size, typ=kind)
            order = ir.Constant(ir.VectorType(ir.IntType(32), 2 * lanes), [i // 2 for i in range(2 * lanes)])
            made = builder.shuffle_vector(value, ir.Constant(kind, ir.Undefined), order)
            place = w.at(target, builder.mul(at, w.number(2)))
            builder.store(made, builder.bitcast(place, twice.as_pointer()), align=size)

        def choose(lanes: int) -> None:
            with builder.if_else(builder.icmp_signed(">=", count, w.number(lanes))) as (many, few):
                with many:
                    with w.counted(builder.sdiv(count, w.number(lanes)), []) as (i, _, _following):
                        double(builder.mul(i, w.number(lanes)), lanes)
                    rest = builder.and_(count, w.number(lanes - 1))
                    with builder.if_then(builder.icmp_signed("!=", rest, w.number(0))):
                        double(builder.sub(count, w.number(lanes)), lanes)
                with few:
                    if lanes > 1:
                        choose(lanes // 2)

        choose(w.size * w.width // size)

    return vector_intrinsic("double_row", 3, generate, "See make_double_row.")
