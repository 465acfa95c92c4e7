"""Views that front ends hold, against NumPy's."""

import numpy as np
import pytest

from atled.array_desc import ArrayDesc
from atled.arrays.array import NdArray
from atled.arrays.cell import ArrayCell
from atled.arrays.views import View
from atled.errors import RefusedError


@pytest.fixture
def both():
    values = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    return View(NdArray.from_numpy_array(values)), values


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x[1, ..., ::-2],
        lambda x: x[:, None, 1:],
        lambda x: x.T[1:],
        lambda x: x.transpose((2, 0, 1))[:, 1],
        lambda x: x[:, 1:].reshape((2, 8)),
        lambda x: x.diagonal(1, 1, 2),
        lambda x: x[1, 2, 3],
        lambda x: x[-5:-6:-1, :, 9::-3],
    ],
    ids=["steps", "new axis", "turned", "permuted", "reshaped", "diagonal", "element", "outside"],
)
def test_views_have_the_values_of_numpys(both, make):
    view, values = both
    np.testing.assert_array_equal(make(view).numpy(), make(values))


def test_views_without_elements_begin_where_there_is_memory(both):
    view = View(NdArray.from_numpy_array(np.zeros((5, 0, 3), np.float32)))[:, :, 1:]
    assert (view.shape, view.offset) == ((5, 0, 2), 0)
    far = View(both[0].cell, ArrayDesc((0,)), 1_000_000)
    assert far.numpy().shape == (0,)


def test_a_reshape_that_needs_a_copy_is_none(both):
    view, _ = both
    assert view.T.reshape((24,)) is None


def test_what_is_written_through_a_view_is_seen_by_the_array_and_other_views(both):
    view, values = both
    view[1, :, ::-1].write([[1], [2], [3]])
    values[1, :, ::-1] = [[1], [2], [3]]
    np.testing.assert_array_equal(view.numpy(), values)
    np.testing.assert_array_equal(view.T.numpy(), values.T)


def test_what_is_written_is_cast_to_the_dtype_of_the_array():
    view = View(ArrayCell(3), ArrayDesc((3,), np.int32))
    view[::2].write([1.75, -1.75])
    assert view.numpy().tolist() == [1, 0, -1] and view.numpy().dtype == np.int32


def test_a_repeated_view_has_one_element_often(both):
    view, values = both
    wide = view[0, 0, :1].broadcast_to((5, 3))
    assert wide.strides == (0, 0)
    np.testing.assert_array_equal(wide.numpy(), np.full((5, 3), values[0, 0, 0]))


@pytest.mark.parametrize(
    ("desc", "offset"),
    [
        (ArrayDesc((5,), np.float32, (5,)), 4),
        (ArrayDesc((2,), np.float32, (-1,)), 0),
        (ArrayDesc((25,), np.float32), 0),
        (ArrayDesc((2,), np.float64), 0),
    ],
)
def test_views_that_leave_their_array_are_refused(both, desc, offset):
    view, _ = both
    with pytest.raises(RefusedError, match=r"a view .* of an array of 24 elements: (it names|the array is)"):
        View(view.cell, desc, offset)


def test_an_index_that_equals_another_is_not_taken_for_it():
    view = View(NdArray.from_numpy_array(np.arange(6, dtype=np.float32)))
    assert view[1:].shape == (5,)
    assert view[1].numpy() == 1
    for key in (1.0, slice(1.0, None), [1]):
        with pytest.raises((IndexError, TypeError)):
            view[key]


def test_views_of_repeated_elements_are_not_written():
    base = NdArray.from_numpy_array(np.arange(3, dtype=np.float32))
    with pytest.raises(ValueError, match="one element of the array"):
        View(base)[:1].broadcast_to((2,)).write([5, 6])
    assert base.data.tolist() == [0, 1, 2]


def test_a_view_has_the_elements_of_another_even_of_its_own_array(both):
    view, values = both
    view[:, :, 1:].copy_from(view[:, :, :-1])
    values[:, :, 1:] = values[:, :, :-1].copy()
    np.testing.assert_array_equal(view.numpy(), values)


def test_what_is_exported_is_the_memory_itself(both):
    view, values = both
    part = view[1, :, ::-2].export()
    np.testing.assert_array_equal(part, values[1, :, ::-2])
    part[0] = 7
    values[1, 0, ::-2] = 7
    np.testing.assert_array_equal(view.numpy(), values)


def test_a_number_that_the_dtype_does_not_hold_is_refused_as_by_numpy():
    view = View(ArrayCell(3), ArrayDesc((3,), np.int8))
    for value, error in ((300, OverflowError), (float("nan"), ValueError)):
        with pytest.raises(error):
            view.write(value)
    assert view.numpy().tolist() == [0, 0, 0]


def test_nothing_is_written_through_a_read_only_view_nor_its_views(both):
    view, values = both
    view.read_only = "it is shown to others"
    for each in (view, view.T, view[1:], view.reshape((24,)), view.as_strided(ArrayDesc((4,), view.dtype, (2,)), 1)):
        for write in (lambda view: view.write(1), lambda view: view.copy_from(view)):
            with pytest.raises(ValueError, match="it is shown to others"):
                write(each)
        assert not each.export().flags.writeable
    np.testing.assert_array_equal(view.numpy(), values)


def test_a_view_is_whole_where_it_is_all_of_the_array_in_c_order():
    array = NdArray.from_numpy_array(np.zeros((3, 4), np.float32))
    view = View(array)
    assert view.is_whole
    assert view[:].is_whole
    assert view.reshape((2, 6)).is_whole
    assert not any(part.is_whole for part in (view.T, view[1:], view[:2], view[::-1]))


def test_what_was_never_written_is_exported_in_the_dtype_of_the_view():
    assert View(ArrayCell(3), ArrayDesc((3,), np.int32)).export().dtype == np.int32
