"""Any and All against NumPy."""

import numpy as np
import pytest

from atled_cpu_numba.kernels.reduction import truth

CASES = [((), ()), ((700,), (0,)), ((90, 1300), (0,)), ((3, 901), (1,)), ((4, 5, 6, 7), (0, 2, 3)), ((4, 5, 6), (1,))]


@pytest.mark.parametrize(("dtype", "made"), [("float32", "float32"), ("float64", "bool"), ("bool", "bool")])
@pytest.mark.parametrize("rate", [0.01, 0.99])
@pytest.mark.parametrize(("shape", "axes"), CASES)
def test_any_and_all(run, parts, shape, axes, rate, dtype, made):
    rng = np.random.default_rng(0)
    x = np.where(rng.random(shape) < rate, rng.choice([1.0, -2.0, np.nan, np.inf], shape), -0.0).astype(dtype)
    for name, function in (("Any", np.any), ("All", np.all)):
        expected = function(x, axis=axes)
        y = np.full(expected.shape, 7, made)
        assert run(truth, name, [x], [y], parts=parts, axes=axes, keep_dims=False) == 0
        np.testing.assert_array_equal(y, expected)
