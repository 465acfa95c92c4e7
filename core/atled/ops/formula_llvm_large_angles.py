"""LLVM IR of sine, cosine and tangent for float32 of any size, in float64, without branches and calls."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

from atled.ops.formula_llvm_math import DOUBLE, FLOAT, Code, Real

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


def large_sin(r: Real, x: str) -> str:
    """Sine of a float32 of any size; NaN of an infinite one."""
    d = Real(r.code, DOUBLE)
    quarter, sine, cosine = _sine_and_cosine(r, x)
    value = d.select(_is_set(r.code, quarter, 1), cosine, sine)
    value = d.convert(d.select(_is_set(r.code, quarter, 2), d.neg(value), value), FLOAT)
    return r.mul(value, r.intrinsic("copysign", r.literal(1.0), x))


def large_cos(r: Real, x: str) -> str:
    """Cosine of a float32 of any size; NaN of an infinite one."""
    d = Real(r.code, DOUBLE)
    quarter, sine, cosine = _sine_and_cosine(r, x)
    value = d.select(_is_set(r.code, quarter, 1), d.neg(sine), cosine)
    return d.convert(d.select(_is_set(r.code, quarter, 2), d.neg(value), value), FLOAT)


def large_tan(r: Real, x: str) -> str:
    """Tangent of a float32 of any size; NaN of an infinite one."""
    d = Real(r.code, DOUBLE)
    quarter, sine, cosine = _sine_and_cosine(r, x)
    is_odd = _is_set(r.code, quarter, 1)
    value = d.div(d.select(is_odd, d.neg(cosine), sine), d.select(is_odd, sine, cosine))
    return r.mul(d.convert(value, FLOAT), r.intrinsic("copysign", r.literal(1.0), x))
