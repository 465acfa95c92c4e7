"""Sums come in the order that docs/accuracy.md states, bit by bit, on every processor and for any count of shares."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from atled_cpu_numba.kernels import noise
from atled_cpu_numba.kernels.reduction import any_axes as reduction
from atled_cpu_numba.kernels.reduction import full_reduction

COUNTS = (0, 1, 2, 3, 7, 10, 31, 32, 33, 63, 100, 511, 512, 513, 545, 1000, 4095, 4096)


def in_lanes(terms: np.ndarray) -> Any:
    """The sum of a stretch: 32 lanes, sums of 16 groups added to them, halved with what fills no group."""
    count, kind = len(terms), terms.dtype.type
    groups = terms[: count // 32 * 32].reshape(-1, 32)
    lanes = np.zeros(32, terms.dtype)
    for start in range(0, len(groups), 16):
        run = np.zeros(32, terms.dtype)
        for group in groups[start : start + 16]:
            run += group
        lanes += run
    place, width = len(groups) * 32, 32
    while width > 1:
        width //= 2
        lanes = lanes[:width] + lanes[width:]
        if count & width:
            lanes += terms[place : place + width]
            place += width
    return kind(lanes[0])


def of_row(terms: np.ndarray, scale: float = 1.0) -> Any:
    """The sum of a row: stretches of 4096, added up in float64, and rounded once."""
    total = 0.0
    for start in range(0, len(terms), 4096):
        total += float(in_lanes(terms[start : start + 4096]))
    return terms.dtype.type(total * scale)


def of_columns(x: np.ndarray) -> np.ndarray:
    """The sums of columns: stretches of 256 rows, in eights, added up in float64."""
    totals = np.zeros(x.shape[1])
    for start in range(0, len(x), 256):
        rows = x[start : start + 256]
        stretch = np.zeros(x.shape[1], x.dtype)
        eights = len(rows) // 8 * 8
        for r in range(0, eights, 8):
            a, b, c, d, e, f, g, h = rows[r : r + 8]
            stretch += ((a + b) + (c + d)) + ((e + f) + (g + h))
        for row in rows[eights:]:
            stretch += row
        totals += stretch
    return totals.astype(x.dtype)


def spread(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Numbers of very different size and either sign: any other order gives other bits."""
    rng = np.random.default_rng(5)
    return (rng.standard_normal(shape) * np.exp2(rng.integers(-12, 13, shape))).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("count", COUNTS)
def test_a_row_is_added_up_in_32_lanes(run, dtype, count):
    x, y = spread((7, count), dtype), np.full((7, 1), np.nan, dtype)  # seven: four rows at once, and three alone
    assert run(reduction, "Sum", [x], [y], axes=(1,), keepdims=True) == 0
    assert y[:, 0].tolist() == [of_row(row) for row in x]


@pytest.mark.parametrize("shape", [(3, 4097), (3, 10_000), (1, 33_000), (70, 40_000)])
def test_stretches_of_long_rows_are_added_up_in_float64(run, shape, parts):
    x, y = spread(shape, "float32"), np.full((shape[0], 1), np.nan, "f")
    assert run(reduction, "Sum", [x], [y], parts=parts, axes=(1,), keepdims=True) == 0
    assert y[:, 0].tolist() == [of_row(row) for row in x]


@pytest.mark.parametrize("name", ["Mean", "GlobalAveragePooling"])
def test_a_mean_is_the_sum_times_the_inverse_of_the_count(run, name):
    x, y = spread((2, 3, 11, 13), "float32"), np.full((2, 3, 1, 1), np.nan, "f")
    if name == "Mean":
        assert run(reduction, name, [x], [y], axes=(2, 3), keepdims=True) == 0
    else:
        assert run(full_reduction, name, [x], [y]) == 0
    assert y.ravel().tolist() == [of_row(row, 1 / 143) for row in x.reshape(6, 143)]


def test_rows_that_others_lie_between_are_added_up_in_float64(run):
    x, y = spread((4, 3, 5, 50), "float32"), np.full((1, 3, 1, 1), np.nan, "f")
    assert run(reduction, "Sum", [x], [y], axes=(0, 2, 3), keepdims=True) == 0
    rows = x.reshape(4, 3, 250)
    assert y.ravel().tolist() == [np.float32(sum(float(in_lanes(rows[n, c])) for n in range(4))) for c in range(3)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(7, 300), (700, 300), (256, 3), (1000, 5000)])
def test_columns_are_added_up_eight_rows_at_a_time(run, parts, dtype, shape):
    x, y = spread(shape, dtype), np.full((1, shape[1]), np.nan, dtype)
    assert run(reduction, "Sum", [x], [y], parts=parts, axes=(0,), keepdims=True) == 0
    assert (y[0] == of_columns(x)).all()


def test_few_short_columns_are_added_up_row_by_row(run):
    x, y = spread((20, 6), "float32"), np.full((1, 6), np.nan, "f")
    assert run(reduction, "Sum", [x], [y], axes=(0,), keepdims=True) == 0
    expected = np.zeros(6, "f")
    for row in x:
        expected += row
    assert (y[0] == expected).all()


def test_noise_is_scaled_by_a_sum_in_lanes_of_float64(run):
    x, y = spread((3, 1000), "float32"), np.full((3, 1000), np.nan, "f")
    assert run(noise, "VATNoise", [x, None], [y], floats={"eps": 2.0}, base_axis=1) == 0
    lengths = [np.sqrt(in_lanes(row.astype("d") ** 2) + 1e-8) for row in x]  # squares of float32 are exact
    assert (y == [(row * (2.0 / length)).astype("f") for row, length in zip(x.astype("d"), lengths, strict=True)]).all()
