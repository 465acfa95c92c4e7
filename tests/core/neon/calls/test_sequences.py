"""Sums over steps, and errors spread over them."""

import numpy as np
import pytest

ROWS, STEPS, BATCH = 3, 5, 2


def test_steps_add_up(be):
    values = np.random.default_rng(3).normal(size=(ROWS, STEPS * BATCH))
    x, y = be.array(values), be.zeros((ROWS, BATCH))
    be.sum_steps(x, y, alpha=0.5)
    np.testing.assert_allclose(y.get(), 0.5 * values.reshape(ROWS, STEPS, BATCH).sum(axis=1), rtol=0, atol=1e-6)
    be.sum_steps(x[:, BATCH : 3 * BATCH], y)
    expected = values[:, BATCH : 2 * BATCH] + values[:, 2 * BATCH : 3 * BATCH]
    np.testing.assert_allclose(y.get(), expected, rtol=0, atol=1e-6)


def test_an_error_is_spread_over_the_steps(be):
    values = np.random.default_rng(4).normal(size=(ROWS, BATCH))
    error, deltas = be.array(values), be.ones((ROWS, STEPS * BATCH))
    be.spread_steps(error, deltas, alpha=2.0, beta=0.5)
    np.testing.assert_allclose(deltas.get(), np.tile(2 * values, STEPS) + 0.5, rtol=0, atol=1e-6)
    be.spread_steps(error, deltas)
    np.testing.assert_allclose(deltas.get(), np.tile(values, STEPS), rtol=0, atol=1e-6)


def test_what_does_not_fit_is_refused(cpu):
    x = cpu.ones((ROWS, STEPS * BATCH))
    with pytest.raises(ValueError, match="10 columns are not steps of a batch of 3"):
        cpu.sum_steps(x, cpu.zeros((ROWS, 3)))
    with pytest.raises(ValueError, match=r"error has shape \[2, 2\]"):
        cpu.spread_steps(cpu.zeros((2, BATCH)), x)
    with pytest.raises(TypeError, match="alpha"):
        cpu.sum_steps(x, cpu.zeros((ROWS, BATCH)), alpha=None)
    assert (x.get() == 1).all()
