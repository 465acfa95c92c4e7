"""Sum and Mean against NumPy in float64."""

import numpy as np
import pytest

from atled_cpu_numba.kernels.reduction import any_axes as reduction
from atled_cpu_numba.kernels.reduction.groups import Groups, collapse

CASES = [
    ((), ()), ((7,), (0,)), ((7,), ()), ((5, 3), (0,)), ((5, 3), (1,)), ((5, 3), (0, 1)), ((1000, 300), (0,)),
    ((3, 9001), (1,)), ((4, 5, 6, 7), (0, 2, 3)), ((4, 5, 6, 7), (1,)), ((4, 5, 6, 7), (1, 3)), ((4, 5, 6, 7), (2,)),
    ((4, 1, 6, 7), (2, 3)), ((2, 3, 1), (1, 2)), ((0, 3), (0,)), ((3, 0), (0,)), ((3, 0), (1,)), ((17, 600, 2), (0,)),
    ((1_100_003,), (0,)), ((5, 3, 300_001), (0, 2)),
    ((4, 4), (0,)), ((32, 9), (0,)), ((1, 3), (0,)), ((0, 70), (0,)), ((2, 3, 15), (0, 1)), ((33, 4), (0,)),
]  # fmt: skip


def reduced_shape(shape, axes, keepdims=True):
    kept = [1 if i in axes else n for i, n in enumerate(shape) if keepdims or i not in axes]
    return tuple(kept)


