"""NdArrays: lazy fills, casts, in-place operators, and calls that compute at once."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import atled as nn
import atled.functions as F

pytestmark = pytest.mark.usefixtures("backend")


def array(values: Any, dtype: Any = np.float32) -> nn.NdArray:
    return nn.NdArray.from_numpy_array(np.asarray(values, dtype))


# Values.


def test_one_size_is_a_shape():
    assert nn.NdArray(3).shape == (3,)
    assert nn.NdArray().shape == ()


def test_properties_describe_the_array():
    a = nn.NdArray((2, 3, 4))
    assert (a.size, a.ndim, a.dtype, a.strides) == (24, 3, np.float32, (12, 4, 1))
    assert a.size_from_axis(1) == 12


def test_fill_and_zero_set_every_element():
    a = nn.NdArray((2,))
    a.fill(2.5)
    assert_array_equal(a.data, [2.5, 2.5])
    a.zero()
    assert_array_equal(a.data, [0, 0])
    a.fill(0)
    assert_array_equal(a.data, [0, 0])


def test_fill_and_zero_keep_the_dtype():
    a = array([1, 2], np.int64)
    a.zero()
    assert a.data.dtype == np.int64
    a.fill(3)
    assert a.data.dtype == np.int64
    assert_array_equal(a.data, [3, 3])


@pytest.mark.parametrize("change", [lambda a: a.zero(), lambda a: a.fill(0)])
def test_a_held_view_shows_zero_and_fill(change):
    a = array([1, 2])
    view = a.data
    change(a)
    assert_array_equal(view, [0, 0])
    view[0] = 5
    assert_array_equal(a.data, [5, 0])


def test_zero_reaches_a_graph_that_was_compiled_before():
    x = nn.Variable.from_numpy_array(np.ones(2, np.float32))
    y = x + 1
    y.forward()
    x.data.zero()
    y.forward()
    assert_array_equal(y.d, [1, 1])
    x.data.fill(4)
    y.forward()
    assert_array_equal(y.d, [5, 5])


def test_zeroing_a_result_lasts_until_the_next_forward():
    x = nn.Variable.from_numpy_array(np.ones(2, np.float32))
    y = x + 1
    y.forward()
    y.data.zero()
    assert_array_equal(y.d, [0, 0])
    y.data.zero()
    y.forward()
    assert_array_equal(y.d, [2, 2])


def test_cast_keeps_the_values_and_gives_a_writable_array():
    a = array([1.5, -2.5])
    for dtype in (np.float64, np.int32, np.float32):
        view = a.cast(dtype)
        assert view.dtype == a.dtype == dtype
    assert_array_equal(a.data, [1, -2])
    view[...] = 7
    assert_array_equal(a.data, [7, 7])


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.float64, np.uint8, bool, np.float16])
def test_functions_take_cast_inputs_and_compute_in_float32(dtype):
    v = nn.Variable((2,))
    v.data.cast(dtype)[...] = [1, 0]
    y = v + 0.5
    y.forward()
    assert_array_equal(y.d, [1.5, 0.5])
    assert y.d.dtype == np.float32
    assert v.d.dtype == dtype


@pytest.mark.parametrize("dtype", ["complex64", "U3", object])
def test_a_cast_to_no_number_is_refused(dtype):
    a = array([1, 2])
    with pytest.raises(TypeError, match="not a dtype of numbers"):
        a.cast(dtype)
    assert a.dtype == np.float32


def test_a_cast_to_a_context_gives_nothing_and_changes_the_dtype():
    a = array([1.5, -2.5])
    assert a.cast(np.int32, nn.Context()) is None
    assert a.dtype == np.int32
    assert a.cast(np.float64, ctx=None).dtype == np.float64
    assert_array_equal(a.data, [1, -2])
    with pytest.raises(TypeError, match="not a Context"):
        a.cast(np.float32, "cpu")


def test_a_cast_to_a_context_of_a_device_moves_the_array_there():
    pytest.importorskip("atled_sim")
    a = array([1.5, -2.5])
    a.cast(np.int32, nn.get_extension_context("sim"))
    assert not a.cell.place.is_host
    assert_array_equal(a.data, [1, -2])
    assert a.cell.place.is_host


def test_a_view_from_before_a_cast_is_stale_but_safe():
    a = array([1, 2])
    view = a.data
    a.cast(np.int64)
    view[...] = 9
    assert_array_equal(a.data, [1, 2])
    del a
    gc.collect()
    assert_array_equal(view, [9, 9])


def test_held_views_outlive_their_array():
    views = []
    for number in range(20):
        a = array(np.full(1000, number))
        views.append(a.data)
        del a
    gc.collect()
    others = [array(np.full(1000, -1)) for _ in range(50)]
    for number, view in enumerate(views):
        assert (view == number).all()
    assert len(others) == 50


def test_data_broadcasts_and_keeps_the_dtype():
    a = array([[1, 2], [3, 4]], np.int64)
    a.data = [1.7, 2.2]
    assert_array_equal(a.data, [[1, 2], [1, 2]])
    assert a.dtype == np.int64


def test_assigning_an_array_to_its_own_reversed_view():
    a = array([1, 2, 3])
    a.data = a.data[::-1]
    assert_array_equal(a.data, [3, 2, 1])


def test_copy_from_copies_the_values():
    a, b = array([1, 2]), nn.NdArray((2,))
    b.copy_from(a)
    a.data = 5
    assert_array_equal(b.data, [1, 2])


def test_copy_from_refuses_another_shape_and_type():
    b = array([1, 2])
    with pytest.raises(ValueError, match="shapes differ"):
        b.copy_from(array([1, 2, 3]))
    with pytest.raises(TypeError, match="pass an NdArray"):
        b.copy_from(np.ones(2))
    assert_array_equal(b.data, [1, 2])


def test_numpy_reads_an_array():
    assert_array_equal(np.asarray(array([1, 2])), [1, 2])
    assert np.asarray(array([1, 2]), np.float64).dtype == np.float64


@pytest.mark.parametrize("value", [np.array(["a"]), [None], np.array([1j])])
def test_what_holds_no_numbers_is_refused(value):
    with pytest.raises(TypeError, match="pass numbers"):
        nn.NdArray.from_numpy_array(value)


# In place.


@pytest.mark.parametrize(
    ("operate", "expected"),
    [("__iadd__", 6), ("__isub__", 2), ("__imul__", 8), ("__itruediv__", 2), ("__ipow__", 16)],
)
@pytest.mark.parametrize("make", [lambda: 2, lambda: array([2, 2]), lambda: array([2]), lambda: np.float32(2)])
def test_an_in_place_operator_keeps_the_object_and_its_views(operate, expected, make):
    a = array([4, 4])
    view = a.data
    result = getattr(a, operate)(make())
    assert result is a
    assert_allclose(view, [expected, expected], rtol=1e-6)


def test_an_in_place_operator_takes_a_variable():
    a, x = array([1, 2]), nn.Variable.from_numpy_array(np.array([10, 20], np.float32))
    b = a
    a += x
    a *= x
    assert a is b
    assert_array_equal(a.data, [110, 440])


def test_an_in_place_operator_on_itself():
    a = array([1, 2, 3])
    a += a
    a *= a
    assert_array_equal(a.data, [4, 16, 36])


def test_in_place_on_whole_numbers_gives_float32():
    a = array([1, 2], np.int64)
    b = a
    a += 1
    assert a is b
    assert a.dtype == np.float32
    assert_array_equal(a.data, [2, 3])


@pytest.mark.parametrize("other", [lambda: array([1, 2, 3]), lambda: array([[1, 2], [3, 4]])])
def test_an_in_place_operator_refuses_a_shape_that_does_not_fit_into_it(other):
    a = array([1, 2])
    with pytest.raises(ValueError, match="Add2"):
        a += other()
    assert_array_equal(a.data, [1, 2])


def test_in_place_reaches_the_graph_of_a_variable():
    x = nn.Variable.from_numpy_array(np.array([1, 2], np.float32))
    y = x * 2
    y.forward()
    data = x.data
    data += 1
    y.forward()
    assert_array_equal(y.d, [4, 6])


# Calls that compute at once.


def test_a_function_of_an_ndarray_gives_an_ndarray_at_once():
    y = F.exp(array([0, 0]))
    assert isinstance(y, nn.NdArray)
    assert_array_equal(y.data, [1, 1])


@pytest.mark.parametrize("operate", [F.add2, lambda a, b: a + b])
def test_one_ndarray_among_variables_makes_the_call_immediate(operate):
    a, x = array([1, 2]), nn.Variable.from_numpy_array(np.array([10, 20], np.float32))
    for y in (operate(a, x), operate(x, a)):
        assert isinstance(y, nn.NdArray)
        assert_array_equal(y.data, [11, 22])


def test_an_ndarray_keeps_its_dtype_and_the_result_is_float32():
    a = array([1, 2], np.int64)
    y = a + 1
    assert (a.dtype, y.dtype) == (np.int64, np.float32)
    assert_array_equal((array([2, 4], np.uint8) * 0.5).data, [1, 2])


def test_a_repeated_call_reads_what_was_written_in_between():
    a = array([1, 2])
    view = a.data
    for value in range(4):
        view[...] = value
        assert_array_equal((a * 2 + 1).data, [2 * value + 1] * 2)


def test_a_repeated_call_follows_float_attributes():
    a = array([1, 2])
    for value in (1, 2.5, -3):
        assert_allclose(F.mul_scalar(a, val=value).data, [value, 2 * value], rtol=1e-6)
    assert_array_equal(F.mul_scalar(a).data, [1, 2])


def test_results_of_repeated_calls_are_arrays_of_their_own():
    a = array([1, 2])
    first, second = a + 1, a + 1
    first.data[...] = 0
    assert_array_equal(second.data, [2, 3])


def test_an_output_lives_in_the_given_array():
    a, o = array([1, 2]), nn.NdArray((2,))
    view = o.data
    y = F.add_scalar(a, 2, outputs=[o])
    assert y is o
    assert_array_equal(view, [3, 4])


def test_an_output_of_a_view_lives_in_the_given_array():
    o = nn.NdArray((2, 1))
    F.reshape(array([1, 2]), (2, 1), outputs=[o])
    assert_array_equal(o.data, [[1], [2]])


def test_an_output_may_be_an_input_of_any_function():
    a = array([[1, 2], [3, 4]])
    F.transpose(a, (1, 0), outputs=[a])
    assert_array_equal(a.data, [[1, 3], [2, 4]])
    w = array([[0, 1], [1, 0]])
    F.affine(a, w, outputs=[a])
    assert_array_equal(a.data, [[3, 1], [4, 2]])


def test_an_output_may_be_a_broadcast_input():
    a = array([1, 2])
    row = F.reshape(a, (1, 2))
    square = nn.NdArray.over(a.cell, (1, 2))
    y = F.add2(row, array([[10, 20]]), outputs=[square])
    assert_array_equal(y.data, [[11, 22]])


@pytest.mark.parametrize("outputs", [[], [nn.NdArray((2,)), nn.NdArray((2,))]])
def test_a_wrong_number_of_outputs_is_refused(outputs):
    with pytest.raises(ValueError, match="it gives 1 results"):
        F.exp(array([1, 2]), outputs=outputs)


@pytest.mark.parametrize(("output", "error"), [(nn.NdArray((3,)), ValueError), (np.ones(2), TypeError)])
def test_an_output_that_does_not_fit_is_refused(output, error):
    with pytest.raises(error, match="result of shape"):
        F.exp(array([1, 2]), outputs=[output])


def test_indexing_computes_at_once():
    a = array([[1, 2, 3], [4, 5, 6]])
    assert isinstance(a[1], nn.NdArray)
    assert_array_equal(a[1].data, [4, 5, 6])
    assert a[..., None].shape == (2, 3, 1)


def test_several_results_come_as_a_tuple():
    rows = F.split(array([[1, 2], [3, 4]]), axis=0)
    assert isinstance(rows, tuple)
    assert_array_equal(rows[1].data, [3, 4])


def test_empty_arrays_compute():
    a = nn.NdArray((0, 3))
    assert (a + 1).shape == (0, 3)
    assert_array_equal(F.sum(a).data, 0)


def test_nan_passes_through():
    y = F.tanh(array([np.nan, 0]))
    assert np.isnan(y.data[0])
    assert y.data[1] == 0


@pytest.mark.parametrize(
    ("call", "part"),
    [
        (lambda array: array.fill("a"), "pass a number"),
        (lambda array: array.cast("text"), "use a float, int or bool dtype"),
        (lambda array: array + np.ones((2, 3)), "NdArray.from_numpy_array"),
        (lambda array: array.__iadd__(np.ones((2, 3))), "NdArray.from_numpy_array"),
    ],
)
def test_what_is_no_number_or_array_of_atled_is_refused_and_changes_nothing(call, part):
    array = nn.NdArray.from_numpy_array(np.arange(6, dtype=np.float32).reshape(2, 3))
    with pytest.raises(TypeError, match=part):
        call(array)
    assert_array_equal(array.data, np.arange(6).reshape(2, 3))
    assert array.dtype == np.float32


def test_numpy_gets_no_other_dtype_without_a_copy():
    with pytest.raises(ValueError, match="allow the copy"):
        np.asarray(nn.NdArray((2,)), dtype=np.float64, copy=False)


def test_a_full_array_has_one_number_in_the_dtype_asked_for():
    array = nn.NdArray.full((2, 3), 7, np.int16)
    assert (array.shape, array.dtype) == ((2, 3), np.int16)
    assert array.data.tolist() == [[7, 7, 7], [7, 7, 7]]
