"""Flip against NumPy's: any axes, merged where neighbours are flipped or not."""

import numpy as np
import pytest

from atled_cpu_numba.kernels import flipping

CASES = [
    ((7,), (0,)), ((7,), ()), ((), ()), ((5, 3), (0,)), ((5, 3), (1,)), ((5, 37), (0, 1)), ((40, 300), (0,)),
    ((40, 300), (1,)), ((4, 5, 6, 7), (0, 2)), ((4, 5, 6, 7), (1, 3)), ((4, 5, 6, 7), (1, 2)), ((4, 1, 6, 9), (1, 3)),
    ((2, 3, 2, 3, 2, 3), (0, 2, 4)), ((2, 3, 2, 3, 2, 3), (1, 3, 5)), ((16, 33, 3), (1,)),
]  # fmt: skip


@pytest.mark.parametrize("shape, axes", CASES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "float16", "int16"])
def test_flipped_axes(run, parts, shape, axes, dtype):
    x = np.random.default_rng(0).integers(-99, 99, shape).astype(dtype)
    y = np.full(shape, 77, dtype)
    assert run(flipping, "Flip", [x], [y], parts=parts, axes=axes) == 0
    np.testing.assert_array_equal(y, np.flip(x, axes))
