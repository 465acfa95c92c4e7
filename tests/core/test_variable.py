"""Variables: shapes, flags, arrays, and what they share."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import atled as nn
import atled.functions as F
from atled.errors import RefusedError

pytestmark = pytest.mark.usefixtures("backend")


def leaf(values: Any, need_grad: bool | None = None) -> nn.Variable:
    return nn.Variable.from_numpy_array(np.asarray(values, np.float32), need_grad=need_grad)


# Shapes and dtypes.


@pytest.mark.parametrize("shape", [(), [], (2, 3), [2, 3], range(1, 4), np.array([2, 3]), (np.int64(2),), (0, 3)])
def test_any_sequence_of_whole_numbers_is_a_shape(shape):
    v = nn.Variable(shape)
    assert v.shape == tuple(int(size) for size in shape)
    assert type(v.shape) is tuple
    assert (v.ndim, v.size) == (len(v.shape), int(np.prod(v.shape)))


@pytest.mark.parametrize("shape", [(2.5,), "34", (None,), (2, "3"), 1.5])
def test_anything_else_is_refused_as_a_shape(shape):
    with pytest.raises(TypeError, match="not a shape"):
        nn.Variable(shape)


def test_a_negative_size_is_refused():
    with pytest.raises(ValueError, match="negative size"):
        nn.Variable((2, -1))


def test_a_fresh_variable_is_float32_zeros():
    v = nn.Variable((2, 3))
    assert v.d.dtype == v.g.dtype == np.float32
    assert not v.d.any()
    assert v.d is not v.g


@pytest.mark.parametrize("dtype", ["int64", "float64", "bool", "uint8", "float16"])
def test_from_numpy_array_keeps_the_dtype_of_data_and_gradient(dtype):
    v = nn.Variable.from_numpy_array(np.ones((2,), dtype), np.ones((2,), dtype))
    assert v.d.dtype == v.g.dtype == np.dtype(dtype)


def test_from_numpy_array_copies():
    array = np.ones(2, np.float32)
    v = nn.Variable.from_numpy_array(array)
    array[:] = 5
    assert_array_equal(v.d, [1, 1])


@pytest.mark.parametrize("dtype", ["int64", "float64", "bool", "uint8", "float16"])
def test_functions_compute_in_float32_and_leave_the_input_in_its_dtype(dtype):
    x = nn.Variable.from_numpy_array(np.array([1, 0, 1], dtype))
    y = F.mean(x * 0.5)
    y.forward()
    assert y.d.dtype == np.float32
    assert_allclose(y.d, 1 / 3, rtol=1e-6)
    assert x.d.dtype == np.dtype(dtype)


@pytest.mark.parametrize("function", [F.identity, lambda x: F.reshape(x, (3, 1)), F.unlink])
def test_functions_that_pass_elements_on_keep_the_dtype(function):
    y = function(nn.Variable.from_numpy_array(np.array([1, 2, 3])))
    y.forward()
    assert y.d.dtype == np.int64
    assert_array_equal(y.d.ravel(), [1, 2, 3])


def test_size_from_axis_counts_from_the_axis_on():
    v = nn.Variable((2, 3, 4))
    assert [v.size_from_axis(axis) for axis in (-1, 0, 1, 2, 3)] == [24, 24, 12, 4, 1]
    for array in (v, v.data):
        with pytest.raises(RefusedError, match=r"size_from_axis\(4\) of shape .*no such axis"):
            array.size_from_axis(4)


@pytest.mark.parametrize("zero", [0, 0.0, np.float32(0), np.zeros((2, 2))])
def test_a_gradient_of_0_is_given_to_backward(zero):
    x = leaf([[1, 2], [3, 4]])
    y = x * x
    y.forward()
    x.g = 5
    y.backward(zero)
    assert_array_equal(x.g, np.full((2, 2), 5))


def test_apply_sets_attributes_and_gives_the_variable():
    v = nn.Variable((2,))
    assert v.apply(need_grad=True, persistent=True, d=3) is v
    assert v.need_grad
    assert v.persistent
    assert_array_equal(v.d, [3, 3])
    with pytest.raises(AttributeError, match="shape"):
        v.apply(shape=(3,))
    with pytest.raises(AttributeError, match="unknown"):
        v.apply(unknown=1)


# Values in and out.


@pytest.mark.parametrize(
    "values",
    [3, 2.5, 0, np.int64(3), np.ones((2, 3)), np.arange(3), [[1], [2]], np.ones((2, 3), bool), np.ones((1, 1, 2, 3))],
)
def test_assigning_broadcasts_and_keeps_the_dtype(values):
    v = nn.Variable((2, 3))
    v.d = values
    v.g = values
    assert v.d.dtype == v.g.dtype == np.float32
    expected = np.empty((2, 3), np.float32)
    expected[...] = values
    assert_array_equal(v.d, expected)
    assert_array_equal(v.g, v.d)


@pytest.mark.parametrize("values", [np.ones((3, 2)), np.ones(4), np.ones((2, 2, 3)), np.ones((0, 2, 3))])
def test_assigning_what_does_not_broadcast_changes_nothing(values):
    v = leaf([[1, 2, 3], [4, 5, 6]])
    with pytest.raises(ValueError, match="does not broadcast"):
        v.d = values
    assert_array_equal(v.d, [[1, 2, 3], [4, 5, 6]])


@pytest.mark.parametrize("values", ["a", None, object(), np.array([1j]), np.array(["a"])])
def test_assigning_no_numbers_changes_nothing(values):
    v = leaf([1, 2])
    with pytest.raises(TypeError, match="pass numbers"):
        v.d = values
    assert_array_equal(v.d, [1, 2])


def test_writing_through_d_reaches_the_next_forward():
    x = leaf([1, 2])
    y = x * x
    view = x.d
    for value in (3, 4):
        view[...] = value
        y.forward()
        assert_array_equal(y.d, [value**2] * 2)


def test_a_view_shows_what_each_forward_computes():
    x = leaf([1, 2])
    y = x * 2
    y.forward()
    view = y.d
    x.d = 5
    y.forward()
    assert_array_equal(view, [10, 10])


def test_writing_through_g_reaches_the_next_backward():
    x = leaf([1, 2], True)
    y = x * 3
    y.forward()
    y.backward()
    view = x.g
    view[...] = 10
    y.backward()
    assert_array_equal(view, [13, 13])
    view *= 2
    y.backward()
    assert_array_equal(view, [29, 29])


def test_data_is_a_wrapper_that_compares_by_what_it_wraps():
    v = nn.Variable((2,))
    assert v.data == v.data
    assert hash(v.data) == hash(v.data)
    assert v.data != v.grad


def test_variables_compare_by_identity():
    a, b = leaf([1]), leaf([1])
    assert a == a
    assert a != b
    assert len({a, b, a}) == 2


@pytest.mark.parametrize("other", [1, None, np.ones(1), "a"])
def test_comparing_with_anything_else_is_an_error(other):
    with pytest.raises(TypeError, match="compares identities"):
        leaf([1]) == other  # noqa: B015 - the comparison is what is tested


# Replacing arrays.


def test_existing_graphs_read_data_put_in_its_place():
    x = leaf([1, 2])
    y = x * 2
    y.forward()
    x.data = nn.NdArray.from_numpy_array(np.array([5, 6], np.float32))
    y.forward()
    assert_array_equal(y.d, [10, 12])


def test_data_of_another_dtype_may_be_put_in_its_place():
    x = leaf([1, 2])
    y = x * 2
    y.forward()
    x.data = nn.NdArray.from_numpy_array(np.array([5, 6]))
    y.forward()
    assert_array_equal(y.d, [10, 12])
    assert y.d.dtype == np.float32


def test_existing_graphs_write_data_put_in_the_place_of_a_result():
    x = leaf([1, 2])
    y = x * 2
    y.forward()
    array = nn.NdArray((2,))
    y.data = array
    y.forward()
    assert_array_equal(array.data, [2, 4])


def test_existing_graphs_accumulate_into_a_gradient_put_in_its_place():
    x = leaf([1, 2], True)
    y = x * 2
    y.forward()
    y.backward()
    x.grad = nn.NdArray.from_numpy_array(np.array([10, 20], np.float32))
    y.backward()
    assert_array_equal(x.g, [12, 22])


@pytest.mark.parametrize("name", ["data", "grad"])
def test_an_array_of_another_shape_is_refused(name):
    v = leaf([1, 2])
    with pytest.raises(ValueError, match="has shape"):
        setattr(v, name, nn.NdArray((3,)))
    with pytest.raises(TypeError, match="not an NdArray"):
        setattr(v, name, np.ones(2))
    assert_array_equal(v.d, [1, 2])


@pytest.mark.parametrize("view", [lambda x: F.reshape(x, (2, 1)), F.unlink, lambda x: x.reshape((1, 2))])
def test_a_view_follows_data_put_in_the_place_of_its_input(view):
    x = leaf([1, 2])
    y = view(x)
    z = y * 2
    z.forward()
    x.data = nn.NdArray.from_numpy_array(np.array([5, 6], np.float32))
    z.forward()
    assert_array_equal(z.d.ravel(), [10, 12])
    assert_array_equal(y.d.ravel(), [5, 6])


# Shapes that change.


def test_reset_shape_is_followed_by_the_graph_at_the_next_forward():
    x = leaf(np.ones((2, 3)), True)
    h = x * 2
    y = F.sum(h, axis=0)
    y.forward()
    y.backward()
    x.reset_shape((4, 5), force=True)
    x.d = 3
    y.forward()
    assert (h.shape, y.shape) == ((4, 5), (5,))
    assert_array_equal(y.d, [24] * 5)
    y.backward()
    assert_array_equal(x.g, np.full((4, 5), 2))


def test_reset_shape_to_another_size_needs_force():
    x = leaf([1, 2])
    with pytest.raises(ValueError, match="force=True"):
        x.reset_shape((3,))
    assert x.shape == (2,)


def test_reset_shape_to_the_same_size_keeps_the_values():
    x = leaf([1, 2])
    x.reset_shape((2, 1))
    assert_array_equal(x.d, [[1], [2]])


def test_a_shape_that_no_longer_fits_is_refused_at_forward():
    x, w = leaf(np.ones((2, 3))), leaf(np.ones((3, 4)))
    y = F.affine(x, w)
    y.forward()
    x.reset_shape((2, 5), force=True)
    with pytest.raises(ValueError, match="Affine"):
        y.forward()


def test_a_result_with_a_shape_that_its_function_does_not_make_is_refused_at_forward():
    x = leaf(np.ones((2, 3)))
    y = x * 2
    y.forward()
    y.reset_shape((100,), force=True)
    with pytest.raises(RuntimeError, match="reset_shape on the inputs"):
        y.forward()


@pytest.mark.parametrize(
    ("build", "shape", "remedy"),
    [
        (lambda x: F.reshape(x, (3, 2)), (3, 4), "product is 12"),
        (lambda x: F.top_k_data(x, 6, base_axis=0), (1, 2), "use 1 to 2"),
        (lambda x: F.prelu(x, leaf([1, 2])), (3, 4), "use one slope"),
    ],
)
def test_attributes_that_do_not_fit_a_new_shape_are_refused(build, shape, remedy):
    x = leaf([[1, 2], [3, 4], [5, 6]])
    y = build(x)
    y.forward()
    x.reset_shape(shape, force=True)
    with pytest.raises(ValueError, match=remedy):
        y.forward()


def test_held_views_survive_reset_shape():
    x = leaf([1, 2])
    y = x * 2
    y.forward()
    held = [x.d, y.d]
    x.reset_shape((3,), force=True)
    x.d = 7
    y.forward()
    assert_array_equal(held[0], [1, 2])
    assert_array_equal(held[1], [2, 4])


def test_backward_after_reset_shape_asks_for_forward():
    x = leaf([1, 2], True)
    y = x * x
    y.forward()
    x.reset_shape((3,), force=True)
    with pytest.raises(RuntimeError, match="call forward"):
        y.backward()


# reshape.


def test_reshape_keeps_the_link():
    x = leaf([[1, 2], [3, 4]], True)
    y = x.reshape((4,))
    assert y.parent.name == "Reshape"
    (y * y).forward()
    z = F.sum(y * y)
    z.forward()
    z.backward()
    assert_array_equal(x.g, [[2, 4], [6, 8]])


def test_reshape_shares_memory():
    x = leaf([1, 2, 3])
    y = F.reshape(x, (3, 1))
    y.forward()
    y.d[...] = 7
    assert_array_equal(x.d, [7, 7, 7])


@pytest.mark.parametrize("shape", [(-1, 2), [3, -1], np.array([3, 2]), range(2, 4)])
def test_reshape_takes_any_sequence_and_one_unknown_size(shape):
    assert leaf(np.ones((2, 3))).reshape(shape).size == 6


@pytest.mark.parametrize("shape", [(4,), (-1, 4), (-1, -1)])
def test_reshape_to_another_size_is_refused(shape):
    with pytest.raises(ValueError, match="Reshape"):
        leaf(np.ones((2, 3))).reshape(shape)


def test_reshape_with_unlink_is_a_leaf_over_the_same_memory():
    x = leaf([1, 2], True)
    h = x * 2
    r = h.reshape((2, 1), unlink=True)
    h.forward()
    assert r.parent is None
    assert_array_equal(r.d, [[2], [4]])
    r.g[...] = 3
    assert_array_equal(h.g, [3, 3])


# unlinked.


def test_unlinked_shares_both_arrays():
    x = leaf([1, 2], True)
    u = x.unlinked()
    u.d[...] = 5
    u.g[...] = 6
    assert_array_equal(x.d, [5, 5])
    assert_array_equal(x.g, [6, 6])
    assert u.parent is None


def test_unlinked_copies_need_grad_only_where_it_was_set():
    x = leaf([1], True)
    assert x.unlinked().need_grad
    assert not (x * 2).unlinked().need_grad
    assert (x * 2).unlinked(need_grad=True).need_grad
    assert not x.unlinked(need_grad=False).need_grad


def test_get_unlinked_variable_shares_both_arrays_and_has_need_grad_as_it_is_in_effect():
    x = nn.Variable((2,), need_grad=True)
    h = x * 2
    u = h.get_unlinked_variable()
    assert u == h and u.parent is None and u.need_grad
    assert u.data == h.data and u.grad == h.grad
    assert not h.get_unlinked_variable(need_grad=False).need_grad
    assert not (nn.Variable((2,)) * 2).get_unlinked_variable().need_grad


def test_unlinked_is_a_root_that_accumulates():
    x = leaf([2], True)
    h = x * 3
    u = h.unlinked(need_grad=True)
    z = u * u
    h.forward()
    z.forward()
    z.backward()
    z.backward()
    assert_array_equal(u.g, [24])
    assert_array_equal(x.g, [0])


def test_unlinked_equals_what_it_came_from():
    x = leaf([1])
    hashed = hash(x)
    u = x.unlinked()
    assert x == u
    assert hash(x) == hash(u) == hashed
    assert u is not x


def test_unlinked_follows_arrays_and_shapes():
    x = leaf([1, 2], True)
    u = x.unlinked()
    y = u * 2
    x.data = nn.NdArray.from_numpy_array(np.array([5, 6], np.float32))
    y.forward()
    assert_array_equal(y.d, [10, 12])
    x.reset_shape((2, 1))
    assert u.shape == (2, 1)
    y.forward()
    assert_array_equal(y.d, [[10], [12]])


def test_a_variable_and_its_unlinked_twin_accumulate_into_one_gradient():
    x = leaf([2], True)
    u = x.unlinked()
    y = x * u
    y.forward()
    y.backward()
    assert_array_equal(x.g, [4])


def test_no_gradient_flows_to_an_unlinked_twin_without_need_grad():
    x = leaf([2], True)
    u = x.unlinked(need_grad=False)
    y = x * u
    y.forward()
    y.backward()
    assert_array_equal(x.g, [2])


def test_unlinked_does_not_keep_the_graph_alive():
    x = leaf([2])
    h = x * 3
    value = weakref.ref(h.value)
    u = h.unlinked()
    del h
    gc.collect()
    assert value() is None
    assert u.shape == (1,)


# rewire_on.


def test_rewire_on_puts_another_graph_before_what_follows():
    a, x = leaf([1, 2], True), leaf([3, 4], True)
    b = F.exp(a)
    c = b * 2
    c.forward()
    c.backward()
    y = x + 1
    b.rewire_on(y)
    c.forward()
    assert_array_equal(c.d, [8, 10])
    a.g = 0
    c.backward()
    assert_array_equal(x.g, [2, 2])
    assert_array_equal(a.g, [0, 0])


def test_rewire_on_takes_the_parent_over():
    b, y = F.exp(leaf([1, 2])), F.tanh(leaf([3, 4]))
    b.rewire_on(y)
    assert b.parent.name == "Tanh"
    assert y.parent is None
    assert b == y


def test_rewire_on_a_leaf_reads_the_leaf():
    a, x = leaf([1, 2]), leaf([3, 4])
    c = a * 2
    c.forward()
    a.rewire_on(x)
    c.forward()
    assert_array_equal(c.d, [6, 8])
    x.data = nn.NdArray.from_numpy_array(np.array([5, 6], np.float32))
    c.forward()
    assert_array_equal(c.d, [10, 12])


def test_rewire_on_itself_changes_nothing():
    b = F.exp(leaf([0, 0]))
    b.rewire_on(b)
    b.forward()
    assert_array_equal(b.d, [1, 1])


def test_rewire_on_what_took_the_parent_over_takes_it_back():
    b, y = leaf([1, 2]), leaf([3, 4]) * 2
    b.rewire_on(y)
    y.rewire_on(b)
    assert b.parent is None
    y.forward()
    assert_array_equal(y.d, [6, 8])


def test_rewire_on_refuses_another_shape_and_circles():
    a = leaf([1, 2])
    b = a * 2
    c = b * 3
    with pytest.raises(ValueError, match="shape"):
        b.rewire_on(leaf([1, 2, 3]))
    with pytest.raises(ValueError, match="circle"):
        b.rewire_on(c)
    c.forward()
    assert_array_equal(c.d, [6, 12])


def test_rewiring_on_what_is_no_variable_is_refused():
    with pytest.raises(TypeError, match="pass a Variable"):
        nn.Variable((2,)).rewire_on(3)


def test_rewire_on_is_followed_by_reset_shape():
    a, x = leaf([1, 2]), leaf([3, 4])
    b, y = a * 2, x * 3
    c = b + 1
    b.rewire_on(y)
    del y
    x.reset_shape((3,), force=True)
    x.d = 1
    c.forward()
    assert_array_equal(c.d, [4, 4, 4])


# need_grad and persistent.


def test_need_grad_that_is_not_set_is_false_on_leaves_and_derived_on_results():
    x, y = leaf([1]), leaf([1], True)
    assert not x.need_grad
    assert not (x * 2).need_grad
    assert (x * y).need_grad
    assert not F.unlink(y).need_grad
    y.need_grad = None
    assert not y.need_grad


def test_results_derive_need_grad_at_each_look():
    x = leaf([1])
    y = x * 2 + 1
    assert not y.need_grad
    x.need_grad = True
    assert y.need_grad


def test_persistent_keeps_data_and_gradient():
    x = leaf([1, 2], True)
    h = x * 2
    h.persistent = True
    y = F.sum(F.exp(h))
    y.forward(clear_buffer=True)
    assert_array_equal(h.d, [2, 4])
    y.backward(clear_buffer=True)
    assert_allclose(h.g, np.exp([2, 4]), rtol=1e-6)


# Operators and indices.


@pytest.mark.parametrize(
    ("build", "name", "expected"),
    [
        (lambda v: v + 1, "AddScalar", 3),
        (lambda v: 1 + v, "AddScalar", 3),
        (lambda v: v - 1, "AddScalar", 1),
        (lambda v: 1 - v, "RSubScalar", -1),
        (lambda v: v * 3, "MulScalar", 6),
        (lambda v: 3 * v, "MulScalar", 6),
        (lambda v: v / 4, "MulScalar", 0.5),
        (lambda v: 1 / v, "RDivScalar", 0.5),
        (lambda v: v**3, "PowScalar", 8),
        (lambda v: 3**v, "RPowScalar", 9),
        (lambda v: -v, "MulScalar", -2),
        (lambda v: v + v, "Add2", 4),
        (lambda v: v - v, "Sub2", 0),
        (lambda v: v * v, "Mul2", 4),
        (lambda v: v / v, "Div2", 1),
        (lambda v: v**v, "Pow2", 4),
        (lambda v: v * np.float32(3), "MulScalar", 6),
        (lambda v: np.float64(3) * v, "MulScalar", 6),
        (lambda v: np.int64(3) - v, "RSubScalar", 1),
        (lambda v: v * np.array(3.0), "MulScalar", 6),
        (lambda v: np.array(3.0) * v, "MulScalar", 6),
    ],
)
def test_operators_record_the_function_of_their_kind(build, name, expected):
    y = build(leaf([2]))
    assert y.parent.name == name
    y.forward()
    assert_allclose(y.d, [expected], rtol=1e-6)


def test_dividing_by_zero_divides_as_floating_point_numbers_do():
    y = leaf([1, -1, 0]) / 0
    y.forward()
    assert_array_equal(y.d, [np.inf, -np.inf, np.nan])
    y = leaf([1, -1, 0]) / -0.0
    y.forward()
    assert_array_equal(y.d, [-np.inf, np.inf, np.nan])


def test_plus_gives_the_variable_itself():
    v = leaf([1])
    assert +v is v


def test_an_augmented_assignment_makes_a_new_variable():
    x = leaf([1])
    y = x
    y += 1
    assert y is not x
    y.forward()
    assert_array_equal(x.d, [1])


@pytest.mark.parametrize("other", [np.ones(2), "a", None, [1, 2], 1j])
@pytest.mark.parametrize("operate", [lambda a, b: a + b, lambda a, b: b * a, lambda a, b: a**b, lambda a, b: b - a])
def test_operators_refuse_arrays_and_other_types(other, operate):
    with pytest.raises(TypeError):
        operate(leaf([1, 2]), other)


_INDICES = [
    (0,),
    (-1,),
    (slice(1, 3),),
    (slice(None, None, 2),),
    (slice(None, None, -1),),
    (slice(3, 0, -2), slice(None)),
    (slice(None), 1),
    (slice(None), -1),
    (Ellipsis, 1),
    (Ellipsis,),
    (None,),
    (np.newaxis, Ellipsis, None),
    (1, Ellipsis, None, 2),
    (slice(5, 2),),
    (slice(-100, 100), slice(0, 0)),
    (np.int64(2), slice(-2, None)),
    (slice(None), None, slice(1, None), 0),
    (slice(-1, -6, -1), slice(None, 1, -1)),
    (2, 3, 1),
    (),
]


@pytest.mark.parametrize("key", _INDICES, ids=repr)
def test_an_index_means_what_it_means_in_numpy(key):
    array = np.arange(60, dtype=np.float32).reshape(4, 5, 3)
    x = leaf(array, True)
    y = x[key]
    y.forward()
    assert y.shape == array[key].shape
    assert_array_equal(y.d, array[key])
    y.backward()
    expected = np.zeros_like(array)
    expected[key] = 1
    assert_array_equal(x.g, expected)
    assert_array_equal(x.data[key].data, array[key])


@pytest.mark.parametrize("key", [4, -5, (0, 5), (0, 0, 0, 0), (Ellipsis, Ellipsis)])
def test_an_index_out_of_range_is_refused(key):
    with pytest.raises(IndexError):
        leaf(np.ones((4, 5)))[key]


@pytest.mark.parametrize("key", [[0, 1], np.array([0, 1]), True, "a", 1.0, np.ones((4, 5), bool), nn.Variable((2,))])
def test_what_is_no_basic_index_is_refused(key):
    with pytest.raises(TypeError, match="basic index"):
        leaf(np.ones((4, 5)))[key]


def test_an_array_as_index_is_named_by_dtype_and_shape():
    with pytest.raises(TypeError, match=r"index \(0, bool\[5\]\) of shape \(4, 5\): ndarray is not a basic index"):
        leaf(np.ones((4, 5)))[0, np.ones(5, bool)]


def test_true_is_no_index_behind_an_equal_one_that_is():
    a = nn.NdArray.from_numpy_array(np.arange(6).reshape(2, 3))
    assert_array_equal(a[1].data, [3, 4, 5])
    assert_array_equal(a[1:, 0].data, [3])
    for key in (True, (True,), (slice(1, None), False)):
        with pytest.raises(TypeError, match="basic index"):
            a[key]


# Looking around.


def test_visit_calls_each_function_once_with_inputs_first():
    x = leaf([1])
    y = F.add2(F.exp(x), F.sin(x))
    z = F.tanh(y) * F.cos(y)
    names: list[str] = []
    z.visit(lambda f: names.append(f.name))
    assert names == ["Exp", "Sin", "Add2", "Tanh", "Cos", "Mul2"]


def test_visit_check_stops_at_the_first_true_answer():
    x = leaf([1])
    z = F.tanh(F.exp(F.sin(x)))
    seen: list[str] = []

    def is_exp(f: nn.Function) -> bool:
        seen.append(f.name)
        return f.name == "Exp"

    assert z.visit_check(is_exp)
    assert seen == ["Sin", "Exp"]
    assert not z.visit_check(lambda f: f.name == "Cos")


def test_parent_leads_back_to_the_same_variables():
    x = leaf([1])
    y = F.exp(x)
    assert x.parent is None
    assert y.parent.inputs[0] is x
    assert y.parent.outputs[0] is y
    assert y.parent == y.parent


def test_forward_on_a_middle_variable_runs_only_what_is_before_it():
    x = leaf([1, 2])
    h = x * 2
    y = h * 3
    y.d = 7
    h.forward()
    assert_array_equal(h.d, [2, 4])
    assert_array_equal(y.d, [7, 7])


def test_numpy_gets_the_values_and_not_an_object():
    v = leaf([1, 2, 3])
    found = np.asarray(v)
    assert found.dtype == np.float32 and found.tolist() == [1, 2, 3]
    v.d[1] = 5
    assert found.tolist() == [1, 5, 3], "a view on the values"
    assert np.asarray(v, np.float64).dtype == np.float64 and np.array(v) is not found
    assert np.stack([v, v]).shape == (2, 3)
    assert np.asarray(nn.Variable(())).shape == ()
    # NumPy does not compute on it by itself: these are ops.
    assert isinstance(np.array(3.0) * v, nn.Variable) and isinstance(np.float32(3) + v, nn.Variable)
