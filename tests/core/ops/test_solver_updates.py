"""Update rules against the formulas of their papers, written out over several steps."""

import numpy as np
import pytest

from atled.array_desc import ArrayDesc
from atled.ops import solver_updates
from atled.ops.spec import SPECS

GRADIENTS = np.random.default_rng(0).standard_normal((5, 4))
START = np.array([0.5, -1.0, 2.0, 0.0])


def run(name, states, attributes_at, gradients=GRADIENTS):
    """w after one update per gradient; attributes_at(t) gives the float attributes of step t = 1, 2, ..."""
    spec = SPECS[name]
    arrays = [START, None, *(np.zeros(4) for _ in range(states))]
    for t, gradient in enumerate(gradients, 1):
        arrays[1] = gradient
        results = spec.reference(*arrays, **attributes_at(t))
        for output, result in enumerate(results):
            arrays[spec.inplace[output]] = result
    return arrays[0]


def test_sgd():
    expected = START - 0.1 * GRADIENTS.sum(axis=0)
    np.testing.assert_allclose(run("SgdUpdate", 0, lambda t: {"lr": 0.1}), expected)


def test_momentum_uses_the_new_velocity():
    w, v = START, 0.0
    for g in GRADIENTS:
        v = 0.9 * v + 0.1 * g
        w = w - v
    np.testing.assert_allclose(run("MomentumUpdate", 1, lambda t: {"lr": 0.1, "momentum": 0.9}), w)


def test_nesterov():
    w, v = START, 0.0
    for g in GRADIENTS:
        u, v = v, 0.9 * v - 0.1 * g
        w = w - 0.9 * u + 1.9 * v
    np.testing.assert_allclose(run("NesterovUpdate", 1, lambda t: {"lr": 0.1, "momentum": 0.9}), w)


def test_adadelta():
    w, e, d = START, 0.0, 0.0
    for g in GRADIENTS:
        e = 0.95 * e + 0.05 * g**2
        step = np.sqrt((d + 1e-6) / (e + 1e-6)) * g
        d = 0.95 * d + 0.05 * step**2
        w = w - step
    np.testing.assert_allclose(run("AdadeltaUpdate", 2, lambda t: {"lr": 1.0, "decay": 0.95, "eps": 1e-6}), w)


def test_adagrad():
    w, v = START, 0.0
    for g in GRADIENTS:
        v = v + g**2
        w = w - 0.1 * g / (np.sqrt(v) + 1e-8)
    np.testing.assert_allclose(run("AdagradUpdate", 1, lambda t: {"lr": 0.1, "eps": 1e-8}), w)


def test_rmsprop():
    w, v = START, 0.0
    for g in GRADIENTS:
        v = 0.9 * v + 0.1 * g**2
        w = w - 0.1 * g / (np.sqrt(v) + 1e-8)
    np.testing.assert_allclose(run("RMSpropUpdate", 1, lambda t: {"lr": 0.1, "decay": 0.9, "eps": 1e-8}), w)


def moments(t):
    m = sum(0.1 * 0.9 ** (t - k) * GRADIENTS[k - 1] for k in range(1, t + 1))
    v = sum(0.001 * 0.999 ** (t - k) * GRADIENTS[k - 1] ** 2 for k in range(1, t + 1))
    return m, v


def adam_attributes(t, alpha_t):
    return {"alpha_t": alpha_t, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8}


def test_adam_has_the_bias_factor_in_alpha_and_eps_outside_the_root():
    def alpha(t):
        return 0.1 * np.sqrt(1 - 0.999**t) / (1 - 0.9**t)

    w = START
    for t in range(1, 6):
        m, v = moments(t)
        w = w - alpha(t) * m / (np.sqrt(v) + 1e-8)
    np.testing.assert_allclose(run("AdamUpdate", 2, lambda t: adam_attributes(t, alpha(t))), w)


def test_adamax():
    w, u = START, 0.0
    for t in range(1, 6):
        m, _ = moments(t)
        u = np.maximum(0.999 * u, np.abs(GRADIENTS[t - 1]))
        w = w - 0.1 / (1 - 0.9**t) * m / (u + 1e-8)
    np.testing.assert_allclose(run("AdamaxUpdate", 2, lambda t: adam_attributes(t, 0.1 / (1 - 0.9**t))), w)


def test_amsgrad_divides_by_the_largest_average():
    gradients = GRADIENTS * np.array([10, 5, 1, 0.1, 0.01])[:, None]
    w, m, v, largest = START, 0.0, 0.0, 0.0
    for g in gradients:
        m = 0.9 * m + 0.1 * g
        v = 0.9 * v + 0.1 * g**2
        largest = np.maximum(largest, v)
        w = w - 0.1 * m / (np.sqrt(largest) + 1e-8)
    attributes = {"alpha_t": 0.1, "beta1": 0.9, "beta2": 0.9, "eps": 1e-8}
    np.testing.assert_allclose(run("AMSGRADUpdate", 3, lambda t: attributes, gradients), w)


def test_weight_decay_and_scaling_change_the_gradient():
    (g,) = SPECS["WeightDecay"].reference(START, GRADIENTS[0], rate=0.1)
    np.testing.assert_allclose(g, GRADIENTS[0] + 0.1 * START)
    assert SPECS["WeightDecay"].inplace == {0: 1}
    (g,) = SPECS["ScaleGrad"].reference(GRADIENTS[0], scale=0.1)
    np.testing.assert_allclose(g, 0.1 * GRADIENTS[0])


@pytest.mark.parametrize("name", [spec.name for spec in solver_updates.UPDATES])
def test_every_output_is_an_input_updated_in_place(name):
    spec = SPECS[name]
    assert [spec.input_names[position] for position in spec.inplace.values()] == list(spec.outputs)
    assert dict(spec.program.in_place) == spec.inplace


def test_arrays_of_different_dtypes_are_refused():
    with pytest.raises(ValueError, match="give all the same shape and dtype"):
        SPECS["SgdUpdate"].infer(ArrayDesc((3,), np.float32), ArrayDesc((3,), np.float64), lr=0.1)
