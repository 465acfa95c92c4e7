"""Steps of recurrent layers: values, views, order, and activations of all kinds."""

import numpy as np
import pytest

import atled as nn
from atled.neon.transforms import Identity, Tanh, Transform

UNITS, BATCH, STEPS = 3, 2, 5


class Cube(Transform):
    """`y = x ** 3 / 8`, computed at once and written into x."""

    def __call__(self, x):
        x[:] = x * x * x / 8
        return x

    def bprop(self, x):
        values = x.get()
        return self.be.array(3 / 8 * np.cbrt(8 * values) ** 2, dtype=x.dtype)


def cubed(x):
    return x**3 / 8


ACTIVATIONS = {
    "tanh": (Tanh, np.tanh, lambda y: 1 - y**2),
    "identity": (Identity, lambda x: x, lambda y: np.ones_like(y)),
    "at once": (Cube, cubed, lambda y: 3 / 8 * np.cbrt(8 * y) ** 2),
}


def columns(tensor, first, count=STEPS):
    """One view for each step of a buffer."""
    return [tensor[:, n * BATCH : (n + 1) * BATCH] for n in range(first, first + count)]


class Layer:
    """A padded buffer of states, and what feeds it."""

    def __init__(self, be, dtype=np.float32):
        self.rng = np.random.default_rng(7)
        self.be, self.dtype = be, dtype
        self.weights, self.bias = self.tensor(UNITS, UNITS), self.tensor(UNITS, 1)
        self.states = self.tensor(UNITS, (STEPS + 2) * BATCH)
        self.fed = self.tensor(UNITS, STEPS * BATCH)

    def tensor(self, *shape):
        return self.be.array(self.rng.standard_normal(shape) / 2, dtype=self.dtype)

    def steps(self, *, reverse=False, is_fed_in_place=False):
        """Lists of views: before, fed, h."""
        h = columns(self.states, 1)
        return columns(self.states, 2 if reverse else 0), h if is_fed_in_place else columns(self.fed, 0), h

    def expected(self, function, steps, *, used=None, reverse=False, bias=True):
        """What the buffer is to hold, step by step as views of a NumPy array."""
        state, fed = self.states.get(), self.fed.get()
        for n in range(used or STEPS)[:: -1 if reverse else 1]:
            first = (n + 1) * BATCH
            before = state[:, first + BATCH : first + 2 * BATCH] if reverse else state[:, first - BATCH : first]
            h = state[:, first : first + BATCH]
            row = h if steps[1][0] is steps[2][0] else fed[:, n * BATCH : (n + 1) * BATCH]
            h[:] = function(self.weights.get() @ before + row + (self.bias.get() if bias else 0))
        return state


@pytest.mark.parametrize("used", [None, 3, STEPS + 2])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("is_fed_in_place", [False, True])
@pytest.mark.parametrize("kind", ACTIVATIONS)
def test_states_follow_from_states(be, kind, is_fed_in_place, reverse, used):
    activation, function, _ = ACTIVATIONS[kind]
    layer = Layer(be)
    steps = layer.steps(reverse=reverse, is_fed_in_place=is_fed_in_place)
    wanted = layer.expected(function, steps, used=None if used is None else min(used, STEPS), reverse=reverse)
    be.compound_rnn_unroll_fprop(layer.weights, *steps, layer.bias, UNITS, STEPS, used, activation(), reverse)
    np.testing.assert_allclose(layer.states.get(), wanted, rtol=1e-4, atol=1e-5)


def test_there_may_be_no_bias(be):
    layer = Layer(be)
    steps = layer.steps()
    wanted = layer.expected(np.tanh, steps, bias=False)
    be.compound_rnn_unroll_fprop(layer.weights, *steps, None, UNITS, STEPS, STEPS, Tanh())
    np.testing.assert_allclose(layer.states.get(), wanted, rtol=1e-4, atol=1e-5)


