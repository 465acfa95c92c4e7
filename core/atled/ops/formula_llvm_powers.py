"""LLVM IR of powers for float32, without branches and calls: x ** y = 2 ** (y log2(x)), the logarithm with ten digits.

For a normal base and a normal result there is a quick form; a piece of a row with other elements takes the whole
form, which knows the special cases of C99 (F.9.4.4) and gives the ordinary ones the same bits.

The polynomials are fits of our own, made like those of `formula_llvm_angles`.
"""

from __future__ import annotations

import math

from atled.ops.formula_llvm_math import (
    DOUBLE,
    EXP2,
    FLOAT,
    ROUNDER,
    ROUNDER_BITS,
    Real,
    exponent,
    exponent_of_any,
    power_of_two,
)

# log2(1 + t) = t (c1 + t (c2 + t (c3 + t q(t)))), q for sqrt(1/2) - 1 <= t <= sqrt(2) - 1: error 2e-10 of the
# logarithm. c1 and c2, 1 / ln 2 and -1/2 of it, are pairs of floats.
_LOG2 = (
    *(-0.08973353, 0.15537474, -0.15537952, 0.1587405, -0.17929792),
    *(0.20613192, -0.240487, 0.28853884, -0.3606733),
)
_THIRD = 0.48089835047721863
_SECOND, _SECOND_LOW = -0.7213475108146667, -9.629814955646951e-09
_FIRST, _FIRST_LOW = 1.4426950216293335, 1.9259629911293902e-08

_NORMAL_BITS, _INFINITY_BITS = 0x00800000, 0x7F800000
_MOST_DOUBLINGS = 125  # either way: of a number from sqrt(1/2) to sqrt(2) the results are normal


def _exact_sum(r: Real, a: str, b: str, c: str) -> str:
    """a * b + c for three float32, rounded once; for where the product and -c are near each other."""
    if r.code.fused:
        return r.intrinsic("fma", a, b, c)
    # A call for each element without the instruction; but the product of two float32 is exact in float64.
    wide = Real(r.code, DOUBLE)
    a, b, c = (r.convert(value, DOUBLE) for value in (a, b, c))
    return wide.convert(wide.add(wide.mul(a, b), c), FLOAT)


def _log2(r: Real, mantissa: str, k: str) -> tuple[str, str]:
    """log2(mantissa * 2 ** k) as the sum of two floats, for a mantissa as of `exponent`.

    By Horner's rule, with what rounding takes from the last four sums.
    """
    t = r.sub(mantissa, r.literal(1.0))
    # The sum of two halves is rounded more often: not for the first coefficients, which count most.
    series = r.short_polynomial(t, _LOG2[:-2])
    for coefficient in _LOG2[-2:]:
        series = r.add(r.mul(t, series), r.literal(coefficient))
    third, third_low = _step(r, t, series, r.literal(_THIRD))
    second, second_low = _step(r, t, third, r.literal(_SECOND))
    first, first_low = _step(r, t, second, r.literal(_FIRST))
    second_low = r.add(r.add(second_low, r.literal(_SECOND_LOW)), r.mul(t, third_low))
    first_low = r.add(r.add(first_low, r.literal(_FIRST_LOW)), r.mul(t, second_low))
    total, total_low = _step(r, t, first, k)
    return total, r.add(total_low, r.mul(t, first_low))


def _step(r: Real, t: str, value: str, coefficient: str) -> tuple[str, str]:
    """The sum t * value + coefficient, and what rounding took from it."""
    total = r.add(r.mul(t, value), coefficient)
    return total, _exact_sum(r, t, value, r.sub(coefficient, total))


def _doublings(r: Real, y: str, log2: str) -> str:
    """The whole number next to y * log2, plus ROUNDER."""
    return r.add(r.mul(y, log2), r.literal(ROUNDER))


def _rest(r: Real, y: str, log2: tuple[str, str], doublings: str) -> str:
    """2 ** (y * log2 - doublings), from sqrt(1/2) to sqrt(2)."""
    rest = _exact_sum(r, y, log2[0], r.sub(r.literal(ROUNDER), doublings))
    rest = r.add(rest, r.mul(y, log2[1]))
    return r.add(r.mul(rest, r.short_polynomial(rest, EXP2)), r.literal(1.0))


