"""Activations compute what their formulas say, and their derivatives those of finite differences."""

import numpy as np
import pytest

from atled.neon.backends import cleanup_backend
from atled.neon.transforms import (
    Explin,
    Identity,
    Logistic,
    Normalizer,
    PixelwiseSoftmax,
    Rectlin,
    Rectlinclip,
    Sign,
    Softmax,
    Tanh,
    Transform,
)
from atled.neon.transforms.activation import Tanh as SameTanh


def softmax(x, axis=0):
    powers = np.exp(x - x.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


def rectlin(x, slope=0.0):
    return np.maximum(x, 0) + slope * np.minimum(x, 0)


ROWS = [
    (Identity(), lambda x: x),
    (Rectlin(), rectlin),
    (Rectlin(slope=0.1), lambda x: rectlin(x, 0.1)),
    (Rectlinclip(), lambda x: np.minimum(rectlin(x), 20)),
    (Rectlinclip(slope=0.1, xcut=0.5), lambda x: np.minimum(rectlin(x, 0.1), 0.5)),
    (Explin(), lambda x: np.where(x > 0, x, np.exp(x) - 1)),
    (Explin(alpha=0.5), lambda x: np.where(x > 0, x, 0.5 * (np.exp(x) - 1))),
    (Normalizer(), lambda x: x / 128),
    (Normalizer(divisor=4.0), lambda x: x / 4),
    (Tanh(), np.tanh),
    (Logistic(), lambda x: 1 / (1 + np.exp(-x))),
]
NAMES = [f"{type(row[0]).__name__}-{number}" for number, row in enumerate(ROWS)]
# No element is close to an edge, where differences would be those of neither side.
X = np.array([[-2.0, -0.75, 0.125, 0.25], [1.5, 0.75, -0.25, 3.0], [0.375, -1.25, 2.0, -3.0]])


@pytest.mark.parametrize("activation, formula", ROWS, ids=NAMES)
def test_values_are_those_of_the_formula(be, activation, formula):
    x, y = be.array(X), be.zeros(X.shape)
    y[:] = activation(x)
    np.testing.assert_allclose(y.get(), formula(X), rtol=1e-5, atol=1e-6)
    y[:] = activation(x - 0.5)
    np.testing.assert_allclose(y.get(), formula(X - 0.5), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("activation, formula", ROWS, ids=NAMES)
def test_derivatives_of_results_are_those_of_finite_differences(be, activation, formula):
    y, derivative = be.array(formula(X), dtype=np.float64), be.zeros(X.shape, dtype=np.float64)
    derivative[:] = activation.bprop(y)
    wanted = (formula(X + 1e-6) - formula(X - 1e-6)) / 2e-6
    np.testing.assert_allclose(derivative.get(), wanted, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("axis", [0, 1])
def test_softmax_adds_up_to_1_along_an_axis(be, axis):
    x, y = be.array(X), be.zeros(X.shape)
    y[:] = Softmax(axis=axis)(x)
    np.testing.assert_allclose(y.get(), softmax(X, axis), rtol=1e-5)
    assert Softmax().bprop(y) == 1


def test_softmax_over_maps_is_written_into_them(be):
    x = be.array(np.arange(24.0).reshape(6, 4) / 10)
    wanted = softmax(x.get().reshape(2, 12)).reshape(6, 4)
    assert PixelwiseSoftmax(2)(x) is x
    np.testing.assert_allclose(x.get(), wanted, rtol=1e-5)
    assert PixelwiseSoftmax(2).bprop(x) == 1
    with pytest.raises(ValueError, match="not so many maps"):
        PixelwiseSoftmax(5)(x)


def test_softmax_over_maps_of_a_tree_is_a_tensor(be):
    x = be.array(X)
    y = PixelwiseSoftmax(3)(x * 2)
    np.testing.assert_allclose(y.get(), softmax(2 * X), rtol=1e-5)


def test_signs_are_written_into_their_tensor(be):
    x, sign, derivative = be.array([-2.0, -0.5, 0.0, 1.0, 3.0]), Sign(), be.zeros((5, 1))
    assert sign(x) is x
    np.testing.assert_array_equal(x.get()[:, 0], [-1, -1, 1, 1, 1])
    derivative[:] = sign.bprop(x)
    np.testing.assert_array_equal(derivative.get()[:, 0], [0, 1, 1, 1, 0])


def test_the_derivative_of_signs_needs_their_inputs(cpu):
    with pytest.raises(RuntimeError, match="not called before"):
        Sign().bprop(cpu.zeros((2, 2)))


def test_a_logistic_leaves_its_derivative_to_the_cost(cpu):
    assert Logistic(shortcut=True).bprop(cpu.zeros((2, 2))) == 1


def test_transforms_without_a_formula_say_what_is_missing(cpu):
    class Empty(Transform):
        pass

    for call in (Empty(), Empty().bprop):
        with pytest.raises(NotImplementedError, match="in Empty"):
            call(cpu.zeros((2, 2)))


def test_op_trees_need_a_backend(cpu):
    x = cpu.zeros((2, 2))
    cleanup_backend()
    with pytest.raises(RuntimeError, match="gen_backend"):
        Tanh()(x)


def test_modules_are_those_of_neon():
    assert SameTanh is Tanh
    assert not Tanh().is_mklop
    assert Tanh(name="act").name == "act"
    assert Rectlin(slope=0.5).get_description()["config"]["slope"] == 0.5
