"""Backward: where gradients go, what accumulates, what is overwritten, and what it refuses."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import atled as nn
import atled.functions as F
from atled.arrays.storage import POOL

pytestmark = pytest.mark.usefixtures("backend")


def leaf(values: Any, need_grad: bool | None = None) -> nn.Variable:
    return nn.Variable.from_numpy_array(np.asarray(values, np.float32), need_grad=need_grad)


# Accumulation.


def test_a_leaf_accumulates_over_backwards():
    x = leaf([2], True)
    y = x * x
    y.forward()
    x.g = 10
    seen = []
    for _ in range(3):
        y.backward()
        seen.append(float(x.g[0]))
    assert seen == [14, 18, 22]


def test_a_leaf_that_was_never_written_starts_at_zero():
    x = leaf([2], True)
    y = x * x
    y.forward()
    y.backward()
    assert_array_equal(x.g, [4])


def test_zeroing_between_backwards_starts_anew():
    x = leaf([2], True)
    y = x * x
    y.forward()
    for _ in range(3):
        x.grad.zero()
        y.backward()
        assert_array_equal(x.g, [4])


def test_nan_in_a_zeroed_gradient_is_gone():
    x = leaf([2], True)
    y = x * x
    y.forward()
    x.g = np.nan
    x.grad.zero()
    y.backward()
    assert_array_equal(x.g, [4])


def test_a_middle_variable_is_overwritten_and_then_accumulates_its_uses():
    x = leaf([2], True)
    h = x * 3
    z = h * h + F.exp(h * 0)
    z.forward()
    h.g = 100
    x.g = 10
    z.backward()
    assert_array_equal(h.g, [12])
    assert_array_equal(x.g, [46])
    z.backward()
    assert_array_equal(h.g, [12])
    assert_array_equal(x.g, [82])


def test_one_variable_used_many_times_sums_its_gradients():
    x = leaf([2, 3], True)
    y = F.sum(F.concatenate(x, x, x, x * x, axis=0))
    y.forward()
    y.backward()
    assert_array_equal(x.g, [7, 9])


def test_a_diamond_sums_both_ways():
    x = leaf([3], True)
    h = x * 2
    y = h * h + h
    y.forward()
    y.backward()
    assert_array_equal(h.g, [13])
    assert_array_equal(x.g, [26])


def test_two_graphs_accumulate_into_one_leaf():
    w = leaf([2], True)
    a, b = w * 3, w * w
    a.forward()
    b.forward()
    a.backward()
    b.backward()
    assert_array_equal(w.g, [7])


def test_a_product_with_itself_is_not_a_product_of_two():
    x, y = leaf([2], True), leaf([5], True)
    square, product = x * x, x * y
    for z in (square, product):
        z.forward()
    square.backward()
    assert_array_equal(x.g, [4])
    x.grad.zero()
    product.backward()
    assert_array_equal(x.g, [5])
    assert_array_equal(y.g, [2])


# The gradient of the root.


def test_the_gradient_of_the_root_is_lent_for_the_run():
    x = leaf([2, 3], True)
    y = x * x
    y.forward()
    y.g = 7
    y.backward()
    assert_array_equal(y.g, [7, 7])
    assert_array_equal(x.g, [4, 6])


@pytest.mark.parametrize(
    ("grad", "expected"),
    [
        (1, [4, 6]),
        (0.5, [2, 3]),
        (np.float32(2), [8, 12]),
        (np.array([1, 10]), [4, 60]),
        (np.array([1.0, 10.0]), [4, 60]),
        (nn.NdArray.from_numpy_array(np.array([2, 3], np.float32)), [8, 18]),
        (None, [36, 54]),
    ],
    ids=["1", "0.5", "float32", "int array", "float array", "NdArray", "None"],
)
def test_grad_may_be_a_number_an_array_or_the_present_one(grad, expected):
    x = leaf([2, 3], True)
    y = x * x
    y.forward()
    y.g = 9
    y.backward(grad)
    assert_array_equal(x.g, expected)
    assert_array_equal(y.g, [9, 9])


def test_each_backward_uses_the_grad_that_it_is_given():
    x = leaf([2], True)
    y = x * x
    y.forward()
    for grad in (1, 2, np.array([3]), 2, 1, 1, None, 1):
        x.grad.zero()
        y.g = 5
        y.backward(grad)
        assert_array_equal(x.g, 4 * (5 if grad is None else np.ravel(grad)))


@pytest.mark.parametrize(
    ("grad", "error"), [(np.ones(3), ValueError), ("a", TypeError), (nn.NdArray((3,)), ValueError)]
)
def test_a_grad_that_does_not_fit_changes_nothing(grad, error):
    x = leaf([2, 3], True)
    y = x * x
    y.forward()
    y.backward()
    with pytest.raises(error):
        y.backward(grad)
    assert_array_equal(x.g, [4, 6])
    y.backward()
    assert_array_equal(x.g, [8, 12])


def test_writing_into_a_gradient_in_the_middle_does_not_reach_the_next_backward():
    x = leaf([2], True)
    y = (x + 1) + 2
    y.forward()
    y.backward()
    y.parent.inputs[0].g[...] = 100
    x.grad.zero()
    y.backward()
    assert_array_equal(x.g, [1])


def test_gradients_in_the_middle_do_not_share_what_the_user_writes():
    x = leaf([2], True)
    a, b = x * 2, x * 3
    y = a + b
    del a, b
    y.forward()
    y.backward()
    first, second = (y.parent.inputs[i] for i in (0, 1))
    first.g[...] = 100
    assert_array_equal(second.g, [1])
    first.grad.fill(7)
    second.grad.fill(8)
    assert_array_equal(first.g, [7])
    y.backward()
    assert_array_equal(first.g, [1])
    assert_array_equal(second.g, [1])


def test_a_held_view_of_a_gradient_in_the_middle_shows_each_backward():
    x = leaf([2], True)
    y = (x + 1) * 3
    y.forward()
    view = y.parent.inputs[0].g
    for grad in (1, 2, 5):
        y.backward(grad)
        assert_array_equal(view, [3 * grad])


def test_a_gradient_in_the_middle_can_be_zeroed_and_comes_back():
    x = leaf([2], True)
    h = x * 2
    y = h * 3
    y.forward()
    for _ in range(2):
        y.backward()
        assert_array_equal(h.g, [3])
        h.grad.zero()
        assert_array_equal(h.g, [0])


# need_grad.


def test_without_need_grad_anywhere_backward_does_nothing():
    x = leaf([2])
    y = x * x
    y.forward()
    x.g = 3
    y.backward()
    assert_array_equal(x.g, [3])


def test_a_leaf_without_need_grad_is_left_alone():
    x, w = leaf([2]), leaf([3], True)
    y = x * w
    y.forward()
    x.g = 5
    y.backward()
    assert_array_equal(x.g, [5])
    assert_array_equal(w.g, [2])


def test_need_grad_false_in_the_middle_cuts_the_graph_and_true_restores_it():
    x = leaf([2], True)
    h = x * 3
    y = h * h
    y.forward()
    h.need_grad = False
    x.g = 5
    h.g = 6
    y.backward()
    assert_array_equal(x.g, [5])
    assert_array_equal(h.g, [6])
    h.need_grad = True
    y.backward()
    assert_array_equal(x.g, [41])
    h.need_grad = None
    y.backward()
    assert_array_equal(x.g, [77])


def test_need_grad_false_cuts_one_way_of_two():
    x = leaf([2], True)
    h = x * 3
    y = h * x
    y.forward()
    h.need_grad = False
    y.backward()
    assert_array_equal(x.g, [6])


def test_need_grad_true_in_the_middle_asks_for_a_gradient_there():
    x = leaf([1, 2])
    h = x * 2
    h.need_grad = True
    y = h * h
    y.forward()
    h.g = 7
    y.backward()
    assert_array_equal(h.g, [4, 8])
    assert_array_equal(x.g, [0, 0])
    assert y.need_grad


def test_need_grad_of_the_root_itself_does_not_matter():
    x = leaf([1, 2], True)
    y = x * x
    y.need_grad = False
    y.forward()
    y.backward()
    assert_array_equal(x.g, [2, 4])


def test_need_grad_toggled_after_compiling_is_followed():
    x, w = leaf([2]), leaf([3], True)
    y = x * w
    y.forward()
    y.backward()
    x.need_grad = True
    w.need_grad = False
    y.backward()
    assert_array_equal(x.g, [3])
    assert_array_equal(w.g, [2])


def test_unlink_stops_the_gradient():
    x = leaf([1, 2], True)
    y = F.unlink(x) * x
    y.forward()
    y.backward()
    assert_array_equal(x.g, [1, 2])


# Dtypes.


def test_a_leaf_of_whole_numbers_has_a_float_gradient():
    x = nn.Variable.from_numpy_array(np.array([1, 2, 3]), need_grad=True)
    y = F.sum(x * 0.5)
    y.forward()
    for expected in (0.5, 1.0):
        y.backward()
        assert_array_equal(x.g, [expected] * 3)
        assert x.g.dtype == np.float32
    assert x.d.dtype == np.int64


@pytest.mark.parametrize("dtype", [np.float64, np.float16])
def test_an_accumulated_gradient_keeps_its_dtype_and_its_views(dtype):
    x = nn.Variable.from_numpy_array(np.array([1, 2], dtype), np.zeros(2, dtype), need_grad=True)
    y = x * x
    y.forward()
    view = x.g
    for _ in range(2):
        x.grad.zero()
        y.backward()
        y.backward()
        assert_array_equal(view, [4, 8])
        assert x.g.dtype == dtype


def test_a_gradient_that_is_there_keeps_its_dtype_for_float64_data():
    x = nn.Variable.from_numpy_array(np.array([1.0, 2.0]), need_grad=True)
    view = x.g
    y = x * x
    y.forward()
    for expected in ([2, 4], [4, 8]):
        y.backward()
        assert_array_equal(view, expected)
        assert x.g.dtype == np.float32


# Several outputs.


def test_backward_from_one_of_several_outputs():
    x = leaf([[1, 2], [3, 4]], True)
    a, b = F.split(x, axis=0)
    a.forward()
    a.backward()
    assert_array_equal(x.g, [[1, 1], [0, 0]])
    assert_array_equal(b.d, [3, 4])


def test_gradients_of_several_outputs_meet():
    x = leaf([[1, 2], [3, 4]], True)
    a, b = F.split(x, axis=0)
    y = F.sum(a * 2) + F.sum(b * b)
    y.forward()
    y.backward()
    assert_array_equal(x.g, [[2, 2], [6, 8]])


def test_need_grad_false_on_one_of_several_outputs():
    x = leaf([[1, 2], [3, 4]], True)
    a, b = F.split(x, axis=0)
    b.need_grad = False
    y = F.sum(a) + F.sum(b)
    y.forward()
    y.backward()
    assert_array_equal(x.g, [[1, 1], [0, 0]])


def test_outputs_that_nobody_holds_are_no_obstacle():
    x = leaf([[1, 2], [3, 4]], True)
    y = F.split(x, axis=0)[1]
    y.forward()
    y.backward()
    assert_array_equal(x.g, [[0, 0], [1, 1]])


# Kinks and ties.


def test_a_tie_gives_the_gradient_of_max_and_min_to_the_first():
    for function, values, expected in ((F.max, [1, 3, 3], [0, 1, 0]), (F.min, [2, 1, 1], [0, 1, 0])):
        x = leaf(values, True)
        y = function(x)
        y.forward()
        y.backward()
        assert_array_equal(x.g, expected)


@pytest.mark.parametrize("function", [F.maximum2, F.minimum2])
def test_a_tie_gives_the_gradient_of_maximum2_and_minimum2_to_the_second(function):
    a, b = leaf([1], True), leaf([1], True)
    y = function(a, b)
    y.forward()
    y.backward()
    assert_array_equal(a.g, [0])
    assert_array_equal(b.g, [1])


@pytest.mark.parametrize(
    ("function", "slope"),
    [
        (F.abs, 1),
        (F.relu, 0),
        (F.leaky_relu, 1),
        (F.sign, 1),
        (F.round, 1),
        (lambda x: F.maximum_scalar(x, 0), 0),
        (lambda x: F.minimum_scalar(x, 0), 0),
    ],
)
def test_slopes_at_zero(function, slope):
    x = leaf([0], True)
    y = function(x)
    y.forward()
    y.backward()
    assert_array_equal(x.g, [slope])


def test_huber_loss_has_no_factor_one_half():
    y = F.huber_loss(leaf([0.5, 3]), leaf([0, 0]))
    y.forward()
    assert_array_equal(y.d, [0.25, 5])


def test_the_gradient_of_prod_is_that_of_y_over_x():
    x = leaf([2, 3, 4], True)
    y = F.prod(x)
    y.forward()
    y.backward()
    assert_allclose(x.g, [12, 8, 6], rtol=1e-6)


def test_binary_cross_entropy_differentiates_both_inputs():
    x, t = leaf([0.25], True), leaf([0.5], True)
    y = F.binary_cross_entropy(x, t)
    y.forward()
    y.backward()
    assert_allclose(x.g, [-0.25 / (0.25 * 0.75)], rtol=1e-5)
    assert_allclose(t.g, [np.log(3)], rtol=1e-5)


# Errors.


def test_backward_on_a_leaf_raises():
    with pytest.raises(RuntimeError, match="it is a leaf"):
        leaf([1], True).backward()


def test_backward_before_forward_raises_and_changes_nothing():
    x = leaf([1], True)
    y = F.exp(x)
    x.g = 3
    with pytest.raises(RuntimeError, match="call forward"):
        y.backward()
    assert_array_equal(x.g, [3])
    y.forward()
    y.backward()
    assert_allclose(x.g, [3 + np.e], rtol=1e-6)


def test_the_gradient_of_a_label_raises():
    x, t = leaf([[1, 2]], True), leaf([[1]], True)
    y = F.softmax_cross_entropy(x, t)
    y.forward()
    with pytest.raises(RuntimeError, match="target"):
        y.backward()
    t.need_grad = False
    y.backward()
    assert x.g.any()


def test_the_gradient_of_an_index_raises():
    i, w = leaf([0, 1], True), leaf(np.ones((3, 2)), True)
    y = F.embed(i, w)
    y.forward()
    with pytest.raises(RuntimeError, match="x0"):
        y.backward()


@pytest.mark.parametrize("function", [lambda x: F.equal_scalar(x, 1), lambda x: F.greater(x, x), F.logical_not])
def test_backward_through_a_comparison_raises(function):
    y = F.sum(function(leaf([1, 2], True)))
    y.forward()
    with pytest.raises(RuntimeError, match="no gradient"):
        y.backward()


def test_top_n_error_stops_the_gradient_silently():
    x, t = leaf([[1, 2]], True), leaf([[1]])
    y = F.sum(F.top_n_error(x, t)) + F.sum(x)
    y.forward()
    y.backward()
    assert_array_equal(x.g, [[1, 1]])


def test_labels_out_of_range_are_refused_before_anything_is_written():
    x, t = leaf([[1, 2]], True), leaf([[1]])
    y = F.softmax_cross_entropy(x, t)
    y.forward()
    t.d = 5
    with pytest.raises(IndexError, match="out of range"):
        y.forward()
    t.d = 0
    y.forward()
    assert_allclose(y.d, [[np.log(1 + np.e)]], rtol=1e-6)


def test_labels_are_truncated():
    y = F.softmax_cross_entropy(leaf([[1, 2]]), leaf([[0.9]]))
    y.forward()
    assert_allclose(y.d, [[np.log(1 + np.e)]], rtol=1e-6)


# Flags that only save memory.


@pytest.mark.parametrize("clear_buffer", [False, True])
@pytest.mark.parametrize("clear_no_need_grad", [False, True])
def test_results_do_not_depend_on_the_flags(clear_buffer, clear_no_need_grad):
    x, w = leaf([[0.1, 0.2]]), leaf([[1], [3]], True)
    h = F.tanh(F.affine(x, w))
    y = F.sum(h * h)
    for _ in range(2):
        y.forward(clear_buffer=clear_buffer, clear_no_need_grad=clear_no_need_grad)
        w.grad.zero()
        y.backward(clear_buffer=clear_buffer)
    value = np.tanh(0.7)
    assert_allclose(y.d, value**2, rtol=1e-6)
    assert_allclose(w.g.ravel(), 2 * value * (1 - value**2) * np.array([0.1, 0.2]), rtol=1e-5)
    assert_array_equal(x.d, np.array([[0.1, 0.2]], np.float32))


@pytest.mark.parametrize("make", [lambda h, x: F.add2(h, x, inplace=True), lambda h, x: F.relu(h, inplace=True) + x])
def test_the_wish_for_in_place_does_not_change_results(make):
    x = leaf([-1, 2], True)
    h = x * 3
    y = make(h, x)
    z = F.sum(y * h)
    z.forward()
    z.backward()
    with_relu = y.parent.inputs[0].parent.name == "ReLU"
    expected = [3 * 2 * -1, 3 * 8 * 2] if with_relu else [24 * -1, 24 * 2]
    assert_array_equal(h.d, [-3, 6])
    assert_allclose(x.g, expected, rtol=1e-6)


# Arrays that several Variables have in common.


def test_results_in_one_array_have_gradients_of_their_own_in_the_backward_of_one_call():
    x = leaf([1, 2], True)
    first, second = F.tanh(x), F.sin(x)
    second.data = first.data
    total = first - second
    total.parent.forward([first, second], [total])
    total.g = 1
    total.parent.backward([first, second], [total])
    assert_array_equal(first.g, [1, 1])
    assert_array_equal(second.g, [-1, -1])


def test_leaves_with_one_gradient_array_add_up_in_it():
    x, w = leaf([2, 3], True), leaf([5, 7], True)
    w.grad = x.grad
    y = x * w
    y.forward()
    for times in (1, 2):
        y.backward()
        assert_array_equal(x.g, np.array([7, 10]) * times)


def test_a_leaf_and_its_unlinked_reshaping_add_up_in_one_gradient():
    x = leaf([2, 3], True)
    column = x.reshape((2, 1), unlink=True)
    y = F.sum(x) + F.sum(column * column)
    y.forward()
    y.backward()
    assert_array_equal(x.g, [5, 7])


@pytest.mark.slow
def test_a_graph_that_is_rebuilt_every_step_takes_no_new_memory():
    counts = []
    for _ in range(6):
        x = leaf(np.ones((40, 40)), True)
        y = F.tanh(x) * x
        y.forward()
        y.backward(np.ones((40, 40)))
        del x, y
        gc.collect()
        counts.append(POOL.statistics()["allocated_count"])
    assert counts[-1] == counts[-3]


def test_a_gradient_that_is_given_again_is_read_where_it_is() -> None:
    x = nn.Variable.from_numpy_array(np.arange(4, dtype=np.float32), need_grad=True)
    y = F.tanh(x)
    given = nn.NdArray.from_numpy_array(np.ones(4, np.float32))
    slope = 1 - np.tanh(np.arange(4.0)) ** 2
    for factor in (1, 2, 3, 4):
        given.data[...] = factor
        y.forward()
        x.grad.zero()
        y.backward(given)
        np.testing.assert_allclose(x.g, factor * slope, rtol=1e-5)
    np.testing.assert_array_equal(given.data, 4.0)
    for _ in range(3):  # the gradient of the leaf itself, which backward writes
        y.forward()
        before = x.g.copy()
        y.backward(x.grad)
        np.testing.assert_allclose(x.g, before + before * slope, rtol=1e-5)
    other = nn.NdArray.from_numpy_array(np.full(4, 0.5, np.float32))
    for array in (other, given, other, other):
        x.grad.zero()
        y.backward(array)
        np.testing.assert_allclose(x.g, array.data * slope, rtol=1e-5)
    given.data = np.full(4, 2, np.float32)
    given.cast(np.float64)
    for _ in range(3):
        x.grad.zero()
        y.backward(given)
        np.testing.assert_allclose(x.g, 2 * slope, rtol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_gradient_of_what_is_read_twice_has_the_dtype_of_the_value(dtype):
    x = nn.Variable.from_numpy_array(np.ones((2, 2), dtype), need_grad=True)
    y = F.sum(x * 2.0) + F.sum(F.relu(x))
    y.forward()
    y.backward()
    assert x.g.dtype == dtype


def test_what_a_call_keeps_for_backward_outlives_the_caches():
    x, other = leaf([[1, 2, 0.5], [0, 3, 1]], True), leaf([1])
    y = F.max_pooling(F.reshape(x * 2, (1, 1, 2, 3)), (2, 2), stride=(1, 1))
    y.forward()
    nn.clear_memory_cache()
    other.reset_shape((2,), force=True)  # raises the epoch
    y.backward()
    assert_array_equal(x.g, [[0, 0, 0], [0, 4, 0]])
