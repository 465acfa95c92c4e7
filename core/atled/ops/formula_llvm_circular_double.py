"""LLVM IR of the inverse circular functions, and of the hyperbolic ones and their inverses, for float64.

Without branches and calls, so that loops over them run in vectors, within two units in the last place; asinh, acosh and
atanh three. Denormals, infinities and NaN are right. The polynomials are fits of our own, made like those of
`formula_llvm_angles`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from atled.ops.formula_llvm_circular import CIRCULAR_OF_BOTH, acosh_by, asinh_by, turned, with_sign_of
from atled.ops.formula_llvm_double import (
    LN2_HIGH,
    LN2_LOW,
    LOG_OF_QUOTIENT,
    ROUNDER,
    ROUNDER_BITS,
    exponent,
)
from atled.ops.formula_llvm_math import Real

# (atan(t) / t - 1) / t**2 in t**2 up to tan(pi / 8)**2, error 2e-18.
_ARCTANGENT = (
    *(-0.01790909543926715, 0.03806610637530317, -0.05039358720443805, 0.058478998553205125),
    *(-0.0666310532243839, 0.0769206031516074, -0.09090897763157312, 0.11111110783673953),
    *(-0.14285714280202652, 0.19999999999953694, -0.333333333333332),
)
# (atanh(s) / s - 1) / s**2 in s**2 up to (5/11)**2, error 7e-18.
_AREA_TANGENT = (
    *(0.15450177521914477, -0.041162790819078365, 0.08019938211086095, 0.04488821196816436),
    *(0.0600378235954352, 0.06653781943774674, 0.07693233319127243, 0.09090864975136367),
    *(0.11111112445157087, 0.1428571426212766, 0.20000000000208842, 0.3333333333333269),
)
_NO_LONGER_SEEN = 2.0**27  # |x| from which 1 + x**2 is x**2
_SPLIT_BITS = 0x3FE8000000000000  # of 0.75, see `formula_llvm_circular`


def _atan(r: Real, x: str) -> str:
    # Of |x| up to tan(pi / 8), of (|x| - 1) / (|x| + 1) in the middle, or of -1 / |x|.
    size, one = r.intrinsic("fabs", x), r.literal(1.0)
    is_near = r.compare("olt", size, r.literal(math.tan(math.pi / 8)))
    is_steep = r.compare("ogt", size, r.literal(1 / math.tan(math.pi / 8)))
    above = r.select(is_steep, r.literal(-1.0), r.select(is_near, size, r.sub(size, one)))
    below = r.select(is_steep, size, r.select(is_near, one, r.add(size, one)))
    ratio = r.div(above, below)
    square = r.mul(ratio, ratio)
    rest = r.mul(r.short_polynomial(square, _ARCTANGENT), r.mul(square, ratio))
    base = r.select(is_near, r.literal(0.0), r.literal(math.pi / 4))
    base = r.select(is_steep, r.literal(math.pi / 2), base)
    return with_sign_of(r, turned(r, base, ratio, rest), x)


def _area_of(r: Real, x: str, sinh: str, cosh: str) -> str:
    """The y of these sinh and cosh, one of which is the positive x, the other 1 more or less under a root.

    It is the logarithm of w = sinh + cosh = v 2**k, so y = k log(2) + 2 atanh(s) with s = (v - 1) / (v + 1). Where k
    is 0 that is s = sinh / (1 + cosh), which loses no digits near 0.
    """
    # Of a large x half the sum, which could overflow, and nothing of a root that has.
    is_large, zero, one = r.compare("ogt", x, r.literal(_NO_LONGER_SEEN)), r.literal(0.0), r.literal(1.0)
    sinh, cosh = r.select(is_large, zero, sinh), r.select(is_large, x, cosh)
    w = r.add(cosh, sinh)
    k, v = exponent(r, w)
    is_near, t = r.compare("oeq", k, zero), r.sub(v, one)
    s = r.div(r.select(is_near, sinh, t), r.add(r.select(is_near, cosh, v), one))
    square = r.mul(s, s)
    # sinh(y) = 2 s / (1 - s**2) and t = 2 s / (1 - s), so 2 s is one of them less a small part, in which the errors
    # of s hardly count.
    whole = r.select(is_near, sinh, t)
    twice = r.sub(whole, r.mul(whole, r.select(is_near, square, s)))
    # The sum lost something when it was rounded, which counts 1 / w times; that is cosh(y) - sinh(y).
    lost = r.mul(r.sub(sinh, r.sub(w, cosh)), r.sub(cosh, sinh))
    k = r.add(k, r.select(is_large, one, zero))
    rest = r.add(r.select(is_near, zero, lost), r.mul(k, r.literal(LN2_LOW)))
    rest = r.add(r.mul(r.short_polynomial(square, LOG_OF_QUOTIENT), r.mul(square, s)), rest)
    result = r.add(r.mul(k, r.literal(LN2_HIGH)), r.add(twice, rest))
    return r.select(r.compare("olt", x, r.literal(math.inf)), result, x)


def _atanh(r: Real, x: str) -> str:
    # As that of float32: half the logarithm of (1 + |x|) / (1 - |x|), with P = 2**k from the denominator alone.
    let = r.code.let
    size, one = r.intrinsic("fabs", x), r.literal(1.0)
    bits = let(f"bitcast double {r.sub(one, size)} to i64")
    minus_k = let(f"and i64 {let(f'sub i64 {bits}, {_SPLIT_BITS}')}, {-(1 << 52)}")  # times 2**52
    power = let(f"bitcast i64 {let(f'sub i64 {1023 << 52}, {minus_k}')} to double")
    product = r.mul(power, size)  # exact
    numerator = r.add(size, r.add(product, r.sub(one, power)))
    s = r.div(numerator, r.add(numerator, r.mul(r.literal(2.0), r.sub(power, product))))
    k_bits = let(f"sub i64 0, {minus_k}")
    k_bits = let(f"add i64 {let(f'lshr i64 {k_bits}, 52')}, {ROUNDER_BITS}")
    k = r.sub(let(f"bitcast i64 {k_bits} to double"), r.literal(ROUNDER))
    square = r.mul(s, s)
    rest = r.mul(r.short_polynomial(square, _AREA_TANGENT), r.mul(square, s))
    rest = r.add(rest, r.mul(k, r.literal(0.5 * LN2_LOW)))
    result = r.add(r.mul(k, r.literal(0.5 * LN2_HIGH)), r.add(s, rest))
    at_end = r.select(r.compare("oeq", size, one), r.literal(math.inf), r.literal(math.nan))
    return r.intrinsic("copysign", r.select(r.compare("olt", size, one), result, at_end), x)


CIRCULAR_DOUBLE: dict[str, Callable[[Real, str], str]] = {
    **CIRCULAR_OF_BOTH,
    "atan": _atan,
    "asinh": partial(asinh_by, _area_of),
    "acosh": partial(acosh_by, _area_of),
    "atanh": _atanh,
}
"""The functions by their names in the formula language, on values of a `Real` of float64."""
