"""Casts to int64 on backend cpu."""

import numpy as np
import pytest

from atled.conformance.running import call
from atled.ops.spec import SPECS
from atled_contexts import Context


def cast(array):
    outcome = call(SPECS["Cast"], [array], {"dtype": np.int64}, Context(["cpu:float"], fallback="raise"))
    (step,) = outcome.plan.steps
    assert step.native is not None
    return outcome.results[0]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8", "bool"])
@pytest.mark.parametrize("shape", [(), (0,), (1000, 3)])
def test_values_are_those_of_numpy(dtype, shape):
    array = (np.random.default_rng(0).standard_normal(shape) * 5).astype(dtype)
    np.testing.assert_array_equal(cast(np.asarray(array)), array.astype(np.int64))


def test_what_is_no_whole_number_becomes_one_that_no_check_passes():
    limits = np.iinfo(np.int64)
    expected = [limits.min, limits.max, limits.min]
    np.testing.assert_array_equal(cast(np.array([np.nan, np.inf, -np.inf], np.float32)), expected)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", [7, 8, 9, 16, 37])
def test_numbers_that_no_int32_holds_are_converted_wherever_they_are(dtype, size):
    limits = np.iinfo(np.int64)
    others = {
        2.0**31: 2**31, -(2.0**31): -(2**31), -(2.0**32): -(2**32), 2.0**40: 2**40, 1e30: limits.max, -1e30: limits.min,
        np.nan: limits.min, 2147483520.0: 2147483520,
    }  # fmt: skip
    for place in range(size):
        for value, whole in others.items():
            array = (np.arange(size) * 1.25 - 9).astype(dtype)
            expected = array.astype(np.int64)
            array[place], expected[place] = value, whole
            np.testing.assert_array_equal(cast(array), expected)
