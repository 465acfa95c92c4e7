"""Functions of single numbers for numba, written so that LLVM computes loops over them in vectors.

Importing this module imports numba; so kernel modules import it only inside the functions that build a kernel.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import float32, njit, types
from numba.extending import intrinsic

from atled_cpu_numba.codegen import JIT

_FLAGS = tuple(sorted(JIT["fastmath"]))


class _Writer:
    """Arithmetic on float32 numbers, or vectors of them, of the type of `like`."""

    def __init__(self, builder: Any, like: Any) -> None:
        self._builder, self.type = builder, like.type
        width = like.type.count if isinstance(like.type, ir.VectorType) else 0
        self.integers = ir.VectorType(ir.IntType(32), width) if width else ir.IntType(32)
        self._width = width

    def constant(self, value: float, kind: Any = None) -> Any:
        return ir.Constant(kind or self.type, [value] * self._width if self._width else value)

    def product_sum(self, a: Any, b: Any, c: Any) -> Any:
        """a * b + c"""
        return self._builder.fadd(self._builder.fmul(a, b, flags=_FLAGS), c, flags=_FLAGS)

    def below(self, limit: float, x: Any, then: Any, otherwise: Any) -> Any:
        """`then` where x is below the limit, else, and for NaN, `otherwise`."""
        return self._builder.select(self._builder.fcmp_ordered("<", x, self.constant(limit)), then, otherwise)

    def above(self, limit: float, x: Any, then: Any, otherwise: Any) -> Any:
        return self._builder.select(self._builder.fcmp_ordered(">", x, self.constant(limit)), then, otherwise)

    def power_of_two(self, n: Any) -> Any:
        """2 ** n of whole numbers, as floats."""
        builder = self._builder
        exponent = builder.add(builder.fptosi(n, self.integers), self.constant(127, self.integers))
        return builder.bitcast(builder.shl(exponent, self.constant(23, self.integers)), self.type)

    def reduced(self, x: Any) -> tuple[Any, Any]:
        """n and exp(r) - 1, where x = n log(2) + r and n is the integer nearest to x / log(2); |x| below 89.

        Polynomial and the two parts of log(2): Cephes, expf.
        """
        builder = self._builder
        shift = self.constant(12582912.0)  # 1.5 * 2^23: adding it rounds to an integer
        n = builder.fsub(self.product_sum(x, self.constant(_as_float32(1.44269504)), shift), shift, flags=_FLAGS)
        r = x
        for part in (0.693359375, -2.12194440e-4):
            r = builder.fsub(r, builder.fmul(n, self.constant(_as_float32(part)), flags=_FLAGS), flags=_FLAGS)
        p = self.constant(_as_float32(1.9875691500e-4))
        for term in (1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1):
            p = self.product_sum(p, r, self.constant(_as_float32(term)))
        return n, self.product_sum(p, builder.fmul(r, r, flags=_FLAGS), r)


def _as_float32(value: float) -> float:
    """The nearest float32; LLVM refuses constants that are none."""
    return float(np.float32(value))


def write_exp(builder: Any, x: Any) -> Any:
    """exp(x) within 1e-7 of the value; 0 below -87.33, where float32 has no normal numbers; NaN for NaN.

    x: a float32 or a vector of them.
    """
    w = _Writer(builder, x)
    lowest = _as_float32(-87.33)
    inside = w.above(88.0, x, w.constant(88.0), x)  # these comparisons are false for NaN, which stays
    inside = w.below(lowest, inside, w.constant(lowest), inside)
    n, q = w.reduced(inside)
    y = builder.fmul(builder.fadd(q, w.constant(1.0), flags=_FLAGS), w.power_of_two(n), flags=_FLAGS)
    y = w.above(_as_float32(88.72), x, w.constant(math.inf), y)
    return w.below(lowest, x, w.constant(0.0), y)


@intrinsic
def _exp32(typing_context, x):
    """exp(x) of a float32, as `write_exp` says."""

    def generate(context, builder, signature, arguments):
        return write_exp(builder, arguments[0])

    return types.float32(types.float32), generate


@intrinsic
def _reduced(typing_context, x):
    """2 ** n and exp(r) - 1 of a float32 x = n log(2) + r, |x| below 89, with n the integer nearest to x / log(2)."""

    def generate(context, builder, signature, arguments):
        w = _Writer(builder, arguments[0])
        n, q = w.reduced(arguments[0])
        return context.make_tuple(builder, signature.return_type, [w.power_of_two(n), q])

    return types.UniTuple(types.float32, 2)(types.float32), generate


@njit(**JIT)
def sigmoid(x):
    """1 / (1 + exp(-x)) of a float32, within 2e-7 of the value; NaN for NaN."""
    return float32(1) / (float32(1) + _exp32(-x))


@njit(**JIT)
def tanh(x):
    """tanh(x) of a float32 within 2e-7 of the value; NaN for NaN.

    e / (e + 2) with e = exp(2 |x|) - 1, which loses no digits near 0; from 9.1 on the result rounds to 1.
    """
    size = -x if x < float32(0) else x
    size = float32(9.1) if size > float32(9.1) else size
    scale, q = _reduced(size + size)
    e = scale * q + (scale - float32(1))
    y = e / (e + float32(2))
    return -y if x < float32(0) else y


@njit(**JIT)
def _exp64(x):
    return math.exp(x)


def exponential(dtype: str) -> Any:
    """The numba function for "float32" or "float64"."""
    return {"float32": _exp32, "float64": _exp64}[dtype]


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
