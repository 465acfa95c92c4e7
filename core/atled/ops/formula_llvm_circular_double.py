"""LLVM IR of the inverse circular functions, and of the hyperbolic ones and their inverses, for float64.

Without branches and calls, so that loops over them run in vectors, within two units in the last place; asinh, acosh and
atanh four. Denormals, infinities and NaN are right. The polynomials are fits of our own, made like those of
`formula_llvm_angles`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from atled.ops.formula_llvm_circular import CIRCULAR_OF_BOTH, from_quarter_turn
from atled.ops.formula_llvm_double import log1p
from atled.ops.formula_llvm_math import Real

# (atan(t) / t - 1) / t**2 in t**2 up to tan(pi / 8)**2, error 2e-18.
_ARCTANGENT = (
    *(-0.01790909543926715, 0.03806610637530317, -0.05039358720443805, 0.058478998553205125),
    *(-0.0666310532243839, 0.0769206031516074, -0.09090897763157312, 0.11111110783673953),
    *(-0.14285714280202652, 0.19999999999953694, -0.333333333333332),
)
_EIGHTH_TURN, _EIGHTH_TURN_REST = math.pi / 4, 3.061616997868383e-17
_FAR = 2.0**60  # from there on the functions of x are those of 2 x and of its logarithm alone


def _atan(r: Real, x: str) -> str:
    # Of |x| up to tan(pi / 8), of (|x| - 1) / (|x| + 1) in the middle, or of 1 / |x|.
    size, one = r.intrinsic("fabs", x), r.literal(1.0)
    is_near = r.compare("olt", size, r.literal(math.tan(math.pi / 8)))
    is_steep = r.compare("ogt", size, r.literal(1 / math.tan(math.pi / 8)))
    above = r.select(is_steep, one, r.select(is_near, size, r.sub(size, one)))
    below = r.select(is_steep, size, r.select(is_near, one, r.add(size, one)))
    ratio = r.div(above, below)
    square = r.mul(ratio, ratio)
    rest = r.mul(r.polynomial(square, _ARCTANGENT), r.mul(square, ratio))
    near = r.add(ratio, rest)
    middle = r.add(r.literal(_EIGHTH_TURN), r.add(ratio, r.add(rest, r.literal(_EIGHTH_TURN_REST))))
    angle = r.select(is_steep, from_quarter_turn(r, ratio, rest), r.select(is_near, near, middle))
    return r.intrinsic("copysign", angle, x)


def _area(r: Real, x: str, less_one: str) -> str:
    """log1p(less_one), or of a large x log(2 x), where squares would overflow."""
    is_far = r.compare("ogt", x, r.literal(_FAR))
    result = log1p(r, r.select(is_far, x, less_one))
    return r.add(result, r.select(is_far, r.literal(math.log(2)), r.literal(0.0)))


def _asinh(r: Real, x: str) -> str:
    size, one = r.intrinsic("fabs", x), r.literal(1.0)
    square = r.mul(size, size)
    root = r.intrinsic("sqrt", r.add(square, one))
    less_one = r.add(size, r.div(square, r.add(root, one)))  # size + root - 1
    return r.intrinsic("copysign", _area(r, size, less_one), x)


def _acosh(r: Real, x: str) -> str:
    one = r.literal(1.0)
    t = r.sub(x, one)
    root = r.intrinsic("sqrt", r.add(r.mul(t, t), r.add(t, t)))
    return r.select(r.compare("olt", x, one), r.literal(math.nan), _area(r, x, r.add(t, root)))


def _atanh(r: Real, x: str) -> str:
    # Half the logarithm of (1 + |x|) / (1 - |x|), which is infinite at 1 and negative beyond.
    size = r.intrinsic("fabs", x)
    less_one = r.div(r.add(size, size), r.sub(r.literal(1.0), size))
    return r.intrinsic("copysign", r.mul(log1p(r, less_one), r.literal(0.5)), x)


CIRCULAR_DOUBLE: dict[str, Callable[[Real, str], str]] = {
    **CIRCULAR_OF_BOTH,
    "atan": _atan,
    "asinh": _asinh,
    "acosh": _acosh,
    "atanh": _atanh,
}
"""The functions by their names in the formula language, on values of a `Real` of float64."""
