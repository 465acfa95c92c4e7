"""Functions of single numbers for numba, written so that LLVM computes loops over them in vectors.

Importing this module imports numba; so kernel modules import it only inside the functions that build a kernel.
"""

from __future__ import annotations

import math
from typing import Any

from llvmlite import ir
from numba import float32, int32, njit, types
from numba.extending import intrinsic

from atled_cpu_numba.codegen import JIT


@intrinsic
def _float32_of_bits(typing_context, bits):
    """The float32 whose bits are those of the int32 `bits`."""

    def generate(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], ir.FloatType())

    return types.float32(types.int32), generate


@njit(**JIT)
def _reduced(x):
    """n and exp(r) - 1, where x = n log(2) + r and n is the integer nearest to x / log(2); |x| below 89.

    Polynomial and the two parts of log(2): Cephes, expf.
    """
    shift = float32(12582912.0)  # 1.5 * 2^23: adding it rounds to an integer
    n = (x * float32(1.44269504) + shift) - shift
    r = x - n * float32(0.693359375)
    r = r - n * float32(-2.12194440e-4)
    p = float32(1.9875691500e-4)
    p = p * r + float32(1.3981999507e-3)
    p = p * r + float32(8.3334519073e-3)
    p = p * r + float32(4.1665795894e-2)
    p = p * r + float32(1.6666665459e-1)
    p = p * r + float32(5.0000001201e-1)
    return n, p * (r * r) + r


@njit(**JIT)
def _exp32(x):
    """exp(x) within 1e-7 of the value; 0 below -87.33, where float32 has no normal numbers; NaN for NaN."""
    inside = float32(88.0) if x > float32(88.0) else x  # these comparisons are false for NaN, which stays
    inside = float32(-87.33) if inside < float32(-87.33) else inside
    n, q = _reduced(inside)
    y = (q + float32(1)) * _float32_of_bits((int32(n) + int32(127)) << int32(23))
    y = float32(math.inf) if x > float32(88.72) else y
    return float32(0) if x < float32(-87.33) else y


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
    n, q = _reduced(size + size)
    scale = _float32_of_bits((int32(n) + int32(127)) << int32(23))
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
