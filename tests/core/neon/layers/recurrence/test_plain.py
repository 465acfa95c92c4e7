"""Recurrent: values, gradients, the state that is given or kept, and its error."""

import numpy as np
import pytest
from tests.core.neon.layers.recurrence.recurrent_formulas import (
    BATCH,
    ROWS,
    STEPS,
    UNITS,
    check_gradients,
    check_slopes,
    made,
    normal,
    plain,
)

from atled.neon.layers.recurrent import Recurrent


def weights(layer):
    return layer.W_input.get(), layer.W_recur.get(), layer.b.get()


def test_states_follow_the_formula(be):
    layer, x = made(Recurrent), normal(ROWS, STEPS * BATCH)
    layer.b[:] = 0.5
    y = layer.fprop(be.array(x))
    np.testing.assert_allclose(y.get(), plain(x, *weights(layer), np.zeros((UNITS, BATCH))), rtol=0, atol=1e-6)
    np.testing.assert_array_equal(layer.final_state().get(), y.get()[:, -BATCH:])


def test_w_has_its_parts_one_behind_the_other(cpu):
    layer = made(Recurrent)
    assert layer.W.shape == (ROWS + UNITS + 1, UNITS)
    parts = [layer.W_input.get(), layer.W_recur.get(), layer.b.get()]
    assert [each.shape for each in parts] == [(UNITS, ROWS), (UNITS, UNITS), (UNITS, 1)]
    np.testing.assert_array_equal(np.concatenate([each.ravel() for each in parts]), layer.W.get().ravel())


@pytest.mark.parametrize("steps", [1, 4])
def test_gradients_are_those_of_finite_differences(double, steps):
    layer = made(Recurrent, steps=steps)
    check_gradients(double, layer, {"W": (layer.W, layer.dW)}, steps=steps)


def test_with_a_given_state_its_part_of_the_gradient_and_its_error(double):
    layer, state = made(Recurrent), double.array(normal(UNITS, BATCH, seed=8))
    check_gradients(double, layer, {"W": (layer.W, layer.dW)}, init_state=state)
    x, error = double.array(normal(ROWS, STEPS * BATCH)), normal(UNITS, STEPS * BATCH)

    def loss():
        return float((error * layer.fprop(x, init_state=state).get()).sum())

    loss()
    layer.bprop(double.array(error))
    found = layer.get_final_hidden_error().get()
    check_slopes(state, found, loss, 1e-8)


def test_the_state_goes_on_until_it_is_reset(be):
    layer, x = made(Recurrent), normal(ROWS, STEPS * BATCH)
    first = layer.fprop(be.array(x)).get()
    second = layer.fprop(be.array(x)).get()
    np.testing.assert_allclose(second, plain(x, *weights(layer), first[:, -BATCH:]), rtol=0, atol=1e-6)
    layer.reset_state()
    np.testing.assert_array_equal(layer.fprop(be.array(x)).get(), first)


def test_a_layer_without_a_state_starts_with_zeros(cpu):
    layer, x = made(Recurrent, reset_cells=True), cpu.array(normal(ROWS, STEPS * BATCH))
    np.testing.assert_array_equal(layer.fprop(x).get(), layer.fprop(x).get())


def test_a_kept_state_has_no_part_in_the_gradient(cpu):
    layer, x = made(Recurrent, steps=1), cpu.array(normal(ROWS, BATCH))
    layer.fprop(x)
    layer.fprop(x)
    layer.bprop(cpu.array(normal(UNITS, BATCH)))
    assert not layer.dW_recur.get().any()


def test_bprop_leaves_the_errors_before_the_activation(cpu):
    layer, error = made(Recurrent), cpu.array(normal(UNITS, STEPS * BATCH))
    last = error.get()[:, -BATCH:]
    y = layer.fprop(cpu.array(normal(ROWS, STEPS * BATCH))).get()
    layer.bprop(error)
    np.testing.assert_allclose(error.get()[:, -BATCH:], (1 - y[:, -BATCH:] ** 2) * last, rtol=0, atol=1e-6)


def test_no_deltas_without_a_layer_before(cpu):
    layer = made(Recurrent)
    layer.deltas = None
    layer.fprop(cpu.array(normal(ROWS, STEPS * BATCH)))
    assert layer.bprop(cpu.array(normal(UNITS, STEPS * BATCH))) is None


def test_wrong_states_and_weights_are_refused(cpu):
    layer, x = made(Recurrent, name="one"), cpu.array(normal(ROWS, STEPS * BATCH))
    with pytest.raises(RuntimeError, match=r"one.*no fprop"):
        layer.final_state()
    with pytest.raises(ValueError, match=r"(?s)one.*init_state have shape \[3, 3\]"):
        layer.fprop(x, init_state=cpu.zeros((3, 3)))
    layer.configure((ROWS + 1, STEPS))
    with pytest.raises(ValueError, match=r"(?s)one.*its weights have shape"):
        layer.allocate()
