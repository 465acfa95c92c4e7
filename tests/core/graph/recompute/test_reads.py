"""Gradients that are planned with the forward: a backward that begins with them is one planned from nothing."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from tests.sized_graphs import GRAPHS, broadcast, described, forget_plans, leaf

import atled as nn
import atled.functions as F
import atled.solvers as S
from atled.graph import backward_plan
from atled.graph.recompute import reads
from atled.graph.record.roots import roots_of


def planned_backward(root):
    root.forward()
    root.backward()
    (binding,) = roots_of((root.value,)).backward.bindings.values()
    return binding.plan


@pytest.fixture
def joined(monkeypatch):
    """What each backward began with: True for gradients that were planned before."""
    found = []
    plan = backward_plan.Backward._planned_with_forward

    def noted(self):
        gradients = plan(self)
        found.append(gradients is not None)
        return gradients

    monkeypatch.setattr(backward_plan.Backward, "_planned_with_forward", noted)
    return found


@pytest.mark.parametrize("n", [1, 2, 7, 300])
@pytest.mark.parametrize("name", GRAPHS)
def test_a_plan_that_goes_on_from_the_forward_is_one_planned_from_nothing(name, n, joined, monkeypatch):
    forget_plans()
    given = planned_backward(GRAPHS[name](n))
    assert joined == [True]
    forget_plans()
    monkeypatch.setattr(backward_plan.Backward, "_planned_with_forward", lambda _: None)
    assert described(planned_backward(GRAPHS[name](n))) == described(given)


def test_empty_arrays_go_on_from_the_forward_too(joined, monkeypatch):
    forget_plans()
    given = planned_backward(broadcast(0))
    assert joined == [True]
    forget_plans()
    monkeypatch.setattr(backward_plan.Backward, "_planned_with_forward", lambda _: None)
    assert described(planned_backward(broadcast(0))) == described(given)


@pytest.mark.parametrize("grad", [1, 2.5, np.full((), 3, np.float32)])
def test_any_seed_gives_its_gradients(grad, joined):
    forget_plans()
    x = leaf(3, 4)
    root = F.sum(F.tanh(x) * x)
    root.forward()
    x.grad.zero()
    root.backward(grad)
    assert_allclose(x.g, np.float32(grad) * (np.tanh(x.d) + x.d * (1 - np.tanh(x.d) ** 2)), rtol=1e-5)
    assert joined == [True]


def test_a_seed_of_another_size_is_planned_for(joined):
    forget_plans()
    x = leaf(3, 4)
    y = F.tanh(x) * x
    y.forward()
    x.grad.zero()
    y.backward()  # one number for all elements
    assert joined == [False]
    assert_allclose(x.g, np.tanh(x.d) + x.d * (1 - np.tanh(x.d) ** 2), rtol=1e-5)


def test_what_needs_a_gradient_is_as_when_the_backward_begins(joined):
    forget_plans()
    x, w = leaf(3, 4), leaf(1, 4)
    y = F.sum(F.tanh(x * w) * w)
    y.forward()
    w.need_grad = False
    x.grad.zero()
    y.backward()
    assert not any(joined)
    assert_allclose(x.g, w.d**2 * (1 - np.tanh(x.d * w.d) ** 2), rtol=1e-5)


def test_each_run_of_a_graph_uses_gradients_planned_before_once(joined):
    forget_plans()
    x = leaf(3, 4)
    y = F.sum(F.exp(F.tanh(x)))
    for _ in range(3):
        y.forward()
        y.backward()  # the first overwrites, the second adds: another plan
    assert joined.count(True) == 1
    assert roots_of((y.value,)).gradients is None


def test_a_compiled_step_of_a_small_graph_asks_for_no_gradients_before(monkeypatch):
    made = []
    plan = reads._planned_gradients
    monkeypatch.setattr(reads, "_planned_gradients", lambda *given: made.append(given) or plan(*given))
    forget_plans()
    w = leaf(5, 3)
    solver = S.Sgd(0.1)
    solver.set_parameters({"w": w})
    nn.compile_step(F.sum(F.tanh(F.affine(leaf(2, 5, need_grad=False), w))), solver)()
    assert not made
