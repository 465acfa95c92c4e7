"""Elementary functions where a formula could lose digits, or a gradient a sign."""

import numpy as np
import pytest

from atled.arrays.array import NdArray
from atled.keyed import Description
from atled_contexts import Context

all_backends = pytest.mark.parametrize("backend", ["reference", "cpu", "sim"])
INF, NAN = np.inf, np.nan


def value_and_gradients(backend, op, *inputs):
    d = Description(Context([f"{backend}:float"], fallback="raise"))
    leaves = [d.leaf(NdArray.from_numpy_array(np.array(x, np.float32))) for x in inputs]
    y = d.call(op, *leaves)
    for value in (y, *d.gradients(y, leaves)):
        d.result(value)
    return [each.data for each in d.run()]


@all_backends
def test_log_diff_exp_at_infinities_and_equal_numbers(backend):
    low, high = [-INF, -INF, 0.0, 2.0, INF, 3.0, NAN], [-INF, 1.0, INF, 2.0, INF, 1.0, 1.0]
    y, _, _ = value_and_gradients(backend, "LogDiffExp", low, high)
    np.testing.assert_array_equal(y, [-INF, 1.0, INF, -INF, NAN, NAN, NAN])


@all_backends
def test_log_diff_exp_of_large_and_of_near_numbers(backend):
    low, high = np.array([1000.0, -1000.0, 5.0]), np.array([1001.0, -999.5, 5.0 + 2.0**-10])
    y, by_low, by_high = value_and_gradients(backend, "LogDiffExp", low, high)
    apart = high - low
    np.testing.assert_allclose(y, high + np.log(-np.expm1(-apart)), rtol=3e-7)
    np.testing.assert_allclose(by_high, -1 / np.expm1(-apart), rtol=1e-6)
    np.testing.assert_allclose(by_low, -1 / np.expm1(apart), rtol=1e-6)


@all_backends
def test_the_clipped_root_is_steep_at_0_and_flat_below(backend):
    y, gx = value_and_gradients(backend, "SqrtClipped", [-4.0, 0.0, 4.0, NAN])
    np.testing.assert_array_equal(y, [0.0, 0.0, 2.0, NAN])
    np.testing.assert_array_equal(gx, [0.0, INF, 0.25, NAN])


@all_backends
def test_the_gradient_of_a_product_with_zeros_is_that_of_the_other_factors(backend):
    rows = [[2.0, 0.0, 4.0], [0.0, 3.0, 0.0], [1.0, 2.0, 3.0]]
    d = Description(Context([f"{backend}:float"], fallback="raise"))
    x = d.leaf(NdArray.from_numpy_array(np.array(rows, np.float32)))
    d.result(*d.gradients(d.call("Product", x, axes=(1,)), [x]))
    np.testing.assert_array_equal(d.run()[0].data, [[0, 8, 0], [0, 0, 0], [6, 3, 2]])
