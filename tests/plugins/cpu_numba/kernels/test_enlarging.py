"""Unpooling against NumPy's repetition along each axis."""

import numpy as np
import pytest

from atled_cpu_numba.kernels import enlarging

CASES = [
    ((3,), (4,)), ((2, 3), (1,)), ((2, 3, 4), (2,)), ((2, 3, 2, 4), (2, 3)), ((2, 3, 5, 37), (2, 2)),
    ((3, 4, 9), (3, 1)),
    ((2, 3, 2), (1, 2, 3)), ((2, 2, 3, 2, 5), (3, 2, 2)), ((1, 1), (5, 7)), ((40, 33), (1, 2)),
    ((3, 2, 2, 2, 2), (2,) * 4), ((2, 3, 5, 7), (2, 2)), ((2, 3, 2, 14), (3, 2)), ((5, 16), (2,)), ((4, 31), (1, 2)),
]  # fmt: skip


def enlarged(x, kernel, end):
    for axis, repeats in enumerate(kernel, end - len(kernel)):
        x = x.repeat(repeats, axis)
    return x


@pytest.mark.parametrize("shape, kernel", CASES)
@pytest.mark.parametrize("channels", [0, 1, 3, 20])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "float16"])
def test_elements_are_repeated_along_each_axis(run, parts, shape, kernel, channels, dtype):
    of_x = (*shape, channels) if channels else shape
    x = np.random.default_rng(0).integers(-99, 99, of_x).astype(dtype)
    expected = enlarged(x, kernel, len(shape))
    y = np.full(expected.shape, 77, dtype)
    attributes = {"kernel": kernel, "channel_last": channels > 0}
    assert run(enlarging, "Unpooling", [x], [y], parts=parts, **attributes) == 0
    np.testing.assert_array_equal(y, expected)
