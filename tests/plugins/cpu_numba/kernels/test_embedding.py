"""Embed and its gradient against NumPy."""

import numpy as np
import pytest

from atled_cpu_numba.kernels import embedding

CASES = [
    ((2, 3), (5, 4)),
    ((7,), (3, 2, 2)),
    ((), (3, 2)),
    ((4,), (3,)),
    ((0, 2), (3, 2)),
    ((2, 2), (3, 0)),
    ((40, 3), (50, 65)),
]

all_cases = pytest.mark.parametrize("index_shape, table_shape", CASES)
both_dtypes = pytest.mark.parametrize("dtype", ["float32", "float64"])


@both_dtypes
@all_cases
def test_embed(run, parts, index_shape, table_shape, dtype):
    rng = np.random.default_rng(0)
    index, table = rng.integers(0, table_shape[0], index_shape), rng.standard_normal(table_shape).astype(dtype)
    y = np.full(index_shape + table_shape[1:], np.nan, dtype)
    assert run(embedding, "Embed", [np.asarray(index), table], [y], parts=parts) == 0
    np.testing.assert_array_equal(y, table[index])


@both_dtypes
@pytest.mark.parametrize("length", range(1, 36))
def test_rows_of_any_length(run, parts, length, dtype):
    rng = np.random.default_rng(length)
    index, table = rng.integers(0, 9, 21), rng.standard_normal((9, length)).astype(dtype)
    y = np.full((21, length), np.nan, dtype)
    assert run(embedding, "Embed", [index, table], [y], parts=parts) == 0
    np.testing.assert_array_equal(y, table[index])


@both_dtypes
@all_cases
def test_gradient_adds_up_equal_indices(run, parts, index_shape, table_shape, dtype):
    rng = np.random.default_rng(0)
    index = np.asarray(rng.integers(0, table_shape[0], index_shape))
    gy = rng.integers(-9, 9, index_shape + table_shape[1:]).astype(dtype)
    gw, expected = np.full(table_shape, np.nan, dtype), np.zeros(table_shape, dtype)
    assert run(embedding, "EmbedGrad", [gy, index], [gw], parts=parts, n=table_shape[0]) == 0
    np.add.at(expected, index, gy)
    np.testing.assert_array_equal(gw, expected)


@pytest.mark.parametrize("wrong", [-1, 3])
def test_an_index_out_of_range_gives_a_code_and_writes_nothing(run, wrong):
    index, table, y = np.array([0, wrong], np.int64), np.full((3, 2), 7, "f"), np.full((2, 2), 7, "f")
    assert run(embedding, "Embed", [index, table], [y]) == 1
    assert run(embedding, "EmbedGrad", [y, index], [table], n=3) == 1
    assert (y == 7).all()
    assert (table == 7).all()


def test_other_indices_are_refused(make_call):
    index, table, y = np.zeros(2, np.int32), np.zeros((3, 2), "f"), np.zeros((2, 2), "f")
    assert embedding.accepts(make_call("Embed", [index, table], [y])) == "takes int64 indices, not int32"
