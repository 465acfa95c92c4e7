"""Functions of single numbers for numba, written so that LLVM computes loops over them in vectors.

Importing this module imports numba; so kernel modules import it only inside the functions that build a kernel.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba import float32, float64, njit, types
from numba.extending import intrinsic

from atled.plugin import NamedTuple
from atled_cpu_numba.codegen import JIT

_FLAGS = tuple(sorted(JIT["fastmath"]))


class _Writer:
    """Arithmetic on float32 or float64 numbers, or vectors of them, of the type of `like`."""

    def __init__(self, builder: Any, like: Any) -> None:
        self._builder, self.type = builder, like.type
        self._width = like.type.count if isinstance(like.type, ir.VectorType) else 0
        element = like.type.element if self._width else like.type
        self.is_double = element == ir.DoubleType()
        integer = ir.IntType(64 if self.is_double else 32)
        self.integers = ir.VectorType(integer, self._width) if self._width else integer

    def constant(self, value: float, kind: Any = None) -> Any:
        return ir.Constant(kind or self.type, [value] * self._width if self._width else value)

    def real(self, value: float) -> Any:
        """The number nearest to a value that the type may not have; LLVM refuses constants that are none."""
        return self.constant(value if self.is_double else float(np.float32(value)))

    def product_sum(self, a: Any, b: Any, c: Any) -> Any:
        """a * b + c"""
        return self._builder.fadd(self._builder.fmul(a, b, flags=_FLAGS), c, flags=_FLAGS)

    def below(self, limit: float, x: Any, then: Any, otherwise: Any) -> Any:
        """`then` where x is below the limit, else, and for NaN, `otherwise`."""
        return self._builder.select(self._builder.fcmp_ordered("<", x, self.real(limit)), then, otherwise)

    def above(self, limit: float, x: Any, then: Any, otherwise: Any) -> Any:
        return self._builder.select(self._builder.fcmp_ordered(">", x, self.real(limit)), then, otherwise)

    def power_of_two(self, n: Any) -> Any:
        """2 ** n of whole numbers, as floats."""
        builder = self._builder
        if self.is_double:
            # The last digits of a large number are a whole one: few processors have a conversion to 64 bits.
            whole = builder.bitcast(builder.fadd(n, self.constant(_SHIFT_64), flags=("nsz",)), self.integers)
            bias, digits = 1023, 52
        else:
            whole, bias, digits = builder.fptosi(n, self.integers), 127, 23
        exponent = builder.add(whole, self.constant(bias, self.integers))
        return builder.bitcast(builder.shl(exponent, self.constant(digits, self.integers)), self.type)

    def falling(self, x: Any) -> Any:
        """exp(x) for x of 0 or less, or NaN: 0 where the power of two of it is no normal number."""
        builder = self._builder
        # 2 ** n is in the last digits of a large number, biased: shifted to the place of the exponent it is there. From
        # `least` on that is 0, and so is the result.
        large, bias, digits = (_SHIFT_64, 1023, 52) if self.is_double else (_SHIFT_32, 127, 23)
        least = -bias * math.log(2)
        x = self.below(least, x, self.real(least), x)
        shift = self.constant(large + bias)
        n = self.product_sum(x, self.real(LOG2_E), shift)
        r = self.remainder(x, builder.fsub(n, shift, flags=_FLAGS))
        # By Horner's rule to the end: exp(r) - 1, from which no digits are lost, takes an operation more.
        p = self.polynomial(r, (*EXP_TERMS[self.is_double], 1.0, 1.0))
        bits = builder.shl(builder.bitcast(n, self.integers), self.constant(digits, self.integers))
        return builder.fmul(p, builder.bitcast(bits, self.type), flags=_FLAGS)

    def reduced(self, x: Any) -> tuple[Any, Any]:
        """n and exp(r) - 1, where x = n log(2) + r and n is the integer nearest to x / log(2).

        |x| below 89, or below 710 for float64.
        """
        builder = self._builder
        shift = self.constant(_SHIFT_64 if self.is_double else _SHIFT_32)
        n = builder.fsub(self.product_sum(x, self.real(LOG2_E), shift), shift, flags=_FLAGS)
        return n, self.rest(x, n)

    def rest(self, x: Any, n: Any) -> Any:
        """exp(r) - 1, where x = n log(2) + r."""
        r = self.remainder(x, n)
        p = self.polynomial(r, EXP_TERMS[self.is_double])
        return self.product_sum(p, self._builder.fmul(r, r, flags=_FLAGS), r)

    def remainder(self, x: Any, n: Any) -> Any:
        """The r of x = n log(2) + r."""
        builder = self._builder
        for part in LOG_2_PARTS[self.is_double]:
            x = builder.fsub(x, builder.fmul(n, self.real(part), flags=_FLAGS), flags=_FLAGS)
        return x

    def polynomial(self, x: Any, terms: Sequence[float]) -> Any:
        """By Horner's rule, of factors from the highest power on."""
        first, *others = terms
        p = self.real(first)
        for term in others:
            p = self.product_sum(p, x, self.real(term))
        return p


