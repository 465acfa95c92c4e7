"""Max, Min and the ops that move values by their index, against NumPy."""

import numpy as np
import pytest

from atled_cpu_numba.kernels.reduction import extremum

CASES = [
    ((), ()), ((7,), (0,)), ((7,), ()), ((5, 3), (0,)), ((5, 3), (1,)), ((5, 3), (0, 1)), ((90, 300), (0,)),
    ((3, 901), (1,)), ((4, 5, 6, 7), (0, 2, 3)), ((4, 5, 6, 7), (1,)), ((4, 5, 6, 7), (1, 3)), ((4, 1, 6, 70), (2, 3)),
    ((9000, 3), (1,)), ((700, 3, 5), (1,)), ((1500, 2, 5), (0, 2)),
]  # fmt: skip

all_cases = pytest.mark.parametrize("shape, axes", CASES)
both_dtypes = pytest.mark.parametrize("dtype", ["float32", "float64"])


def rows_of(x, axes):
    """(results, reduced) and the shape of the results."""
    kept = [i for i in range(x.ndim) if i not in axes]
    shape = tuple(x.shape[i] for i in kept)
    return x.transpose(*kept, *axes).reshape(int(np.prod(shape)), -1), shape


def draw(shape, dtype, values):
    return np.random.default_rng(0).choice(np.array(values, dtype), shape)


@both_dtypes
@all_cases
@pytest.mark.parametrize("name", ["Max", "Min"])
@pytest.mark.parametrize("values", [range(-40, 40), [1, 2, np.inf, -np.inf], [0.0, -0.0], [3, np.nan]])
def test_extremum_and_its_first_place(run, name, shape, axes, dtype, values):
    x = draw(shape, dtype, values)
    rows, kept = rows_of(x, axes)
    place = rows.argmax(axis=1) if name == "Max" else rows.argmin(axis=1)
    y, index = np.full(kept, 77, dtype), np.full(kept, -1, np.int64)
    assert run(extremum, name, [x], [y, index], axes=axes, keep_dims=False) == 0
    np.testing.assert_array_equal(y, rows[np.arange(len(rows)), place].reshape(kept))
    np.testing.assert_array_equal(index, place.reshape(kept))
    value, only_place = np.full_like(y, 77), np.full_like(index, -1)
    assert run(extremum, f"{name}Ties", [x], [value], axes=axes, keep_dims=False) == 0
    assert run(extremum, f"Arg{name}", [x], [only_place], axes=axes, keep_dims=False) == 0
    np.testing.assert_array_equal(value, y)
    np.testing.assert_array_equal(only_place, index)


@both_dtypes
@pytest.mark.parametrize("length", [*range(1, 20), 31, 32, 33, 63, 64, 65, 127, 128, 131, 300, 4096, 4097, 4103, 8200])
@pytest.mark.parametrize("name", ["Max", "Min"])
@pytest.mark.parametrize("found", [9, np.nan])
def test_an_extremum_is_found_wherever_it_is_in_a_row(run, name, length, found, dtype):
    places = sorted({*range(0, length, max(1, length // 40)), *range(max(0, length - 20), length)})
    x = np.full((len(places), length), -3 if name == "Max" else 13, dtype)
    x[np.arange(len(places)), places] = found
    y, index = np.zeros(len(places), dtype), np.zeros(len(places), np.int64)
    assert run(extremum, name, [x], [y, index], axes=(1,), keep_dims=False) == 0
    value = np.zeros_like(y)
    assert run(extremum, f"{name}Ties", [x], [value], axes=(1,), keep_dims=False) == 0
    np.testing.assert_array_equal(y, [found] * len(places))
    np.testing.assert_array_equal(index, places)
    np.testing.assert_array_equal(value, y)


@both_dtypes
@all_cases
def test_grad_and_gather(run, parts, shape, axes, dtype):
    x = draw(shape, dtype, range(-40, 40))
    rows, kept = rows_of(x, axes)
    index = rows.argmax(axis=1).reshape(kept)
    y = np.zeros(kept, dtype)
    assert run(extremum, "MaxMinGather", [x, index], [y], parts=parts, axes=axes) == 0
    np.testing.assert_array_equal(y, rows.max(axis=1).reshape(kept))
    gy, gx = draw(kept, dtype, range(1, 9)), np.full(shape, np.nan, dtype)
    assert run(extremum, "MaxMinGrad", [gy, index], [gx], parts=parts, axes=axes, shape=shape) == 0
    moved, _ = rows_of(gx, axes)
    expected = np.zeros_like(rows)
    expected[np.arange(len(rows)), index.reshape(-1)] = gy.reshape(-1)
    np.testing.assert_array_equal(moved, expected)


@pytest.mark.parametrize("shape, axes", [((40, 300), (0,)), ((40, 300), (1,)), ((4, 5, 6, 7), (0, 2, 3))])
def test_shares_together_are_the_whole(run, parts, shape, axes):
    x = draw(shape, "f", range(-1000, 1000))
    rows, kept = rows_of(x, axes)
    y, index = np.full(kept, 77, "f"), np.full(kept, -1, np.int64)
    assert run(extremum, "Max", [x], [y, index], parts=parts, axes=axes, keep_dims=False) == 0
    np.testing.assert_array_equal(index, rows.argmax(axis=1).reshape(kept))


@pytest.mark.parametrize("wrong", [-1, 12])
def test_an_index_out_of_range_gives_a_code_and_writes_nothing(run, wrong):
    index = np.array([0, wrong], np.int64)
    y, gx = np.full(2, 7, "f"), np.full((3, 2, 4), 7, "f")
    assert run(extremum, "MaxMinGather", [gx, index], [y], axes=(0, 2)) == 1
    assert run(extremum, "MaxMinGrad", [y, index], [gx], axes=(0, 2), shape=(3, 2, 4)) == 1
    assert (y == 7).all()
    assert (gx == 7).all()


@pytest.mark.parametrize("name, dtype", [("ArgMax", "q"), ("ArgMin", "q"), ("MaxTies", "f"), ("MinTies", "f")])
@pytest.mark.parametrize("shape, axes", [((0, 3), (1,)), ((2, 0, 8), (2,)), ((5, 0), (0,))])
def test_an_array_without_elements_has_no_extrema(run, name, dtype, shape, axes):
    kept = tuple(size for axis, size in enumerate(shape) if axis not in axes)
    assert run(extremum, name, [np.zeros(shape, "f")], [np.zeros(kept, dtype)], axes=axes, keep_dims=False) == 0
