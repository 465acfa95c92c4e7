"""Random ops: what the samples do not state."""

import numpy as np
import pytest

from atled.ops import philox, stochastic  # noqa: F401 - registers the specs
from atled.ops.spec import SPECS

RANDOM_STATE = np.array([7, 3])
RAND = {"low": 0.0, "high": 1.0, "shape": (5, 67), "seed": 7}


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_rand_has_the_dtype_that_the_engine_sets(dtype):
    y = SPECS["Rand"].reference(RANDOM_STATE, **RAND, dtype=np.dtype(dtype))
    assert y.dtype == dtype
    assert SPECS["Rand"].infer(shape=(5, 67), seed=7, dtype=np.dtype(dtype)).dtype == dtype


def test_rand_draws_the_same_numbers_in_float32_and_float64():
    single, double = (
        SPECS["Rand"].reference(RANDOM_STATE, **RAND, dtype=np.dtype(t)) for t in (np.float32, np.float64)
    )
    np.testing.assert_array_equal(single, double)


def test_randint_covers_all_of_int32():
    low, high = -(2**31), 2**31
    y = SPECS["Randint"].reference(RANDOM_STATE, low=low, high=high, shape=(1000,), seed=7)
    assert y.dtype == np.int32
    assert y.min() < -(2**30)
    assert y.max() > 2**30


def test_dropout_keeps_where_the_uniform_is_not_below_p():
    x = np.arange(1.0, 336.0).reshape(5, 67)
    y, mask = SPECS["Dropout"].reference(x, RANDOM_STATE, p=0.3, seed=7)
    np.testing.assert_array_equal(mask, np.where(philox.uniform(RANDOM_STATE, (5, 67)) >= 0.3, 1 / (1 - 0.3), 0))
    np.testing.assert_array_equal(y, x * mask)


def test_dropout_keeps_the_mean():
    y, _ = SPECS["Dropout"].reference(np.ones(100_000, np.float32), RANDOM_STATE, p=0.8, seed=7)
    # The standard error of the mean is 2 / sqrt(1e5) = 0.0063.
    assert abs(y.mean() - 1) < 0.025


def test_dropout_with_p_0_keeps_everything():
    x = np.arange(5.0)
    np.testing.assert_array_equal(SPECS["Dropout"].reference(x, RANDOM_STATE, p=0.0, seed=7)[0], x)


@pytest.mark.parametrize("p", [-0.1, 1.0, 2.0, float("nan")])
def test_dropout_refuses_p_out_of_range(p):
    with pytest.raises(ValueError, match="use 0 <= p < 1"):
        SPECS["Dropout"].check_values({"p": p, "seed": -1})


def test_randn_refuses_a_negative_sigma():
    with pytest.raises(ValueError, match="use sigma >= 0"):
        SPECS["Randn"].check_values({"mu": 0.0, "sigma": -1.0})