def test_regular_steps_are_one_loop(cpu):
    layer = Layer(cpu)
    before = nn.fallback_counts()
    arguments = (layer.weights, *layer.steps(), layer.bias, UNITS, STEPS, STEPS, Tanh())
    cpu.compound_rnn_unroll_fprop(*arguments)
    assert "Loop" in str(cpu.plan("compound_rnn_unroll_fprop", *arguments))
    errors = cpu.zeros((UNITS, (STEPS + 2) * BATCH))
    backward = layer.weights, columns(errors, 0), columns(errors, 1), columns(layer.states, 1), UNITS, STEPS, STEPS
    cpu.compound_rnn_unroll_bprop(*backward, Tanh())
    assert "Loop" in str(cpu.plan(cpu.compound_rnn_unroll_bprop, *backward, Tanh()))
    assert nn.fallback_counts() == before


def test_irregular_steps_are_one_program(be):
    layer = Layer(be)
    before, fed, h = layer.steps()
    h[2] = be.zeros((UNITS, BATCH))
    before[3] = h[2]
    wanted = layer.expected(np.tanh, (before, fed, h))
    arguments = (layer.weights, before, fed, h, layer.bias, UNITS, STEPS, STEPS, Tanh())
    plan = str(be.plan(be.compound_rnn_unroll_fprop, *arguments))
    assert "Loop" not in plan and "one by one" not in plan
    inside = slice(3 * BATCH, 4 * BATCH)
    held = layer.states.get()[:, inside]
    be.compound_rnn_unroll_fprop(*arguments)
    np.testing.assert_allclose(h[2].get(), wanted[:, inside], rtol=1e-4, atol=1e-5)
    wanted[:, inside] = held
    np.testing.assert_allclose(layer.states.get(), wanted, rtol=1e-4, atol=1e-5)


