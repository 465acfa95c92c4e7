"""LLVM IR of the inverse circular functions, and of the hyperbolic ones and their inverses.

For float32; some for float64 as well, of which the others are in `formula_llvm_circular_double`. To one or two units in
the last place, without branches and calls, so that loops over it run in vectors: denormals, infinities and NaN are
right. Most of the code is there to keep digits that float32 would lose.

The polynomials are fits of our own, made like those of `formula_llvm_angles`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from atled.ops import formula_llvm_double
from atled.ops.formula_llvm_math import DOUBLE, FLOAT, LN2_HIGH, LN2_LOW, Real, scaled_exp

# pi / 2 rounded to the type, and what is lost by that.
_QUARTER_TURN = {
    FLOAT: (1.57079637050628662109375, -4.37113882867379e-08),
    DOUBLE: (1.5707963267948966, 6.123233995736766e-17),
}

# --- inverse circular functions -------------------------------------------------------------------------------------

# (asin(s) / s - 1) / s**2 in s**2 up to 1/4, errors 5e-9 and 1e-18; (atan(t) / t - 1) / t**2 in t**2 up to 1, error
# 3e-9.
_ARCSINE = {
    FLOAT: (0.042211797, 0.024152093, 0.04547604, 0.07495252, 0.16666754),
    DOUBLE: (
        *(0.03262573323246964, -0.02099424589686143, 0.021703888278742024, 0.0037079441378468072),
        *(0.01077982411438763, 0.011398993325877939, 0.013980809963635687, 0.017351612965217863),
        *(0.022372214929787672, 0.03038194271007044, 0.044642857174557196, 0.07499999999970869, 0.1666666666666676),
    ),
}
_ARCTANGENT = (
    *(-0.0017821442, 0.010866271, -0.031093534, 0.05787887, -0.08399208),
    *(0.10950861, -0.14264014, 0.1999853, -0.333333),
)


def from_quarter_turn(r: Real, a: str, rest: str) -> str:
    """pi / 2 - (a + rest), the small parts first."""
    high, low = map(r.literal, _QUARTER_TURN[r.type])
    return r.sub(high, r.sub(a, r.sub(low, rest)))


def _atan(r: Real, x: str) -> str:
    size, one = r.intrinsic("fabs", x), r.literal(1.0)
    is_steep = r.compare("ogt", size, one)
    ratio = r.select(is_steep, r.div(one, size), size)
    square = r.mul(ratio, ratio)
    rest = r.mul(r.polynomial(square, _ARCTANGENT), r.mul(square, ratio))
    angle = r.select(is_steep, from_quarter_turn(r, ratio, rest), r.add(ratio, rest))
    return r.intrinsic("copysign", angle, x)


def turned(r: Real, base: str, a: str, rest: str) -> str:
    """base + a + rest, the small parts first, and what rounding took from the base.

    base: 0, or pi / 2 times a power of two, from all of which that took the same share.
    """
    high, low = _QUARTER_TURN[r.type]
    return r.add(base, r.add(a, r.add(r.mul(base, r.literal(low / high)), rest)))


def with_sign_of(r: Real, size: str, x: str) -> str:
    """A number that is not negative, with the sign of x: in an operation less than any number takes."""
    let, bits = r.code.let, 32 if r.type == FLOAT else 64
    sign = let(f"and i{bits} {let(f'bitcast {r.type} {x} to i{bits}')}, {-(1 << (bits - 1))}")
    signed = let(f"or i{bits} {let(f'bitcast {r.type} {size} to i{bits}')}, {sign}")
    return let(f"bitcast i{bits} {signed} to {r.type}")


def _arcsine_square(r: Real, x: str) -> tuple[str, str, str]:
    """(|x|, is_far, s**2): s is |x| up to 1/2, and beyond it the root of (1 - |x|) / 2."""
    size, half = r.intrinsic("fabs", x), r.literal(0.5)
    is_far = r.compare("ogt", size, half)
    return size, is_far, r.select(is_far, r.sub(half, r.mul(half, size)), r.mul(size, size))


def _arcsine_rest(r: Real, square: str, s: str) -> str:
    """asin(s) - s, or a multiple of it for the same multiple of s."""
    return r.mul(r.short_polynomial(square, _ARCSINE[r.type]), r.mul(square, s))


def _asin(r: Real, x: str) -> str:
    # Beyond 1/2: asin(x) = pi / 2 - 2 asin(s).
    size, is_far, square = _arcsine_square(r, x)
    base = r.select(is_far, r.literal(_QUARTER_TURN[r.type][0]), r.literal(0.0))
    s = r.select(is_far, r.mul(r.intrinsic("sqrt", square), r.literal(-2.0)), size)
    return with_sign_of(r, turned(r, base, s, _arcsine_rest(r, square, s)), x)


def _acos(r: Real, x: str) -> str:
    # Near 0: acos(x) = pi / 2 - asin(x). Near 1 it is 2 asin(s), and near -1 what that leaves of half a turn.
    _, is_far, square = _arcsine_square(r, x)
    root = r.intrinsic("sqrt", square)
    s = r.select(is_far, with_sign_of(r, r.add(root, root), x), r.neg(x))
    quarter, zero = _QUARTER_TURN[r.type][0], r.literal(0.0)
    half_turn = r.select(r.compare("olt", x, zero), r.literal(2.0 * quarter), zero)
    base = r.select(is_far, half_turn, r.literal(quarter))
    return turned(r, base, s, _arcsine_rest(r, square, s))


# --- hyperbolic functions -------------------------------------------------------------------------------------------

# (sinh(x) / x - 1) / x**2 in x**2 up to 1, errors 3e-8 and 3e-19.
_SINH = {
    FLOAT: (0.00020376634, 0.008330223, 0.16666718),
    DOUBLE: (
        *(7.776774039735247e-13, 1.6056655045254173e-10, 2.505213103290616e-08, 2.7557319106642065e-06),
        *(0.00019841269841593535, 0.008333333333332912, 0.16666666666666669),
    ),
}
_SCALED_EXP: dict[str, Callable[..., str]] = {FLOAT: scaled_exp, DOUBLE: formula_llvm_double.scaled_exp}
_BEYOND = {FLOAT: 90.0, DOUBLE: 711.0}  # both are infinite from there on; an eighth of exp is not


def _half_exponentials(r: Real, x: str) -> tuple[str, str, str]:
    """|x|, exp(|x|) / 2 and exp(-|x|) / 2."""
    size = r.intrinsic("fabs", x)
    end = r.literal(_BEYOND[r.type])
    eighth = _SCALED_EXP[r.type](r, r.select(r.compare("ogt", size, end), end, size), -3)
    return size, r.mul(eighth, r.literal(4.0)), r.div(r.literal(1.0 / 16.0), eighth)


def _sinh(r: Real, x: str) -> str:
    size, grown, fallen = _half_exponentials(r, x)
    square = r.mul(x, x)
    near = r.add(size, r.mul(r.polynomial(square, _SINH[r.type]), r.mul(square, size)))
    value = r.select(r.compare("olt", size, r.literal(1.0)), near, r.sub(grown, fallen))
    return r.intrinsic("copysign", value, x)


def _cosh(r: Real, x: str) -> str:
    return r.add(*_half_exponentials(r, x)[1:])


# --- their inverses -------------------------------------------------------------------------------------------------
#
# All are logarithms y of a number w from 1 on. With w = v 2**k: y = k log(2) + 2 atanh(s), s = (v - 1) / (v + 1). Where
# k = 0 that is s = sinh(y) / (1 + cosh(y)), which loses no digits near 0.

# (2 atanh(u / 2) / u - 1) / u**2 for u up to 2/3, from a fit of atanh up to 1/3, error 5e-9.
_ATANH_OF_HALF = tuple(
    c / 4.0**n for c, n in zip((0.1405452, 0.13991702, 0.20011279, 0.333332), (4, 3, 2, 1), strict=True)
)
# (atanh(s) / s - 1) / s**2 in s**2 up to (5/11)**2, error 7e-9.
_ATANH = (0.15990469, 0.09343086, 0.14480099, 0.19990867, 0.3333347)
_MANTISSA_BITS = (1 << 23) - 1
_NO_LONGER_SEEN = 4096.0  # |x| from which 1 + x**2 is x**2 in float32


def _area(r: Real, u: str, series: tuple[float, ...], k: str, scale: float) -> str:
    """u + u**3 series(u**2) + k scale log(2), smallest terms first."""
    square = r.mul(u, u)
    small = r.add(r.mul(r.polynomial(square, series), r.mul(square, u)), r.mul(k, r.literal(LN2_LOW * scale)))
    return r.add(r.mul(k, r.literal(LN2_HIGH * scale)), r.add(u, small))


def _area_of(r: Real, x: str, sinh: str, cosh: str) -> str:
    """The y of these sinh and cosh, one of which is the positive x, the other 1 more or less under a root."""
    let = r.code.let
    # Of a large x half the sum, which could overflow, and nothing of a root that has.
    is_large = r.compare("ogt", x, r.literal(_NO_LONGER_SEEN))
    sinh, cosh = r.select(is_large, r.literal(0.0), sinh), r.select(is_large, x, cosh)
    w = r.add(cosh, sinh)
    bits = let(f"bitcast float {w} to i32")
    k = let(f"sub i32 {let(f'lshr i32 {bits}, 23')}, 127")
    k = let(f"add i32 {k}, {let(f'zext i1 {is_large} to i32')}")
    v = let(f"or i32 {let(f'and i32 {bits}, {_MANTISSA_BITS}')}, {127 << 23}")
    v = let(f"bitcast i32 {v} to float")
    is_near, one = r.compare("olt", w, r.literal(2.0)), r.literal(1.0)
    s = r.div(r.select(is_near, sinh, r.sub(v, one)), r.select(is_near, r.add(cosh, one), r.add(v, one)))
    # sinh(y) = 2 s / (1 - s**2), so 2 s is sinh(y) less a small part, in which the errors of s hardly count.
    near = r.sub(sinh, r.mul(sinh, r.mul(s, s)))
    # The sum lost something when it was rounded, which counts 1 / w times; that is cosh(y) - sinh(y).
    lost = r.sub(sinh, r.sub(w, cosh))
    far = r.add(r.add(s, s), r.mul(lost, r.sub(cosh, sinh)))
    result = _area(r, r.select(is_near, near, far), _ATANH_OF_HALF, let(f"sitofp i32 {k} to float"), 1.0)
    return r.select(r.compare("olt", x, r.literal(math.inf)), result, x)


Area = Callable[[Real, str, str, str], str]
"""The y of a positive x, which is sinh(y) or cosh(y), from both: area_of(r, x, sinh, cosh), for one type."""


def asinh_by(area_of: Area, r: Real, x: str) -> str:
    """asinh(x)."""
    size = r.intrinsic("fabs", x)
    root = r.intrinsic("sqrt", r.add(r.mul(size, size), r.literal(1.0)))
    return r.intrinsic("copysign", area_of(r, size, size, root), x)


def acosh_by(area_of: Area, r: Real, x: str) -> str:
    """acosh(x)."""
    # x**2 - 1 = t**2 + 2 t, and t = x - 1 is exact where that is small.
    one = r.literal(1.0)
    t = r.sub(x, one)
    root = r.intrinsic("sqrt", r.add(r.mul(t, t), r.add(t, t)))
    return r.select(r.compare("olt", x, one), r.literal(math.nan), area_of(r, x, root, x))


# Of 0.75: P brings 1 - |x| into [0.75, 1.5), from where s is -1/11 to 5/11. Where P is above 1, |x| is 1/4 or more, so
# that nothing is lost in P |x| + (1 - P).
_SPLIT_BITS = 0x3F400000


def _atanh(r: Real, x: str) -> str:
    # Half the logarithm of (1 + |x|) / (1 - |x|), with P = 2**k from the denominator alone:
    # s = (1 + |x| - P (1 - |x|)) / (1 + |x| + P (1 - |x|)), in an order of sums that gives |x| / 1 for P = 1 and loses
    # nothing where P is large.
    let = r.code.let
    size, one = r.intrinsic("fabs", x), r.literal(1.0)
    bits = let(f"bitcast float {r.sub(one, size)} to i32")
    minus_k = let(f"and i32 {let(f'sub i32 {bits}, {_SPLIT_BITS}')}, {-(1 << 23)}")  # times 2**23
    power = let(f"bitcast i32 {let(f'sub i32 {127 << 23}, {minus_k}')} to float")
    product = r.mul(power, size)  # exact
    numerator = r.add(size, r.add(product, r.sub(one, power)))
    s = r.div(numerator, r.add(numerator, r.mul(r.literal(2.0), r.sub(power, product))))
    result = _area(r, s, _ATANH, let(f"sitofp i32 {minus_k} to float"), -0.5 / 2**23)
    at_end = r.select(r.compare("oeq", size, one), r.literal(math.inf), r.literal(math.nan))
    return r.intrinsic("copysign", r.select(r.compare("olt", size, one), result, at_end), x)


CIRCULAR_OF_BOTH: dict[str, Callable[[Real, str], str]] = {"asin": _asin, "acos": _acos, "sinh": _sinh, "cosh": _cosh}
"""Functions by their names in the formula language, on values of a `Real` of either type."""

CIRCULAR: dict[str, Callable[[Real, str], str]] = {
    **CIRCULAR_OF_BOTH,
    "atan": _atan,
    "asinh": partial(asinh_by, _area_of),
    "acosh": partial(acosh_by, _area_of),
    "atanh": _atanh,
}
"""All of them, on values of a `Real` of float32."""
