"""Programs that switch need_grad off and on at each step, as those of two networks do: plans stay, and see a change."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import atled as nn
import atled.functions as F
import atled.solvers as S
from atled.graph.recompute import choice

RNG = np.random.default_rng(11)


def leaf(values, need_grad=None):
    return nn.Variable.from_numpy_array(np.array(values, np.float32), need_grad=need_grad)


class Two:
    """w is read by a first layer, v by a second."""

    def __init__(self):
        self.x = leaf(RNG.standard_normal((3, 4)))
        self.w, self.v = leaf(RNG.standard_normal((4, 4)), True), leaf(RNG.standard_normal((4, 2)), True)
        self.loss = F.sum(F.tanh(F.affine(F.tanh(F.affine(self.x, self.w)), self.v)))

    def expected(self):
        """Gradients with respect to w and v, by NumPy."""
        x, w, v = (np.float64(each.data.data.copy()) for each in (self.x, self.w, self.v))
        h = np.tanh(x @ w)
        gy = 1 - np.tanh(h @ v) ** 2
        return x.T @ (gy @ v.T * (1 - h**2)), h.T @ gy

    def check(self):
        for each in (self.w, self.v):
            each.grad.zero()
        self.loss.forward()
        self.loss.backward()
        for each, gradient in zip((self.w, self.v), self.expected(), strict=True):
            assert_allclose(each.grad.data, gradient if each.need_grad else 0 * gradient, rtol=1e-4, atol=1e-5)

    @property
    def plans(self):
        roots = self.loss.value.roots
        return roots.forward, roots.backward


def switch(variable):
    variable.need_grad = not variable.need_grad


def test_a_switch_there_and_back_leaves_the_plans():
    two = Two()
    two.check()
    before = two.plans
    for _ in range(3):
        switch(two.w)
        switch(two.w)
        two.check()
    assert all(now is then for now, then in zip(two.plans, before, strict=True))


def test_each_combination_gives_its_gradients():
    two = Two()
    rng = np.random.default_rng(1)
    for number in range(40):
        two.w.need_grad, two.v.need_grad = (bool(flag) for flag in rng.integers(0, 2, 2))
        if not (two.w.need_grad or two.v.need_grad):
            two.v.need_grad = True
        if number % 3 == 0:
            two.x.d = rng.standard_normal((3, 4))
        two.check()


def test_of_a_result_too():
    two = Two()
    middle = two.loss.parent.inputs[0].parent.inputs[0].parent.inputs[0]
    for flag in (None, False, None, None, False, True):
        middle.need_grad = flag
        for each in (two.w, two.v):
            each.grad.zero()
        two.loss.forward()
        two.loss.backward()
        first, second = two.expected()
        assert_allclose(two.v.g, second, rtol=1e-4, atol=1e-5)
        assert_allclose(two.w.g, first * (flag is not False), rtol=1e-4, atol=1e-5)


def by_shape(two):
    two.x.reset_shape((5, 4), force=True)
    two.x.d = RNG.standard_normal((5, 4))


def by_array(two):
    two.w.data = nn.NdArray.from_numpy_array(RNG.standard_normal((4, 4)).astype(np.float32))


def by_gradient(two):
    two.v.grad = nn.NdArray.from_numpy_array(np.ones((4, 2), np.float32))


def by_cast(two):
    two.w.data.cast(np.float64)


@pytest.mark.parametrize("change", [by_shape, by_array, by_gradient, by_cast])
def test_another_change_between_two_switches_is_seen(change):
    two = Two()
    two.check()
    switch(two.w)
    change(two)
    switch(two.w)
    two.check()
    two.check()


def test_a_second_leaf_over_an_array_counts():
    x, w = leaf(RNG.standard_normal((3, 4))), leaf(RNG.standard_normal((4, 4)))
    other = w.unlinked()
    v = leaf(RNG.standard_normal((4, 4)), True)
    loss = F.sum(F.affine(F.affine(F.affine(x, w), other), v))
    for flag in (False, True, False, True, True):
        other.need_grad = flag
        other.grad.zero()
        v.grad.zero()
        loss.forward()
        loss.backward()
        rows = np.float64(x.d) @ w.d
        assert_allclose(v.g, (rows @ w.d).T @ np.ones((3, 4)), rtol=1e-4)
        assert_allclose(other.grad.data, flag * (rows.T @ (np.ones((3, 4)) @ v.d.T)), rtol=1e-4)


def test_two_networks_in_turn_move_as_if_nothing_was_switched():
    def trained(is_switched, is_compiled):
        rng = np.random.default_rng(2)
        z, x = leaf(rng.standard_normal((8, 3))), leaf(rng.standard_normal((8, 5)))
        g, d = leaf(rng.standard_normal((3, 5)), True), leaf(rng.standard_normal((5, 1)), True)
        made = F.tanh(F.affine(z, g))
        losses = [
            F.mean(F.sigmoid_cross_entropy(F.affine(made, d), F.constant(1, (8, 1)))),
            F.mean(F.sigmoid_cross_entropy(F.affine(made.unlinked(need_grad=False), d), F.constant(0, (8, 1))))
            + F.mean(F.sigmoid_cross_entropy(F.affine(x, d), F.constant(1, (8, 1)))),
        ]
        solvers = [S.Adam(0.05), S.Adam(0.05)]
        for solver, each in zip(solvers, (g, d), strict=True):
            solver.set_parameters({"w": each})
        steps = [nn.compile_step(*pair) for pair in zip(losses, solvers, strict=True)]
        for _, number in itertools.product(range(5), range(2)):
            if is_switched:
                g.need_grad, d.need_grad = number == 0, number == 1
            if is_compiled:
                steps[number]()
                continue
            losses[number].forward(clear_no_need_grad=True)
            solvers[number].zero_grad()
            losses[number].backward(clear_buffer=True)
            solvers[number].update()
        return np.concatenate([g.d.ravel(), d.d.ravel()])

    for is_compiled in (False, True):
        assert_array_equal(trained(True, is_compiled), trained(False, is_compiled))


@pytest.mark.parametrize("writes", [False, True])
def test_values_that_a_backward_computes_again_are_those_of_its_forward(writes, monkeypatch):
    monkeypatch.setattr(choice, "_STREAMED_BYTES", 0)
    monkeypatch.setattr(choice, "_LEAST_BYTES", 0)
    x, w, v = leaf(RNG.standard_normal((4, 8))), leaf(RNG.standard_normal((4, 8)), True), leaf(np.ones((4, 8)), True)
    loss = F.sum(F.tanh(x * w * 0.5 + 1) * v)
    for number in range(24):
        w.need_grad = number % 3 != 2
        if number % 4 == 3:
            v.need_grad = False
            v.need_grad = True
        x.d = RNG.standard_normal((4, 8))
        w.grad.zero()
        v.grad.zero()
        loss.forward()
        factor, values = x.data.data.copy(), w.data.data.copy()
        if writes and number % 5 == 4:
            w.d = values + 1  # too late for this backward
        loss.backward()
        h = np.tanh(np.float64(factor) * values * 0.5 + 1)
        assert_allclose(v.g, h, rtol=1e-5, atol=1e-6)
        if w.need_grad:
            assert_allclose(w.grad.data, (1 - h**2) * 0.5 * factor, rtol=1e-4, atol=1e-6)
