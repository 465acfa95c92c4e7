"""LLVM IR of the circular and hyperbolic functions and their inverses for float32, without branches and calls.

All are computed in float64 to about ten digits and rounded once: right to one unit in the last place of float32,
denormals, infinities and NaN included, and sines of the largest numbers too. Straight-line code, so that loops over it
run in vectors; float32 throughout would be up to twice as fast, but needs two-part arithmetic in most of them.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

from atled.ops.formula_llvm_math import DOUBLE, FLOAT, Code, Real, exp_ten_digits, log_ten_digits


def _in_double(compute: Callable[[Real, str], str]) -> Callable[[Real, str], str]:
    """The function of a float32 that `compute` gives for a float64."""

    def function(r: Real, x: str) -> str:
        d = Real(r.code, DOUBLE)
        return d.convert(compute(d, r.convert(x, DOUBLE)), FLOAT)

    return function


def _odd(d: Real, x: str, coefficients: tuple[float, ...]) -> str:
    """x times a polynomial in x**2, highest power first: for a tiny x that is x times the last coefficient."""
    return d.mul(x, d.polynomial(d.mul(x, x), coefficients))


# --- sine, cosine, tangent ------------------------------------------------------------------------------------------

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
    return quarter, _odd(d, angle, _SINE), d.polynomial(d.mul(angle, angle), _COSINE)


def _is_set(code: Code, number: str, bit: int) -> str:
    return code.let(f"icmp ne i64 {code.let(f'and i64 {number}, {bit}')}, 0")


def _sin(r: Real, x: str) -> str:
    d = Real(r.code, DOUBLE)
    quarter, sine, cosine = _sine_and_cosine(r, x)
    value = d.select(_is_set(r.code, quarter, 1), cosine, sine)
    value = d.convert(d.select(_is_set(r.code, quarter, 2), d.neg(value), value), FLOAT)
    return r.mul(value, r.intrinsic("copysign", r.literal(1.0), x))


def _cos(r: Real, x: str) -> str:
    d = Real(r.code, DOUBLE)
    quarter, sine, cosine = _sine_and_cosine(r, x)
    value = d.select(_is_set(r.code, quarter, 1), d.neg(sine), cosine)
    return d.convert(d.select(_is_set(r.code, quarter, 2), d.neg(value), value), FLOAT)


def _tan(r: Real, x: str) -> str:
    d = Real(r.code, DOUBLE)
    quarter, sine, cosine = _sine_and_cosine(r, x)
    is_odd = _is_set(r.code, quarter, 1)
    value = d.div(d.select(is_odd, d.neg(cosine), sine), d.select(is_odd, sine, cosine))
    return r.mul(d.convert(value, FLOAT), r.intrinsic("copysign", r.literal(1.0), x))


# --- their inverses -------------------------------------------------------------------------------------------------

_TANGENT_OF_EIGHTH = math.sqrt(2.0) - 1
# atan(z) / z in u = z**2, on z <= tan(pi / 8), to 1e-10: 1 + u g(u), with g interpolated at Chebyshev's points there.
_ARCTANGENT = (
    *(0.050481385119452764, -0.08624676142741868, 0.11071365021033437),
    *(-0.14284151193535094, 0.19999977258684865, -0.33333333279254773, 1.0),
)


def _atan_of_ratio(d: Real, a: str, b: str) -> str:
    """The angle of the tangent a / b in [0, 1], for b > 0, infinity included: with one division, which costs most."""
    is_steep = d.compare("ogt", a, d.mul(b, d.literal(_TANGENT_OF_EIGHTH)))
    turned = d.div(d.select(is_steep, d.sub(a, b), a), d.select(is_steep, d.add(a, b), b))
    angle = _odd(d, turned, _ARCTANGENT)
    return d.select(is_steep, d.add(angle, d.literal(math.pi / 4)), angle)


def _atan(d: Real, x: str) -> str:
    size, one = d.intrinsic("fabs", x), d.literal(1.0)
    is_steep = d.compare("ogt", size, one)
    angle = _atan_of_ratio(d, d.select(is_steep, one, size), d.select(is_steep, size, one))
    return d.intrinsic("copysign", d.select(is_steep, d.sub(d.literal(math.pi / 2), angle), angle), x)


def _size_and_root(d: Real, x: str) -> tuple[str, str, str]:
    """|x|, 1 + |x|, and the root of 1 - x**2, which is NaN beyond 1."""
    size, one = d.intrinsic("fabs", x), d.literal(1.0)
    above = d.add(one, size)
    return size, above, d.intrinsic("sqrt", d.mul(d.sub(one, size), above))


def _asin(d: Real, x: str) -> str:
    # Twice the angle whose tangent is |x| / (1 + root).
    size, _, root = _size_and_root(d, x)
    half = _atan_of_ratio(d, size, d.add(d.literal(1.0), root))
    return d.intrinsic("copysign", d.add(half, half), x)


def _acos(d: Real, x: str) -> str:
    # Twice the angle whose tangent is root / (1 + |x|); of -|x| it is what is left to half a turn.
    _, above, root = _size_and_root(d, x)
    half = _atan_of_ratio(d, root, above)
    angle = d.add(half, half)
    is_negative = d.compare("olt", x, d.literal(0.0))
    return d.select(is_negative, d.sub(d.literal(math.pi), angle), angle)


# --- hyperbolic functions and their inverses ------------------------------------------------------------------------

# The series of sinh on |x| <= 1, and those of its inverse and of atanh where logarithms lose digits.
_SINH = tuple(1.0 / math.factorial(2 * n + 1) for n in range(6, -1, -1))
_ASINH = (-15 / 336, 3 / 40, -1 / 6, 1.0)
_ATANH = (1 / 9, 1 / 7, 1 / 5, 1 / 3, 1.0)
_NEAR_0 = 1 / 32


def _near_0(d: Real, x: str, limit: float, series: tuple[float, ...], beyond: str) -> str:
    """The odd function with this series up to the limit; `beyond` it, where that is its value for |x|."""
    is_near = d.compare("olt", d.intrinsic("fabs", x), d.literal(limit))
    return d.select(is_near, _odd(d, x, series), d.intrinsic("copysign", beyond, x))


def _half_exponentials(d: Real, x: str) -> tuple[str, str]:
    """exp(|x|) / 2 and exp(-|x|) / 2."""
    grown = exp_ten_digits(d, d.intrinsic("fabs", x))
    return d.mul(grown, d.literal(0.5)), d.div(d.literal(0.5), grown)


def _sinh(d: Real, x: str) -> str:
    grown, fallen = _half_exponentials(d, x)
    return _near_0(d, x, 1.0, _SINH, d.sub(grown, fallen))


def _cosh(d: Real, x: str) -> str:
    return d.add(*_half_exponentials(d, x))


def _asinh(d: Real, x: str) -> str:
    size = d.intrinsic("fabs", x)
    root = d.intrinsic("sqrt", d.add(d.mul(size, size), d.literal(1.0)))
    return _near_0(d, x, _NEAR_0, _ASINH, log_ten_digits(d, d.add(size, root)))


def _acosh(d: Real, x: str) -> str:
    root = d.intrinsic("sqrt", d.sub(d.mul(x, x), d.literal(1.0)))
    result = log_ten_digits(d, d.add(x, root))
    return d.select(d.compare("olt", x, d.literal(1.0)), d.literal(math.nan), result)


def _atanh(d: Real, x: str) -> str:
    size, one = d.intrinsic("fabs", x), d.literal(1.0)
    logarithm = log_ten_digits(d, d.div(d.add(one, size), d.sub(one, size)))
    result = _near_0(d, x, _NEAR_0, _ATANH, d.mul(logarithm, d.literal(0.5)))
    return d.select(d.compare("ogt", size, one), d.literal(math.nan), result)


CIRCULAR: dict[str, Callable[[Real, str], str]] = {
    "sin": _sin,
    "cos": _cos,
    "tan": _tan,
    **{
        name: _in_double(compute)
        for name, compute in {
            "atan": _atan,
            "asin": _asin,
            "acos": _acos,
            "sinh": _sinh,
            "cosh": _cosh,
            "asinh": _asinh,
            "acosh": _acosh,
            "atanh": _atanh,
        }.items()
    },
}
"""The functions by their names in the formula language, on values of a `Real` of float32."""
