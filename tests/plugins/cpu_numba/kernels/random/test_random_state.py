"""Random numbers and dropout: the same as the reference's, number by number."""

import numpy as np
import pytest

from atled.ops.spec import SPECS
from atled_cpu_numba.kernels.random import random_state as kernels

COUNTS = [(0,), (1,), (2,), (3,), (4,), (5, 7), (3, 1, 67), (1000,)]
RANDOM_STATES = [(0, 0), (7, 3), (-2, 1 << 40), (np.iinfo(np.int64).min, -1)]

all_counts = pytest.mark.parametrize("shape", COUNTS, ids=str)
both_dtypes = pytest.mark.parametrize("dtype", ["float32", "float64"])


def drawn(run, name, random_state, shape, dtype, parts, floats=None, **attributes):
    y = np.full(shape, 77, dtype)
    assert run(kernels, name, [random_state], [y], parts=parts, floats=floats, shape=shape, **attributes) == 0
    return y


@pytest.mark.parametrize("random_state", RANDOM_STATES, ids=str)
@all_counts
@both_dtypes
def test_rand(run, parts, shape, random_state, dtype):
    random_state, bounds = np.array(random_state), {"low": -0.3, "high": 1.7}
    found = drawn(run, "Rand", random_state, shape, dtype, parts, bounds)
    expected = SPECS["Rand"].reference(random_state, **bounds, shape=shape, seed=0, dtype=np.dtype(dtype))
    np.testing.assert_array_equal(found, expected)


@all_counts
@pytest.mark.parametrize("bounds", [(-3, 4), (-(2**31), 2**31), (5, 6)], ids=str)
def test_randint(run, parts, shape, bounds):
    random_state, (low, high) = np.array([9, 2]), bounds
    found = drawn(run, "Randint", random_state, shape, "int32", parts, low=low, high=high)
    np.testing.assert_array_equal(
        found, SPECS["Randint"].reference(random_state, low=low, high=high, shape=shape, seed=0)
    )


@pytest.mark.parametrize("p", [0.0, 0.3, 0.5, 1 - 2.0**-25])
@all_counts
@both_dtypes
def test_dropout(run, parts, shape, dtype, p):
    random_state, x = np.array([-5, 11]), np.random.default_rng(0).standard_normal(shape).astype(dtype)
    y, mask = np.full(shape, np.nan, dtype), np.full(shape, np.nan, dtype)
    assert run(kernels, "Dropout", [x, random_state], [y, mask], parts=parts, floats={"p": p}) == 0
    expected = SPECS["Dropout"].reference(x, random_state, p=p, seed=0)
    np.testing.assert_array_equal(y, expected[0])
    np.testing.assert_array_equal(mask, expected[1])


def test_half_is_refused(make_call):
    x, random_state = np.zeros(3, np.float16), np.zeros(2, np.int64)
    assert kernels.accepts(make_call("Dropout", [x, random_state], [x, x])) == "takes float32 or float64, not float16"
    assert kernels.accepts(make_call("Rand", [random_state], [x])) == "takes float32 or float64, not float16"
