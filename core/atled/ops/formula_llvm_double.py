"""LLVM IR of exponentials and logarithms for float64, without branches and calls, so that loops over it run in vectors.

Errors in units in the last place, over the whole range: exp 1.2, exp2 1.4, log 1.0, log1p 1.4, log2 2.0; where terms
cancel, expm1 2.4, tanh and sigmoid 2.8. NaN, infinity and denormals are right. What is computed once per call is the C
library's, but for the sigmoid, which it lacks.

The whole part of x / ln 2 is left in the lowest bits of a float64, biased so that one shift makes it a power of two;
tanh and sigmoid are quotients of tanh(r / 2), which has half the coefficients of exp(r).

The polynomials are fits of our own: the least maximal error of the function over the interval (Remez).
"""

from __future__ import annotations

import math
from collections.abc import Callable

from atled.ops.formula_llvm_math import LOG2E, Code, Real, expm1_of, log2_of, log_edges

# ln 2 in two parts (Cephes, exp.c): 11 digits times the first are exact in float64.
LN2_HIGH, LN2_LOW = 0.693145751953125, 1.42860682030941723212e-6
# Adding 1.5 * 2**52 rounds to an integer and leaves it in the low bits. Both ways: processors before AVX-512 have no
# conversions between float64 and 64-bit integers in vectors. 2**52 more or less does the same.
ROUNDER = 1.5 * 2.0**52
ROUNDER_BITS = 0x4338000000000000
_BIAS = 1023  # of exponents
# (exp(r) - 1 - r) / r**2 on |r| <= ln(2) / 2: error 1e-17 of exp(r).
_EXP = (
    *(2.5000102107682377e-08, 2.763024817117492e-07, 2.7557586246922544e-06, 2.4801493099528506e-05),
    *(0.0001984126950671873, 0.001388888894362952, 0.008333333333494399, 0.04166666666653016),
    *(0.16666666666666413, 0.5000000000000011),
)
# (2**r - 1) / r on |r| <= 1/2: error 4e-18 of 2**r.
EXP2 = (
    *(4.438827429616856e-10, 7.0732330532120926e-09, 1.017816024164206e-07, 1.321543883486272e-06),
    *(1.5252733633621122e-05, 0.00015403530449040268, 0.0013333558146546528, 0.0096181291076016),
    *(0.05550410866482172, 0.24022650695910108, 0.6931471805599453),
)
# tanh(r / 2) / r in r**2 on |r| <= ln(2) / 2: error 4e-18 of tanh.
_TANH_OF_HALF = (
    *(4.205046360624768e-07, -4.3248554543911355e-06, 4.2713614423287424e-05, -0.0004216269748476073),
    *(0.004166666666494698, -0.0416666666666656, 0.5),
)
# tanh(u) / u in u**2, for u = r / 2: the same numbers times powers of two.
_TANH = tuple(value * 2.0 ** (2 * power + 1) for power, value in zip(range(6, -1, -1), _TANH_OF_HALF, strict=True))
# (log((1 + s) / (1 - s)) - 2 s) / s**3 in s**2, where the quotient lies between sqrt(1/2) and sqrt(2): error 3e-18.
LOG_OF_QUOTIENT = (
    *(0.1479591043251655, 0.15314054786864878, 0.18183564145458433, 0.22222198577043184),
    *(0.28571428742344757, 0.3999999999941491, 0.6666666666666734),
)
_SQRT_HALF_BITS = 0x3FE6A09E667F3BCD
_MANTISSA_BITS = (1 << 52) - 1
_MIN_NORMAL = 2.0**-1022
_TANH_END = 20.0  # from where on tanh rounds to 1


def _doublings(r: Real, x: str, bias: int, times: float = 1.0, *, few: bool = False) -> tuple[str, str]:
    """(k, r) for x = (k * ln 2 + r) / times: the low bits of an i64 are those of k + bias, and r is divided by times.

    times: a power of two, or a negative one.  bias: from 0 to 4000.
    few: whether the result has no digits that k times the rounding error of ln 2, 2e-17, could change.
    """
    rounder = r.literal(ROUNDER + bias)
    shifted = r.add(r.mul(x, r.literal(LOG2E * times)), rounder)
    count = r.sub(shifted, rounder)
    parts = (math.log(2),) if few and r.code.fused else (LN2_HIGH, LN2_LOW)
    rest = x
    for part in parts:
        rest = r.sub(rest, r.mul(count, r.literal(part / times)))
    return r.code.let(f"bitcast double {shifted} to i64"), rest


