"""Forwards that are told that no backward follows store nothing for one, and one that follows all the same is right."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import atled as nn
import atled.functions as F
import atled.solvers as S


@pytest.fixture(autouse=True, params=["reference", "fusing"])
def _context(request):
    with nn.context_scope(nn.Context([f"{request.param}:float"], fallback="raise")):
        yield


def leaf(values, need_grad=None):
    return nn.Variable.from_numpy_array(np.array(values, np.float32), need_grad=need_grad)


def loss_of(x, w):
    """What backward reads of it is not held: sin(w x) and exp of that."""
    return F.sum(F.exp(F.sin(w * x)) * 2)


def gradient(x, w):
    """Of `loss_of`, with respect to w."""
    return 2 * np.exp(np.sin(w * x)) * np.cos(w * x) * x


def stored_count(y):
    return len(y.plan.targets)


X, W = np.float32([0.25, 0.5, 2]), np.float32([1, -1, 0.75])


@pytest.fixture
def graph():
    x, w = leaf(X), leaf(W, True)
    return x, w, loss_of(x, w)


def clear(y, times):
    for _ in range(times):
        y.forward(clear_buffer=True)


def test_the_third_stores_nothing_for_a_backward(graph):
    *_, y = graph
    clear(y, 2)
    before = stored_count(y)
    clear(y, 1)
    assert before > stored_count(y) == 1
    clear(y, 2)
    assert stored_count(y) == 1


@pytest.mark.parametrize("times", range(1, 6))
def test_a_backward_behind_one_is_right(graph, times):
    _, w, y = graph
    w.grad.zero()
    clear(y, times)
    y.backward()
    assert_allclose(w.g, gradient(X, W), rtol=1e-5)


def test_behind_a_backward_values_are_stored_for_good(graph):
    x, w, y = graph
    clear(y, 3)
    y.backward()
    clear(y, 4)
    assert stored_count(y) > 1
    x.d = X + 1  # too late for a backward that computes anything again
    w.grad.zero()
    y.backward()
    assert_allclose(w.g, gradient(X, W) / X * (X + 1), rtol=1e-5)


def test_a_backward_before_says_that_another_may_follow(graph):
    *_, y = graph
    y.forward()
    y.backward()
    clear(y, 5)
    assert stored_count(y) > 1


def test_a_backward_of_several_is_right_too(graph):
    _, w, y = graph
    z = F.sum(F.tanh(w))
    for _ in range(4):
        nn.forward_all([y, z], clear_buffer=True)
    w.grad.zero()
    nn.backward_all([y, z])
    assert_allclose(w.g, gradient(X, W) + 1 - np.tanh(W) ** 2, rtol=1e-5)


def test_what_a_leaf_that_was_written_since_would_change_is_an_error(graph):
    x, w, y = graph
    clear(y, 3)
    x.d = X + 1
    with pytest.raises(RuntimeError, match="computed and not stored"):
        y.backward()
    w.grad.zero()
    y.forward(clear_buffer=True)
    y.backward()
    assert_allclose(w.g, gradient(X + 1, W), rtol=1e-4)


def test_a_forward_that_says_nothing_stores_again(graph):
    x, w, y = graph
    clear(y, 4)
    y.forward()
    assert stored_count(y) > 1
    x.d = X + 1
    w.grad.zero()
    y.backward()
    assert_allclose(w.g, gradient(X, W) / X * (X + 1), rtol=1e-5)


def test_a_validation_beside_a_training_changes_neither(graph):
    x, w, y = graph
    validated = loss_of(x, w)
    solver = S.Sgd(0.1)
    solver.set_parameters({"w": w})
    now = W.copy()
    for _ in range(8):
        y.forward(clear_no_need_grad=True)
        solver.zero_grad()
        y.backward(clear_buffer=True)
        solver.update()
        now = now - np.float32(0.1) * gradient(X, now)
        validated.forward(clear_buffer=True)
        assert_allclose(validated.d, np.sum(2 * np.exp(np.sin(now * X))), rtol=1e-4)
    assert_allclose(w.d, now, rtol=1e-4)
    assert stored_count(validated) == 1


def test_roots_that_share_values_each_store_what_they_need():
    x, w = leaf(X), leaf(W, True)
    shared = F.exp(F.sin(w * x))
    y, z = F.sum(shared * 2), F.sum(F.tanh(shared))
    del shared
    z.forward()
    z.backward()
    for _ in range(5):
        clear(y, 1)
        w.grad.zero()
        z.forward()
        z.backward()
        made = np.exp(np.sin(W * X))
        assert_allclose(w.g, (1 - np.tanh(made) ** 2) * made * np.cos(W * X) * X, rtol=1e-4)


def test_a_value_that_is_held_or_persistent_stays():
    x, w = leaf(X), leaf(W, True)
    held = F.sin(w * x)
    kept = F.exp(held).apply(persistent=True)
    y = F.sum(kept * 2)
    del kept
    clear(y, 4)
    x.d = 0
    assert_allclose(held.d, np.sin(W * X), rtol=1e-5)
    assert_allclose(y.parent.inputs[0].parent.inputs[0].d, np.exp(np.sin(W * X)), rtol=1e-5)


def test_draws_are_stored_and_not_repeated():
    x = leaf(np.ones(64), True)
    y = F.sum(F.exp(F.dropout(x, 0.5)))
    clear(y, 4)
    y.backward()
    share = np.sum(x.g > 0)
    assert_allclose(y.d, share * np.exp(2) + 64 - share, rtol=1e-4)


def test_running_statistics_move_once_per_forward():
    x, shape = leaf(np.arange(8).reshape(4, 2, 1, 1), True), (1, 2, 1, 1)
    beta, gamma, mean, variance = (leaf(np.full(shape, value)) for value in (0, 1, 0, 0))
    y = F.sum(F.batch_normalization(x, beta, gamma, mean, variance, decay_rate=0.5) ** 2)
    clear(y, 3)
    y.backward()
    assert_array_equal(mean.d.ravel(), np.float32([3, 4]) * (1 - 0.125))


def test_forwards_of_both_kinds_in_turns_are_planned_ever_less_often(graph):
    *_, y = graph
    believed = []
    for number in range(60):
        clear(y, 1)
        if stored_count(y) == 1:
            believed.append(number)
        y.forward()
        assert stored_count(y) > 1
    assert believed == [2, 8, 20, 44]


@pytest.mark.parametrize("where", ["host device host", "device host device", "device device host", "host host device"])
def test_values_that_a_backward_has_computed_again_may_be_in_several_memories(where):
    pytest.importorskip("atled_sim")
    backends = {"host": ["cpu:float"], "device": ["sim:float", "cpu:float"]}
    contexts = [nn.Context(backends[name]) for name in where.split()]
    w = leaf(W, True)
    y = w
    for function, context in zip((F.tanh, F.exp, F.sin), contexts, strict=True):
        with nn.context_scope(context):
            y = function(y)
    clear(y, 3)
    for _ in range(3):
        w.grad.zero()
        y.backward()
        t = np.tanh(W)
        assert_allclose(w.g, np.cos(np.exp(t)) * np.exp(t) * (1 - t**2), rtol=1e-5)
        y.forward()
