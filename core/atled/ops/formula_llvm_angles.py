"""LLVM IR of sine, cosine and tangent, without branches and calls for all but large angles.

Up to LARGEST_SMALL_ANGLE of its type an angle is reduced by Cody and Waite's method. A piece of a row with a larger one
takes the other code, which is right for the largest numbers too: for float32 it computes in float64 and takes four
times as long, for float64 it calls the C library.

Within two units in the last place, tangents of float64 three.

Polynomials without a source are fits of our own: the least maximal relative error of the function over the interval
(least squares on Chebyshev points, reweighted until the errors are level, after Lawson), each coefficient rounded to
the type from the lowest power up and the rest fitted again.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from atled.named_tuple import NamedTuple
from atled.ops.formula_llvm_large_angles import large_cos, large_sin, large_tan
from atled.ops.formula_llvm_math import DOUBLE, FLOAT, ROUNDER, Real, call_function

_Function = Callable[[Real, str], str]

LARGEST_SMALL_ANGLE = {FLOAT: 3000.0, DOUBLE: 1e6}
"""The largest angle of the quick code, by type: so many quarter turns, below 2**11 and 2**20, are counted exactly."""

_PI = 0x3243F6A8885A308D313198A2E03707344A4093822299F31D008  # pi times 2**200


def _parts_of_quarter_turn(*places: int) -> tuple[float, ...]:
    """pi / 2 as a sum of four, the first three cut off after so many binary digits behind the point."""
    rest, bits, parts = _PI, 201, []
    for place in places:
        part = rest >> (bits - place)
        parts.append(part / 2.0**place)
        rest -= part << (bits - place)
    return (*parts, rest / 2.0**bits)


class _Kind(NamedTuple):
    """What depends on the type of the angle.

    parts: pi / 2 as a sum. The differences from the first two are exact, and so are their products and those of the
        third with the largest number of quarter turns.
    sine, cosine: (sin(a) / a - 1) / a**2 and (cos(a) - 1 + a**2 / 2) / a**4 in a**2 for |a| <= pi / 4.
    bits: of the type.  rounder: as ROUNDER.
    """

    parts: tuple[float, ...]
    sine: tuple[float, ...]
    cosine: tuple[float, ...]
    bits: int
    rounder: float


_KINDS = {
    # Errors of the fits: 4e-9 and 1e-10; 4e-18 and 6e-20.
    FLOAT: _Kind(
        _parts_of_quarter_turn(12, 24, 37),
        (-0.000195186, 0.008332191, -0.16666655),
        (2.4430661e-05, -0.0013887301, 0.041666646),
        32,
        ROUNDER,
    ),
    DOUBLE: _Kind(
        _parts_of_quarter_turn(32, 52, 85),
        (
            *(1.589589471681197e-10, -2.5050741407439862e-08, 2.755731357613342e-06),
            *(-0.00019841269829441122, 0.008333333333321901, -0.1666666666666663),
        ),
        (
            *(-1.135875521502339e-11, 2.0875705505953904e-09, -2.7557314217775234e-07),
            *(2.4801587289004193e-05, -0.0013888888888873344, 0.041666666666666595),
        ),
        64,
        1.5 * 2.0**52,
    ),
}
# (tan(a) / a - 1) / a**2 in a**2 for float32 and |a| <= pi / 4: a fit with error 2e-8.
_TANGENT_FIT = (0.009477199, 0.002954665, 0.024540782, 0.053377658, 0.13339245, 0.33333138)


def _reduced(r: Real, size: str) -> tuple[str, str, str]:
    """(q, a, b) with size = q * pi / 2 + a + b, |a| about pi / 4 at most: an integer whose low two bits count, floats.

    b, below half a unit of a, is what a lacks.
    """
    kind = _KINDS[r.type]
    first, second, third, fourth = map(r.literal, kind.parts)
    shifted = r.add(r.mul(size, r.literal(2 / math.pi)), r.literal(kind.rounder))
    count = r.sub(shifted, r.literal(kind.rounder))
    exact = r.sub(r.sub(size, r.mul(count, first)), r.mul(count, second))
    product = r.mul(count, third)
    angle = r.sub(exact, product)
    lost = r.sub(r.sub(r.sub(exact, angle), product), r.mul(count, fourth))
    return r.code.let(f"bitcast {r.type} {shifted} to i{kind.bits}"), angle, lost


def _sine_and_cosine(r: Real, size: str) -> tuple[str, str, str]:
    """(q, sine, cosine) of the angle that `_reduced` gives."""
    kind = _KINDS[r.type]
    quarter, angle, lost = _reduced(r, size)
    square = r.mul(angle, angle)
    sine = r.add(angle, r.add(r.mul(r.polynomial(square, kind.sine), r.mul(angle, square)), lost))
    series = r.sub(r.mul(r.polynomial(square, kind.cosine), square), r.literal(0.5))
    cosine = r.add(r.sub(r.mul(series, square), r.mul(angle, lost)), r.literal(1.0))
    return quarter, sine, cosine


def _with_signs(r: Real, value: str, *signs: str) -> str:
    """`value` with its sign turned where the highest bit of an odd number of `signs`, integers, is set."""
    let, bits = r.code.let, _KINDS[r.type].bits
    turned = signs[0]
    for sign in signs[1:]:
        turned = let(f"xor i{bits} {turned}, {sign}")
    turned = let(f"and i{bits} {turned}, {-(1 << (bits - 1))}")
    turned = let(f"xor i{bits} {let(f'bitcast {r.type} {value} to i{bits}')}, {turned}")
    return let(f"bitcast i{bits} {turned} to {r.type}")


def _half_turn_sign(r: Real, quarter: str) -> str:
    """Its highest bit is the second one of `quarter`."""
    bits = _KINDS[r.type].bits
    return r.code.let(f"shl i{bits} {quarter}, {bits - 2}")


def _sign_of(r: Real, x: str) -> str:
    return r.code.let(f"bitcast {r.type} {x} to i{_KINDS[r.type].bits}")


def _is_odd(r: Real, number: str) -> str:
    bits = _KINDS[r.type].bits
    return r.code.let(f"icmp ne i{bits} {r.code.let(f'and i{bits} {number}, 1')}, 0")


def _sin(r: Real, x: str) -> str:
    quarter, sine, cosine = _sine_and_cosine(r, r.intrinsic("fabs", x))
    value = r.select(_is_odd(r, quarter), cosine, sine)
    return _with_signs(r, value, _half_turn_sign(r, quarter), _sign_of(r, x))


def _cos(r: Real, x: str) -> str:
    quarter, sine, cosine = _sine_and_cosine(r, r.intrinsic("fabs", x))
    value = r.select(_is_odd(r, quarter), sine, cosine)
    next_quarter = r.code.let(f"add i{_KINDS[r.type].bits} {quarter}, 1")
    return _with_signs(r, value, _half_turn_sign(r, next_quarter))


def _tan(r: Real, x: str) -> str:
    if r.type == DOUBLE:
        return _tan_of_quotient(r, x)
    quarter, angle, lost = _reduced(r, r.intrinsic("fabs", x))
    square = r.mul(angle, angle)
    # What is lost counts 1 + tan(a)**2 times, which is near enough to 1 + a**2.
    rest = r.add(r.mul(r.polynomial(square, _TANGENT_FIT), r.mul(angle, square)), r.add(r.mul(lost, square), lost))
    tangent = r.add(angle, rest)
    value = r.select(_is_odd(r, quarter), r.div(r.literal(-1.0), tangent), tangent)
    return _with_signs(r, value, _sign_of(r, x))


def _tan_of_quotient(r: Real, x: str) -> str:
    """For float64: a fit would have more coefficients than those of sine and cosine together."""
    quarter, sine, cosine = _sine_and_cosine(r, r.intrinsic("fabs", x))
    is_odd = _is_odd(r, quarter)
    value = r.div(r.select(is_odd, r.neg(cosine), sine), r.select(is_odd, sine, cosine))
    return _with_signs(r, value, _sign_of(r, x))


def _is_large(r: Real, x: str) -> str:
    """Whether an angle is not for the code of small ones: infinities are, and NaN is not."""
    return r.compare("ogt", r.intrinsic("fabs", x), r.literal(LARGEST_SMALL_ANGLE[r.type]))


def _quick(small: _Function) -> Callable[[Real, str], tuple[str, str]]:
    return lambda r, x: (small(r, x), _is_large(r, x))


def _whole(op: str, small: _Function, large: _Function) -> _Function:
    def whole(r: Real, x: str) -> str:
        other = large(r, x) if r.type == FLOAT else call_function(r, op, [x])
        return r.select(_is_large(r, x), other, small(r, x))

    return whole


QUICK_ANGLES = {"sin": _quick(_sin), "cos": _quick(_cos), "tan": _quick(_tan)}
"""The functions by their names, on values of a `Real`: the result, and an i1, which is 1 if it is wrong."""

ANGLES = {
    "sin": _whole("sin", _sin, large_sin),
    "cos": _whole("cos", _cos, large_cos),
    "tan": _whole("tan", _tan, large_tan),
}
"""The same for numbers of any size: of those that are not large the same bits."""
