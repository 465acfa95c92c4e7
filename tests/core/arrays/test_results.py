"""Memory for results that leave as NumPy arrays."""

import numpy as np
import pytest

from atled.arrays.results import Results
from atled.arrays.storage import POOL

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


@pytest.mark.parametrize("size", [1000, 100_000])
def test_memory_of_large_arrays_is_used_again_once_no_view_of_it_is_left(size):
    results = Results((size,), FLOAT)
    first, address = results.new()
    view = first.reshape(10, -1)[2:, ::2].T
    first[:] = 7
    del first
    kept = [results.new() for _ in range(20)]
    assert address not in [each for _, each in kept]
    assert (view == 7).all()
    del view
    assert address in [results.new()[1] for _ in range(20)]
    del kept
    assert results.new()[0].flags.writeable


def test_memory_of_large_arrays_is_counted_by_the_pool():
    results, before = Results((100_000,), FLOAT), POOL.statistics()["bytes_in_use"]
    array, _ = results.new()
    assert POOL.statistics()["bytes_in_use"] >= before + array.nbytes
    del array
    assert POOL.statistics()["bytes_in_use"] == before
