"""The greatest of neighbouring numbers of half or bf16, found among their bits as whole numbers: nothing is widened.

Importing this module imports numba; so kernel modules import it only inside the functions that build a kernel.
"""

from __future__ import annotations

import functools
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from atled_cpu_numba.kernels.shared.narrow_vectors import STORED, widened
from atled_cpu_numba.kernels.shared.vectors import Writer

_AT_ONCE = 2  # vectors in a round
_INT16 = ir.IntType(16)


@functools.cache
def greatest_of(dtype: str) -> Any:
    """numba's function greatest(x, count) -> the greatest of `count` numbers from the address x on, as float32.

    dtype: "float16" or "bfloat16".  count: at least 64, which the widest vectors have in a round.
    Should there be a NaN, any of the numbers.
    """

    def typing(typing_context: Any, address: Any, count: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            return _write(Writer(builder), dtype, *values)

        return types.float32(types.int64, types.int64), code

    typing.__name__ = typing.__qualname__ = "greatest"
    typing.__doc__ = "The greatest of neighbouring numbers."
    return intrinsic(typing)


def _write(w: Writer, dtype: str, address: Any, count: Any) -> Any:
    builder, lanes = w.builder, 2 * w.width
    vector, x = ir.VectorType(_INT16, lanes), builder.inttoptr(address, _INT16.as_pointer())

    def extreme(name: str, *values: Any) -> Any:
        function = w.declare(f"llvm.{name}.v{lanes}i16", vector, [vector] * 2)
        return functools.reduce(lambda a, b: builder.call(function, [a, b]), values)

    def load(at: Any) -> Any:
        place = builder.bitcast(builder.gep(x, [at]), vector.as_pointer())
        return builder.load(place, align=2, typ=vector)

    first, step = load(w.number(0)), _AT_ONCE * lanes
    rounds = builder.sdiv(count, w.number(step))
    with w.counted(rounds, [first] * 2 * _AT_ONCE) as (i, (*before,), following):
        at = builder.mul(i, w.number(step))
        values = [load(builder.add(at, w.number(part * lanes))) for part in range(_AT_ONCE)]
        for name, found in (("smax", before[:_AT_ONCE]), ("smin", before[_AT_ONCE:])):
            following += [extreme(name, one, value) for one, value in zip(found, values, strict=True)]
    # What is left, which may overlap what has been.
    last = [load(builder.sub(count, w.number((part + 1) * lanes))) for part in range(_AT_ONCE)]

    def reduced(name: str, found: list[Any]) -> Any:
        function = w.declare(f"llvm.vector.reduce.{name}.v{lanes}i16", _INT16, [vector])
        return builder.call(function, [extreme(name, *found, *last)])

    # Of numbers without a sign the greatest one has the greatest bits; of those with one, the least.
    most, least = reduced("smax", following[:_AT_ONCE]), reduced("smin", following[_AT_ONCE:])
    bits = builder.select(builder.icmp_signed(">=", most, _INT16(0)), most, least)
    return widened(w, builder.bitcast(bits, STORED[dtype]), dtype, 1)
