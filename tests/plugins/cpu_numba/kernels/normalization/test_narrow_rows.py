"""Normalization of half and bf16 by rows and columns, which convert in registers: float32's results, rounded once."""

import numpy as np
import pytest

import atled as nn
import atled.functions as F
from narrow_numbers import DTYPES, any_numbers, check_rounded, computed

configs = pytest.mark.parametrize("config", list(DTYPES))


def normalization(rng, channels, dtype, batch_stat):
    """A function of x, whose other inputs have values that float16 and bfloat16 have."""
    given = [(1 + rng.random((1, channels, 1))).astype(dtype).astype("f") for _ in range(4)]

    def normalized(x):
        # The gradient of x alone is a factor in float32, see `atled.ops.normalization`, and no call of the kernel.
        beta, gamma = (nn.Variable.from_numpy_array(values.copy(), need_grad=True) for values in given[:2])
        mean, variance = (nn.Variable.from_numpy_array(values.copy()) for values in given[2:])
        if isinstance(x, nn.NdArray):
            beta, gamma, mean, variance = (value.data for value in (beta, gamma, mean, variance))
        return F.batch_normalization(x, beta, gamma, mean, variance, axes=(1,), batch_stat=batch_stat)

    return normalized


def drawn_shape(rng):
    """Rows on both sides of the shortest that are gone through one by one, most of them no whole vectors; matrices."""
    if rng.random() < 0.3:
        return int(rng.integers(1, 150)), int(rng.integers(1, 300)), 1
    return int(rng.integers(1, 5)), int(rng.integers(1, 9)), int(rng.integers(1, 120))


@configs
@pytest.mark.parametrize("batch_stat", [True, False])
def test_results_are_those_of_float32_rounded_once(config, batch_stat):
    rng, dtype = np.random.default_rng(21), DTYPES[config]
    for _ in range(30):
        shape = drawn_shape(rng)
        x = rng.standard_normal(shape).astype(dtype)
        if not batch_stat:
            x = any_numbers(rng, shape, dtype)
        function = normalization(rng, shape[1], dtype, batch_stat)
        with np.errstate(invalid="ignore", over="ignore"):
            check_rounded(computed(config, function, x), computed("float", function, x.astype("f")))


@configs
def test_gradients_are_those_of_float32_rounded_once(config):
    rng, dtype = np.random.default_rng(22), DTYPES[config]
    for _ in range(20):
        shape = drawn_shape(rng)
        x, gy = (rng.standard_normal(shape).astype(dtype) for _ in range(2))
        function = normalization(rng, shape[1], dtype, batch_stat=False)
        found = computed(config, function, x, gy)
        check_rounded(found, computed("float", function, x.astype("f"), gy.astype("f")))
