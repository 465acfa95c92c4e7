"""Costs compute what their formulas say, and their derivatives those of finite differences."""

import numpy as np
import pytest

from atled.neon.backends import cleanup_backend
from atled.neon.transforms import (
    Cost,
    CrossEntropyBinary,
    CrossEntropyMulti,
    MeanSquared,
    SmoothL1Loss,
    SquareHingeLoss,
    SumSquared,
)
from atled.neon.transforms.cost import SumSquared as SameSumSquared

Y = np.array([[0.2, 0.7, 0.05, 0.6], [0.3, 0.2, 0.9, 0.3], [0.5, 0.1, 0.05, 0.1]])
T = np.array([[0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0], [1.0, 0.0, 0.0, 0.0]])
FAR = np.array([[3.0, -0.2, 0.4, -7.0], [0.1, 0.3, -2.0, 0.0], [1.25, -0.4, 0.45, 9.0]])


def smooth(sigma):
    def formula(y, t):
        s, d = sigma**2, np.abs(y - t)
        return np.where(d < 1 / s, s * d**2 / 2, d - 0.5 / s).sum(0, keepdims=True)

    return formula


def hinge(margin):
    return lambda y, t: (np.maximum(margin - (2 * t - 1) * y, 0) ** 2).mean(0, keepdims=True)


def binary(y, t):
    return -(t * np.log(y) + (1 - t) * np.log(1 - y)).sum(0, keepdims=True)


def multi(y, t):
    return -(t * np.log(y)).sum(0, keepdims=True)


ROWS = [
    (CrossEntropyBinary(), binary, Y),
    (CrossEntropyMulti(), multi, Y),
    (CrossEntropyMulti(usebits=True), lambda y, t: multi(y, t) / np.log(2), Y),
    (SumSquared(), lambda y, t: ((y - t) ** 2).sum(0, keepdims=True) / 2, FAR),
    (MeanSquared(), lambda y, t: ((y - t) ** 2).mean(0, keepdims=True) / 2, FAR),
    (SmoothL1Loss(), smooth(1.0), FAR),
    (SmoothL1Loss(sigma=2.0), smooth(2.0), FAR),
    (SquareHingeLoss(), hinge(1), FAR),
    (SquareHingeLoss(margin=0.5), hinge(0.5), FAR),
]
NAMES = [f"{type(row[0]).__name__}-{number}" for number, row in enumerate(ROWS)]


@pytest.mark.parametrize("cost, formula, values", ROWS, ids=NAMES)
def test_values_are_those_of_the_formula(be, cost, formula, values):
    y, t, found = be.array(values), be.array(T), be.zeros((1, 4))
    found[:] = cost(y, t)
    np.testing.assert_allclose(found.get(), formula(values, T), rtol=1e-5)
    found[:] = cost(y * 1.0, t + 0.0)
    np.testing.assert_allclose(found.get(), formula(values, T), rtol=1e-5)
    assert cost(y, t).shape == (1, 4)


@pytest.mark.parametrize("cost, formula, values", ROWS[3:], ids=NAMES[3:])
def test_derivatives_are_those_of_finite_differences(be, cost, formula, values):
    y, t = (be.array(each, dtype=np.float64) for each in (values, T))
    found = be.zeros((3, 4), dtype=np.float64)
    found[:] = cost.bprop(y, t)
    wanted = np.empty((3, 4))
    for n in range(3):
        step = 1e-6 * (np.arange(3) == n)[:, None]
        wanted[n] = (formula(values + step, T) - formula(values - step, T)) / 2e-6
    np.testing.assert_allclose(found.get(), wanted, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(
    "cost, factor",
    [
        (CrossEntropyBinary(), 1.0),
        (CrossEntropyBinary(scale=3), 3.0),
        (CrossEntropyMulti(scale=3), 3.0),
        (CrossEntropyMulti(scale=3, usebits=True), 3.0 / np.log(2)),
    ],
)
def test_derivatives_of_cross_entropy_are_those_by_what_activations_were_given(be, cost, factor):
    found = be.zeros((3, 4))
    found[:] = cost.bprop(be.array(Y), be.array(T))
    np.testing.assert_allclose(found.get(), factor * (Y - T), rtol=1e-5)


def test_targets_may_be_one_hot_op_trees(be):
    labels, found = be.array(np.array([[2, 0, 1, 1]]), dtype=np.int32), be.zeros((1, 4))
    found[:] = CrossEntropyMulti()(be.array(Y), be.onehot(labels, axis=0))
    np.testing.assert_allclose(found.get(), multi(Y, T), rtol=1e-5)


def test_infinite_distances_cost_infinitely_much(cpu):
    y, found = cpu.array([[np.inf, -np.inf, 0.0, 1.0]]), cpu.zeros((1, 4))
    found[:] = SmoothL1Loss()(y, cpu.zeros((1, 4)))
    np.testing.assert_array_equal(found.get(), [[np.inf, np.inf, 0.0, 0.5]])


@pytest.mark.parametrize("cost", [row[0] for row in ROWS], ids=NAMES)
def test_shapes_that_differ_are_refused(cpu, cost):
    for call in cost, cost.bprop:
        with pytest.raises(ValueError, match=r"(?s)outputs of shape \[3, 4\].*shape \[1, 4\].*the shapes differ"):
            call(cpu.array(Y), cpu.zeros((1, 4)))


def test_wrong_arguments_are_refused():
    with pytest.raises(TypeError, match="scale is of type str"):
        CrossEntropyMulti(scale="1")
    with pytest.raises(ValueError, match="sigma is 0"):
        SmoothL1Loss(sigma=0)


def test_costs_of_programs_say_what_they_compute(cpu):
    with pytest.raises(NotImplementedError, match="define the cost in Cost"):
        Cost()(cpu.array(Y), cpu.array(T))
    with pytest.raises(NotImplementedError, match="define its derivative in Cost"):
        Cost().bprop(cpu.array(Y), cpu.array(T))


def test_without_a_backend_there_is_no_op_tree(cpu):
    y = cpu.array(Y)
    cleanup_backend()
    with pytest.raises(RuntimeError, match="make one by gen_backend"):
        CrossEntropyMulti()(y, y)


def test_names_are_those_of_the_module_too():
    assert SameSumSquared is SumSquared
