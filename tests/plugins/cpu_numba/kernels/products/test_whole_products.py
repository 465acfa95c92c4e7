"""Affine and BatchMatmul of integers and truth values against NumPy, wrap-around included."""

import numpy as np
import pytest

import atled as nn
from atled.conformance.running import evaluate
from atled_cpu_numba.kernels.products import whole_products

DTYPES = pytest.mark.parametrize(
    "dtype", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool"]
)


def drawn(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.random(shape) < 0.3
    bounds = np.iinfo(dtype)
    return rng.integers(bounds.min, bounds.max, shape, dtype, endpoint=True)


@DTYPES
@pytest.mark.parametrize("sizes", [(1, 1, 1, 1), (2, 3, 4, 5), (3, 7, 1, 33), (1, 5, 37, 1), (2, 9, 70, 41)])
@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True), (True, True)])
def test_batches_of_products(run, parts, sizes, turned, dtype):
    batch, rows, depth, columns = sizes
    a, b = drawn((batch, rows, depth), dtype), drawn((batch, depth, columns), dtype, 1)
    given = [np.ascontiguousarray(x.swapaxes(1, 2)) if turn else x for x, turn in zip((a, b), turned, strict=True)]
    y = np.ones((batch, rows, columns), dtype)
    attributes = dict(zip(("transpose_a", "transpose_b"), turned, strict=True))
    assert run(whole_products, "BatchMatmul", given, [y], parts=parts, **attributes) == 0
    np.testing.assert_array_equal(y, np.matmul(a, b))


@DTYPES
@pytest.mark.parametrize("has_bias", [True, False])
def test_affine_layers(run, parts, has_bias, dtype):
    x, weight, bias = drawn((4, 3, 7), dtype), drawn((21, 5, 3), dtype, 1), drawn((5, 3), dtype, 2)
    y, expected = np.ones((4, 5, 3), dtype), x.reshape(4, 21) @ weight.reshape(21, 15)
    if has_bias:
        expected = expected + bias.reshape(-1)
    given = [x, weight, bias if has_bias else None]
    assert run(whole_products, "Affine", given, [y], parts=parts, base_axis=1) == 0
    np.testing.assert_array_equal(y, expected.reshape(4, 5, 3))


def test_what_is_refused(make_call):
    whole, empty, real = np.zeros((2, 2), np.int32), np.zeros((0, 2), np.int32), np.zeros((2, 2), "f")
    assert whole_products.accepts(make_call("BatchMatmul", [empty, whole], [empty])) == "an array is empty"
    refused = "takes integers or truth values of one dtype"
    assert whole_products.accepts(make_call("BatchMatmul", [real, real], [real])) == refused
    assert whole_products.accepts(make_call("BatchMatmul", [whole, real], [real])) == refused


@pytest.mark.parametrize("dtype", ["int32", "uint8", "bool"])
def test_graphs_of_integers_are_multiplied_by_them(dtype):
    a, b = drawn((30, 60), dtype), drawn((60, 50), dtype, 1)

    def build(graph, values):
        return (graph.op("BatchMatmul", *values), graph.op("Affine", *values, None, base_axis=1))

    with nn.trace() as trace:
        results = evaluate(build, [a, b], nn.Context(["cpu:float"], fallback="raise"), by_operands=True).results
    assert [row.note for row in trace.rows()] == ["kernel; whole numbers by rows"] * 2
    for found in results:
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, a @ b)
