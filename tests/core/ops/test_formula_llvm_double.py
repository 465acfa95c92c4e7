"""Functions of float64 against extended precision: the errors that the modules of the writer state are upper bounds."""

import numpy as np
import pytest
from tests.core.ops.test_formula_llvm import one_input, run

pytest.importorskip("llvmlite.binding", reason="llvmlite, which builds the kernels, is not installed")
pytestmark = pytest.mark.skipif(
    np.finfo(np.longdouble).nmant < 63, reason="NumPy has no more digits than float64 on this processor"
)


def erf(x):
    """By a series of positive terms, which loses no digits; erf(6) is 1 to all digits of extended precision."""
    size = np.minimum(np.abs(x), 6.0)
    term = total = size
    for n in range(1, 200):
        term = term * (2 * size * size) / (2 * n + 1)
        total = total + term
    return np.copysign(total * np.exp(-size * size) / np.sqrt(np.arctan(np.longdouble(1))), x)


# Of each function the intervals that arguments are drawn from, NumPy's one, and the bound in units in the last place.
FUNCTIONS = {
    "exp": ([(-745, 709.7), (-2, 2), (-745, -708)], np.exp, 2),
    "exp2": ([(-1074, 1023.9), (-2, 2)], np.exp2, 2),
    "expm1": ([(-40, 709.7), (-2, 2), (0.34, 0.37)], np.expm1, 4),
    "sigmoid": ([(-740, 60), (-5, 5)], lambda x: 1 / (1 + np.exp(-x)), 4),
    "tanh": ([(-22, 22), (-1, 1)], np.tanh, 4),
    "log": ([(0.4, 3), (0.99, 1.01), (0, 1e300)], np.log, 2),
    "log2": ([(0.4, 3), (0.99, 1.01), (0, 1e300)], np.log2, 2),
    "log1p": ([(-1, 3), (-0.01, 0.01), (0, 1e300)], np.log1p, 2),
    "sin": ([(-100, 100), (-1e6, 1e6)], np.sin, 2),
    "cos": ([(-100, 100), (-1e6, 1e6)], np.cos, 2),
    "tan": ([(-100, 100), (-1e6, 1e6), (0.7, 0.9)], np.tan, 3),
    "asin": ([(-1, 1)], np.arcsin, 2),
    "acos": ([(-1, 1)], np.arccos, 2),
    "atan": ([(-10, 10), (-1e10, 1e10)], np.arctan, 2),
    "sinh": ([(-710, 710), (-2, 2)], np.sinh, 2),
    "cosh": ([(-710, 710), (-2, 2)], np.cosh, 2),
    "asinh": ([(-10, 10), (-1e300, 1e300)], np.arcsinh, 3),
    "acosh": ([(1, 10), (1, 1.01), (1, 1e300)], np.arccosh, 3),
    "atanh": ([(-1, 1)], np.arctanh, 3),
    "erf": ([(-6, 6), (-1, 1), (-1e300, 1e300)], erf, 2.5),
}


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_errors_are_within_what_is_stated(name, fused):
    intervals, function, bound = FUNCTIONS[name]
    rng = np.random.default_rng(11)
    x = np.concatenate([rng.uniform(low, high, 40000) for low, high in intervals])
    near_zero = np.exp(rng.uniform(-40, 0, 20000)) * rng.choice([-1, 1], 20000)
    x = np.concatenate([x, near_zero[(near_zero > intervals[0][0]) & (near_zero < intervals[0][1])]])
    (y,) = run(one_input(f"{name}(x)"), [x, np.empty_like(x)], fused_instructions=fused)
    with np.errstate(all="ignore"):
        exact = function(x.astype(np.longdouble))
        rounded = exact.astype(np.float64)
        error = np.abs(y - exact) / np.spacing(np.abs(rounded))
    finite = np.isfinite(rounded)
    np.testing.assert_array_equal(y[~finite], rounded[~finite])
    assert error[finite].max() <= bound, x[finite][error[finite].argmax()]


def test_erf_of_zeros_denormals_infinities_and_nan():
    x = np.array([0.0, -0.0, 5e-324, -3e-310, 2.0**-1022, np.inf, -np.inf, 5.95, np.nan])
    (y,) = run(one_input("erf(x)"), [x, np.empty_like(x)])
    exact = [0.0, -0.0, 5e-324, -3.3851375012865e-310, 2.5107269871883543e-308, 1.0, -1.0, 1.0, np.nan]
    np.testing.assert_array_equal(y, exact)
    assert np.signbit(y[1])
