"""The product of a row in lanes of float64, as many as all processors take: the order does not depend on their vectors.

Importing this module imports numba; so kernel modules import it only inside the functions that build a kernel.
"""

from __future__ import annotations

import functools
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from atled_cpu_numba.kernels.shared.vectors import Writer

_LANES = 32  # eight vectors of AVX2, which wait for nothing
_INT32, _DOUBLE = ir.IntType(32), ir.DoubleType()


@functools.cache
def row_product(dtype: str) -> Any:
    """An intrinsic row_product(address, count) of "float32" or "float64": the product as a float64, 1 of nothing."""

    def typing(typing_context, address, count):
        def code(context, builder, signature, values):
            return _write(Writer(builder, dtype), *values)

        return types.float64(types.int64, types.int64), code

    return intrinsic(typing)


def _write(w: Writer, address: Any, count: Any) -> Any:
    builder, start = w.builder, w.pointer(address)
    wide, lanes = ir.VectorType(w.float, _LANES), ir.VectorType(_DOUBLE, _LANES)

    def element(at: Any, kind: Any, target: Any) -> Any:
        """One or many elements as float64."""
        value = builder.load(builder.bitcast(w.at(start, at), kind.as_pointer()), align=w.size, typ=kind)
        return builder.fpext(value, target) if w.float != _DOUBLE else value

    groups = builder.sdiv(count, w.number(_LANES))
    one = ir.Constant(lanes, [1.0] * _LANES)
    with w.counted(groups, [one]) as (group, (product,), following):
        following.append(builder.fmul(product, element(builder.mul(group, w.number(_LANES)), wide, lanes)))
    product, width = following[0], _LANES
    while width > 1:
        width //= 2
        low, high = (
            builder.shuffle_vector(
                product, product, ir.Constant(ir.VectorType(_INT32, width), list(range(first, first + width)))
            )
            for first in (0, width)
        )
        product = builder.fmul(low, high)
    product = builder.extract_element(product, ir.Constant(_INT32, 0))
    # The rest by itself: it does not wait for the lanes.
    begun = builder.mul(groups, w.number(_LANES))
    with w.counted(builder.sub(count, begun), [ir.Constant(_DOUBLE, 1.0)]) as (place, (rest,), following):
        following.append(builder.fmul(rest, element(builder.add(begun, place), w.float, _DOUBLE)))
    return builder.fmul(product, following[0])
