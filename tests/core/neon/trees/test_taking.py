"""Copies of rows, columns or elements by their numbers, against numpy.take."""

import numpy as np
import pytest


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32, np.uint8], ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_slices_along_an_axis_are_copied(be, axis, dtype):
    values = np.arange(12).reshape(3, 4).astype(dtype)
    x = be.array(values, dtype=dtype)
    indices = [2, 0, 0, -1]
    for given in (indices, np.array(indices), np.array([indices]), be.array(indices, dtype=np.int32)):
        made = x.take(given, axis)
        np.testing.assert_array_equal(made.get(), values.take(indices, axis), strict=True)
    made[:] = 0
    np.testing.assert_array_equal(x.get(), values)


def test_views_are_taken_from(be):
    values = np.arange(24, dtype=np.float32).reshape(4, 6)
    x = be.array(values)[::-1, 1::2].T
    np.testing.assert_array_equal(x.take([1, 3], 1).get(), values[::-1, 1::2].T.take([1, 3], 1))


def test_without_an_axis_elements_are_taken(be):
    x = be.array(np.arange(12).reshape(3, 4))
    assert x.T.take([1, -1]).get().tolist() == [[4], [11]]


def test_one_index_keeps_its_axis_and_none_take_nothing(cpu):
    x = cpu.array(np.arange(12).reshape(3, 4))
    assert x.take(1, 0).get().tolist() == [[4, 5, 6, 7]]
    assert x.take([], 1).shape == (3, 0)


def test_of_more_axes_others_stay(cpu):
    values = np.arange(24).reshape(2, 3, 4)
    np.testing.assert_array_equal(cpu.array(values).take([2, 1], 1).get(), values.take([2, 1], 1))


@pytest.mark.parametrize(
    ("indices", "axis", "error", "message"),
    [
        ([0, 3], 0, IndexError, "index"),
        ([-5], 1, IndexError, "index"),
        ([0], 2, ValueError, "there are 2 axes"),
        ([0.5], 0, TypeError, "indices are integers along one axis"),
        ([[0, 1], [1, 0]], 0, ValueError, "indices are integers along one axis"),
    ],
    ids=str,
)
def test_what_is_not_there_is_refused(be, indices, axis, error, message):
    with pytest.raises(error, match=message):
        be.array(np.arange(12).reshape(3, 4)).take(indices, axis)


def test_indices_of_a_tensor_are_checked_where_they_are(cpu):
    x = cpu.array(np.arange(12).reshape(3, 4))
    with pytest.raises(IndexError, match="index"):
        x.take(cpu.array([0, 3], dtype=np.int32), 0)
