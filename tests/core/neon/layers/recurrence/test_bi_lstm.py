"""BiLSTM: values, gradients, states of both directions over calls."""

import numpy as np
import pytest
from tests.core.neon.layers.recurrence.recurrent_formulas import (
    BATCH,
    ROWS,
    STEPS,
    UNITS,
    backwards,
    check_gradients,
    lstm,
    made,
    normal,
)

from atled.neon.layers.recurrent import BiLSTM


def expected(layer, x, lower):
    zeros = np.zeros((UNITS, BATCH))
    of = [(layer.W_input_f, layer.W_recur_f, layer.b_f), (layer.W_input_b, layer.W_recur_b, layer.b_b)]
    forward, backward = ([each.get() for each in weights] for weights in of)
    return np.vstack([lstm(x, *forward, zeros, zeros), backwards(lstm, lower, *backward, zeros, zeros)])


@pytest.mark.parametrize("split", [False, True])
def test_both_directions_lie_one_above_the_other(be, split):
    rows = 2 * ROWS if split else ROWS
    layer, x = made(BiLSTM, rows=rows, split_inputs=split), normal(rows, STEPS * BATCH)
    layer.b_b[:] = normal(*layer.b_b.shape)
    assert layer.W.shape == (2 * (ROWS + UNITS + 1), 4 * UNITS)
    y = layer.fprop(be.array(x)).get()
    np.testing.assert_allclose(y, expected(layer, x[:ROWS], x[-ROWS:]), rtol=0, atol=1e-6)


@pytest.mark.parametrize(("steps", "split"), [(1, False), (3, True)])
def test_gradients_are_those_of_finite_differences(double, steps, split):
    rows = 2 * ROWS if split else ROWS
    layer = made(BiLSTM, rows=rows, steps=steps, split_inputs=split)
    check_gradients(double, layer, {"W": (layer.W, layer.dW)}, rows=rows, steps=steps)


def test_states_of_both_directions_go_on(cpu):
    layer, x = made(BiLSTM), normal(ROWS, 2 * STEPS * BATCH)
    first = [layer.fprop(cpu.array(half)).get()[:UNITS] for half in np.hsplit(x, 2)]
    np.testing.assert_allclose(np.hstack(first), expected(layer, x, x)[:UNITS], rtol=0, atol=1e-6)
    layer.reset_state()
    turned = [layer.fprop(cpu.array(half)).get()[UNITS:] for half in np.hsplit(x, 2)[::-1]][::-1]
    np.testing.assert_allclose(np.hstack(turned), expected(layer, x, x)[UNITS:], rtol=0, atol=1e-6)


def test_shorter_sequences_are_as_if_there_were_no_more_steps(cpu):
    x, error = normal(ROWS, STEPS * BATCH), normal(2 * UNITS, STEPS * BATCH)
    found = []
    for used, steps in ((2, STEPS), (None, 2)):
        layer = made(BiLSTM, steps=steps)
        layer.set_seq_len(used)
        y = layer.fprop(cpu.array(x[:, : steps * BATCH])).get()[:, : 2 * BATCH]
        layer.bprop(cpu.array(error[:, : steps * BATCH]))
        found.append((y, layer.dW.get()))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
