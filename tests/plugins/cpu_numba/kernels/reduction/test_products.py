"""Prod over any axes, against NumPy's products in float64."""

import numpy as np
import pytest

from atled_cpu_numba.kernels.reduction import products

CASES = [
    ((), ()), ((7,), (0,)), ((5, 3), (0,)), ((5, 3), (1,)), ((90, 300), (0,)), ((3, 901), (1,)), ((2, 64), (0, 1)),
    ((4, 5, 6, 7), (0, 2, 3)), ((4, 5, 6, 7), (1,)), ((4, 5, 6, 40), (1, 3)), ((0, 3), (0,)), ((3, 0), (1,)),
    ((2, 3, 5000), (1,)), ((0, 3), (1,)),
]  # fmt: skip

all_cases = pytest.mark.parametrize("shape, axes", CASES)


def product(x, axes):
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        return np.prod(x, axis=axes, dtype=np.float64).astype(x.dtype)


@all_cases
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_products_in_shares(run, parts, shape, axes, dtype):
    x = np.random.default_rng(0).uniform(-1.5, 1.5, shape).astype(dtype)
    expected = product(x, axes)
    y = np.full(expected.shape, np.nan, dtype)
    assert run(products, "Prod", [x], [y], parts=parts, axes=axes, keep_dims=False) == 0
    np.testing.assert_allclose(y, expected, rtol=1e-6 if dtype == "float32" else 1e-13)


@pytest.mark.parametrize("shape, axes", [((70001,), (0,)), ((3, 33000), (1,)), ((2, 3, 33000), (0, 2))])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_long_products_are_the_same_in_any_number_of_shares(run, shape, axes, dtype):
    x = np.random.default_rng(0).uniform(0.99, 1.0101, shape).astype(dtype)
    expected = product(x, axes)
    found = []
    for parts in (1, 2, 5):
        y = np.full(expected.shape, np.nan, dtype)
        assert run(products, "Prod", [x], [y], parts=parts, axes=axes, keep_dims=False) == 0
        found.append(y)
    np.testing.assert_allclose(found[0], expected, rtol=1e-6 if dtype == "float32" else 1e-11)
    np.testing.assert_array_equal(found[1:], [found[0]] * 2)


@pytest.mark.parametrize("length", [*range(1, 18), 31, 32, 33, 63, 65, 200, 511, 512, 513])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_row_has_the_same_product_among_others_and_alone(run, length, dtype):
    x = np.random.default_rng(length).uniform(0.9, 1.1, (7, length)).astype(dtype)
    together, alone = np.zeros(7, dtype), np.zeros((7, 1), dtype)
    assert run(products, "Prod", [x], [together], axes=(1,), keep_dims=False) == 0
    for row, y in zip(x, alone, strict=True):
        assert run(products, "Prod", [row[None]], [y], axes=(1,), keep_dims=False) == 0
    np.testing.assert_array_equal(together, alone[:, 0])
    np.testing.assert_allclose(together, product(x, 1), rtol=1e-6 if dtype == "float32" else 1e-13)


@all_cases
@pytest.mark.parametrize("values", [[0.0, 2.0], [1.0, np.nan], [1.0, np.inf, -1.0], [np.inf, 0.0]])
def test_zeros_infinities_and_nan_come_through(run, shape, axes, values):
    x = np.random.default_rng(0).choice(np.array(values, "f"), shape)
    expected = product(x, axes)
    y = np.full(expected.shape, 7, "f")
    assert run(products, "Prod", [x], [y], axes=axes, keep_dims=False) == 0
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("shape, axis", [((64, 3), 0), ((3, 64), 1)])
def test_a_product_within_range_whose_factors_leave_it(run, shape, axis):
    x = np.where(np.arange(64) % 8 < 4, 1e30, 1e-30).astype("f")
    x = np.broadcast_to(x[:, None] if axis == 0 else x, shape).copy()
    y = np.full(3, np.nan, "f")
    assert run(products, "Prod", [x], [y], axes=(axis,), keep_dims=False) == 0
    np.testing.assert_allclose(y, product(x, axis), rtol=1e-6)
