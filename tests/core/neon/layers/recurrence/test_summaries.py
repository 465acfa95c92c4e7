"""Sums, means and last steps; sums of both directions: values, errors, what is refused."""

import numpy as np
import pytest
from tests.core.neon.layers.recurrence.recurrent_formulas import BATCH, STEPS, normal, ready

from atled.neon.layers.recurrent import BiSum, RecurrentLast, RecurrentMean, RecurrentSum

ROWS = 6
KINDS = {
    RecurrentSum: lambda x: x.sum(axis=1),
    RecurrentMean: lambda x: x.mean(axis=1),
    RecurrentLast: lambda x: x[:, -1],
}


def steps_of(x):
    """(rows, steps, batch)."""
    return x.reshape(x.shape[0], -1, BATCH)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("used", [None, 2])
def test_one_step_of_many_and_its_errors(be, kind, used):
    layer, x, error = ready(kind(), ROWS), normal(ROWS, STEPS * BATCH), normal(ROWS, BATCH)
    layer.set_seq_len(used)
    assert layer.out_shape == (ROWS, 1)
    y = layer.fprop(be.array(x)).get()
    np.testing.assert_allclose(y, KINDS[kind](steps_of(x)[:, :used]), rtol=0, atol=1e-6)
    unit = np.zeros((1, STEPS, 1))
    unit[:, :used] = {RecurrentSum: 1, RecurrentMean: 1 / (used or STEPS), RecurrentLast: 0}[kind]
    if kind is RecurrentLast:
        unit[:, (used or STEPS) - 1] = 1
    expected = (error[:, None] * unit).reshape(ROWS, -1)
    np.testing.assert_allclose(layer.bprop(be.array(error)).get(), expected, rtol=0, atol=1e-6)
    again = layer.bprop(be.array(error), alpha=2.0, beta=0.5).get()
    np.testing.assert_allclose(again, 2.5 * expected, rtol=0, atol=1e-6)


def test_sum_of_both_directions(be):
    layer, x = ready(BiSum(), ROWS), normal(ROWS, STEPS * BATCH)
    assert layer.out_shape == (ROWS // 2, STEPS)
    np.testing.assert_allclose(layer.fprop(be.array(x)).get(), x[:3] + x[3:], rtol=0, atol=1e-6)
    error = normal(ROWS // 2, STEPS * BATCH)
    np.testing.assert_allclose(layer.bprop(be.array(error)).get(), np.vstack([error, error]), rtol=0, atol=1e-6)


def test_what_does_not_fit_is_refused(cpu):
    with pytest.raises(ValueError, match="5 rows have no halves"):
        BiSum().configure((5, STEPS))
    layer = ready(RecurrentSum(name="total"), ROWS)
    with pytest.raises(ValueError, match=r"(?s)total.*inputs have shape \[6, 4\]"):
        layer.fprop(cpu.zeros((ROWS, BATCH)))
    with pytest.raises(RuntimeError, match="no memory yet"):
        RecurrentLast().configure((ROWS, STEPS)).fprop(cpu.zeros((ROWS, STEPS * BATCH)))


@pytest.mark.parametrize("kind", [*KINDS, BiSum])
def test_a_layer_without_memory_is_named(cpu, kind):
    with pytest.raises(RuntimeError, match=rf"{kind.__name__} 'r'\.fprop.*no memory"):
        kind(name="r").fprop(cpu.ones((ROWS, BATCH)))