def _expm1_of_rest(r: Real, rest: str) -> str:
    """exp(r) - 1 to full accuracy."""
    return r.add(r.mul(r.short_polynomial(rest, _EXP), r.mul(rest, rest)), rest)


def _tanh_of_rest(r: Real, rest: str, coefficients: tuple[float, ...]) -> str:
    """t for exp(r) = (1 + t) / (1 - t), of `rest` = r by _TANH_OF_HALF, or half of it by _TANH.

    t = tanh(r / 2) takes half the coefficients of exp(r), for where there is a division in any case.
    """
    # By Horner's rule: the division takes as long as the chain, and there are four vectors side by side.
    return r.mul(r.polynomial(r.mul(rest, rest), coefficients), rest)


def power_of_two(code: Code, k: str, bias: int = _BIAS) -> str:
    """2 ** (k + bias - 1023) as a double, for an i64 k and a result that is normal or 0."""
    return _power(code, code.let(f"add i64 {k}, {bias}"))


def _power(code: Code, k: str) -> str:
    """2 ** k of the low bits of an i64, which are those of k + 1023; what is above them is lost."""
    return code.let(f"bitcast i64 {code.let(f'shl i64 {k}, 52')} to double")


def _times_power(r: Real, y: str, k: str) -> str:
    """y * 2 ** k, |k| up to 1100: in two steps, as 2 ** 1024 and 2 ** -1023 are not normal.

    k: the low 13 bits are those of k + 2046, twice the bias, so that both halves have it.
    """
    half = r.code.let(f"lshr i64 {k}, 1")
    return r.mul(r.mul(y, _power(r.code, half)), _power(r.code, r.code.let(f"sub i64 {k}, {half}")))


def scaled_exp(r: Real, x: str, exponent: int = 0, *, few: bool = False) -> str:
    """exp(x) times 2 ** exponent, where that is normal and the power of two nearest to it too; few: as `_doublings`."""
    k, rest = _doublings(r, x, _BIAS + exponent, few=few)
    scale = _power(r.code, k)
    return r.add(scale, r.mul(scale, _expm1_of_rest(r, rest)))


def less_exp(r: Real, x: str) -> str:
    """1 - exp(x) for x from -700 to 0, to full relative accuracy."""
    k, rest = _doublings(r, x, _BIAS, few=True)
    power = _power(r.code, k)
    # Where the power is 1 the result is -(exp(r) - 1): its digits stay, those of denormals too.
    return r.sub(r.sub(r.literal(1.0), power), r.mul(power, _expm1_of_rest(r, rest)))


def _exp(r: Real, x: str) -> str:
    # Beyond the limits the result is 0 or infinity by underflow or overflow of the last product.
    k, rest = _doublings(r, r.clamp(x, -746.0, 710.0), 2 * _BIAS)
    # By Horner's rule to the end, which needs the fewest registers: .9 to 1.02 of the time that halves take.
    return _times_power(r, r.polynomial(rest, (*_EXP, 1.0, 1.0)), k)


def _exp2(r: Real, x: str) -> str:
    x = r.clamp(x, -1080.0, 1030.0)
    rounder = r.literal(ROUNDER + 2 * _BIAS)
    shifted = r.add(x, rounder)
    rest = r.sub(x, r.sub(shifted, rounder))
    k = r.code.let(f"bitcast double {shifted} to i64")
    return _times_power(r, r.polynomial(rest, (*EXP2, 1.0)), k)


def _expm1(r: Real, x: str) -> str:
    bias = _BIAS - 1
    k, rest = _doublings(r, r.clamp(x, -40.0, 710.0), bias)
    is_small = r.code.let(f"icmp eq i64 {k}, {ROUNDER_BITS + bias}")
    return expm1_of(r, _expm1_of_rest(r, rest), _power(r.code, k), is_small)


def _sigmoid(r: Real, x: str) -> str:
    """1 / (1 + e) with e = exp(-x) = 2 ** k (1 - t) / (1 + t)."""
    # Both terms are scaled down, so that e stays finite where the result is denormal; beyond the limits it is 0 or 1.
    scale = 64
    k, rest = _doublings(r, r.clamp(x, -746.0, 60.0), _BIAS - scale, -1.0)
    t = _tanh_of_rest(r, rest, _TANH_OF_HALF)
    one, power = r.literal(2.0**-scale), _power(r.code, k)
    above = r.add(one, r.mul(one, t))
    return r.div(above, r.add(above, r.sub(power, r.mul(power, t))))


