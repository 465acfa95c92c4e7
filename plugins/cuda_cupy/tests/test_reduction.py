"""Reductions: every way of walking through an array, alone and in parts, against the reference."""

from __future__ import annotations

from functools import partial

import ml_dtypes
import numpy as np
import pytest

from atled.conformance.running import evaluate
from atled.plugin import ArrayDesc, op_spec
from atled_cuda_cupy.kernels import reduction, walk
from atled_cuda_cupy.kernels.walk import plan_walk

WALKS = {
    "a row for a thread": ((500, 3), (1,)),
    "a row for some lanes": ((300, 37), (1,)),
    "a row for a warp": ((40, 512), (1,)),
    "a row for a block": ((5, 1500), (1,)),
    "a row whose vectors begin anywhere": ((5, 4099), (1,)),
    "a row in parts": ((2, 40001), (1,)),
    "one sum in parts": ((200003,), (0,)),
    "columns": ((100, 36), (0,)),
    "few columns": ((400, 3), (0,)),
    "few columns in parts": ((20000, 3), (0,)),
    "wide columns": ((5, 3000), (0,)),
    "columns of several matrices": ((6, 50, 12), (1,)),
    "planes": ((16, 3, 7, 7), (0, 2, 3)),
    "large planes": ((3, 4, 40, 40), (0, 2, 3)),
    "planes in parts": ((40, 2, 30, 30), (0, 2, 3)),
    "every other axis": ((2, 3, 4, 3, 2, 3), (1, 3, 5)),
    "every other axis but the last": ((2, 3, 4, 3, 2, 3), (0, 2, 4)),
    "nothing": ((3, 5), ()),
    "no elements": ((3, 0, 2), (1,)),
}


def whole_numbers(shape, dtype="float32"):
    """So few that sums of them are exact in every dtype and order."""
    return np.random.default_rng(0).integers(-1, 2, shape).astype(dtype)


@pytest.mark.parametrize("name", WALKS)
def test_every_walk_sees_every_element_once(compute, name):
    shape, axes = WALKS[name]
    x = whole_numbers(shape)
    (y,) = compute(reduction, "prepare_reduction", "Sum", (x,), axes=axes)
    np.testing.assert_array_equal(y, x.sum(axis=axes))


@pytest.mark.parametrize("dtype", ["float16", "float64", ml_dtypes.bfloat16])
@pytest.mark.parametrize("name", ["a row for some lanes", "a row in parts", "columns", "planes", "planes in parts"])
def test_every_dtype(compute, name, dtype):
    shape, axes = WALKS[name]
    x = whole_numbers(shape, dtype)
    (y,) = compute(reduction, "prepare_reduction", "Sum", (x,), axes=axes)
    np.testing.assert_array_equal(y, x.astype("float64").sum(axis=axes).astype(dtype))


@pytest.mark.parametrize("name", ["a row for a warp", "a row whose vectors begin anywhere", "columns"])
def test_arrays_that_begin_between_vectors(compute, name):
    shape, axes = WALKS[name]
    x = whole_numbers(shape)
    (y,) = compute(reduction, "prepare_reduction", "Sum", (x,), axes=axes, shift=4)
    np.testing.assert_array_equal(y, x.sum(axis=axes))


@pytest.mark.parametrize("name", ["a row in parts", "planes", "columns"])
def test_places_of_64_bits(compute, monkeypatch, name):
    monkeypatch.setattr(walk, "_WIDE", 0)
    shape, axes = WALKS[name]
    x = whole_numbers(shape)
    (y,) = compute(reduction, "prepare_reduction", "Sum", (x,), axes=axes)
    np.testing.assert_array_equal(y, x.sum(axis=axes))


