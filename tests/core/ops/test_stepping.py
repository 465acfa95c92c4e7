"""Rows whose results jump or meet, on cpu against NumPy: values at the jumps, who gets the gradient there."""

import numpy as np
import pytest

from atled_contexts import Context
from spec_cases import computed, gradients_of

CPU = Context(["cpu:float"], fallback="raise")
X = np.array([-2.5, -1.5, -1.0, -0.5, 0.0, 0.5, 1.5, 2.5, 7.3, np.inf, -np.inf, np.nan], np.float32)


def compute(name, *arrays):
    return computed(name, *(np.asarray(a, np.float32) for a in arrays), context=CPU)[0]


def slopes(name, *arrays):
    return gradients_of(name, *(np.asarray(a, np.float32) for a in arrays), context=CPU)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Rint", np.rint),
        ("Trunc", np.trunc),
        ("Sgn", np.sign),
        ("IsFinite", np.isfinite),
        ("OneWhereFinite", np.isfinite),
        ("Neg", np.negative),
        ("Binarize", lambda x: np.where(x >= 0, 1, -1)),
        ("Square", np.square),
        ("Sqrt", np.sqrt),
        ("SafeLog", lambda x: np.log(np.maximum(x, np.exp(-50)))),
        ("Exp2", np.exp2),
        ("Log2", np.log2),
        ("SigmoidBase2", lambda x: 1 / (1 + np.exp2(-x))),
        ("TanhBase2", lambda x: np.tanh(x * np.log(2))),
    ],
)
def test_rows_of_one_array_are_numpys(name, expected):
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(compute(name, X), expected(X.astype(np.float64)), rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "compare"),
    [
        ("IsEqual", np.equal),
        ("IsNotEqual", np.not_equal),
        ("IsLess", np.less),
        ("IsLessEqual", np.less_equal),
        ("IsGreater", np.greater),
        ("IsGreaterEqual", np.greater_equal),
        ("IsClose", np.isclose),
        ("OneWhereEqual", np.equal),
        ("OneWhereNotEqual", np.not_equal),
        ("OneWhereLess", np.less),
        ("OneWhereLessEqual", np.less_equal),
        ("OneWhereGreater", np.greater),
        ("OneWhereGreaterEqual", np.greater_equal),
    ],
)
def test_comparisons_are_numpys(name, compare):
    x0, x1 = X[:, None], X[None, :] + np.float32(1e-6)
    np.testing.assert_array_equal(compute(name, x0, x1), compare(x0, x1))


def test_a_value_is_rounded_to_a_power_of_two_before_it_shifts():
    b = np.array([1.0, 3.0, -0.3, 0.0, 1e-30, 100.0])
    with np.errstate(divide="ignore"):
        power = np.sign(b) * 2.0 ** np.rint(np.log2(np.maximum(abs(b), np.exp(-50))))
    np.testing.assert_array_equal(compute("ShiftByValue", np.full(6, 3.0), b), (3 * power).astype(np.float32))
    by_x, by_b = slopes("ShiftByValue", np.full(6, 3.0), b)
    np.testing.assert_array_equal(by_x, power.astype(np.float32))
    assert not by_b.any()


@pytest.mark.parametrize("name", ["MaximumTies", "MinimumTies"])
def test_on_a_tie_both_get_the_whole_gradient(name):
    for by_one in slopes(name, np.ones(2), np.ones(2)):
        np.testing.assert_array_equal(by_one, [1, 1])


def test_the_slope_of_a_magnitude_is_0_at_0():
    (gx,) = slopes("Magnitude", [-2.0, 0.0, 2.0])
    np.testing.assert_array_equal(gx, [-1, 0, 1])


def test_clip_passes_gradients_on_the_bounds():
    x, low, high = np.array([-2.0, -1.0, 0.0, 1.0, 2.0]), np.full(5, -1.0), np.full(5, 1.0)
    np.testing.assert_array_equal(compute("Clip", x, low, high), np.clip(x, -1, 1))
    by_x, by_low, by_high = slopes("Clip", x, low, high)
    np.testing.assert_array_equal(by_x, [0, 1, 1, 1, 0])
    np.testing.assert_array_equal(by_low, [1, 0, 0, 0, 0])
    np.testing.assert_array_equal(by_high, [0, 0, 0, 0, 1])