def _tanh(r: Real, x: str) -> str:
    """(e - 1) / (e + 1) with e = exp(2 x) = 2 ** k (1 + t) / (1 - t), which loses no digits near 0."""
    k, rest = _doublings(r, r.clamp(x, -_TANH_END, _TANH_END), _BIAS, 2.0, few=True)
    t = _tanh_of_rest(r, rest, _TANH)
    power, one = _power(r.code, k), r.literal(1.0)
    # Of the two differences, of which one is 0 for a small x, the one that leaves -0 its sign.
    more, less = r.add(power, one), r.sub(one, power)
    return r.div(r.sub(r.mul(t, more), less), r.sub(more, r.mul(t, less)))


def exponent(r: Real, x: str) -> tuple[str, str]:
    """(k, m) for x = m * 2 ** k with sqrt(1/2) <= m < sqrt(2), x positive and normal; k a double."""
    return _exponent(r, x, r.literal(ROUNDER))


def _exponent(r: Real, x: str, rounder: str) -> tuple[str, str]:
    """The same; rounder: ROUNDER, or less by what k is to be greater."""
    let = r.code.let
    bits = let(f"bitcast double {x} to i64")
    # Biased by 1024, so that a shift of unsigned numbers will do.
    from_least = let(f"add i64 {bits}, {(1024 << 52) - _SQRT_HALF_BITS}")
    biased = let(f"lshr i64 {from_least}, 52")
    shifted = let(f"bitcast i64 {let(f'add i64 {biased}, {ROUNDER_BITS - 1024}')} to double")
    mantissa = let(f"add i64 {let(f'and i64 {from_least}, {_MANTISSA_BITS}')}, {_SQRT_HALF_BITS}")
    return r.sub(shifted, rounder), let(f"bitcast i64 {mantissa} to double")


def _log_sum(r: Real, t: str, k: str) -> str:
    """log(1 + t) + k * ln 2, smallest terms first."""
    s = r.div(t, r.add(t, r.literal(2.0)))
    square = r.mul(s, s)
    half = r.mul(r.mul(t, r.literal(0.5)), t)
    # log(1 + t) = t - t**2 / 2 + s (t**2 / 2 + series), in which only t and k ln 2 are large.
    series = r.add(r.mul(r.short_polynomial(square, LOG_OF_QUOTIENT), square), half)
    small = r.sub(r.add(r.mul(s, series), r.mul(k, r.literal(LN2_LOW))), half)
    return r.add(r.mul(k, r.literal(LN2_HIGH)), r.add(t, small))


def exponent_of_any(r: Real, x: str) -> tuple[str, str]:
    """The same for any positive x, denormals included."""
    is_denormal = r.compare("olt", x, r.literal(_MIN_NORMAL))
    rounder = r.select(is_denormal, r.literal(ROUNDER + 52), r.literal(ROUNDER))
    return _exponent(r, r.select(is_denormal, r.mul(x, r.literal(2.0**52)), x), rounder)


def _log(r: Real, x: str) -> str:
    k, mantissa = exponent_of_any(r, x)
    return log_edges(r, x, _log_sum(r, r.sub(mantissa, r.literal(1.0)), k))


def _log2(r: Real, x: str) -> str:
    k, mantissa = exponent_of_any(r, x)
    t = r.sub(mantissa, r.literal(1.0))
    return log2_of(r, x, k, t, r.sub(_log_sum(r, t, r.literal(0.0)), t))


def log1p(r: Real, x: str) -> str:
    """log(1 + x)."""
    one = r.literal(1.0)
    u = r.add(x, one)
    lost = r.sub(x, r.sub(u, one))  # what rounding 1 + x lost, exactly
    # Where u is large nothing was lost that counts, and an infinite u would make it NaN.
    lost = r.select(r.compare("olt", u, r.literal(2.0**60)), lost, r.literal(0.0))
    k, mantissa = exponent(r, u)
    # log(u + lost) = log(u) + lost / u; there m = u / 2**k.
    sum_ = _log_sum(r, r.sub(mantissa, one), k)
    return log_edges(r, u, r.add(sum_, r.div(lost, u)))


DOUBLE_FUNCTIONS: dict[str, Callable[[Real, str], str]] = {
    "exp": _exp,
    "exp2": _exp2,
    "expm1": _expm1,
    "sigmoid": _sigmoid,
    "tanh": _tanh,
    "log": _log,
    "log2": _log2,
    "log1p": log1p,
}
"""The functions by their names in the formula language, on values of a `Real` of float64."""