def test_views_that_share_some_elements_are_computed_in_turn(be):
    layer = Layer(be)
    moved = [layer.states[:, n : n + BATCH] for n in range(4)]
    state = layer.states.get()
    for n in range(3):
        state[:, n + 1 : n + 1 + BATCH] = np.tanh(
            layer.weights.get() @ state[:, n : n + BATCH] + layer.fed.get()[:, :2]
        )
    fed = columns(layer.fed, 0, 1) * 3
    arguments = (layer.weights, moved[:3], fed, moved[1:], None, UNITS, 3, 3, Tanh())
    assert "share some" in be.plan(be.compound_rnn_unroll_fprop, *arguments)
    be.compound_rnn_unroll_fprop(*arguments)
    np.testing.assert_allclose(layer.states.get(), state, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("distance", [0, 1])
def test_targets_that_share_elements_hold_the_last_state_behind_the_call(be, distance):
    layer = Layer(be)
    start, h = layer.tensor(UNITS, BATCH), [layer.states[:, n * distance : n * distance + BATCH] for n in range(3)]
    held, before = layer.states.get(), start.get()
    for n, fed in enumerate(columns(layer.fed, 0, 3)):
        state = held[:, n * distance : n * distance + BATCH]
        state[:] = np.tanh(layer.weights.get() @ before + fed.get())
        before = state
    be.compound_rnn_unroll_fprop(layer.weights, [start, *h[:2]], columns(layer.fed, 0, 3), h, None, UNITS, 3, 3, Tanh())
    np.testing.assert_allclose(layer.states.get(), held, rtol=1e-4, atol=1e-5)


def test_views_of_a_copy_are_no_targets(cpu):
    layer = Layer(cpu)
    with pytest.warns(UserWarning, match="it is a copy"):
        copy = layer.states.T.reshape(layer.states.shape)
    held, (before, fed, h) = copy.get(), layer.steps()
    with pytest.raises(ValueError, match="it is a copy"):
        cpu.compound_rnn_unroll_fprop(
            layer.weights, [before[0], *columns(copy, 1)[:-1]], fed, columns(copy, 1), None, UNITS, STEPS, STEPS, Tanh()
        )
    with pytest.raises(ValueError, match="it is a copy"):
        cpu.compound_rnn_unroll_bprop(layer.weights, columns(copy, 0), columns(copy, 1), h, UNITS, STEPS, STEPS, Tanh())
    np.testing.assert_array_equal(copy.get(), held)


def test_one_error_goes_through_all_steps(be):
    layer = Layer(be)
    error, first, h = layer.tensor(UNITS, BATCH), layer.tensor(UNITS, BATCH), columns(layer.states, 0, 1)[0]
    wanted, slope = error.get(), 1 - h.get() ** 2
    for _ in range(2):
        wanted = wanted * slope
        wanted = wanted + layer.weights.get() @ wanted
    wanted = wanted * slope
    at_first = first.get() + layer.weights.get() @ wanted
    be.compound_rnn_unroll_bprop(
        layer.weights, [error, error, first], [error] * 3, [h] * 3, UNITS, 3, 3, Tanh(), reverse=False
    )
    np.testing.assert_allclose(error.get(), wanted, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(first.get(), at_first, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("used", [None, 3])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("kind", ACTIVATIONS)
def test_errors_go_back(be, kind, reverse, used):
    activation, _, derivative = ACTIVATIONS[kind]
    layer = Layer(be)
    errors = layer.tensor(UNITS, (STEPS + 2) * BATCH)
    expected, states = errors.get(), layer.states.get()
    for n in range(used or STEPS)[:: -1 if reverse else 1]:
        first = (n + 1) * BATCH
        delta = expected[:, first : first + BATCH]
        before = expected[:, first - BATCH : first] if reverse else expected[:, first + BATCH : first + 2 * BATCH]
        delta *= derivative(states[:, first : first + BATCH])
        before += layer.weights.get().T @ delta
    be.compound_rnn_unroll_bprop(
        layer.weights.T,
        columns(errors, 0 if reverse else 2),
        columns(errors, 1),
        columns(layer.states, 1),
        UNITS,
        STEPS,
        used,
        activation(),
        reverse,
    )
    np.testing.assert_allclose(errors.get(), expected, rtol=1e-4, atol=1e-5)


def test_errors_are_those_of_finite_differences(be):
    layer = Layer(be, np.float64)
    steps = layer.steps()
    fed, weights = layer.fed.get(), layer.rng.standard_normal((UNITS, STEPS * BATCH))
    inside = slice(BATCH, (STEPS + 1) * BATCH)
    wanted = np.zeros_like(fed)
    for place in np.ndindex(*fed.shape):
        for step in (1e-6, -1e-6):
            moved = fed.copy()
            moved[place] += step
            layer.fed[:] = moved
            wanted[place] += np.sign(step) * (layer.expected(np.tanh, steps)[:, inside] * weights).sum() / 2e-6
    layer.fed[:] = fed
    be.compound_rnn_unroll_fprop(layer.weights, *steps, layer.bias, UNITS, STEPS, STEPS, Tanh())
    errors = be.zeros((UNITS, (STEPS + 2) * BATCH), dtype=np.float64)
    errors[:, inside] = be.array(weights, dtype=np.float64)
    arguments = columns(errors, 0), columns(errors, 1), columns(layer.states, 1), UNITS, STEPS, STEPS
    be.compound_rnn_unroll_bprop(layer.weights.T, *arguments, Tanh())
    np.testing.assert_allclose(errors.get()[:, inside], wanted, rtol=1e-5, atol=1e-6)


def test_an_activation_with_other_attributes_is_another_one(be):
    class Scaled(Transform):
        def __init__(self, factor):
            super().__init__()
            self.factor = factor

        def __call__(self, x):
            return self.factor * x

    layer, activation = Layer(be), Scaled(0.5)
    for factor in (0.5, 0.25):
        activation.factor = factor
        wanted = layer.expected(lambda x, factor=factor: factor * x, layer.steps())
        be.compound_rnn_unroll_fprop(layer.weights, *layer.steps(), layer.bias, UNITS, STEPS, STEPS, activation)
        np.testing.assert_allclose(layer.states.get(), wanted, rtol=1e-4, atol=1e-5)


def test_plan_says_why_steps_run_one_by_one(cpu):
    layer = Layer(cpu)
    plan = cpu.plan("compound_rnn_unroll_fprop", layer.weights, *layer.steps(), None, UNITS, STEPS, STEPS, Cube())
    assert "5 steps, one by one" in plan and "Cube" in plan and "instead of making an op-tree" in plan


def test_steps_that_fail_leave_the_states(be):
    class Failing(Cube):
        calls = 0

        def __call__(self, x):
            self.calls += 1
            if self.calls > 3:
                raise OSError("no more")
            return super().__call__(x)

    layer = Layer(be)
    before = layer.states.get()
    with pytest.raises(OSError, match="no more"):
        be.compound_rnn_unroll_fprop(layer.weights, *layer.steps(), layer.bias, UNITS, STEPS, STEPS, Failing())
    np.testing.assert_array_equal(layer.states.get(), before)


def test_no_steps_do_nothing(cpu):
    layer = Layer(cpu)
    before = layer.states.get()
    cpu.compound_rnn_unroll_fprop(layer.weights, *layer.steps(), layer.bias, UNITS, STEPS, 0, Tanh())
    np.testing.assert_array_equal(layer.states.get(), before)


def test_what_does_not_fit_is_refused(cpu):
    layer = Layer(cpu)
    before, fed, h = layer.steps()
    unroll, end = cpu.compound_rnn_unroll_fprop, (UNITS, STEPS, STEPS, Tanh())
    with pytest.raises(ValueError, match="num_used_steps=-1"):
        unroll(layer.weights, before, fed, h, layer.bias, UNITS, STEPS, -1, Tanh())
    with pytest.raises(TypeError, match="num_steps=None"):
        unroll(layer.weights, before, fed, h, layer.bias, UNITS, None, None, Tanh())
    with pytest.raises(TypeError, match="W_recur is of type NoneType"):
        unroll(None, before, fed, h, layer.bias, *end)
    with pytest.raises(ValueError, match="h_s has 4"):
        unroll(layer.weights, before, fed, h[:4], layer.bias, *end)
    with pytest.raises(ValueError, match="h_prev_s has 0"):
        unroll(layer.weights, None, fed, h, layer.bias, *end)
    with pytest.raises(TypeError, match="it is no function"):
        unroll(layer.weights, before, fed, h, layer.bias, UNITS, STEPS, STEPS, None)
    with pytest.raises(TypeError, match="has no bprop"):
        cpu.compound_rnn_unroll_bprop(layer.weights, before, h, h, UNITS, STEPS, STEPS, np.tanh)
    with pytest.raises(ValueError, match=r"h_ff_s\[4\] has shape \[3, 1\]"):
        unroll(layer.weights, before, [*fed[:4], fed[4][:, :1]], h, layer.bias, *end)
    with pytest.raises(ValueError, match="bias has shape"):
        unroll(layer.weights, before, fed, h, layer.weights, *end)
    with pytest.raises(TypeError, match="dtypes"):
        unroll(cpu.zeros((UNITS, UNITS), dtype=np.float64), before, fed, h, None, *end)
    with pytest.raises(TypeError, match="it gives 'tanh'"):
        unroll(layer.weights, before, fed, h, None, UNITS, STEPS, STEPS, lambda _: "tanh")
    with pytest.raises(ValueError, match=r"it gives shape \[1, 2\]|it gives shape \[3, 3\]"):
        unroll(layer.weights, before, fed, h, None, UNITS, STEPS, STEPS, lambda _: layer.weights * 1)
