"""LLVM IR that converts bfloat16, the upper half of a float32, by integer arithmetic.

LLVM's own conversions call functions on most processors. Two neighbours are converted from one word and into one: the
loop over such pairs has vectors of words, of which a shift and a mask make vectors of floats. Element by element LLVM
would have to spread 16-bit numbers over a vector and pack them again, which takes as long as a sum of two arrays.
"""

from __future__ import annotations

from atled.ops.formula_llvm_math import Real

_UPPER = -0x10000  # the mask of an upper half
_BELOW_HALF = 0x7FFF  # added to the bits that are cut off: just less than half of the last one that stays
_QUIET = 64  # in a NaN: its other digits may all be cut off


def bfloat_to_float(r: Real, value: str) -> str:
    """The float of an i16 that holds a bfloat16."""
    let = r.code.let
    bits = let(f"zext i16 {value} to i32")
    return let(f"bitcast i32 {let(f'shl i32 {bits}, 16')} to float")


def float_to_bfloat(r: Real, value: str, *, plain_nan: bool = False) -> str:
    """The i16 that holds a float rounded to bfloat16, to nearest and even.

    plain_nan: whether the digits that are cut off are 0 in each NaN, as in those of bfloat16 and in those that
        processors make of them and of numbers: then nothing is carried into the sign, and a NaN stays one.
    """
    let = r.code.let
    bits = let(f"bitcast float {value} to i32")
    upper = let(f"lshr i32 {bits}, 16")
    rounded = let(f"lshr i32 {_rounded(r, bits, upper)}, 16")
    if plain_nan:
        return let(f"trunc i32 {rounded} to i16")
    is_nan = let(f"fcmp uno float {value}, {value}")
    quiet = let(f"or i32 {upper}, {_QUIET}")
    return let(f"trunc i32 {let(f'select i1 {is_nan}, i32 {quiet}, i32 {rounded}')} to i16")


def _rounded(r: Real, bits: str, upper: str) -> str:
    """The bits of a float, the upper half of which is rounded; upper: that half before, as an i32."""
    let = r.code.let
    half = let(f"add i32 {let(f'and i32 {upper}, 1')}, {_BELOW_HALF}")
    return let(f"add i32 {bits}, {half}")


def pair_to_floats(r: Real, word: str) -> tuple[str, str]:
    """The floats of an i32 that holds two bfloat16, the first one in its lower half."""
    let = r.code.let
    first, second = let(f"shl i32 {word}, 16"), let(f"and i32 {word}, {_UPPER}")
    return let(f"bitcast i32 {first} to float"), let(f"bitcast i32 {second} to float")


def floats_to_pair(r: Real, first: str, second: str, *, plain_nan: bool = False) -> str:
    """The i32 that holds two floats rounded to bfloat16, to nearest and even, the first one in its lower half."""
    let = r.code.let
    lower = let(f"zext i16 {float_to_bfloat(r, first, plain_nan=plain_nan)} to i32")
    bits = let(f"bitcast float {second} to i32")
    rounded = _rounded(r, bits, let(f"lshr i32 {bits}, 16"))
    if plain_nan:
        return let(f"or i32 {let(f'and i32 {rounded}, {_UPPER}')}, {lower}")
    is_nan = let(f"fcmp uno float {second}, {second}")
    chosen = let(f"select i1 {is_nan}, i32 {let(f'or i32 {bits}, {_QUIET << 16}')}, i32 {rounded}")
    return let(f"or i32 {let(f'and i32 {chosen}, {_UPPER}')}, {lower}")
