"""Ops for front ends on integers and truth values, by dtypes of operands: exact, and in those of NumPy."""

import numpy as np
import pytest

from atled.conformance.running import evaluate
from atled_contexts import Context

CPU = Context(["cpu:float"], fallback="raise")
LARGE = 2**53 + np.array([[1, 3, 2], [5, 5, 4]])  # a float64 holds no odd ones
SMALL = np.array([[3, 0, 120], [-3, 120, 7]], np.int8)
TRUTH = np.array([[True, False, True], [True, True, True]])


def computed(name, *arrays, **attributes):
    (y,) = evaluate(
        lambda graph, values: [graph.op(name, *values, **attributes)], arrays, CPU, by_operands=True
    ).results
    return y


@pytest.mark.parametrize(
    ("name", "arrays", "attributes", "expected"),
    [
        ("MaxTies", [LARGE], {"axes": 1}, LARGE.max(axis=1)),
        ("ArgMax", [LARGE], {"axes": 1}, LARGE.argmax(axis=1)),
        ("ArgMin", [SMALL], {}, SMALL.argmin()),
        ("CumSum", [LARGE], {"axis": 1}, LARGE.cumsum(axis=1)),
        ("CumSum", [SMALL], {"axis": 1}, SMALL.cumsum(axis=1)),
        ("CumProd", [SMALL], {"axis": 0, "reverse": True}, np.cumprod(SMALL[::-1], axis=0)[::-1]),
        ("CumSum", [TRUTH], {"axis": 0}, TRUTH.cumsum(axis=0)),
        ("Any", [SMALL], {"axes": 0}, SMALL.any(axis=0)),
        ("All", [TRUTH], {"axes": 1}, TRUTH.all(axis=1)),
        ("All", [SMALL.astype(np.float32)], {"axes": 1}, SMALL.all(axis=1)),
        ("IsEqual", [LARGE, LARGE + np.array([0, 1, 0])], {}, LARGE + np.array([0, 1, 0]) == LARGE),
        ("IsFinite", [SMALL.astype(np.float16)], {}, np.ones((2, 3), bool)),
        ("Where", [TRUTH, LARGE, LARGE + 1], {}, np.where(TRUTH, LARGE, LARGE + 1)),
        ("Where", [TRUTH, SMALL, SMALL.astype(np.float32)], {}, SMALL.astype(np.float32)),
        ("Clip", [LARGE, LARGE[:1], LARGE[:1] + 1], {}, np.clip(LARGE, LARGE[:1], LARGE[:1] + 1)),
        ("MaximumTies", [SMALL, LARGE], {}, np.maximum(SMALL, LARGE)),
        ("Square", [LARGE - 2**53], {}, (LARGE - 2**53) ** 2),
        ("Sgn", [SMALL], {}, np.sign(SMALL)),
        ("Exp2", [SMALL // 30], {}, np.exp2(SMALL // 30)),
        ("LogSumExp", [SMALL], {"axes": 1}, np.log(np.exp(SMALL.astype(np.float64)).sum(axis=1))),
    ],
)
def test_dtype_and_values_are_numpys(name, arrays, attributes, expected):
    y = computed(name, *arrays, **attributes)
    if expected.dtype.kind == "f":
        np.testing.assert_allclose(y, expected, rtol=1e-3 if expected.dtype == np.float16 else 1e-6)
    else:
        assert y.dtype == expected.dtype
        np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("x", [TRUTH, SMALL.astype(np.float32)])
def test_whether_all_are_true_is_computed_natively(x):
    outcome = evaluate(lambda graph, values: [graph.op("All", values[0])], [x], CPU, by_operands=True)
    assert outcome.plan.steps[0].native is not None
    assert outcome.results[0].dtype == bool and outcome.results[0] == x.all()
