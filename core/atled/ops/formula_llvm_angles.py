"""LLVM IR of sine, cosine and tangent for float32, without branches and calls: in float32, or for angles of any size.

Up to LARGEST_SMALL_ANGLE the angle is reduced by Cody and Waite's method and everything computed in float32; a piece of
a row with a larger one takes the other code, which is right for the largest numbers too and four times as slow.

Polynomials without a source are fits of our own: the least maximal relative error of the function over the interval
(least squares on 4000 Chebyshev points, reweighted until the errors are level, after Lawson), each coefficient rounded
to float32 from the lowest power up and the rest fitted again.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

from atled.ops.formula_llvm_math import DOUBLE, FLOAT, ROUNDER, Code, Real

LARGEST_SMALL_ANGLE = 3000.0
"""The largest angle of the quick code; with it the number of quarter turns is below 2**11."""

_Function = Callable[[Real, str], str]

# --- small angles, in float32 ---------------------------------------------------------------------------------------


def _parts_of_quarter_turn() -> tuple[float, ...]:
    """pi / 2 as a sum of 13, 12, 13 and 24 binary digits: 2**11 times the first three is exact in float32."""
    rest = round(math.pi / 2 * 2**52) * 2**24 + round(6.123233995736766e-17 * 2**76)  # pi / 2 in two float64
    parts = []
    for digits in (12, 24, 37, 62):
        part = rest >> (76 - digits) if digits < 62 else round(rest / 2**14)
        parts.append(part / 2.0**digits)
        rest -= part << (76 - digits)
    return tuple(parts)


# (sin(a) / a - 1) / a**2, (cos(a) - 1 + a**2 / 2) / a**4 and (tan(a) / a - 1) / a**2 in a**2 for |a| <= pi / 4: fits
# with errors 4e-9, 1e-10 and 2e-8.
_SINE_FIT = (-0.000195186, 0.008332191, -0.16666655)
_COSINE_FIT = (2.4430661e-05, -0.0013887301, 0.041666646)
_TANGENT_FIT = (0.009477199, 0.002954665, 0.024540782, 0.053377658, 0.13339245, 0.33333138)


def _reduced(r: Real, size: str) -> tuple[str, str, str]:
    """(q, a, b) with size = q * pi / 2 + a + b, |a| about pi / 4 at most: an i32 whose low two bits count, floats.

    b, below half a unit of a, is what a lacks.
    """
    first, second, third, fourth = (r.literal(part) for part in _parts_of_quarter_turn())
    shifted = r.add(r.mul(size, r.literal(2 / math.pi)), r.literal(ROUNDER))
    count = r.sub(shifted, r.literal(ROUNDER))
    exact = r.sub(r.sub(size, r.mul(count, first)), r.mul(count, second))
    product = r.mul(count, third)
    angle = r.sub(exact, product)
    lost = r.sub(r.sub(r.sub(exact, angle), product), r.mul(count, fourth))
    return r.code.let(f"bitcast float {shifted} to i32"), angle, lost


def _sine_of(r: Real, angle: str, square: str, lost: str) -> str:
    return r.add(angle, r.add(r.mul(r.polynomial(square, _SINE_FIT), r.mul(angle, square)), lost))


def _cosine_of(r: Real, angle: str, square: str, lost: str) -> str:
    series = r.sub(r.mul(r.polynomial(square, _COSINE_FIT), square), r.literal(0.5))
    return r.add(r.sub(r.mul(series, square), r.mul(angle, lost)), r.literal(1.0))


def _half_turn_sign(code: Code, quarter: str) -> str:
    """The sign bit of a float where the second bit of the i32 `quarter` is set."""
    return code.let(f"and i32 {code.let(f'shl i32 {quarter}, 30')}, {-(1 << 31)}")


def _with_signs(r: Real, value: str, *signs: str) -> str:
    """`value` with its sign turned where an odd number of `signs` is set."""
    let = r.code.let
    bits = let(f"bitcast float {value} to i32")
    for sign in signs:
        bits = let(f"xor i32 {bits}, {sign}")
    return let(f"bitcast i32 {bits} to float")


def _sign_of(code: Code, x: str) -> str:
    return code.let(f"and i32 {code.let(f'bitcast float {x} to i32')}, {-(1 << 31)}")


def _is_odd(code: Code, number: str) -> str:
    return code.let(f"icmp ne i32 {code.let(f'and i32 {number}, 1')}, 0")


def _sin(r: Real, x: str) -> str:
    quarter, angle, lost = _reduced(r, r.intrinsic("fabs", x))
    square = r.mul(angle, angle)
    sine, cosine = _sine_of(r, angle, square, lost), _cosine_of(r, angle, square, lost)
    value = r.select(_is_odd(r.code, quarter), cosine, sine)
    return _with_signs(r, value, _half_turn_sign(r.code, quarter), _sign_of(r.code, x))


def _cos(r: Real, x: str) -> str:
    quarter, angle, lost = _reduced(r, r.intrinsic("fabs", x))
    square = r.mul(angle, angle)
    sine, cosine = _sine_of(r, angle, square, lost), _cosine_of(r, angle, square, lost)
    value = r.select(_is_odd(r.code, quarter), sine, cosine)
    next_quarter = r.code.let(f"add i32 {quarter}, 1")
    return _with_signs(r, value, _half_turn_sign(r.code, next_quarter))


def _tan(r: Real, x: str) -> str:
    quarter, angle, lost = _reduced(r, r.intrinsic("fabs", x))
    square = r.mul(angle, angle)
    # What is lost counts 1 + tan(a)**2 times, which is near enough to 1 + a**2.
    rest = r.add(r.mul(r.polynomial(square, _TANGENT_FIT), r.mul(angle, square)), r.add(r.mul(lost, square), lost))
    tangent = r.add(angle, rest)
    is_odd = _is_odd(r.code, quarter)
    value = r.select(is_odd, r.div(r.literal(-1.0), tangent), tangent)
    return _with_signs(r, value, _sign_of(r.code, x))


# --- angles of any size, in float64 ---------------------------------------------------------------------------------

# Taylor series on |r| <= pi / 4: the first terms left out are below 1e-12.
_SINE = tuple((-1.0) ** n / math.factorial(2 * n + 1) for n in range(6, -1, -1))
_COSINE = tuple((-1.0) ** n / math.factorial(2 * n) for n in range(7, -1, -1))

# Exponent bits of 0.5, below which an angle is not reduced, and of the largest numbers.
_FIRST_EXPONENT, _LAST_EXPONENT = 126, 254


@functools.cache
def _turns() -> tuple[tuple[int, int, int], ...]:
    """Per exponent the part of a turn that the last digit of a float32 of that exponent is: 96 bits, in three words.

    Method of Payne and Hanek: of m * 2**e / (2 pi), whole turns do not matter, so they are left out before multiplying.
    """
    bits = 400
    one = 1 << bits

    def arctangent_of_inverse(n: int) -> int:
        total, term, k = 0, one // n, 1
        while term:
            total += term // k if k % 4 == 1 else -(term // k)
            term //= n * n
            k += 2
        return total

    pi = 4 * (4 * arctangent_of_inverse(5) - arctangent_of_inverse(239))  # Machin's formula
    words = []
    for exponent in range(_FIRST_EXPONENT, _LAST_EXPONENT + 1):
        # 2**(exponent - 150) is the value of the last digit.
        part = (one << (exponent - 150 + 96)) // (2 * pi) % (1 << 96)
        words.append((part >> 64, part >> 32 & 0xFFFFFFFF, part & 0xFFFFFFFF))
    return tuple(words)


def _table_entry(code: Code, name: str, type: str, values: Sequence[int], place: str) -> str:
    """The entry of a table at `place`."""
    listed = ", ".join(f"{type} {value}" for value in values)
    code.declarations[f"{name} = private unnamed_addr constant [{len(values)} x {type}] [{listed}]"] = None
    address = code.let(f"getelementptr inbounds [{len(values)} x {type}], ptr {name}, i64 0, i64 {place}")
    # In the group of the loop's other loads: LLVM would else have to prove that stores do not change the table.
    return code.let(f"load {type}, ptr {address}, !llvm.access.group !0")


def _quarter_turns(r: Real, x: str) -> tuple[str, str]:
    """(q, angle) with |x| = q * pi / 2 + angle, |angle| <= pi / 4: an i64, whose low two bits count, and a double."""
    code, d = r.code, Real(r.code, DOUBLE)
    let = code.let
    size = r.intrinsic("fabs", x)
    bits = let(f"bitcast float {size} to i32")
    exponent = let(f"lshr i32 {bits}, 23")
    is_small = let(f"icmp ult i32 {exponent}, {_FIRST_EXPONENT}")
    is_large = let(f"icmp ugt i32 {exponent}, {_LAST_EXPONENT}")
    inside = let(f"select i1 {is_small}, i32 {_FIRST_EXPONENT}, i32 {exponent}")
    inside = let(f"select i1 {is_large}, i32 {_LAST_EXPONENT}, i32 {inside}")
    place = let(f"zext i32 {let(f'sub i32 {inside}, {_FIRST_EXPONENT}')} to i64")
    mantissa = let(f"or i32 {let(f'and i32 {bits}, {(1 << 23) - 1}')}, {1 << 23}")
    wide = let(f"zext i32 {mantissa} to i64")
    # Products of 32-bit numbers, which processors have in vectors; of a turn, in 64 bits; overflow is whole turns.
    # Two loads: gathering them costs more than all the arithmetic.
    first = _table_entry(code, "@turns", "i64", [word[0] << 32 | word[1] for word in _turns()], place)
    last = _table_entry(code, "@turns_rest", "i32", [word[2] for word in _turns()], place)
    words = let(f"lshr i64 {first}, 32"), let(f"and i64 {first}, {(1 << 32) - 1}"), let(f"zext i32 {last} to i64")
    high, middle, low = (let(f"mul i64 {wide}, {word}") for word in words)
    turn = let(f"add i64 {let(f'shl i64 {high}, 32')}, {middle}")
    turn = let(f"add i64 {turn}, {let(f'lshr i64 {low}, 32')}")
    quarter = let(f"lshr i64 {let(f'add i64 {turn}, {1 << 61}')}, 62")
    rest = let(f"sub i64 {turn}, {let(f'shl i64 {quarter}, 62')}")
    # In two halves: AVX2 has no conversion from i64.
    upper = let(f"trunc i64 {let(f'lshr i64 {rest}, 32')} to i32")
    lower = let(f"lshr i32 {let(f'trunc i64 {rest} to i32')}, 1")
    upper, lower = (let(f"sitofp i32 {half} to double") for half in (upper, lower))
    unit = 2 * math.pi / 2.0**64
    angle = d.add(d.mul(upper, d.literal(unit * 2.0**32)), d.mul(lower, d.literal(unit * 2)))
    angle = let(f"select i1 {is_small}, double {r.convert(size, DOUBLE)}, double {angle}")
    angle = let(f"select i1 {is_large}, double {d.literal(math.nan)}, double {angle}")
    return let(f"select i1 {is_small}, i64 0, i64 {quarter}"), angle


def _sine_and_cosine(r: Real, x: str) -> tuple[str, str, str]:
    """(q, sine, cosine) of the angle that `_quarter_turns` gives."""
    d = Real(r.code, DOUBLE)
    quarter, angle = _quarter_turns(r, x)
    return quarter, d.mul(angle, d.polynomial(d.mul(angle, angle), _SINE)), d.polynomial(d.mul(angle, angle), _COSINE)


def _is_set(code: Code, number: str, bit: int) -> str:
    return code.let(f"icmp ne i64 {code.let(f'and i64 {number}, {bit}')}, 0")


def _large_sin(r: Real, x: str) -> str:
    d = Real(r.code, DOUBLE)
    quarter, sine, cosine = _sine_and_cosine(r, x)
    value = d.select(_is_set(r.code, quarter, 1), cosine, sine)
    value = d.convert(d.select(_is_set(r.code, quarter, 2), d.neg(value), value), FLOAT)
    return r.mul(value, r.intrinsic("copysign", r.literal(1.0), x))


def _large_cos(r: Real, x: str) -> str:
    d = Real(r.code, DOUBLE)
    quarter, sine, cosine = _sine_and_cosine(r, x)
    value = d.select(_is_set(r.code, quarter, 1), d.neg(sine), cosine)
    return d.convert(d.select(_is_set(r.code, quarter, 2), d.neg(value), value), FLOAT)


def _large_tan(r: Real, x: str) -> str:
    d = Real(r.code, DOUBLE)
    quarter, sine, cosine = _sine_and_cosine(r, x)
    is_odd = _is_set(r.code, quarter, 1)
    value = d.div(d.select(is_odd, d.neg(cosine), sine), d.select(is_odd, sine, cosine))
    return r.mul(d.convert(value, FLOAT), r.intrinsic("copysign", r.literal(1.0), x))


def _is_large(r: Real, x: str) -> str:
    """Whether an angle is not for the code of small ones: infinities are, and NaN is not."""
    return r.compare("ogt", r.intrinsic("fabs", x), r.literal(LARGEST_SMALL_ANGLE))


def _quick(small: _Function) -> Callable[[Real, str], tuple[str, str]]:
    return lambda r, x: (small(r, x), _is_large(r, x))


def _whole(small: _Function, large: _Function) -> _Function:
    return lambda r, x: r.select(_is_large(r, x), large(r, x), small(r, x))


QUICK_ANGLES = {"sin": _quick(_sin), "cos": _quick(_cos), "tan": _quick(_tan)}
"""The functions by their names, on values of a `Real` of float32: the result, and an i1, which is 1 if it is wrong."""

ANGLES = {"sin": _whole(_sin, _large_sin), "cos": _whole(_cos, _large_cos), "tan": _whole(_tan, _large_tan)}
"""The same for any float32: of those that are not large the same bits."""
