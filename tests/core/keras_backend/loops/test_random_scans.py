"""Random scans against a loop in Python with NumPy: rows, last states, updates, conditions, gradients."""

from typing import NamedTuple

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import atled.keras_backend as B

SIZE = 3
OPS = ("add", "mul", "sin", "spread", "inner", "branch", "slope")


class OfNumPy:
    """What a step is made of, on arrays."""

    sin, sum, exp = np.sin, np.sum, np.exp

    @staticmethod
    def inner(a, b):
        """A loop of two steps."""
        return (a * 0.5 + np.sin(b)) * 0.5 + np.sin(b)

    @staticmethod
    def branch(a, b):
        """One of two values."""
        return a * 0.7 if a.sum() > 0 else b * 0.6

    @staticmethod
    def slope(a, b):
        """The gradient of sum(sin(a) b) by a, where b is a constant."""
        return np.cos(a) * b


class OfBackend:
    """The same, on expressions."""

    sin, sum, exp = B.sin, B.sum, B.exp

    @staticmethod
    def inner(a, b):
        """See OfNumPy."""
        rows, _ = B.scan(lambda c: c * 0.5 + B.sin(b), a, n_steps=2)
        return rows[-1]

    @staticmethod
    def branch(a, b):
        """See OfNumPy."""
        return B.ifelse(B.sum(a) > 0.0, a * 0.7, b * 0.6)

    @staticmethod
    def slope(a, b):
        """See OfNumPy."""
        return B.gradients(B.sum(B.sin(a) * B.stop_gradient(b)), a)


class Drawn(NamedTuple):
    """A scan.  ops: (function, two values) each; the last results are outputs."""

    sequences: int
    states: int
    stateless: int
    updated: bool
    ops: list
    rows: int
    steps: int | None
    backwards: bool
    limit: float | None
    captured: bool


@st.composite
def scans(draw):
    states, sequences = draw(st.integers(0, 2)), draw(st.integers(0, 2))
    steps = draw(st.integers(0, 5)) if not sequences else draw(st.none() | st.integers(0, 4))
    count = st.integers(0, 9)
    return Drawn(
        sequences,
        states,
        draw(st.integers(0 if states else 1, 2)),
        draw(st.booleans()),
        draw(
            st.lists(st.tuples(st.sampled_from(["add", "mul", "sin", "spread"]), count, count), min_size=2, max_size=6)
        ),
        draw(st.integers(4, 6)),
        steps,
        draw(st.booleans()),
        draw(st.none() | st.floats(-1, 1)),
        draw(st.booleans()),
    )


def step_of(drawn, lib, values):
    """What a step makes of rows, states and constants: new states and outputs, all of SIZE numbers, and a sum."""
    values = list(values)
    for op, first, second in drawn.ops:
        a, b = values[first % len(values)], values[second % len(values)]
        made = {
            "add": lambda a=a, b=b: a + b * 0.5,
            "mul": lambda a=a, b=b: lib.sin(a) * b,
            "sin": lambda a=a: lib.sin(a + 0.5),
            "inner": lambda a=a, b=b: lib.inner(a, b),
            "branch": lambda a=a, b=b: lib.branch(a, b),
            "slope": lambda a=a, b=b: lib.slope(a, b),
            "spread": lambda a=a: a * 0.3 + lib.sum(a) * 0.1,
        }
        values.append(made[op]())
    wanted = drawn.states + drawn.stateless
    return [values[-1 - n % len(values)] * 0.9 for n in range(wanted)], lib.sum(values[-1]), values[-1]


def expected(drawn, sequences, states, w, v):
    """Rows of outputs, and the variable behind the last step."""
    rows = [[] for _ in range(drawn.states + drawn.stateless)]
    lengths = [len(each) for each in sequences]
    steps = min(lengths) if drawn.steps is None else drawn.steps
    for k in range(steps):
        now = [each[len(each) - 1 - k if drawn.backwards else k] for each in sequences]
        outputs, total, last = step_of(drawn, OfNumPy, [*now, *states, w, *([np.exp(w)] if drawn.captured else []), v])
        states = outputs[: drawn.states]
        for row, value in zip(rows, outputs, strict=True):
            row.append(value)
        if drawn.updated:
            v = v * 0.5 + last
        if drawn.limit is not None and total > drawn.limit:
            break
    return [np.reshape(row, (-1, SIZE)) for row in rows], v


def described(drawn, sequences, states, w, v):
    """The outputs and the updates of the scan."""
    around = [B.exp(w)] if drawn.captured else []

    def step(*inputs):
        outputs, total, last = step_of(drawn, OfBackend, [*inputs, *around, v])
        parts = [outputs]
        if drawn.updated:
            parts.append({v: v * 0.5 + last})
        if drawn.limit is not None:
            parts.append(B.until(total > drawn.limit))
        return tuple(parts)

    outputs, updates = B.scan(
        step,
        [*states, *[None] * drawn.stateless],
        drawn.steps,
        sequences=sequences,
        non_sequences=[w],
        go_backwards=drawn.backwards,
    )
    return (outputs if isinstance(outputs, list) else [outputs]), updates


@settings(max_examples=12, derandomize=True)  # 1000 more found nothing; each takes 0.1 s
@given(scans())
def test_a_random_scan_is_a_loop_in_python(drawn):
    rng = np.random.default_rng(len(drawn.ops))
    sequences = [rng.normal(size=(drawn.rows + n, SIZE)) for n in range(drawn.sequences)]
    states, w, v = [rng.normal(size=SIZE) for _ in range(drawn.states)], rng.normal(size=SIZE), rng.normal(size=SIZE)
    rows, last = expected(drawn, sequences, states, w, v)
    variables = [B.variable(each, "float64") for each in (*sequences, *states, w, v)]
    count, weights, changed = len(sequences), variables[-2], variables[-1]
    outputs, updates = described(drawn, variables[:count], variables[count:-2], weights, changed)
    function = B.function([], outputs, updates=updates)
    for found, wanted in zip(function(), rows, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(changed.get_value(), last, rtol=1e-10)
    if len(rows[0]):
        changed.set_value(v)
        for found, wanted in zip(B.function([], [each[-1] for each in outputs])(), rows, strict=True):
            np.testing.assert_allclose(found, wanted[-1], rtol=1e-10)
        _check_gradient(drawn, sequences, states, w, v, outputs, weights)


def _check_gradient(drawn, sequences, states, w, v, outputs, weights):
    """By one direction, where the count of steps does not change with the step along it."""
    loss = sum(B.sum(each) for each in outputs)
    try:
        gradient = B.function([], B.gradients(loss, weights))()
    except ValueError:
        gradient = np.zeros(SIZE)  # no output depends on it
    direction = np.array([0.5, -1.0, 0.25])
    sides = [expected(drawn, sequences, states, w + change * direction, v)[0] for change in (1e-6, -1e-6)]
    if len(sides[0][0]) == len(sides[1][0]):
        difference = (sum(each.sum() for each in sides[0]) - sum(each.sum() for each in sides[1])) / 2e-6
        np.testing.assert_allclose((gradient * direction).sum(), difference, rtol=1e-4, atol=1e-6)
