"""Pooling by windows of 2 x 2 in half and bf16, which the kernels take as they are: drawn planes, any numbers."""

import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled_contexts import Context
from atled_cpu_numba import pool

ml_dtypes = pytest.importorskip("ml_dtypes")
DTYPES = {"half": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16)}
configs = pytest.mark.parametrize("config", list(DTYPES))


def any_numbers(rng, shape, dtype):
    """Infinities, NaN, denormals and zeros of both signs among numbers around 1, some of them equal."""
    bits = rng.integers(0, 1 << 16, shape).astype(np.uint16).view(dtype)
    few = rng.choice(np.array([0.0, -0.0, 1.5, -2.0, np.inf, -np.inf, np.nan], "f"), shape).astype(dtype)
    usual = rng.standard_normal(shape).astype(dtype)
    kind = rng.random(shape)
    return np.where(kind < 0.1, bits, np.where(kind < 0.4, few, usual))


def drawn(rng):
    """Shape of planes: rows of few windows, which go together in a vector, and of many."""
    columns = int(rng.choice([1, 2, 3, 4, 5, 8, 13, 16, 21]))
    return (int(rng.integers(1, 4)), int(rng.integers(1, 7)), 2 * int(rng.integers(1, 12)), 2 * columns)


def computed(config, function, x, gradient=None):
    """The result, or the gradient of x."""
    with nn.context_scope(Context([f"cpu:{config}"], fallback="raise")):
        if gradient is None:
            return function(nn.NdArray.from_numpy_array(x), (2, 2)).data
        value = nn.Variable(x.shape, need_grad=True)
        value.data = nn.NdArray.from_numpy_array(x)
        y = function(value, (2, 2))
        y.forward()
        value.grad.zero()
        y.backward(nn.NdArray.from_numpy_array(gradient))
        return value.grad.data


def check(found, expected):
    with np.errstate(over="ignore", invalid="ignore"):
        expected = expected.astype(found.dtype)
        is_nan, is_found = np.isnan(expected), np.isnan(found)  # a signaling one is moved as it is
    np.testing.assert_array_equal(is_found, is_nan)
    np.testing.assert_array_equal(found.view(np.uint16)[~is_nan], expected.view(np.uint16)[~is_nan])


@configs
@pytest.mark.parametrize("function", [F.max_pooling, F.average_pooling])
def test_results_and_gradients_are_those_of_float32_rounded_once(config, function):
    rng, dtype, before = np.random.default_rng(5), DTYPES[config], pool.thread_count()
    try:
        for number in range(40):
            pool.set_thread_count(1 + 2 * (number % 2))
            x = any_numbers(rng, drawn(rng), dtype)
            check(computed(config, function, x), computed("float", function, x.astype("f")))
            gradient = any_numbers(rng, (*x.shape[:2], x.shape[2] // 2, x.shape[3] // 2), dtype)
            found = computed(config, function, x, gradient)
            check(found, computed("float", function, x.astype("f"), gradient.astype("f")))
    finally:
        pool.set_thread_count(before)


@configs
@pytest.mark.parametrize("function", [F.max_pooling, F.average_pooling])
def test_large_planes_do_not_depend_on_shares(config, function):
    x, before = any_numbers(np.random.default_rng(6), (4, 60, 34, 50), DTYPES[config]), pool.thread_count()
    expected = computed("float", function, x.astype("f"))
    try:
        for count in (1, 3):
            pool.set_thread_count(count)
            check(computed(config, function, x), expected)
    finally:
        pool.set_thread_count(before)


@configs
def test_a_function_after_it_is_computed_on_its_result(config):
    x = any_numbers(np.random.default_rng(7), (3, 5, 16, 26), DTYPES[config])
    found = computed(config, lambda x, kernel: F.tanh(F.max_pooling(x, kernel)), x)
    step = computed(config, F.max_pooling, x)
    with nn.context_scope(Context([f"cpu:{config}"], fallback="raise")):
        expected = F.tanh(nn.NdArray.from_numpy_array(step)).data
    check(found, expected.astype("f"))
