"""BiBNRNN: values in training and inference, gradients, saved statistics."""

import numpy as np
import pytest
from tests.core.neon.layers.recurrence.recurrent_formulas import (
    BATCH,
    ROWS,
    STEPS,
    UNITS,
    Draws,
    backwards,
    check_gradients,
    made,
    normal,
    plain,
    ready,
)

from atled.neon.layers.recurrent import BiBNRNN
from atled.neon.transforms import Tanh


def expected(layer, raw, mean, variance):
    """Outputs where the products of the inputs have this mean and variance."""
    fed = layer.gamma.get() * (raw - mean) / np.sqrt(variance + 1e-3) + layer.beta.get()
    eye, zeros = np.eye(UNITS), np.zeros((UNITS, BATCH))
    forward = plain(fed[:UNITS], eye, layer.W_recur_f.get(), layer.b_f.get(), zeros)
    return np.vstack([forward, backwards(plain, fed[UNITS:], eye, layer.W_recur_b.get(), layer.b_b.get(), zeros)])


def test_products_of_the_inputs_are_normalized(be):
    layer, x = made(BiBNRNN, reset_cells=True), normal(ROWS, STEPS * BATCH)
    layer.beta[:], layer.gamma[:] = normal(2 * UNITS, 1), normal(2 * UNITS, 1, seed=9)
    raw = np.vstack([layer.W_input_f.get(), layer.W_input_b.get()]) @ x
    mean, variance = raw.mean(axis=1, keepdims=True), raw.var(axis=1, keepdims=True)
    np.testing.assert_allclose(layer.fprop(be.array(x)).get(), expected(layer, raw, mean, variance), rtol=0, atol=1e-5)
    np.testing.assert_allclose(layer.gmean.get(), 0.1 * mean, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(layer.gvar.get(), 0.1 * variance, rtol=1e-4, atol=1e-6)
    inferred = layer.fprop(be.array(x), inference=True).get()
    np.testing.assert_allclose(inferred, expected(layer, raw, 0.1 * mean, 0.1 * variance), rtol=0, atol=1e-4)


@pytest.mark.parametrize("split", [False, True])
def test_gradients_are_those_of_finite_differences(double, split):
    rows = 2 * ROWS if split else ROWS
    layer = made(BiBNRNN, rows=rows, steps=3, split_inputs=split)
    check_gradients(
        double,
        layer,
        {
            "W": (layer.W, layer.dW),
            "beta": (layer.beta, layer.grad_beta),
            "gamma": (layer.gamma, layer.grad_gamma),
        },
        rows=rows,
        steps=3,
    )


def test_parameters_are_a_list_of_three(cpu):
    layer = made(BiBNRNN)
    assert [pair for pair, _ in layer.get_params()] == [
        (layer.W, layer.dW),
        (layer.beta, layer.grad_beta),
        (layer.gamma, layer.grad_gamma),
    ]
    assert [each.shape for (each, _), _ in layer.get_params()[1:]] == [(2 * UNITS, 1)] * 2


def test_all_gradients_add_up(cpu):
    layer = ready(BiBNRNN(UNITS, Draws(), activation=Tanh()), accumulate_updates=True)
    once = []
    for is_on in (False, True):
        layer.set_acc_on(is_on)
        layer.reset_state()
        layer.fprop(cpu.array(normal(ROWS, STEPS * BATCH)))
        layer.bprop(cpu.array(normal(2 * UNITS, STEPS * BATCH)))
        once.append([gradient.get() for (_, gradient), _ in layer.get_params()])
    for one, two in zip(*once, strict=True):
        np.testing.assert_allclose(two, 2 * one, rtol=1e-4, atol=1e-6)


def test_saved_statistics_come_back(cpu):
    layer, x = made(BiBNRNN, reset_cells=True), cpu.array(normal(ROWS, STEPS * BATCH))
    layer.fprop(x)
    layer.states[1] = [cpu.ones((2 * UNITS, 1))]
    described = layer.get_params_serialize()
    other = made(BiBNRNN, reset_cells=True)
    other.load_weights(described)
    np.testing.assert_array_equal(other.fprop(x, inference=True).get(), layer.fprop(x, inference=True).get())
    assert [len(states) for states in other.states] == [0, 1, 0]
    assert (other.states[1][0].get() == 1).all()
