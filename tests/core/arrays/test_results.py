"""Memory for results that leave as NumPy arrays."""

import numpy as np
import pytest

from atled.arrays.results import Results

FLOAT = np.dtype(np.float32)


@pytest.mark.parametrize("shape", [(), (0,), (3, 5), (100, 3), (40, 40)])
def test_arrays_are_aligned_writable_and_apart(shape):
    results = Results(shape, FLOAT)
    made = [results.new() for _ in range(70)]
    for number, (array, address) in enumerate(made):
        assert (array.shape, array.dtype, array.ctypes.data, address % 64) == (shape, FLOAT, address, 0)
        array[...] = number
    assert all((array == number).all() for number, (array, _) in enumerate(made))


def test_a_kept_array_outlives_the_others():
    results = Results((4,), FLOAT)
    first, _ = results.new()
    first[:] = 7
    for _ in range(200):
        results.new()[0][:] = 1
    assert first.tolist() == [7] * 4
