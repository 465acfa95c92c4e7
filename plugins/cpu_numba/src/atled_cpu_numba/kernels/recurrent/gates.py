"""numba functions that compute the sigmoid and the tanh of rows of numbers, several vectors side by side.

Importing this module imports numba; so kernel modules import it only inside the functions that build a kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir

from atled.plugin import NamedTuple
from atled_cpu_numba.kernels.shared.lanes import SIZES, lanes_of
from atled_cpu_numba.kernels.shared.options import Real, piece
from atled_cpu_numba.kernels.shared.scalars import EXP_TERMS, LOG2_E, LOG_2_PARTS, activations
from atled_cpu_numba.kernels.shared.vectors import Writer, vector_intrinsic

# AVX2 has registers for the numbers of four vectors and none for the constants, which are loaded once for all of them:
# 27 to 31 instructions for a vector; LLVM's loops, which load sixteen for each, take 53. Then two vectors, which are a
# panel, are side by side: a share of units is some panels, so that the bits of a unit depend on no share.
_VECTORS, _LAST_VECTORS = 4, 2
_BIASED_SHIFT = 1.5 * 2.0**23 + 127  # what is added to it is rounded, and in its last digits a biased exponent
_LOWEST, _HIGHEST = -87.33, 88.0  # of exponents, such that the powers of e are normal numbers
_LAST = 9.1  # from here on tanh rounds to 1


class RowActivations(NamedTuple):
    """numba's functions (source, target, count) of rows, which may be one; NaN for NaN.

    Within the errors of `scalars.activations`; of numbers below -88 the sigmoid is that of -88, which is 6e-39.
    """

    sigmoid: Any
    tanh: Any


def row_activations(dtype: str) -> RowActivations:
    """Those of "float32" or "float64"."""
    one = activations(dtype)
    return RowActivations(_of_rows(one.sigmoid, _sigmoids, dtype), _of_rows(one.tanh, _tanhs, dtype))


def _of_rows(one: Any, write: Callable[[Writer, list[Any]], list[Any]], dtype: str) -> Any:
    """A function of rows: of whole vectors by `write`, of the last numbers, and of all of float64, by `one`."""
    floats, element, vector = Real(dtype).pointer, SIZES[dtype], lanes_of(dtype).vector

    @piece
    def of_numbers(source, target, count):
        x, y = floats(source), floats(target)
        for j in range(count):
            y[j] = one(x[j])

    if dtype != "float32":
        return of_numbers

    def of_vectors(vectors: int) -> Any:
        def generate(w, source, target):
            source, target = w.pointer(source), w.pointer(target)
            places = [w.number(number * vector) for number in range(vectors)]
            found = write(w, [w.load(w.at(source, place)) for place in places])
            for value, place in zip(found, places, strict=True):
                w.store(value, w.at(target, place))

        return vector_intrinsic("activate", 2, generate, "An activation of vectors side by side.", dtype)

    many, few = _VECTORS * vector, _LAST_VECTORS * vector
    of_many, of_few = of_vectors(_VECTORS), of_vectors(_LAST_VECTORS)

    @piece
    def of_rows(source, target, count):
        first = 0
        while first + many <= count:
            of_many((source + element * first, target + element * first))
            first += many
        while first + few <= count:
            of_few((source + element * first, target + element * first))
            first += few
        of_numbers(source + element * first, target + element * first, count - first)

    return of_rows


def _sigmoids(w: Writer, x: list[Any]) -> list[Any]:
    """1 / (1 + exp(-x))"""
    builder, one = w.builder, w.constant(1.0)
    x = [_bounded(w, ">", value, -_LOWEST) for value in x]
    x = [_bounded(w, "<", value, -_HIGHEST) for value in x]
    powers, q = _powers(w, [builder.fneg(value) for value in x])
    q = [builder.fadd(value, one) for value in q]
    below = [w.multiply_add(value, power, one) for value, power in zip(q, powers, strict=True)]
    return [builder.fdiv(one, value) for value in below]


def _tanhs(w: Writer, x: list[Any]) -> list[Any]:
    """e / (e + 2) with e = exp(2 |x|) - 1, with the sign of x."""
    builder, kind = w.builder, ir.VectorType(ir.IntType(32), w.width)
    bits = [builder.bitcast(value, kind) for value in x]
    sign = ir.Constant(kind, [1 << 31] * w.width)
    sizes = [builder.bitcast(builder.and_(value, builder.not_(sign)), w.vector) for value in bits]
    sizes = [_bounded(w, ">", value, _LAST) for value in sizes]
    powers, q = _powers(w, [builder.fadd(value, value) for value in sizes])
    rest = [builder.fsub(power, w.constant(1.0)) for power in powers]
    e = [w.multiply_add(*terms) for terms in zip(powers, q, rest, strict=True)]
    below = [builder.fadd(value, w.constant(2.0)) for value in e]
    y = [builder.bitcast(builder.fdiv(*parts), kind) for parts in zip(e, below, strict=True)]
    signs = [builder.and_(value, sign) for value in bits]
    return [builder.bitcast(builder.or_(*parts), w.vector) for parts in zip(y, signs, strict=True)]


def _bounded(w: Writer, order: str, value: Any, limit: float) -> Any:
    """The limit where the value is above (">") or below ("<") it; NaN stays."""
    bound = w.constant(_float32(limit))
    return w.builder.select(w.builder.fcmp_ordered(order, value, bound), bound, value)


def _powers(w: Writer, x: list[Any]) -> tuple[list[Any], list[Any]]:
    """2 ** n and exp(r) - 1, where x = n log(2) + r, as `scalars` has them; n from -126 to 127."""
    builder, kind = w.builder, ir.VectorType(ir.IntType(32), w.width)
    shift, digits = w.constant(_BIASED_SHIFT), ir.Constant(kind, [23] * w.width)
    shifted = [w.multiply_add(value, w.constant(_float32(LOG2_E)), shift) for value in x]
    r, n = x, [builder.fsub(value, shift) for value in shifted]
    for part in LOG_2_PARTS[False]:
        r = [w.multiply_add(count, w.constant(_float32(-part)), value) for count, value in zip(n, r, strict=True)]
    first, *terms = map(_float32, EXP_TERMS[False])
    p = [w.constant(first)] * len(x)
    for term in terms:
        p = [w.multiply_add(value, rest, w.constant(term)) for value, rest in zip(p, r, strict=True)]
    squares = [builder.fmul(value, value) for value in r]
    q = [w.multiply_add(*numbers) for numbers in zip(p, squares, r, strict=True)]
    powers = [builder.shl(builder.bitcast(value, kind), digits) for value in shifted]
    return [builder.bitcast(value, w.vector) for value in powers], q


def _float32(value: float) -> float:
    """The float32 nearest to a number; LLVM refuses constants that are none."""
    return float(np.float32(value))
