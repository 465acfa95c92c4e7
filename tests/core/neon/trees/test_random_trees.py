"""Random op-trees, in several ways of running them, against NumPy node by node in float64."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

ROWS, COLUMNS = 3, 4
SHAPES = [(ROWS, COLUMNS), (ROWS, 1), (1, COLUMNS), (1, 1)]

# Steps, such as comparisons, are not among these: rounding may put a value on either side.
ONE = {
    "negative": np.negative,
    "absolute": np.abs,
    "tanh": np.tanh,
    "sig": lambda a: 1 / (1 + np.exp(-a)),
    "square": np.square,
}
TWO = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
}
REDUCTIONS = {"sum": np.sum, "max": np.max, "min": np.min, "mean": np.mean}


def leaves():
    tensor = st.tuples(st.just("leaf"), st.integers(0, len(SHAPES) - 1))
    window = st.tuples(st.just("window"), st.sampled_from([np.s_[::-1], np.s_[:, ::-1], np.s_[:, 1:2], np.s_[2:]]))
    number = st.tuples(st.just("number"), st.sampled_from([0.5, -2, 1, 3.25]))
    return tensor | tensor | window | number


def trees():
    return st.recursive(
        leaves(),
        lambda part: (
            st.tuples(st.sampled_from(sorted(ONE)), part)
            | st.tuples(st.sampled_from(sorted(TWO)), part, part)
            | st.tuples(st.sampled_from(sorted(REDUCTIONS)), part, st.sampled_from([0, 1, None]))
            | st.tuples(st.just("transposed"), part)
        ),
        max_leaves=8,
    )


def arrays():
    random = np.random.default_rng(0)
    return [random.normal(size=shape).astype(np.float32) for shape in SHAPES]


class _Mixed:
    """What NumPy computes of a description of a tree, and the op-tree of it."""

    def __init__(self, be):
        self._be = be
        self._arrays = arrays()
        self._tensors = [be.array(array) for array in self._arrays]

    def of(self, part):
        """The array and the tree of a part; a number twice for a number. None: shapes do not fit."""
        kind, *rest = part
        if kind == "leaf":
            return self._arrays[rest[0]].astype(np.float64), self._tensors[rest[0]]
        if kind == "window":
            return self._arrays[0][rest[0]].astype(np.float64), self._tensors[0][rest[0]]
        if kind == "number":
            return rest[0], rest[0]
        operands = [self.of(each) for each in rest if isinstance(each, tuple)]
        if None in operands or not any(isinstance(array, np.ndarray) for array, _ in operands):
            return None
        a, x = operands[0]
        if kind in ONE:
            return ONE[kind](a), getattr(self._be, kind)(x)
        if kind == "transposed":
            return a.T, x.T
        if kind in REDUCTIONS:
            return REDUCTIONS[kind](a, axis=rest[1], keepdims=True), getattr(self._be, kind)(x, axis=rest[1])
        b, y = operands[1]
        try:
            made = np.asarray(TWO[kind](a, b), np.float64)
        except ValueError:
            with pytest.raises(ValueError, match="do not broadcast"):
                getattr(self._be, kind)(x, y)
            return None
        return made, getattr(self._be, kind)(x, y)


@settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.filter_too_much],
)
@given(tree=trees())
def test_random_trees_are_numpys(be, tree):
    mixed = _Mixed(be)
    found = mixed.of(tree)
    if found is None or not isinstance(found[0], np.ndarray) or not isinstance(found[1], tuple):
        return
    expected, made = found
    assert made.shape == expected.shape
    scale = max(1.0, np.abs(expected).max())
    out = be.zeros((*expected.shape[:1], expected.shape[1] * 2))
    for _ in range(3):  # made anew, seen again, kept
        target = out[:, ::2]
        target[:] = made
        np.testing.assert_allclose(target.get(), expected, rtol=1e-4, atol=1e-4 * scale)
    for _ in range(3):  # equal trees of the same tensors
        out.fill(0)
        out[:, ::2] = mixed.of(tree)[1]
        np.testing.assert_allclose(out.get()[:, ::2], expected, rtol=1e-4, atol=1e-4 * scale)
    assert not out.get()[:, 1::2].any()