LOG2_E = 1.4426950408889634
_SHIFT_32, _SHIFT_64 = 1.5 * 2.0**23, 1.5 * 2.0**52  # adding one of them rounds to an integer
# Two parts of log(2), of which n times the first is exact, and the terms of (exp(r) - 1 - r) / r^2 from the last on:
# for float32 (Cephes, expf), and for float64 (log(2) by Cephes, exp; the terms a fit of our own, error 1e-17, with
# two terms less than the series).
LOG_2_PARTS = ((0.693359375, -2.12194440e-4), (0.693145751953125, 1.42860682030941723212e-6))
EXP_TERMS = (
    (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1),
    (
        *(2.5000102107682377e-08, 2.763024817117492e-07, 2.7557586246922544e-06, 2.4801493099528506e-05),
        *(0.0001984126950671873, 0.001388888894362952, 0.008333333333494399, 0.04166666666653016),
        *(0.16666666666666413, 0.5000000000000011),
    ),
)


def write_exp(builder: Any, x: Any, *, falls: bool = False) -> Any:
    """exp(x) within 1e-7 of the value, 4e-16 for float64; 0 where these have no normal numbers; NaN for NaN.

    x: a float32 or float64, or a vector of them.
    falls: whether it is 0 or less, or NaN; above 0 the result is any, and where there are no normal numbers it may be
        denormal as well as 0.
    """
    w = _Writer(builder, x)
    if falls:
        return w.falling(x)
    lowest, highest = (-708.39, 709.78271289338397) if w.is_double else (-87.33, 88.72)
    most = highest if w.is_double else 88.0
    inside = w.above(most, x, w.real(most), x)  # these comparisons are false for NaN, which stays
    inside = w.below(lowest, inside, w.real(lowest), inside)
    n, q = w.reduced(inside)
    y = builder.fadd(q, w.constant(1.0), flags=_FLAGS)
    if w.is_double:  # up to the last number n is 1024, whose power there is not
        y = w.above(0.0, x, builder.fadd(y, y, flags=_FLAGS), y)
        n = w.above(0.0, x, builder.fsub(n, w.constant(1.0), flags=_FLAGS), n)
    y = builder.fmul(y, w.power_of_two(n), flags=_FLAGS)
    y = w.above(highest, x, w.constant(math.inf), y)
    return w.below(lowest, x, w.constant(0.0), y)


@intrinsic
def exponential(typing_context, x):
    """exp(x) of a float32 or float64, as `write_exp` says."""

    def generate(context, builder, signature, arguments):
        return write_exp(builder, arguments[0])

    return x(x), generate


@intrinsic
def _reduced(typing_context, x):
    """2 ** n and exp(r) - 1 of a number, as `_Writer.reduced` says."""

    def generate(context, builder, signature, arguments):
        w = _Writer(builder, arguments[0])
        n, q = w.reduced(arguments[0])
        return context.make_tuple(builder, signature.return_type, [w.power_of_two(n), q])

    return types.UniTuple(x, 2)(x), generate


class Activations(NamedTuple):
    """numba's functions for one dtype, within 2e-7 of the value, 1e-15 for float64; NaN for NaN.

    sigmoid: 1 / (1 + exp(-x)).  tanh: e / (e + 2) with e = exp(2 |x|) - 1, which loses no digits near 0.
    """

    sigmoid: Any
    tanh: Any


@functools.cache
def activations(dtype: str) -> Activations:
    """Those of "float32" or "float64"."""
    real, last = {"float32": (float32, 9.1), "float64": (float64, 19.1)}[dtype]  # from `last` on tanh rounds to 1

    @njit(**JIT)
    def sigmoid(x):
        return real(1) / (real(1) + exponential(-x))

    @njit(**JIT)
    def tanh(x):
        size = -x if x < real(0) else x
        size = real(last) if size > real(last) else size
        scale, q = _reduced(size + size)
        e = scale * q + (scale - real(1))
        y = e / (e + real(2))
        return -y if x < real(0) else y

    return Activations(sigmoid, tanh)


def _of_two(name: str, fastmath: tuple[str, ...], doc: str) -> Any:
    """An intrinsic of two floats of one type, that is LLVM's function `name`."""

    def typing(typing_context, a, b):
        def generate(context, builder, signature, arguments):
            kind = arguments[0].type
            full_name = f"{name}.{'f32' if signature.return_type == types.float32 else 'f64'}"
            function = builder.module.globals.get(full_name)
            function = function or ir.Function(builder.module, ir.FunctionType(kind, [kind, kind]), full_name)
            return builder.call(function, arguments, fastmath=fastmath)

        return a(a, a), generate

    typing.__doc__ = doc
    return intrinsic(typing)


# Comparing and choosing would mean the same, but is no maximum to LLVM, which has to be one to be reduced in vectors.
higher = _of_two("llvm.maxnum", ("nnan", "nsz"), "The higher of two floats; undefined if there is a NaN.")
lower = _of_two("llvm.minnum", ("nnan", "nsz"), "The lower of two floats; undefined if there is a NaN.")


@intrinsic
def choose(typing_context, condition, a, b):
    """`a` if the condition holds, else `b`, both of which are computed: no branch, which would stop the vectorizer."""

    def generate(context, builder, signature, arguments):
        return builder.select(*arguments)

    return a(types.boolean, a, a), generate
