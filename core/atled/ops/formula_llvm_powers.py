"""LLVM IR of powers, without branches and calls: 2 ** (y log2(x)), of a logarithm with more digits than its type.

For a normal base and a normal result there is a quick form; a piece of a row with other elements takes the whole
form, which knows the special cases of C99 (F.9.4.4) and gives the ordinary ones the same bits. Those of float64 are for
processors with fused multiply-add.

The polynomials are fits of our own, made like those of `formula_llvm_angles`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

from atled.named_tuple import NamedTuple
from atled.ops import formula_llvm_double
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

# --- the logarithm of float32 ---------------------------------------------------------------------------------------

# log2(1 + t) = t (c1 + t (c2 + t (c3 + t q(t)))), q for sqrt(1/2) - 1 <= t <= sqrt(2) - 1: error 2e-10 of the
# logarithm. c1 and c2, 1 / ln 2 and -1/2 of it, are pairs of floats.
_LOG2 = (
    *(-0.08973353, 0.15537474, -0.15537952, 0.1587405, -0.17929792),
    *(0.20613192, -0.240487, 0.28853884, -0.3606733),
)
_THIRD = 0.48089835047721863
_SECOND, _SECOND_LOW = -0.7213475108146667, -9.629814955646951e-09
_FIRST, _FIRST_LOW = 1.4426950216293335, 1.9259629911293902e-08


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


# --- the logarithm of float64 ---------------------------------------------------------------------------------------

# log2((1 + s) / (1 - s)) = s (c1 + s**2 (c3 + s**2 q(s**2))), q where the quotient lies between sqrt(1/2) and sqrt(2):
# error 1e-20 of the logarithm. c1 and c3, 2 / ln 2 and a third of it, are pairs.
_LOG2_OF_QUOTIENT = (
    *(0.19038275329003448, 0.19125542157674544, 0.2219839879916785, 0.26230770129971503),
    *(0.32059890227210497, 0.41219858309194446, 0.577078016355618),
)
_QUOTIENT_THIRD, _QUOTIENT_THIRD_LOW = 0.9617966939259756, 5.0577616648125907e-17
_QUOTIENT_FIRST, _QUOTIENT_FIRST_LOW = 2.8853900817779268, 4.0710547481862066e-17


def _product(r: Real, a: tuple[str, str], b: tuple[str, str]) -> tuple[str, str]:
    """The product of two pairs as a pair."""
    high = r.code.let(f"fmul {r.type} {a[0]}, {b[0]}")  # not to be contracted into the sum it goes to
    low = r.intrinsic("fma", a[0], b[0], r.neg(high))
    return high, r.add(r.add(low, r.mul(a[0], b[1])), r.mul(a[1], b[0]))


def _log2_double(r: Real, mantissa: str, k: str) -> tuple[str, str]:
    """The same for float64, twenty digits."""
    one = r.literal(1.0)
    # s = (m - 1) / (m + 1): the rest of the division is exact, but for what rounding m + 1 took from it.
    numerator, denominator = r.sub(mantissa, one), r.add(mantissa, one)
    lost = r.sub(mantissa, r.sub(denominator, one))
    inverse = r.div(one, denominator)
    quotient = r.code.let(f"fmul {r.type} {numerator}, {inverse}")
    rest = r.intrinsic("fma", r.neg(quotient), denominator, numerator)
    s = quotient, r.mul(r.sub(rest, r.mul(quotient, lost)), inverse)
    square = _product(r, s, s)
    series = r.short_polynomial(square[0], _LOG2_OF_QUOTIENT)
    third, third_low = _step(r, square[0], series, r.literal(_QUOTIENT_THIRD))
    high, low = _product(r, square, (third, r.add(third_low, r.literal(_QUOTIENT_THIRD_LOW))))
    # Each sum begins with the larger number, so that the difference which gives its rest is exact.
    first = r.add(r.literal(_QUOTIENT_FIRST), high)
    low = r.add(low, r.literal(_QUOTIENT_FIRST_LOW))
    first_low = r.add(r.add(r.sub(r.literal(_QUOTIENT_FIRST), first), high), low)
    high, low = _product(r, s, (first, first_low))
    total = r.add(k, high)
    return total, r.add(r.add(r.sub(k, total), high), low)


# --- powers ---------------------------------------------------------------------------------------------------------


def _float_exponent(r: Real, x: str) -> tuple[str, str]:
    k, mantissa = exponent(r.code, x)
    return r.code.let(f"sitofp i32 {k} to float"), mantissa


class _Kind(NamedTuple):
    """What depends on the type.

    bits, digits: of a number, and of its mantissa behind the point.  rounder, rounder_bits: as ROUNDER.
    normal, infinity: bits of the first normal number, and of infinity.
    exponent, exponent_of_any: (k, m) of a normal number, and of any positive one; k a float.
    log2: (mantissa, k) -> log2(mantissa * 2 ** k) as a sum of two.  exp2: (2 ** r - 1) / r for |r| <= 1/2.
    most_doublings: either way; of a number from sqrt(1/2) to sqrt(2) the results are normal.
    beyond: doublings by which results are 0 or infinite, the two limits.
    large: an exponent that leaves no base but 1 a result between these.
    """

    bits: int
    digits: int
    rounder: float
    rounder_bits: int
    normal: int
    infinity: int
    exponent: Callable[[Real, str], tuple[str, str]]
    exponent_of_any: Callable[[Real, str], tuple[str, str]]
    power_of_two: Callable[..., str]
    log2: Callable[[Real, str, str], tuple[str, str]]
    exp2: Sequence[float]
    most_doublings: int
    beyond: tuple[float, float]
    large: float


_KINDS = {
    FLOAT: _Kind(
        *(32, 23, ROUNDER, ROUNDER_BITS, 1 << 23, 0xFF << 23),
        *(_float_exponent, exponent_of_any, power_of_two, _log2, EXP2, 125, (-160.0, 140.0), 1e30),
    ),
    DOUBLE: _Kind(
        *(64, 52, formula_llvm_double.ROUNDER, formula_llvm_double.ROUNDER_BITS, 1 << 52, 0x7FF << 52),
        *(formula_llvm_double.exponent, formula_llvm_double.exponent_of_any, formula_llvm_double.power_of_two),
        *(_log2_double, formula_llvm_double.EXP2, 1021, (-1100.0, 1030.0), 1e300),
    ),
}


def _doublings(r: Real, y: str, log2: str) -> str:
    """The whole number next to y * log2, plus the rounder."""
    return r.add(r.mul(y, log2), r.literal(_KINDS[r.type].rounder))


def _rest(r: Real, y: str, log2: tuple[str, str], doublings: str) -> str:
    """2 ** (y * log2 - doublings), from sqrt(1/2) to sqrt(2)."""
    kind = _KINDS[r.type]
    rest = _exact_sum(r, y, log2[0], r.sub(r.literal(kind.rounder), doublings))
    rest = r.add(rest, r.mul(y, log2[1]))
    # In halves the longer one of float64 would need more registers than there are.
    series = r.short_polynomial if r.type == FLOAT else r.polynomial
    return r.add(r.mul(rest, series(rest, kind.exp2)), r.literal(1.0))


class ShortPowers(NamedTuple):
    """Exponents, one for all elements, whose powers need no logarithm, and the loop that computes them.

    Each form takes the exponents of the one before as well, and gives them the same bits.
    """

    loop: str
    exponents: tuple[float, ...]
    divides: bool
    roots: bool

    def takes(self, r: Real, y: str) -> str:
        """An i1: whether y is one of the exponents."""
        return _is_any(r, y, self.exponents)

    def power(self, r: Real, x: str, y: str) -> str:
        """x ** y for any x and an exponent that it takes: by products to 1 ulp, by a quotient and roots to 3."""
        base, count = x, y
        if self.roots:
            # C99 has the infinite and -0 like those without the sign; other negative ones have no root.
            is_lowest = r.compare("oeq", x, r.literal(-math.inf))
            root = r.intrinsic("fabs", r.intrinsic("sqrt", r.select(is_lowest, r.literal(math.inf), x)))
            is_root = _is_any(r, y, _HALVES)
            base = r.select(is_root, root, x)
            count = r.select(is_root, r.add(y, y), y)
        if self.divides:
            base = r.select(r.compare("olt", y, r.literal(0.0)), r.div(r.literal(1.0), base), base)
            count = r.intrinsic("fabs", count)
        square = r.mul(base, base)
        result = r.select(r.compare("oeq", count, r.literal(2.0)), square, r.mul(square, base))
        return r.select(r.compare("oeq", count, r.literal(1.0)), base, result)


_HALVES = (-1.5, -0.5, 0.5, 1.5)
_QUOTIENTS = (-3.0, -2.0, -1.0)
_PRODUCTS = (1.0, 2.0, 3.0)
SHORT_POWERS = (
    ShortPowers("products", _PRODUCTS, divides=False, roots=False),
    ShortPowers("quotients", _PRODUCTS + _QUOTIENTS, divides=True, roots=False),
    ShortPowers("roots", _PRODUCTS + _QUOTIENTS + _HALVES, divides=True, roots=True),
)


def _is_any(r: Real, y: str, numbers: Sequence[float]) -> str:
    results = [r.compare("oeq", y, r.literal(number)) for number in numbers]
    return functools.reduce(lambda a, b: r.code.let(f"or i1 {a}, {b}"), results)


def _quick_power(r: Real, x: str, y: str) -> tuple[str, str]:
    """The power, and whether it may be wrong: where x is not positive and normal, or the result not normal."""
    let, kind = r.code.let, _KINDS[r.type]
    whole = f"i{kind.bits}"
    k, mantissa = kind.exponent(r, x)
    log2 = kind.log2(r, mantissa, k)
    doublings = _doublings(r, y, log2[0])
    bits = let(f"bitcast {r.type} {doublings} to {whole}")
    value = let(f"bitcast {r.type} {_rest(r, y, log2, doublings)} to {whole}")
    exponent_bits = let(f"shl {whole} {bits}, {kind.digits}")
    value = let(f"bitcast {whole} {let(f'add {whole} {value}, {exponent_bits}')} to {r.type}")
    x_bits = let(f"bitcast {r.type} {x} to {whole}")
    from_normal = let(f"sub {whole} {x_bits}, {kind.normal}")
    is_other = let(f"icmp uge {whole} {from_normal}, {kind.infinity - kind.normal}")
    # Of a y that is NaN or infinite the bits are far away.
    from_least = let(f"sub {whole} {bits}, {kind.rounder_bits - kind.most_doublings}")
    is_beyond = let(f"icmp ugt {whole} {from_least}, {2 * kind.most_doublings}")
    return value, let(f"or i1 {is_other}, {is_beyond}")


def _power_of_positive(r: Real, x: str, y: str) -> str:
    """x ** y for a positive and finite x and any finite y; NaN for a y that is NaN."""
    let, kind = r.code.let, _KINDS[r.type]
    whole = f"i{kind.bits}"
    k, mantissa = kind.exponent_of_any(r, x)
    log2 = kind.log2(r, mantissa, k)
    doublings = _doublings(r, y, log2[0])
    # Beyond these the result is 0 or infinite, whatever the rest, by underflow or overflow of the last product.
    bounded = r.clamp(doublings, *(kind.rounder + limit for limit in kind.beyond))
    value = r.select(r.compare("one", bounded, doublings), r.literal(1.0), _rest(r, y, log2, doublings))
    # In two steps, as the largest powers of two are not normal. The first is exact.
    k = let(f"sub {whole} {let(f'bitcast {r.type} {bounded} to {whole}')}, {kind.rounder_bits}")
    half = let(f"ashr {whole} {k}, 1")
    rest = let(f"sub {whole} {k}, {half}")
    return r.mul(r.mul(value, kind.power_of_two(r.code, half)), kind.power_of_two(r.code, rest))


def _power(r: Real, x: str, y: str) -> str:
    """Of float32 within 1.6 ulp; 2.5 where a base between 1/2 and 2 has an exponent in the hundreds. Of float64 1.3."""
    size = r.intrinsic("fabs", x)
    # A finite y as good as infinity leaves 1 ** inf at 1.
    large = _KINDS[r.type].large
    bounded = r.clamp(y, -large, large)
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
"""The operator on values of a `Real`: the result, and an i1, which is 1 if that may be wrong."""

POWERS = {"**": _power}
"""The same for any numbers: the same bits wherever the quick one is right."""
