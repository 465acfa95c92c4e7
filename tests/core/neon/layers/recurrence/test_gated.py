"""LSTM and GRU: values, gradients, states over calls, shorter sequences."""

import numpy as np
import pytest
from tests.core.neon.layers.recurrence.recurrent_formulas import (
    BATCH,
    ROWS,
    STEPS,
    UNITS,
    Draws,
    check_gradients,
    gru,
    lstm,
    made,
    normal,
)

from atled.neon.layers.recurrent import GRU, LSTM
from atled.neon.transforms import Logistic, Tanh

both = pytest.mark.parametrize("kind", [LSTM, GRU])


def expected(layer, x, *state):
    weights = layer.W_input.get(), layer.W_recur.get(), layer.b.get()
    zeros = np.zeros((UNITS, BATCH))
    if isinstance(layer, LSTM):
        return lstm(x, *weights, *(state or (zeros, zeros)))
    return gru(x, *weights, *(state or (zeros,)))


@both
def test_states_follow_the_formula(be, kind):
    layer, x = made(kind), normal(ROWS, STEPS * BATCH)
    layer.b[:] = normal(*layer.b.shape)
    assert layer.W.shape == (ROWS + UNITS + 1, layer.gates * UNITS)
    np.testing.assert_allclose(layer.fprop(be.array(x)).get(), expected(layer, x), rtol=0, atol=1e-6)


@both
def test_the_next_call_goes_on(be, kind):
    layer, x = made(kind), normal(ROWS, 2 * STEPS * BATCH)
    halves = [layer.fprop(be.array(half)).get() for half in np.hsplit(x, 2)]
    np.testing.assert_allclose(np.hstack(halves), expected(layer, x), rtol=0, atol=1e-6)
    layer.reset_state()
    first = layer.fprop(be.array(x[:, : STEPS * BATCH])).get()
    np.testing.assert_array_equal(first, halves[0])


@both
@pytest.mark.parametrize("steps", [1, 3])
def test_gradients_are_those_of_finite_differences(double, kind, steps):
    layer = made(kind, steps=steps)
    check_gradients(double, layer, {"W": (layer.W, layer.dW)}, steps=steps)


def test_gradients_of_a_gru_with_a_given_state(double):
    layer, state = made(GRU, steps=2), double.array(normal(UNITS, BATCH, seed=8))
    check_gradients(double, layer, {"W": (layer.W, layer.dW)}, steps=2, init_state=state)


def test_an_lstm_never_has_the_first_state_in_its_gradient(cpu):
    layer = made(LSTM, steps=1)
    layer.fprop(cpu.array(normal(ROWS, BATCH)), init_state=cpu.ones((UNITS, BATCH)))
    layer.bprop(cpu.array(normal(UNITS, BATCH)))
    assert not layer.dW_recur.get().any()


@both
def test_gradients_on_each_backend(be, kind):
    layer, x, error = made(kind), normal(ROWS, STEPS * BATCH), normal(UNITS, STEPS * BATCH)
    layer.fprop(be.array(x))
    deltas = layer.bprop(be.array(error)).get()
    zeros = np.zeros((UNITS, BATCH))
    start = (zeros, zeros) if kind is LSTM else (zeros,)
    weights = [each.get().astype(np.float64) for each in (layer.W_input, layer.W_recur, layer.b)]
    gradients = [deltas, *(each.get() for each in (layer.dW_input, layer.dW_recur, layer.db))]
    moves = [normal(*each.shape, seed=11) for each in (x, *weights)]

    def loss(size):
        moved = [each + size * move for each, move in zip((x, *weights), moves, strict=True)]
        return (error * (lstm if kind is LSTM else gru)(*moved, *start)).sum()

    slope = (loss(1e-5) - loss(-1e-5)) / 2e-5
    found = sum((gradient * move).sum() for gradient, move in zip(gradients, moves, strict=True))
    np.testing.assert_allclose(found, slope, rtol=1e-4)


@both
def test_shorter_sequences_are_as_if_there_were_no_more_steps(cpu, kind):
    x, error = normal(ROWS, STEPS * BATCH), normal(UNITS, STEPS * BATCH)
    found = []
    for used, steps in ((2, STEPS), (None, 2)):
        layer = made(kind, steps=steps)
        layer.set_seq_len(used)
        y = layer.fprop(cpu.array(x[:, : steps * BATCH])).get()[:, : 2 * BATCH]
        layer.bprop(cpu.array(error[:, : steps * BATCH]))
        found.append((y, layer.dW.get(), layer.final_state().get()))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_gates_need_an_activation_that_gives_a_tree(cpu):
    class Slow(Logistic):
        def __call__(self, x):
            x[:] = self.be.sig(x)
            return x

    with pytest.raises(ValueError, match="it has no gate_activation"):
        LSTM(UNITS, Draws(), activation=Tanh()).configure((ROWS, STEPS))
    layer = made(GRU, gate_activation=Slow())
    with pytest.raises(ValueError, match=r"(?s)compound_gru_unroll_fprop.*have it give an op-tree"):
        layer.fprop(cpu.array(normal(ROWS, STEPS * BATCH)))


@both
def test_all_steps_are_one_loop(cpu, kind):
    layer = made(kind)
    states = (layer.h_init, layer.c_init) if kind is LSTM else (layer.h_init,)
    buffers = (layer._gates, layer._c, layer._c_act) if kind is LSTM else (layer._gates, layer._reset_h)
    call = cpu.compound_lstm_unroll_fprop if kind is LSTM else cpu.compound_gru_unroll_fprop
    activations = layer.activation, layer.gate_activation
    told = str(cpu.plan(call, layer.W_recur, layer.b, *states, *buffers, layer.outputs, *activations))
    assert told.count("Loop") == 1
