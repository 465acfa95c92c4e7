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
STEPS = st.lists(
    st.tuples(st.sampled_from(sorted(OPS)), st.integers(0, 20), st.integers(0, 20)), min_size=1, max_size=8
)


@pytest.mark.parametrize(("name", "examples"), [("cpu", 40), ("sim", 40), ("reference", 80)])
def test_a_graph_gives_what_numpy_does(name, examples):
    @settings(max_examples=examples, deadline=None, derandomize=True)
    @given(STEPS)
    def checked(steps):
        with context_scope(CONTEXTS[name]):
            _check(steps)

    checked()


def _check(steps):
    inputs = [B.placeholder(ndim=np.ndim(each), dtype="float32") for each in ARRAYS[0]]
    nodes, values = list(inputs), [list(each) for each in ARRAYS]
    for name, first, second in steps:
        operation, numpy = OPS[name]
        places = first % len(nodes), second % len(nodes)
        try:
            found = [np.asarray(numpy(*(each[place] for place in places))) for each in values]
        except (ValueError, IndexError):
            continue  # NumPy refuses these shapes
        if not all(each.size for each in found):
            continue
        for each, value in zip(values, found, strict=True):
            each.append(value)
        nodes.append(operation(*(nodes[place] for place in places)))
    f = B.function(inputs, nodes[4:])
    for arrays, expected in zip(ARRAYS, values, strict=True):
        for found, value in zip(f(*arrays), expected[4:], strict=True):
            np.testing.assert_allclose(found, value, rtol=1e-4, atol=1e-4)
