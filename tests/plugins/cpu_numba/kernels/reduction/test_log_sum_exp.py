"""LogSumExp against NumPy in float64: over any axes, of numbers whose exponentials are no floats, of infinities."""

import numpy as np
import pytest

from atled_cpu_numba.kernels.reduction import log_sum_exp

CASES = [((7,), (0,)), ((90, 300), (0,)), ((3, 2901), (1,)), ((4, 5, 6, 7), (0, 2, 3)), ((4, 5, 6, 7), (1, 3))]


def expected_of(x, axes):
    x = x.astype(np.float64)
    top = x.max(axis=axes, keepdims=True)
    shift = np.where(np.isinf(top), 0, top)
    with np.errstate(divide="ignore", over="ignore"):
        return np.squeeze(np.log(np.exp(x - shift).sum(axis=axes, keepdims=True)) + shift, axes)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("shape", "axes"), CASES)
def test_numbers_of_any_size(run, parts, shape, axes, dtype):
    x = (np.random.default_rng(0).standard_normal(shape) * 300).astype(dtype)
    expected = expected_of(x, axes)
    y = np.full(expected.shape, 7, dtype)
    assert run(log_sum_exp, "LogSumExp", [x], [y], parts=parts, axes=axes, keep_dims=False) == 0
    np.testing.assert_allclose(y, expected, rtol=1e-6)


@pytest.mark.parametrize("times", [1, 9])
@pytest.mark.parametrize("axis", [0, 1])
def test_infinities_and_nan(run, axis, times):
    inf = np.inf
    rows = np.array([[-inf, -inf, -inf], [-inf, 1, 1], [inf, 1, -inf], [inf, inf, 0], [np.nan, inf, 1]], np.float32)
    rows = np.tile(rows, (times, 1))
    x, y = (np.ascontiguousarray(rows.T) if axis == 0 else rows), np.full(len(rows), 7, np.float32)
    assert run(log_sum_exp, "LogSumExp", [x], [y], axes=(axis,), keep_dims=False) == 0
    np.testing.assert_allclose(y, [-inf, 1 + np.log(2), inf, inf, np.nan] * times, rtol=1e-6)
