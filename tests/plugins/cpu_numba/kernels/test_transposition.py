"""Transpose against NumPy."""

import itertools

import numpy as np
import pytest

from atled_cpu_numba.kernels import transposition

CASES = [
    ((), ()), ((3,), (0,)), ((0, 3), (1, 0)), ((37, 41), (1, 0)), ((64, 48), (1, 0)), ((5, 1, 7), (2, 1, 0)),
    ((3, 20, 33), (0, 2, 1)), ((3, 20, 33), (1, 0, 2)), ((3, 4, 5, 6, 2, 3), (5, 0, 3, 2, 4, 1)),
    *(((17, 2, 18, 3), order) for order in itertools.permutations(range(4))),
]  # fmt: skip


@pytest.mark.parametrize("shape, axes", CASES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_transpose(run, parts, shape, axes, dtype):
    x = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    expected = x.transpose(axes)
    y = np.full(expected.shape, -1, dtype)
    assert run(transposition, "Transpose", [x], [y], parts=parts, axes=axes) == 0
    np.testing.assert_array_equal(y, expected)
