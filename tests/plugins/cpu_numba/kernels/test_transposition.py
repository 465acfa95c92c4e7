"""Transpose against NumPy."""

import itertools
from functools import partial

import numpy as np
import pytest

import atled.functions as F
from atled_cpu_numba import pool
from atled_cpu_numba.kernels import transposition
from narrow_numbers import DTYPES, computed

CASES = [
    ((), ()), ((3,), (0,)), ((0, 3), (1, 0)), ((37, 41), (1, 0)), ((64, 48), (1, 0)), ((5, 1, 7), (2, 1, 0)),
    ((3, 20, 33), (0, 2, 1)), ((3, 20, 33), (1, 0, 2)), ((3, 4, 5, 6, 2, 3), (5, 0, 3, 2, 4, 1)),
    *(((17, 2, 18, 3), order) for order in itertools.permutations(range(4))),
]  # fmt: skip


@pytest.mark.parametrize("shape, axes", CASES)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_transpose(run, parts, shape, axes, dtype):
    x = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    expected = x.transpose(axes)
    y = np.full(expected.shape, -1, dtype)
    assert run(transposition, "Transpose", [x], [y], parts=parts, axes=axes) == 0
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("config", list(DTYPES))
def test_elements_of_16_bits_keep_them_in_any_order_of_axes(config):
    rng, before = np.random.default_rng(12), pool.thread_count()
    try:
        for number in range(60):
            pool.set_thread_count(1 + 2 * (number % 2))
            shape = rng.integers(1, [40, 60, 12, 5][: int(rng.integers(1, 5))]).tolist()
            order = tuple(rng.permutation(len(shape)).tolist())
            x = rng.integers(0, 1 << 16, shape).astype(np.uint16).view(DTYPES[config])
            y = computed(config, partial(F.transpose, axes=order), x)
            np.testing.assert_array_equal(y.view(np.uint16), x.view(np.uint16).transpose(order))
    finally:
        pool.set_thread_count(before)