def _quick_power(r: Real, x: str, y: str) -> tuple[str, str]:
    """The power, and whether it may be wrong: where x is not positive and normal, or the result not normal."""
    let = r.code.let
    k, mantissa = exponent(r.code, x)
    log2 = _log2(r, mantissa, let(f"sitofp i32 {k} to float"))
    doublings = _doublings(r, y, log2[0])
    bits = let(f"bitcast float {doublings} to i32")
    value = let(f"bitcast float {_rest(r, y, log2, doublings)} to i32")
    exponent_bits = let(f"shl i32 {bits}, 23")
    value = let(f"bitcast i32 {let(f'add i32 {value}, {exponent_bits}')} to float")
    from_normal = let(f"sub i32 {let(f'bitcast float {x} to i32')}, {_NORMAL_BITS}")
    is_other = let(f"icmp uge i32 {from_normal}, {_INFINITY_BITS - _NORMAL_BITS}")
    # Of a y that is NaN or infinite the bits are far away.
    from_least = let(f"sub i32 {bits}, {ROUNDER_BITS - _MOST_DOUBLINGS}")
    is_beyond = let(f"icmp ugt i32 {from_least}, {2 * _MOST_DOUBLINGS}")
    return value, let(f"or i1 {is_other}, {is_beyond}")


def _power_of_positive(r: Real, x: str, y: str) -> str:
    """x ** y for a positive and finite x and any finite y; NaN for a y that is NaN."""
    let = r.code.let
    k, mantissa = exponent_of_any(r, x)
    log2 = _log2(r, mantissa, k)
    doublings = _doublings(r, y, log2[0])
    # Beyond these the result is 0 or infinite, whatever the rest, by underflow or overflow of the last product.
    bounded = r.clamp(doublings, ROUNDER - 160.0, ROUNDER + 140.0)
    value = r.select(r.compare("one", bounded, doublings), r.literal(1.0), _rest(r, y, log2, doublings))
    # In two steps, as 2 ** 128 and 2 ** -127 are not normal. The first is exact.
    k = let(f"sub i32 {let(f'bitcast float {bounded} to i32')}, {ROUNDER_BITS}")
    half = let(f"ashr i32 {k}, 1")
    rest = let(f"sub i32 {k}, {half}")
    return r.mul(r.mul(value, power_of_two(r.code, half)), power_of_two(r.code, rest))


def _power(r: Real, x: str, y: str) -> str:
    """Within 1.6 ulp; 2.5 where a base between 1/2 and 2 has an exponent in the hundreds."""
    size = r.intrinsic("fabs", x)
    # A finite y as good as infinity leaves 1 ** inf at 1.
    bounded = r.clamp(y, -1e30, 1e30)
    result = _power_of_positive(r, size, bounded)
    # 0 and infinity stay or turn into the other one; by a sum, so that y = NaN comes through.
    is_zero, is_infinite = (r.compare("oeq", size, r.literal(value)) for value in (0.0, math.inf))
    inverse = r.select(is_zero, r.literal(math.inf), r.literal(0.0))
    kept_or_turned = r.select(r.compare("olt", y, r.literal(0.0)), inverse, size)
    kept_or_turned = r.add(kept_or_turned, r.mul(bounded, r.literal(0.0)))
    result = r.select(r.code.let(f"or i1 {is_zero}, {is_infinite}"), kept_or_turned, result)
    result = r.select(r.compare("uno", x, x), x, result)
    # A negative base has a result for integral exponents, negative for odd ones.
    whole = r.intrinsic("trunc", y)
    half = r.mul(y, r.literal(0.5))
    is_integral = r.compare("oeq", whole, y)
    is_odd = r.code.let(f"and i1 {is_integral}, {r.compare('une', r.intrinsic('trunc', half), half)}")
    result = r.select(is_odd, r.intrinsic("copysign", result, x), result)
    is_negative = r.compare("olt", x, r.literal(0.0))
    is_finite = r.compare("olt", size, r.literal(math.inf))
    is_fractional = r.compare("one", whole, y)
    undefined = r.code.let(f"and i1 {r.code.let(f'and i1 {is_finite}, {is_fractional}')}, {is_negative}")
    result = r.select(undefined, r.literal(math.nan), result)
    # 1 ** NaN and NaN ** 0 are 1, whatever else.
    is_one = r.code.let(f"or i1 {r.compare('oeq', x, r.literal(1.0))}, {r.compare('oeq', y, r.literal(0.0))}")
    return r.select(is_one, r.literal(1.0), result)


QUICK_POWERS = {"**": _quick_power}
"""The operator on values of a `Real` of float32: the result, and an i1, which is 1 if that may be wrong."""

POWERS = {"**": _power}
"""The same for any float32: the same bits wherever the quick one is right."""
