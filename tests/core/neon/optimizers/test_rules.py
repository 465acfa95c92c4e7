"""Several steps of each optimizer lead where the formulas lead in NumPy."""

import numpy as np
import pytest

from atled.neon.optimizers import (
    Adadelta,
    Adagrad,
    Adam,
    GradientDescentMomentum,
    RMSProp,
    Schedule,
    ShiftAdaMax,
    get_param_list,
)

STEPS = 4


def descent(lr, m, wdecay=0.0, nesterov=False):
    def step(p, g, states, epoch, t):
        if m == 0:
            return (1 - lr * wdecay) * p - lr * g, []
        g = g + wdecay * p
        v = m * states[0] - lr * g
        return (p + m * v - lr * g if nesterov else p + v), [v]

    return step


def rmsprop(d, lr, eps, rate_of=lambda lr, epoch: lr):
    def step(p, g, states, epoch, t):
        s = d * states[0] + (1 - d) * g**2
        return p - rate_of(lr, epoch) * g / (np.sqrt(s + eps) + eps), [s]

    return step


def adagrad(lr, eps):
    def step(p, g, states, epoch, t):
        s = states[0] + g**2
        return p - lr * g / np.sqrt(s + eps), [s]

    return step


def adadelta(d, eps):
    def step(p, g, states, epoch, t):
        s = d * states[0] + (1 - d) * g**2
        u = np.sqrt((states[1] + eps) / (s + eps)) * g
        return p - u, [s, d * states[1] + (1 - d) * u**2, u]

    return step


def adam(lr, b1, b2, eps):
    def step(p, g, states, epoch, t):
        m, v = b1 * states[0] + (1 - b1) * g, b2 * states[1] + (1 - b2) * g**2
        size = lr * np.sqrt(1 - b2**t) / (1 - b1**t)
        return p - size * m / (np.sqrt(v) + eps), [m, v]

    return step


def shifted(a, b):
    return a * np.sign(b) * 2.0 ** np.rint(np.log2(np.maximum(np.abs(b), np.exp(-50))))


def adamax(lr, b1, b2, eps):
    def step(p, g, states, epoch, t):
        m, v = b1 * states[0] + (1 - b1) * g, np.maximum(b2 * states[1], np.abs(g))
        return np.clip(p - shifted(shifted(m, 1 / (v + eps)), lr / (1 - b1 ** (epoch + 1))), -1, 1), [m, v]

    return step


