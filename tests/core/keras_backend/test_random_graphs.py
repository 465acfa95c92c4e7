"""Random graphs of expressions, for inputs of two sizes, against NumPy evaluated beside them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import atled.keras_backend as B
from atled_contexts import Context, context_scope

CONTEXTS = {
    "cpu": Context(["cpu:float", "reference:float"]),
    "sim": Context(["sim:float"]),
    "reference": Context(["reference:float"]),
}
RANDOM = np.random.default_rng(5)
ARRAYS = [[RANDOM.uniform(0.3, 1.7, shape) for shape in ((rows, 4), (rows, 4), (4,), ())] for rows in (3, 5)]
"""For each count of rows."""


def rows(a):
    """An array with axes: NumPy would take axis 0 of what has none."""
    return a if np.ndim(a) else np.empty(())[0]


# By name: of the backend, and of NumPy. Steps are not among these: rounding may put a value on either side.
OPS = {
    "add": (lambda a, b: a + b, np.add),
    "subtract": (lambda a, b: a - b, np.subtract),
    "multiply": (lambda a, b: a * b, np.multiply),
    "divide": (lambda a, b: a / (b * b + 1), lambda a, b: a / (b * b + 1)),
    "maximum": (B.maximum, np.maximum),
    "minimum": (lambda a, b: B.minimum(a, 0.9), lambda a, b: np.minimum(a, 0.9)),
    "sigmoid": (lambda a, b: B.sigmoid(a), lambda a, b: 1 / (1 + np.exp(-a))),
    "sin": (lambda a, b: B.sin(a), lambda a, b: np.sin(a)),
    "number": (lambda a, b: 1.5 - a, lambda a, b: 1.5 - a),
    "sum": (lambda a, b: B.sum(a, axis=-1, keepdims=True), lambda a, b: np.sum(rows(a), axis=-1, keepdims=True)),
    "mean": (lambda a, b: B.mean(a), lambda a, b: np.mean(a)),
    "max": (lambda a, b: B.max(a, axis=0), lambda a, b: np.max(rows(a), axis=0)),
    "logsumexp": (lambda a, b: B.logsumexp(a, axis=0), lambda a, b: np.log(np.sum(np.exp(rows(a)), axis=0))),
    "transpose": (lambda a, b: a.T, lambda a, b: a.T),
    "dot": (lambda a, b: B.dot(a, b.T) / 4, lambda a, b: np.dot(a, b.T) / 4),
    "part": (lambda a, b: a[1:, ::-1], lambda a, b: a[1:, ::-1]),
    "rows": (lambda a, b: a[np.array([1, 0, -1])], lambda a, b: a[np.array([1, 0, -1])]),
    "by_size": (lambda a, b: a / a.shape[0], lambda a, b: a / a.shape[0]),
    "halves": (lambda a, b: a[: a.shape[0] // 2], lambda a, b: a[: a.shape[0] // 2]),
    "flatten": (lambda a, b: B.flatten(a), lambda a, b: np.ravel(a)),
    "stack": (lambda a, b: B.stack([a, b]), lambda a, b: np.stack([a, b])),
}
SMOOTH = sorted(set(OPS) - {"maximum", "minimum", "max"})
"""Those whose gradients are no matter of convention where elements are equal."""


def steps_of(names):
    """Lists of steps: an op, and on which of the values before it works."""
    return st.lists(st.tuples(st.sampled_from(names), st.integers(0, 20), st.integers(0, 20)), min_size=1, max_size=8)


STEP = 1e-6
"""Of central differences in float64."""


@pytest.mark.parametrize(("name", "examples"), [("cpu", 40), ("sim", 40), ("reference", 80)])
def test_a_graph_gives_what_numpy_does(name, examples):
    @settings(max_examples=examples, deadline=None, derandomize=True)
    @given(steps_of(sorted(OPS)))
    def checked(steps):
        with context_scope(CONTEXTS[name]):
            inputs, nodes, expected = built(steps, "float32")
            f = B.function(inputs, nodes)
            for arrays, values in zip(ARRAYS, expected, strict=True):
                for found, value in zip(f(*arrays), values, strict=True):
                    np.testing.assert_allclose(found, value, rtol=1e-4, atol=1e-4)

    checked()


@settings(max_examples=60, deadline=None, derandomize=True)
@given(steps_of(SMOOTH))
def test_the_gradient_of_a_graph_is_that_of_differences(steps):
    with context_scope(CONTEXTS["reference"]):
        inputs, nodes, (values, _) = built(steps, "float64")
        if not nodes or abs(values[-1]).max() > 100:  # differences of large values are those of rounding
            return
        loss = B.sum(nodes[-1])
        wanted = [each for each in inputs if reaches(loss, each)]
        found = B.function(inputs, B.gradients(loss, wanted))(*ARRAYS[0])
    for each, gradient in zip(wanted, found, strict=True):
        expected = differences(steps, inputs.index(each))
        np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-4)


def reaches(loss, each):
    """Whether a gradient flows from a loss to an input."""
    try:
        B.gradients(loss, each)
    except ValueError:
        return False
    return True


def differences(steps, position):
    """The gradient of the sum of the last value with respect to one input."""
    found = np.empty_like(ARRAYS[0][position])
    for place in np.ndindex(found.shape):
        sides = []
        for step in (STEP, -STEP):
            arrays = [np.array(each) for each in ARRAYS[0]]
            arrays[position][place] += step
            sides.append(computed(steps, [arrays, ARRAYS[1]])[0][0][-1].sum())
        found[place] = (sides[0] - sides[1]) / (2 * STEP)
    return found


def built(steps, dtype):
    """Placeholders, what the steps make of them, and the values of that for the arrays of each size."""
    inputs = [B.placeholder(ndim=np.ndim(each), dtype=dtype) for each in ARRAYS[0]]
    expected, done = computed(steps, ARRAYS)
    nodes = list(inputs)
    for name, *places in done:
        nodes.append(OPS[name][0](*(nodes[place] for place in places)))
    return inputs, nodes[len(inputs) :], expected


def computed(steps, sets):
    """By NumPy: the values for each set of arrays, and the steps that made them; others do not fit some shapes."""
    values, done = [list(each) for each in sets], []
    for name, *numbers in steps:
        places = [number % len(values[0]) for number in numbers]
        try:
            found = [np.asarray(OPS[name][1](*(each[place] for place in places))) for each in values]
        except (ValueError, IndexError):
            continue
        if all(each.size for each in found):
            done.append((name, *places))
            for each, value in zip(values, found, strict=True):
                each.append(value)
    return [each[len(sets[0]) :] for each in values], done
