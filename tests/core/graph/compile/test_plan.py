"""Plans seen from outside: whatever was compiled, what the user observes stays exact."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import atled as nn
import atled.functions as F

pytestmark = pytest.mark.usefixtures("backend")


def leaf(values: Any, need_grad: bool | None = None) -> nn.Variable:
    return nn.Variable.from_numpy_array(np.asarray(values, np.float32), need_grad=need_grad)


@pytest.fixture
def no_collector() -> Iterator[None]:
    """Only reference counts free memory within the test."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def network(x: nn.Variable, w: nn.Variable) -> nn.Variable:
    h = F.tanh(F.affine(x, w)) * 2 + 1
    return F.sum(h * h - F.exp(h * 0.1), axis=1)


def network_by_numpy(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    h = np.tanh(x @ w) * 2 + 1
    return (h * h - np.exp(h * 0.1)).sum(axis=1)


# Graphs of one structure.


def test_graphs_of_one_structure_share_a_plan_but_no_memory():
    rng = np.random.default_rng(0)
    arrays = [(rng.standard_normal((3, 4)), rng.standard_normal((4, 5))) for _ in range(4)]
    leaves = [(leaf(a, True), leaf(b, True)) for a, b in arrays]
    results = [network(x, w) for x, w in leaves]
    for y in results:
        y.forward()
    for y in reversed(results):
        y.backward()
    assert len({id(y.plan) for y in results}) == 1
    for y, (a, b) in zip(results, arrays, strict=True):
        assert_allclose(y.d, network_by_numpy(a, b), rtol=1e-5)
    alone = [(leaf(a, True), leaf(b, True)) for a, b in arrays]
    for x, w in alone:
        y = network(x, w)
        y.forward()
        y.backward()
    for (x, w), (x_alone, w_alone) in zip(leaves, alone, strict=True):
        assert_array_equal(x.g, x_alone.g)
        assert_array_equal(w.g, w_alone.g)


def test_a_result_that_is_held_survives_graphs_of_its_structure():
    x, w = leaf(np.ones((3, 4))), leaf(np.ones((4, 5)))
    held = []
    for number in range(10):
        x.d = number / 10
        y = network(x, w)
        y.forward()
        held.append((y, y.d, network_by_numpy(x.d, w.d)))
    for y, view, expected in held:
        assert_allclose(y.d, expected, rtol=1e-5)
        assert_allclose(view, expected, rtol=1e-5)


def test_views_outlive_their_graph():
    views = []
    for number in range(10):
        y = leaf(np.full(1000, number)) * 2
        y.forward()
        views.append(y.d)
        del y
    gc.collect()
    for number in range(20):
        y = leaf(np.full(1000, -number)) * 3
        y.forward()
    for number, view in enumerate(views):
        assert (view == 2 * number).all()


def test_a_product_with_itself_has_a_plan_of_its_own():
    x, y = leaf([2]), leaf([5])
    square, product = x * x, x * y
    square.forward()
    product.forward()
    assert square.plan is not product.plan
    assert_array_equal([square.d, product.d], [[4], [10]])


def test_float_attributes_do_not_mix_between_graphs_of_one_structure():
    x = leaf([1, 2], True)
    results = [x * factor for factor in (2, 3, -1)]
    for y in results:
        y.forward()
    for y, factor in zip(results, (2, 3, -1), strict=True):
        assert_array_equal(y.d, [factor, 2 * factor])
        x.grad.zero()
        y.backward()
        assert_array_equal(x.g, [factor, factor])


def test_a_graph_that_is_rebuilt_every_step_accumulates_like_a_kept_one():
    x, w = leaf(np.ones((3, 4))), leaf(np.full((4, 5), 0.1), True)
    kept_w = leaf(np.full((4, 5), 0.1), True)
    kept = network(x, kept_w)
    for _ in range(5):
        y = network(x, w)
        y.forward()
        y.backward()
        kept.forward()
        kept.backward()
        assert_array_equal(y.d, kept.d)
        assert_array_equal(w.g, kept_w.g)


# What the user can look at.


def test_values_in_the_middle_can_be_looked_at_after_forward():
    x = leaf([0.5, 1])
    y = F.tanh(F.exp(x) * 2 + 1)
    y.forward()
    middle = y.parent.inputs[0]
    assert_allclose(middle.d, np.exp([0.5, 1]) * 2 + 1, rtol=1e-6)
    assert_allclose(middle.parent.inputs[0].d, np.exp([0.5, 1]) * 2, rtol=1e-6)


def test_a_handle_taken_after_compiling_follows_each_forward():
    x = leaf([0.5, 1])
    y = F.tanh(F.exp(x) * 2 + 1)
    y.forward()
    middle = y.parent.inputs[0]
    for value in (0.25, -1):
        x.d = value
        y.forward()
        assert_allclose(middle.d, [np.exp(value) * 2 + 1] * 2, rtol=1e-6)


def test_a_held_handle_in_the_middle_shows_value_and_gradient():
    x = leaf([0.5, 1], True)
    h = F.exp(x)
    y = F.sum(h * h + h)
    y.forward()
    y.backward()
    assert_allclose(h.d, np.exp(x.d), rtol=1e-6)
    assert_allclose(h.g, 2 * np.exp(x.d) + 1, rtol=1e-6)


@pytest.mark.parametrize("flag", [True, False])
def test_persistent_toggled_after_compiling_changes_no_result(flag):
    x = leaf([0.5, 1], True)
    h = F.exp(x) * 3
    h.persistent = not flag
    y = F.sum(F.tanh(h))
    y.forward()
    y.backward()
    value, gradient = y.d.copy(), x.g.copy()
    h.persistent = flag
    y.forward(clear_buffer=True)
    x.grad.zero()
    y.backward(clear_buffer=True)
    assert_array_equal(y.d, value)
    assert_array_equal(x.g, gradient)
    if flag:
        assert_allclose(h.d, 3 * np.exp([0.5, 1]), rtol=1e-6)


CHANGES: dict[str, tuple[Callable[[nn.Variable], Any], float]] = {
    "write": (lambda x: x.d.__setitem__(slice(None), 3), 3),
    "assign": (lambda x: setattr(x, "d", 3), 3),
    "fill": (lambda x: x.data.fill(3), 3),
    "zero": (lambda x: x.data.zero(), 0),
    "cast": (lambda x: x.data.cast(np.float64).__setitem__(slice(None), 3), 3),
    "cast to whole numbers": (lambda x: x.data.cast(np.int32).__setitem__(slice(None), 3), 3),
    "cast there and back": (lambda x: (x.data.cast(np.int64), x.data.cast(np.float32), x.data.fill(3)), 3),
    "other data": (lambda x: setattr(x, "data", nn.NdArray.from_numpy_array(np.full(2, 3, np.float32))), 3),
    "other gradient": (lambda x: setattr(x, "grad", nn.NdArray((2,))), 2),
    "rewire": (lambda x: x.rewire_on(leaf([3, 3], True)), 3),
    "same size": (lambda x: x.reset_shape((2,)), 2),
}


@pytest.mark.parametrize(("change", "value"), CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("hold", [False, True])
def test_whatever_changes_after_compiling_is_seen_by_the_next_run(change, value, hold):
    x = leaf([2, 2], True)
    y = F.sum(x * x * 5)
    y.forward()
    y.backward()
    held = (x.d, x.g) if hold else None
    change(x)
    x.grad.zero()
    for _ in range(2):
        y.forward()
        y.backward()
    assert_allclose(y.d, 2 * 5 * value**2)
    assert_allclose(x.g, np.full(2, 2 * 10 * value))
    del held


def test_a_running_statistic_filled_lazily_after_a_cast_is_used():
    x = leaf(np.ones((4, 3)))
    beta, gamma, mean, variance = (leaf(np.full((1, 3), value)) for value in (0, 1, 0, 1))
    y = F.batch_normalization(x, beta, gamma, mean, variance)
    y.forward()
    mean.data.cast(np.float64)
    mean.data.cast(np.float32)
    mean.data.fill(10)
    y.forward()
    assert_allclose(mean.d, np.full((1, 3), 9.1), rtol=1e-6)


# Big and odd graphs.


def test_a_chain_of_thousands_of_ops_needs_no_recursion(no_collector):
    x = leaf([1], True)
    y = x
    for _ in range(5000):
        y = y + 1
    y.forward()
    assert_array_equal(y.d, [5001])
    y.backward()
    assert_array_equal(x.g, [1])
    assert y.need_grad
    count = 0

    def counted(f: nn.Function) -> None:
        nonlocal count
        count += 1

    y.visit(counted)
    assert count == 5000
    value = weakref.ref(y.value)
    del y
    assert value() is None


def test_a_chain_of_thousands_of_views_needs_no_recursion():
    x = leaf([1, 2], True)
    y = x
    for number in range(2000):
        y = F.reshape(y, (2, 1) if number % 2 == 0 else (2,))
    z = F.sum(y * 3)
    z.forward()
    z.backward()
    assert_array_equal(z.d, 9)
    assert_array_equal(x.g, [3, 3])


def test_a_chain_of_diamonds_is_walked_once_per_op():
    x = leaf([1], True)
    y = x
    for _ in range(60):
        y = y + y
    y.forward()
    y.backward()
    assert_array_equal(y.d, np.float32(2.0**60))
    assert_array_equal(x.g, np.float32(2.0**60))


def test_one_variable_feeds_hundreds_of_readers():
    x = leaf([1, 2], True)
    y = F.concatenate(*[x * number for number in range(300)], axis=0)
    y.forward()
    y.backward()
    assert_array_equal(y.d[-2:], [299, 598])
    assert_array_equal(x.g, np.full(2, 299 * 300 / 2))


def test_scalars_and_empty_arrays_run():
    a, b = leaf(3.0, True), leaf(np.ones((0, 4)), True)
    y = a * a + F.sum(b * 2)
    y.forward()
    y.backward()
    assert y.shape == ()
    assert_array_equal(y.d, 9)
    assert_array_equal(a.g, 6)
    assert b.g.shape == (0, 4)


def test_nan_passes_and_is_gone_with_the_next_clean_input():
    x = leaf([np.nan, 1], True)
    y = F.tanh(x * 2) * x
    y.forward()
    y.backward()
    assert np.isnan(y.d[0]) and np.isnan(x.g[0])
    assert np.isfinite(y.d[1]) and np.isfinite(x.g[1])
    x.d = 1
    x.grad.zero()
    y.forward()
    y.backward()
    assert_allclose(y.d, np.tanh([2, 2]), rtol=1e-6)
    assert np.isfinite(x.g).all()


def test_a_leaf_rewired_on_a_graph_after_compiling_is_computed():
    x, a = leaf([2, 2], True), leaf([1, 1], True)
    y = F.sum(x * x * 5)
    y.forward()
    y.backward()
    x.rewire_on(a + 2)
    for _ in range(2):
        y.forward()
        y.backward()
    assert_array_equal(y.d, 90)
    assert_array_equal(x.g, [30, 30])
    assert_array_equal(a.g, [60, 60])


def test_forward_on_parts_and_the_whole_may_alternate():
    x = leaf([1, 2])
    h = x * 2
    a, b = h + 1, h * 3
    for value in (1, 2, 3):
        x.d = value
        a.forward()
        assert_array_equal(a.d, [2 * value + 1] * 2)
        x.d = 10 * value
        b.forward()
        assert_array_equal(b.d, [60 * value] * 2)
        assert_array_equal(h.d, [20 * value] * 2)
        assert_array_equal(a.d, [2 * value + 1] * 2)


def test_backward_uses_what_the_last_forward_left():
    x = leaf([2], True)
    y = F.exp(x * 0) * x * x
    y.forward()
    y.backward()
    z = y * 3
    z.forward()
    x.grad.zero()
    z.backward()
    assert_allclose(x.g, [12], rtol=1e-6)


def test_results_given_one_array_are_written_and_read_in_the_order_of_the_calls():
    x = leaf([1.0])
    first = F.tanh(x)
    second = F.sin(x)
    second.data = first.data
    result = first + second
    result.forward()
    assert_allclose(result.d, 2 * np.sin([1.0]), rtol=1e-5)


def test_a_result_given_the_array_of_its_input_changes_it_for_later_calls():
    x = leaf([1.0])
    first = F.tanh(x)
    first.data = x.data
    result = F.sin(x)
    total = first + result
    total.forward()
    assert_allclose(total.d, np.tanh([1.0]) + np.sin(np.tanh([1.0])), rtol=1e-5)


def test_parts_of_a_graph_may_have_contexts_of_their_own():
    x = leaf([0.1, 0.2], True)
    with nn.context_scope(nn.Context(["reference:double"])):
        h = F.exp(x)
    y = F.sum(h * x)
    y.forward()
    y.backward()
    assert h.d.dtype == np.float64
    assert y.d.dtype == np.float32
    assert_allclose(x.g, np.exp(x.d) * (1 + x.d), rtol=1e-6)


# Errors while running.


def test_a_failed_forward_can_be_repeated():
    x, t = leaf([[1, 2], [3, 4]]), leaf([[0], [1]])
    y = F.mean(F.softmax_cross_entropy(x, t))
    y.forward()
    value = y.d.copy()
    t.d = [[0], [2]]
    for _ in range(2):
        with pytest.raises(IndexError, match="out of range"):
            y.forward()
    t.d = [[0], [1]]
    y.forward()
    assert_array_equal(y.d, value)


# Memory.


def test_a_graph_is_freed_as_soon_as_nobody_holds_it(no_collector):
    x, w = leaf(np.ones((3, 4)), True), leaf(np.ones((4, 5)), True)
    y = network(x, w)
    y.forward()
    y.backward()
    y.backward(2)
    values = [weakref.ref(y.value), weakref.ref(y.parent.inputs[0].value)]
    del y
    assert [value() for value in values] == [None, None]


def test_leaves_do_not_keep_graphs_alive(no_collector):
    x = leaf([1, 2], True)
    y = x * 2
    y.forward()
    y.backward()
    value = weakref.ref(y.value)
    del y
    assert value() is None
    assert_array_equal(x.g, [2, 2])


# Listing.


def test_a_plan_lists_its_steps(backend):
    y = F.tanh(F.affine(leaf(np.ones((2, 3))), leaf(np.ones((3, 4)))))
    y.forward()
    text = str(y.plan)
    assert "Affine" in text and backend in text


def test_a_leaf_has_no_plan():
    with pytest.raises(RuntimeError, match="plan of a leaf"):
        _ = leaf([1]).plan
