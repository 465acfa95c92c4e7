"""Random programs, with views of one array, numbers and assignments, compute what NumPy does, or change nothing."""

import contextlib
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import atled as nn
import atled_sim
from atled.arrays.array import NdArray
from atled.arrays.views import View
from atled.keyed import Description
from atled_sim import faults

CONTEXTS = {
    "cpu": nn.Context(["cpu:float", "reference:float"]),
    "sim": nn.Context(["sim:float", "reference:float"], fallback="quiet"),
}
SHAPES = [(3,), (2, 3), (3, 3), (4, 3)]
DTYPES = [np.float32, np.float64, np.int32]
BINARY = {"Add2": np.add, "Sub2": np.subtract, "Mul2": np.multiply, "Maximum2": np.maximum}
UNARY = {"Tanh": np.tanh, "Abs": np.abs}
RUNS = 2


class Literal(NamedTuple):
    """A Python number among the operands."""

    value: float


class Program(NamedTuple):
    """A program; operands are positions among the leaves and, behind them, the calls.

    bases: shape and dtype.  leaves: number of a base, and how it is shown.  assigned: leaf and value.
    """

    bases: list
    leaves: list
    calls: list
    results: list
    assigned: list


def shown(array, how):
    """A view of an array, of NumPy's or of ours."""
    keys, is_turned = how
    view = array[keys]
    return view.T if is_turned else view


def slices(size):
    steps = [slice(None), slice(None, None, -1), slice(None, None, 2), slice(1, None), slice(None, -1)]
    return st.sampled_from(steps[: 2 if size < 2 else None])


@st.composite
def programs(draw):
    bases = draw(st.lists(st.tuples(st.sampled_from(SHAPES), st.sampled_from(DTYPES)), min_size=1, max_size=3))
    leaves, shapes = [], []
    for _ in range(draw(st.integers(2, 4))):
        number = draw(st.integers(0, len(bases) - 1))
        shape = bases[number][0]
        how = tuple(draw(slices(size)) for size in shape), draw(st.booleans())
        if draw(st.booleans()):
            how = (slice(None),) * len(shape), False
        leaves.append((number, how))
        shapes.append(shown(np.empty(shape), how).shape)
    calls = []
    for _ in range(draw(st.integers(1, 5))):
        first = draw(st.integers(0, len(shapes) - 1))
        if draw(st.integers(0, 3)) == 0:
            calls.append((draw(st.sampled_from(sorted(UNARY))), [first]))
            shapes.append(shapes[first])
            continue
        second = draw(
            st.one_of(
                st.sampled_from([n for n, shape in enumerate(shapes) if fits(shape, shapes[first])]),
                st.sampled_from([Literal(2.5), Literal(3), Literal(-1.0)]),
            )
        )
        calls.append((draw(st.sampled_from(sorted(BINARY))), [first, second]))
        shapes.append(shapes[first])
    results = draw(st.lists(st.integers(0, len(shapes) - 1), max_size=2))
    assigned, taken = [], {n: np.zeros(base[0], bool) for n, base in enumerate(bases)}
    for leaf in draw(st.lists(st.integers(0, len(leaves) - 1), max_size=3)):
        number, how = leaves[leaf]
        if shown(taken[number], how).any():
            continue
        shown(taken[number], how)[...] = True
        value = draw(st.sampled_from([n for n, shape in enumerate(shapes) if fits(shape, shapes[leaf])]))
        assigned.append((leaf, value))
    return Program(bases, leaves, calls, results, assigned)


def fits(shape, target):
    """Whether a shape broadcasts to another."""
    with contextlib.suppress(ValueError):
        return np.broadcast_shapes(shape, target) == target
    return False


def first_values(program):
    random = np.random.default_rng(0)
    return [(random.normal(size=shape) * 4).astype(dtype) for shape, dtype in program.bases]


def by_numpy(program, arrays):
    """Computes on NumPy arrays, which it changes; the results."""
    values = [shown(arrays[number], how).copy() for number, how in program.leaves]
    with np.errstate(all="ignore"):
        for op, operands in program.calls:
            given = [n.value if isinstance(n, Literal) else values[n] for n in operands]
            values.append((UNARY | BINARY)[op](*given))
        for leaf, value in program.assigned:
            number, how = program.leaves[leaf]
            shown(arrays[number], how)[...] = values[value].astype(arrays[number].dtype)
    return [values[n] for n in program.results]


def described(program, arrays, context):
    d = Description(context)
    values = [d.leaf(shown(View(arrays[number]), how)) for number, how in program.leaves]
    for op, operands in program.calls:
        values.append(d.call(op, *(d.number(n.value) if isinstance(n, Literal) else values[n] for n in operands)))
    for n in program.results:
        d.result(values[n])
    for leaf, value in program.assigned:
        d.assign(values[leaf], values[value])
    return d


def close(found, expected):
    assert found.dtype == expected.dtype
    exact = expected.dtype.kind in "iu"
    np.testing.assert_allclose(found, expected, rtol=0 if exact else 2e-4, atol=0 if exact else 2e-4)


@pytest.mark.parametrize("name", sorted(CONTEXTS))
@settings(max_examples=40, deadline=None)
@given(program=programs())
def test_programs_compute_what_numpy_does(name, program):
    expected = first_values(program)
    arrays = [NdArray.from_numpy_array(each) for each in expected]
    d = described(program, arrays, CONTEXTS[name])
    for run in range(RUNS):
        results = (d if run else described(program, arrays, CONTEXTS[name])).run()
        for found, wanted in zip(results, by_numpy(program, expected), strict=True):
            close(found.data, wanted)
        for array, wanted in zip(arrays, expected, strict=True):
            close(array.data, wanted)
            array.data[...] = wanted  # so that nothing adds up


@settings(max_examples=40, deadline=None)
@given(
    program=programs(), operation=st.sampled_from(["launch", "allocation", "upload", "download"]), nth=st.integers(1, 6)
)
def test_programs_that_fail_leave_every_array_as_it_was(program, operation, nth):
    values = first_values(program)
    arrays = [NdArray.from_numpy_array(each) for each in values]
    d = described(program, arrays, CONTEXTS["sim"])
    with faults.fail(operation, nth) as fault, contextlib.suppress(atled_sim.SimFault):
        d.run()
    if not fault.happened:
        by_numpy(program, values)
    for array, wanted in zip(arrays, values, strict=True):
        close(array.data, wanted)