ROWS = [
    (lambda: GradientDescentMomentum(0.1, 0.9), 1, descent(0.1, 0.9)),
    (lambda: GradientDescentMomentum(0.1, 0.9, wdecay=0.01), 1, descent(0.1, 0.9, 0.01)),
    (lambda: GradientDescentMomentum(0.1, 0.9, wdecay=0.01, nesterov=True), 1, descent(0.1, 0.9, 0.01, True)),
    (lambda: GradientDescentMomentum(0.1, 0.0), 0, descent(0.1, 0)),
    (lambda: GradientDescentMomentum(0.1, 0, wdecay=0.01), 0, descent(0.1, 0, 0.01)),
    (lambda: RMSProp(), 1, rmsprop(0.95, 2e-3, 1e-6)),
    (
        lambda: RMSProp(0.9, 0.01, 1e-4, Schedule(2, 0.5)),
        1,
        rmsprop(0.9, 0.01, 1e-4, lambda lr, epoch: lr * 0.5 ** (epoch // 2)),
    ),
    (lambda: Adagrad(), 1, adagrad(0.01, 1e-6)),
    (lambda: Adadelta(), 3, adadelta(0.95, 1e-6)),
    (lambda: Adam(), 2, adam(1e-3, 0.9, 0.999, 1e-8)),
    (lambda: Adam(0.01, 0.5, 0.9, 1e-4), 2, adam(0.01, 0.5, 0.9, 1e-4)),
    (lambda: ShiftAdaMax(learning_rate=0.01), 2, adamax(0.01, 0.9, 0.999, 1e-8)),
]
NAMES = [f"{type(row[0]()).__name__}-{number}" for number, row in enumerate(ROWS)]


def trained(be, layers, optimizer, rng, steps=STEPS):
    """Steps with random gradients, one epoch each; these, divided by the batch."""
    gradients = []
    for epoch in range(steps):
        for (_, g), _ in get_param_list(layers):
            g[:] = 4 * rng.normal(size=g.shape)
        gradients.append([g.get() / be.bsz for (_, g), _ in get_param_list(layers)])
        optimizer.optimize(layers, epoch)
    return gradients


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("make, state_count, rule", ROWS, ids=NAMES)
def test_steps_are_those_of_the_formula(be, rng, layers, make, state_count, rule, dtype):
    made = layers(dtype)
    values = [p.get() for (p, _), _ in get_param_list(made)]
    states = [[np.zeros_like(p)] * state_count for p in values]
    for epoch, gradients in enumerate(trained(be, made, make(), rng)):
        for n, g in enumerate(gradients):
            values[n], states[n] = rule(values[n], g, states[n], epoch, epoch + 1)
    tolerance = {"rtol": 2e-5, "atol": 1e-6} if dtype == np.float32 else {"rtol": 1e-11, "atol": 1e-13}
    for ((p, _), found), wanted, wanted_states in zip(get_param_list(made), values, states, strict=True):
        np.testing.assert_allclose(p.get(), wanted, **tolerance)
        assert len(found) == state_count
        for state, wanted_state in zip(found, wanted_states, strict=True):
            assert state.dtype == dtype
            np.testing.assert_allclose(state.get(), wanted_state, **tolerance)


@pytest.mark.parametrize("make", [row[0] for row in ROWS[::3]])
def test_gradients_are_clipped_by_the_norm_of_all_then_by_value_and_parameters_last(be, rng, layers, make):
    plain, clipping = make(), make()
    clipping.gradient_clip_norm, clipping.gradient_clip_value, clipping.param_clip_value = 0.5, 0.125, 0.75
    one, other = layers(), layers()
    for (p, _), (q, _) in zip(one[0].pairs + one[1].pairs, other[0].pairs + other[1].pairs, strict=True):
        q[:] = p
    gradients = trained(be, one, clipping, rng, 1)[0]
    norm = np.sqrt(sum((g**2).sum() for g in gradients))
    assert norm > 0.5
    for ((_, g), _), each in zip(get_param_list(other), gradients, strict=True):
        g[:] = np.clip(0.5 / norm * each, -0.125, 0.125) * be.bsz
    plain.optimize(other, 0)
    for layer, same in zip(one, other, strict=True):
        for found, wanted in zip(layer.values(), same.values(), strict=True):
            np.testing.assert_allclose(found, np.clip(wanted, -0.75, 0.75), rtol=1e-5, atol=1e-6)


def test_small_gradients_are_not_made_larger_by_a_norm(be, rng, layers):
    made = layers()
    before = [p.get() for (p, _), _ in get_param_list(made)]
    gradients = trained(be, made, GradientDescentMomentum(1.0, 0, gradient_clip_norm=1e3), rng, 1)[0]
    for ((p, _), _), value, g in zip(get_param_list(made), before, gradients, strict=True):
        np.testing.assert_allclose(p.get(), value - g, rtol=1e-5, atol=1e-6)


def test_adam_counts_its_steps(be, rng, layers):
    optimizer = Adam()
    trained(be, layers(), optimizer, rng, 3)
    assert optimizer.t == 3


@pytest.mark.parametrize("kind", [RMSProp, Adagrad, Adadelta, Adam, ShiftAdaMax])
def test_a_negative_epsilon_is_refused(kind):
    with pytest.raises(ValueError, match=f"(?s){kind.__name__}.*epsilon is -1"):
        kind(epsilon=-1)
