"""Logarithms of single float32 for numba, written so that LLVM computes loops over them in vectors.

Importing this module imports numba; so kernel modules import it only inside the functions that build a kernel.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from atled_cpu_numba.codegen import JIT

_FLAGS = tuple(sorted(JIT["fastmath"]))
_FLOAT, _INT = ir.FloatType(), ir.IntType(32)
# Two parts of log(2), of which whole numbers times the first are exact, and the terms of
# (log(1 + t) - t + t^2 / 2) / t^3 from the last on, for sqrt(1/2) <= 1 + t < sqrt(2) (Cephes, logf).
_LOG_2_PARTS = (0.693359375, -2.12194440e-4)
_TERMS = (
    *(7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1),
    *(-1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1),
)
_SQRT_HALF_BITS = 0x3F3504F3


@intrinsic
def logarithm(typing_context, x):
    """log(x) within 1.5e-7 of the value for a float32 that is normal and positive, or infinite; NaN for NaN.

    Of other numbers the result is any.
    """

    def generate(context, builder, signature, arguments):
        return _write(builder, *arguments)

    return types.float32(types.float32), generate


def _real(value: float) -> Any:
    """The number nearest to a value; LLVM refuses constants that are none."""
    return ir.Constant(_FLOAT, float(np.float32(value)))


def _write(builder: Any, x: Any) -> Any:
    def product(a: Any, b: Any) -> Any:
        return builder.fmul(a, b, flags=_FLAGS)

    def total(a: Any, b: Any) -> Any:
        return builder.fadd(a, b, flags=_FLAGS)

    # x = (1 + t) 2^n
    digits, bits = ir.Constant(_INT, 23), builder.bitcast(x, _INT)
    whole = builder.ashr(builder.sub(bits, ir.Constant(_INT, _SQRT_HALF_BITS)), digits)
    n = builder.sitofp(whole, _FLOAT)
    t = builder.fsub(builder.bitcast(builder.sub(bits, builder.shl(whole, digits)), _FLOAT), _real(1))
    square, (high, low) = product(t, t), _LOG_2_PARTS
    series = _real(_TERMS[0])
    for term in _TERMS[1:]:
        series = total(product(series, t), _real(term))
    # The smallest terms first.
    rest = total(product(product(series, t), square), product(n, _real(low)))
    rest = total(rest, product(square, _real(-0.5)))
    y = total(total(t, rest), product(n, _real(high)))
    return builder.select(builder.fcmp_ordered("<", x, _real(math.inf)), y, x)