@pytest.mark.parametrize("op", ["Max", "Min"])
@pytest.mark.parametrize("name", ["a row for some lanes", "a row in parts", "few columns in parts", "planes in parts"])
def test_the_first_extremum_wins_in_whatever_part_it_is(compute, op, name):
    shape, axes = WALKS[name]
    x = whole_numbers(shape)
    got = compute(reduction, "prepare_reduction", op, (x,), axes=axes)
    for one, other in zip(got, op_spec(op).reference(x, axes=axes, keep_dims=False), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("op", ["Max", "Min"])
def test_extrema_of_infinities_and_nan(compute, op):
    x = np.full((4, 30000), -np.inf if op == "Max" else np.inf, "float32")
    x[1, [20000, 25000]] = np.nan
    x[2, 17000] = 1
    x[3, 0] = -np.inf
    got = compute(reduction, "prepare_reduction", op, (x,), axes=(1,))
    for one, other in zip(got, op_spec(op).reference(x, axes=(1,), keep_dims=False), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_mean_and_a_product_in_parts(compute):
    x = np.random.default_rng(1).uniform(0.999, 1.001, 70001).astype("float32")
    (mean,) = compute(reduction, "prepare_reduction", "Mean", (x,))
    (product,) = compute(reduction, "prepare_reduction", "Prod", (x,))
    np.testing.assert_allclose(mean, x.mean(dtype="float64"), rtol=1e-6)
    np.testing.assert_allclose(product, x.prod(dtype="float64"), rtol=1e-6)


@pytest.mark.parametrize("name", ["a row in parts", "columns", "planes", "large planes"])
@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_norms_neither_overflow_nor_vanish(compute, name, scale):
    shape, axes = WALKS[name]
    x = (np.random.default_rng(2).standard_normal(shape) * scale).astype("float32")
    y, norm = compute(reduction, "prepare_scaling", "ScaleToNorm", (x,), clip_norm=3.0, axes=axes)
    exact = np.sqrt(np.square(x, dtype="float64").sum(axis=axes, keepdims=True))
    np.testing.assert_allclose(norm, exact, rtol=1e-6)
    np.testing.assert_allclose(y, 3 * x / exact, rtol=1e-6)


def test_a_divergence_of_near_distributions_keeps_its_digits(compute):
    p = np.random.default_rng(3).uniform(0.1, 1.0, (2, 40000)).astype("float32")
    q = (p * (1 + 1e-4 * np.random.default_rng(4).standard_normal(p.shape))).astype("float32")
    (y,) = compute(reduction, "prepare_divergence", "KLMultinomial", (p, q))
    exact = op_spec("KLMultinomial").reference(p.astype("float64"), q.astype("float64"), base_axis=1)
    np.testing.assert_allclose(y, exact, rtol=1e-3, atol=2e-6 * np.abs(p - q).sum(axis=1).max())


def test_a_place_out_of_range_fails_and_nothing_is_written_beside(compute):
    gy, index = np.ones((3,), "float32"), np.array([0, 5, 2])
    (gx,) = compute(reduction, "prepare_put", "MaxMinGrad", (gy, index), axes=(1,), shape=(3, 4))
    assert compute.flag == 7
    np.testing.assert_array_equal(gx, [[1, 0, 0, 0], [0, 0, 0, 0], [0, 0, 1, 0]])


def test_few_results_are_shared_by_blocks_and_many_are_not():
    few = plan_walk((4, 2**20), (1,), 132, vector=4)
    many = plan_walk((2**20, 4), (1,), 132, vector=4)
    assert few.grid[0] * few.grid[1] >= 3 * 132
    assert many.parts == 1


def test_other_dtypes_are_for_the_host():
    from atled.plugin import Call

    x = ArrayDesc((3,), np.uint8)
    call = Call(op_spec("Sum"), (x,), (x,), {"axes": (0,), "keep_dims": False})
    assert "floats" in reduction.accepts(call)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float16", "float64"])
@pytest.mark.parametrize("name", ["Any", "All"])
def test_truth_of_every_dtype(cuda, name, dtype):
    rng = np.random.default_rng(0)
    for shape, axes in (((300, 37), (1,)), ((20000, 3), (0,)), ((7, 4096), (1,))):
        one = 0.3 if dtype.startswith("float") else 2  # which is not 0 as a whole number
        x = np.where(rng.random(shape) < (0.01 if name == "Any" else 0.99), one, 0).astype(dtype)
        expected = getattr(x, name.lower())(axis=axes)
        assert_by_operands(cuda, name, x, expected, axes=axes)


@pytest.mark.parametrize(
    ("dtype", "shape"),
    [("bool", (300, 37)), ("int8", (2, 40001)), ("uint32", (300, 37)), ("int64", (2, 40001)), ("uint64", (300, 37))],
)
def test_integers_are_reduced_exactly(cuda, dtype, shape):
    limits = (0, 1) if dtype == "bool" else (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))
    drawn = np.dtype("uint8" if dtype == "bool" else dtype)
    x = np.random.default_rng(0).integers(*limits, shape, drawn, endpoint=True).astype(dtype)
    x[0, 5] = x[1, 7] = limits[0]  # where the least one is all there is
    x[0, 6:] = limits[0]
    assert_by_operands(cuda, "Sum", x, x.sum(axis=1), axes=1)
    assert_by_operands(cuda, "MaxTies", x, x.max(axis=1), axes=1)
    assert_by_operands(cuda, "MinTies", x, x.min(axis=0), axes=0)
    assert_by_operands(cuda, "ArgMax", x, x.argmax(axis=1), axes=1)
    assert_by_operands(cuda, "ArgMin", x, x.argmin(axis=1), axes=1)
    assert_by_operands(cuda, "CumSum", x, x.cumsum(axis=1), axis=1)
    assert_by_operands(cuda, "CumProd", x, x.cumprod(axis=0), axis=0)


def assert_by_operands(cuda, name, x, expected, **attributes):
    """An op on the GPU without a type config: values and dtype."""
    outcome = evaluate(partial(_of_one, name, attributes), [x], cuda, by_operands=True)
    assert outcome.backend_of(name) == "cuda" and outcome.results[0].dtype == expected.dtype
    np.testing.assert_array_equal(outcome.results[0], expected)


def _of_one(name, attributes, graph, values):
    return [graph.op(name, values[0], **attributes)]