@pytest.mark.parametrize("shape, axes", CASES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("keepdims", [True, False])
def test_sum(run, parts, shape, axes, dtype, keepdims):
    x = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    y = np.full(reduced_shape(shape, axes, keepdims), np.nan, dtype)
    assert run(reduction, "Sum", [x], [y], parts=parts, axes=axes, keepdims=keepdims) == 0
    tolerance = np.finfo(dtype).eps * 4 * (np.abs(x).sum(axis=axes, keepdims=keepdims) + 1)
    assert (np.abs(y - x.astype("d").sum(axis=axes, keepdims=keepdims)) <= tolerance).all()


@pytest.mark.parametrize("shape, axes", [case for case in CASES if 0 not in case[0]])
def test_mean(run, shape, axes):
    x = np.random.default_rng(0).standard_normal(shape).astype("f") + np.float32(3)
    y = np.full(reduced_shape(shape, axes), np.nan, "f")
    assert run(reduction, "Mean", [x], [y], axes=axes, keepdims=True) == 0
    np.testing.assert_allclose(y, x.astype("d").mean(axis=axes, keepdims=True), rtol=2e-6)


def test_mean_of_nothing_is_nan(run):
    y = np.zeros((3, 1), "f")
    assert run(reduction, "Mean", [np.zeros((3, 0), "f")], [y], axes=(1,), keepdims=True) == 0
    assert np.isnan(y).all()


@pytest.mark.parametrize("shape, axes", [((2_000_000,), (0,)), ((1_000_000, 2), (0,))])
def test_long_sums_of_equal_terms_stay_accurate(run, shape, axes):
    x = np.full(shape, 0.1, "f")
    y = np.zeros(reduced_shape(shape, axes), "f")
    assert run(reduction, "Sum", [x], [y], axes=axes, keepdims=True) == 0
    np.testing.assert_allclose(y, x.astype("d").sum(axis=axes, keepdims=True), rtol=1e-6)


@pytest.mark.parametrize("shape, axes", [((1_100_003,), (0,)), ((5, 3, 300_001), (0, 2))])
def test_a_long_sum_has_the_same_bits_for_any_count_of_shares(run, shape, axes):
    x = np.random.default_rng(0).standard_normal(shape).astype("f")
    sums = [np.zeros(reduced_shape(shape, axes), "f") for _ in range(4)]
    for y, parts in zip(sums, (1, 2, 5, 700), strict=True):
        assert run(reduction, "Sum", [x], [y], parts=parts, axes=axes, keepdims=True) == 0
    assert all((y == sums[0]).all() for y in sums)


def sums_of_columns(x):
    """In the order that docs/accuracy.md states."""
    totals = np.zeros(x.shape[1])
    for first in range(0, len(x), 256):
        stretch, rows = np.zeros(x.shape[1], x.dtype), x[first : first + 256]
        whole = len(rows) // 8 * 8
        for a, b, c, d, e, f, g, h in rows[:whole].reshape(-1, 8, x.shape[1]):
            stretch += ((a + b) + (c + d)) + ((e + f) + (g + h))
        for row in rows[whole:]:
            stretch += row
        totals += stretch
    return totals.astype(x.dtype)


@pytest.mark.parametrize("columns", [*range(2, 35), 63, 64, 65, 130])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_columns_are_added_in_the_order_that_is_stated_whatever_their_number(run, columns, dtype):
    for rows in (200, 256, 263, 521):
        x = np.random.default_rng(rows).standard_normal((rows, columns)).astype(dtype)
        x[3, columns // 2] = np.nan
        x[5, 0] = np.inf
        y = np.zeros(columns, dtype)
        assert run(reduction, "Sum", [x], [y], axes=(0,), keepdims=False) == 0
        np.testing.assert_array_equal(y, sums_of_columns(x))


def test_nan_and_infinity_come_through(run):
    x = np.array([[1, np.nan, 2], [1, np.inf, 2], [np.inf, -np.inf, 0]], "f")
    y = np.zeros((3, 1), "f")
    assert run(reduction, "Sum", [x], [y], axes=(1,), keepdims=True) == 0
    np.testing.assert_array_equal(y[:, 0], [np.nan, np.inf, np.nan])


def test_axes_collapse_into_groups():
    assert collapse((4, 5, 6, 7), (0, 2, 3)) == Groups(1, 4, 5, 42)
    assert collapse((4, 5, 6, 7), (2, 3)) == Groups(20, 1, 1, 42)
    assert collapse((4, 5, 6), (0,)) == Groups(1, 4, 30, 1)
    assert collapse((4, 5, 6), (1,)) == Groups(4, 5, 6, 1)
    assert collapse((4, 5, 1, 6), (0, 1, 3)) == Groups(1, 1, 1, 120)
    assert collapse((2, 3, 4, 5, 6), (0, 2, 4)) is None
    assert collapse((2, 3, 4, 5), (0, 2)) is None


def test_other_dtypes_are_refused(make_call):
    x, y = np.zeros((2, 3, 4, 5, 6), "f"), np.zeros((1, 3, 4, 5, 6), "f")
    assert "float16" in reduction.accepts(make_call("Sum", [x.astype("e")], [y.astype("e")], axes=(0,), keepdims=True))


@pytest.mark.parametrize("op, dtype", [("Sum", "float32"), ("Mean", "float64")])
@pytest.mark.parametrize("order", [(1, 0, 2), (0, 2, 1), (2, 0, 1)])
@pytest.mark.parametrize("axes", [(0,), (1,), (2,), (0, 1)])
def test_transposed_arrays_are_summed_where_they_are(run_in_place, make_call, op, dtype, order, axes):
    x = np.random.default_rng(0).standard_normal((13, 40, 70)).astype(dtype).transpose(order)
    kept = [axis for axis in range(3) if axis not in axes]
    y = np.empty([x.shape[axis] for axis in kept], dtype)
    in_order = [order[axis] for axis in kept] == sorted(order[axis] for axis in kept)
    in_rows = order[2] == 2  # copied, but quickly
    if reduction.accepts(make_call(op, [x], [y], axes=axes)) is True:
        assert in_order or in_rows
        assert run_in_place(reduction, op, [x], [y], axes=axes) == 0
        wanted = x.astype("d").sum(axes) / (1 if op == "Sum" else x.size // max(1, y.size))
        np.testing.assert_allclose(y, wanted, rtol=1e-5, atol=1e-4)
    else:
        assert not (in_order or in_rows)


def test_arrays_that_do_not_lie_in_rows_are_not_summed(make_call):
    x, y = np.zeros((4, 6), "f")[:, ::2], np.zeros(4, "f")
    assert "lies in rows" in reduction.accepts(make_call("Sum", [x], [y], axes=(1,)))
