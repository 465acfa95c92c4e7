"""Pooling by windows of 2 x 2 in half and bf16, which the kernels take as they are: drawn planes, any numbers."""

from functools import partial

import numpy as np
import pytest

import atled.functions as F
from atled_cpu_numba import pool
from narrow_numbers import DTYPES, any_numbers, check_rounded, computed

configs = pytest.mark.parametrize("config", list(DTYPES))
FUNCTIONS = [partial(function, kernel=(2, 2)) for function in (F.max_pooling, F.average_pooling)]


def drawn(rng):
    """Shape of planes: rows of few windows, which go together in a vector, and of many."""
    columns = int(rng.choice([1, 2, 3, 4, 5, 8, 13, 16, 21]))
    return (int(rng.integers(1, 4)), int(rng.integers(1, 7)), 2 * int(rng.integers(1, 12)), 2 * columns)


@configs
@pytest.mark.parametrize("function", FUNCTIONS, ids=["maxima", "averages"])
def test_results_and_gradients_are_those_of_float32_rounded_once(config, function):
    rng, dtype, before = np.random.default_rng(5), DTYPES[config], pool.thread_count()
    try:
        for number in range(40):
            pool.set_thread_count(1 + 2 * (number % 2))
            x = any_numbers(rng, drawn(rng), dtype)
            check_rounded(computed(config, function, x), computed("float", function, x.astype("f")))
            gradient = any_numbers(rng, (*x.shape[:2], x.shape[2] // 2, x.shape[3] // 2), dtype)
            found = computed(config, function, x, gradient)
            check_rounded(found, computed("float", function, x.astype("f"), gradient.astype("f")))
    finally:
        pool.set_thread_count(before)


@configs
@pytest.mark.parametrize("function", FUNCTIONS, ids=["maxima", "averages"])
def test_large_planes_do_not_depend_on_shares(config, function):
    x, before = any_numbers(np.random.default_rng(6), (4, 60, 34, 50), DTYPES[config]), pool.thread_count()
    expected = computed("float", function, x.astype("f"))
    try:
        for count in (1, 3):
            pool.set_thread_count(count)
            check_rounded(computed(config, function, x), expected)
    finally:
        pool.set_thread_count(before)


@configs
def test_a_function_after_it_is_computed_on_its_result(config):
    x = any_numbers(np.random.default_rng(7), (3, 5, 16, 26), DTYPES[config])
    found = computed(config, lambda x: F.tanh(F.max_pooling(x, (2, 2))), x)
    check_rounded(found, computed(config, F.tanh, computed(config, FUNCTIONS[0], x)).astype("f"))
