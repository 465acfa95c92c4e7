"""Reductions of integers and truth values against NumPy: wrap-around, empty arrays, every grouping of axes."""

import numpy as np
import pytest

import atled as nn
from atled.conformance.running import evaluate
from atled_cpu_numba.kernels.reduction import whole_numbers

DTYPES = ["int8", "int32", "int64", "uint16", "uint64", "bool"]
# The last ones have more columns than are reduced at once, and rows that are no multiple of a vector.
CASES = [
    ((7,), (0,)), ((1,), (0,)), ((5, 3), (0,)), ((5, 3), (1,)), ((5, 3), (0, 1)), ((5, 3), ()), ((4, 5, 6), (1,)),
    ((4, 5, 6), (0, 2)), ((2, 3, 4, 5), (1, 3)), ((3, 1100), (0,)), ((3, 1031), (1,)),
    ((2, 3, 1030), (1,)),
]  # fmt: skip


def drawn(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.random(shape) < 0.5
    bounds = np.iinfo(dtype)
    return rng.integers(bounds.min, bounds.max, shape, dtype, endpoint=True)


def accumulated(x):
    return np.dtype("uint64" if x.dtype.kind == "u" else "int64")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape, axes", CASES)
def test_values(run, parts, shape, axes, dtype):
    x = drawn(shape, dtype)
    kept = tuple(size for axis, size in enumerate(shape) if axis not in axes)
    for name, expected in (
        ("Sum", x.sum(axes, dtype=accumulated(x))),
        ("Prod", x.prod(axes, dtype=accumulated(x))),
        ("Any", x.any(axes)),
        ("All", x.all(axes)),
    ):
        y = np.ones(kept, expected.dtype)
        assert run(whole_numbers, name, [x], [y], parts=parts, axes=axes) == 0
        np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("few", [False, True])
@pytest.mark.parametrize("shape, axes", CASES)
def test_extrema_and_the_places_of_the_first_ones(run, parts, shape, axes, few, dtype):
    x = drawn(shape, dtype)
    if few:  # many equal ones
        x = (x != 0).astype(dtype)
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    rows = x.transpose([*kept, *axes]).reshape(*(x.shape[axis] for axis in kept), -1)
    for name, find in (("Max", np.argmax), ("Min", np.argmin)):
        index = find(rows, -1)
        y, places = np.zeros(index.shape, dtype), np.full(index.shape, -1, np.int64)
        assert run(whole_numbers, name, [x], [y, places], parts=parts, axes=axes) == 0
        np.testing.assert_array_equal(places, index)
        np.testing.assert_array_equal(y, np.take_along_axis(rows, index[..., None], -1)[..., 0])


@pytest.mark.parametrize("dtype", ["int32", "uint8", "bool"])
@pytest.mark.parametrize("shape, axes", [((0,), (0,)), ((0, 3), (0,)), ((3, 0), (1,)), ((2, 0, 3), (1,))])
def test_of_no_element(run, dtype, shape, axes):
    x = np.zeros(shape, dtype)
    kept = tuple(size for axis, size in enumerate(shape) if axis not in axes)
    for name, expected in (("Sum", 0), ("Prod", 1), ("Any", False), ("All", True)):
        y = np.full(kept, 7, bool if name in ("Any", "All") else accumulated(x))
        assert run(whole_numbers, name, [x], [y], axes=axes) == 0
        np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("shape, axes", [((0, 3), (1,)), ((3, 0), (0,))])
def test_no_result(run, shape, axes):
    x, y, places = np.zeros(shape, np.int32), np.zeros(0, np.int32), np.zeros(0, np.int64)
    assert run(whole_numbers, "Max", [x], [y, places], axes=axes) == 0


@pytest.mark.parametrize("dtype", ["int32", "uint8", "bool"])
@pytest.mark.parametrize("name", ["Sum", "Prod", "Max", "Min", "Any", "All"])
def test_graphs_of_integers_are_reduced_by_them(name, dtype):
    x = drawn((37, 700), dtype)
    # Truth values have a kernel that stops where the answer is known.
    note = "kernel; " if dtype == "bool" and name in ("Any", "All") else "kernel; whole numbers by"
    for axes in ((0,), (1,), (0, 1)):

        def build(graph, values, axes=axes):
            made = graph.op(name, *values, axes=axes, keep_dims=False)
            return (made[0] if isinstance(made, tuple) else made,)

        with nn.trace() as trace:
            (found,) = evaluate(build, [x], nn.Context(["cpu:float"], fallback="raise"), by_operands=True).results
        (expected,) = evaluate(build, [x], nn.Context(["reference:float"]), by_operands=True).results
        assert [row.note.startswith(note) for row in trace.rows()] == [True]
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)
