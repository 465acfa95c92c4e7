"""What the backward of a compiled step computes again instead of reading it."""

from __future__ import annotations

import numpy as np
import pytest

import atled as nn
import atled.functions as F
import atled.solvers as S
from atled.graph.recompute import choice
from atled.graph.update import training_step


@pytest.fixture(autouse=True)
def as_if_large(monkeypatch):
    """Small arrays are treated as large ones."""
    nn.clear_memory_cache()
    monkeypatch.setattr(choice, "_STREAMED_BYTES", 0)
    monkeypatch.setattr(choice, "_LEAST_BYTES", 0)
    yield
    nn.clear_memory_cache()


def gelu(x):
    return 0.5 * x * (1 + F.tanh(0.8 * (x + 0.04 * x * x * x)))


class Trained:
    """A small network, its loss, and a step on it; held: Variables in the middle."""

    def __init__(self, is_compiled=True, activation=gelu, hold=False, solver=S.Momentum):
        rng = np.random.default_rng(0)
        self.weights = [
            nn.Variable.from_numpy_array(rng.standard_normal((16, 16), "f"), need_grad=True) for _ in range(3)
        ]
        self.gates = [nn.Variable.from_numpy_array(rng.standard_normal((8, 16), "f"), need_grad=True) for _ in range(3)]
        self.held = []
        h = nn.Variable.from_numpy_array(rng.standard_normal((8, 16), "f"))
        for weight, gate in zip(self.weights, self.gates, strict=True):
            h = activation(F.affine(h, weight) * 0.2 + gate)
            self.held += [h] if hold else []
        self.loss = F.mean(h * h)
        self.solver = solver(0.3)
        self.solver.set_parameters({str(n): each for n, each in enumerate((*self.weights, *self.gates))})
        self.compiled = nn.compile_step(self.loss, self.solver) if is_compiled else None

    def run(self, times=3):
        for _ in range(times):
            if self.compiled is not None:
                self.compiled()
            else:
                self.loss.forward()
                self.solver.zero_grad()
                self.loss.backward()
                self.solver.update()
        return self

    @property
    def values(self):
        return [each.d.copy() for each in (self.loss, *self.weights, *self.gates, *self.held)]

    @property
    def traffic(self):
        return training_step._traffic(self.compiled.plan)


def assert_close(one, other):
    for mine, theirs in zip(one.values, other.values, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=2e-5, atol=1e-6)


@pytest.fixture
def stored(monkeypatch):
    """The same step, which stores what its backward reads."""
    with monkeypatch.context() as patch:
        patch.setattr(training_step, "_choose", lambda *_: [])
        made = Trained().run()
    nn.clear_memory_cache()
    return made


def test_a_step_reads_and_writes_less_and_gives_the_same(stored):
    trained = Trained().run()
    assert trained.traffic < 0.9 * stored.traffic
    assert_close(trained, stored)


def test_it_gives_what_calls_one_by_one_give():
    assert_close(Trained().run(), Trained(is_compiled=False).run())


def test_values_that_are_held_are_those_of_the_forward():
    assert_close(Trained(hold=True).run(), Trained(is_compiled=False, hold=True).run())


@pytest.mark.parametrize("solver", [S.Sgd, S.Momentum, S.Adam])
def test_parameters_that_it_is_computed_from_are_those_before_their_update(solver):
    def gated(x):
        return x * F.sigmoid(x)

    one, other = (Trained(is_compiled, gated, solver=solver).run(4) for is_compiled in (True, False))
    assert_close(one, other)


def test_where_nothing_is_saved_the_plan_stores_it():
    """Both what makes the value and what reads it are in one fused step."""
    a, b = (nn.Variable.from_numpy_array(np.full((3, 5), 0.5, "f"), need_grad=True) for _ in range(2))
    loss = F.mean(F.tanh(a * b) * F.sigmoid(b))
    solver = S.Sgd(0.1)
    solver.set_parameters({"a": a, "b": b})
    step = nn.compile_step(loss, solver)
    names = [name for one in step.plan.steps for name in getattr(one.node.spec, "names", ())]
    assert names.count("Tanh") == 1


def test_a_trace_shows_what_is_computed_twice():
    trained = Trained().run()
    names = [name for one in trained.compiled.plan.steps for name in getattr(one.node.spec, "names", ())]
    assert names.count("Tanh") > 3


def test_draws_are_not_drawn_again():
    x, w = (nn.Variable.from_numpy_array(np.ones((8, 8), "f"), need_grad=True) for _ in range(2))
    h = F.affine(gelu(F.dropout(x * w, 0.5, seed=7)), w)
    loss = F.mean(h * h)
    solver = S.Sgd(0.1)
    solver.set_parameters({"x": x, "w": w})
    step = nn.compile_step(loss, solver)
    step()
    expected = [x.d.copy(), w.d.copy()]
    x.d, w.d = 1, 1
    h = F.affine(gelu(F.dropout(x * w, 0.5, seed=7)), w)
    loss = F.mean(h * h)
    loss.forward()
    solver.zero_grad()
    loss.backward()
    solver.update()
    np.testing.assert_allclose(x.d, expected[0], rtol=1e-5)
    np.testing.assert_allclose(w.d, expected[1], rtol=1e-5)
