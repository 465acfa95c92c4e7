"""Copies of NumPy values for a moment."""

import numpy as np
import pytest

from atled.arrays.copies import Copies


@pytest.mark.parametrize("shape", [(), (0, 3), (4,), (100, 100)])
def test_values_are_copied_and_cast(shape):
    copies = Copies(shape, np.dtype(np.float32))
    values = np.arange(np.prod(shape, dtype=int), dtype=np.float64).reshape(shape)
    array = copies.of(values)
    assert (array.shape, array.dtype) == (shape, np.float32)
    values += 1
    np.testing.assert_array_equal(array.data, values - 1)


def test_what_is_held_is_not_written_again():
    copies = Copies((3,), np.dtype(np.int32))
    held = [copies.of(np.full(3, number + 0.75)) for number in range(400)]
    assert all((array.data == number).all() for number, array in enumerate(held))


def test_a_number_that_is_too_large_becomes_inf():
    assert np.isinf(Copies((1,), np.dtype(np.float16)).of(np.array([1e9])).data[0])
