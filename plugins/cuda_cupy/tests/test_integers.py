"""Integers and truth values in formulas: graphs that take dtypes from their operands, against NumPy called directly."""

import numpy as np
import pytest

from atled.conformance.running import evaluate
from atled.ops.elementwise import with_numbers
from atled.ops.spec import SPECS
from atled_contexts import Context

RNG = np.random.default_rng(5)


def whole(dtype, shape=(7, 33)):
    bounds = np.iinfo(dtype)
    return RNG.integers(bounds.min, bounds.max, shape, dtype, endpoint=True)


def run(build, *arrays):
    outcome = evaluate(build, arrays, Context("cuda:float", fallback="raise"), by_operands=True)
    return outcome.results, [step.name for step in outcome.plan.steps]


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "int64", "uint64"])
def test_a_chain_wraps_around(dtype):
    x, y = whole(dtype), whole(dtype, (33,))

    def build(graph, values):
        a, b = values
        product = graph.op("Mul2", graph.op("Add2", a, b), a)
        number = with_numbers(SPECS["Sub2"], {1: int}).name
        return [graph.op("Maximum2", graph.op(number, product, x1=3), b), graph.op("Less", product, b)]

    (largest, less), steps = run(build, x, y)
    product = (x + y) * x
    assert len(steps) == 1
    assert largest.dtype == np.dtype(dtype) and less.dtype == np.bool_
    np.testing.assert_array_equal(largest, np.maximum(product - 3, y))
    np.testing.assert_array_equal(less, product < y)


def test_casts_and_masks_are_part_of_formulas():
    x, y = whole("uint8"), RNG.standard_normal((7, 33)).astype(np.float32)

    def build(graph, values):
        a, b = values
        mixed = graph.op("Mul2", graph.op("Greater", b, graph.op("Cast", a, dtype="float32")), graph.op("Add2", a, b))
        return [mixed, graph.op("Cast", graph.op("Abs", graph.op("MulScalar", b, val=20.0)), dtype="uint8")]

    (mixed, small), _ = run(build, x, y)
    np.testing.assert_array_equal(mixed, (y > x.astype(np.float32)) * (x + y))
    np.testing.assert_array_equal(small, np.abs(y * np.float32(20)).astype(np.uint8))


def test_truth_values_are_added_by_or_and_multiplied_by_and():
    x, y = RNG.integers(0, 2, (2, 300)).astype(bool)
    (added, multiplied), _ = run(lambda graph, v: [graph.op("Add2", *v), graph.op("Mul2", *v)], x, y)
    np.testing.assert_array_equal(added, x | y)
    np.testing.assert_array_equal(multiplied, x & y)


def test_int64_does_not_go_through_floats():
    x = np.array([2**62 + 1, -(2**53) - 1], np.int64)
    (same, wide), _ = run(lambda graph, v: [graph.op("Cast", v[0], dtype="uint64"), graph.op("Add2", v[0], v[0])], x)
    np.testing.assert_array_equal(same, x.astype(np.uint64))
    np.testing.assert_array_equal(wide, x + x)
