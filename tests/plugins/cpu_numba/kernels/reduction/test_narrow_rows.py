"""Reductions of half and bf16, which are widened as they are read: float32's results, rounded once."""

from functools import partial

import numpy as np
import pytest

import atled.functions as F
from narrow_numbers import DTYPES, any_numbers, check_rounded, computed

configs = pytest.mark.parametrize("config", list(DTYPES))


def usual_numbers(rng, shape, dtype):
    return rng.standard_normal(shape).astype(dtype)


draws = pytest.mark.parametrize("draw", [any_numbers, usual_numbers])


def check(config, function, x):
    with np.errstate(invalid="ignore", over="ignore"):
        check_rounded(computed(config, function, x), computed("float", function, x.astype("f")))


@configs
@draws
@pytest.mark.parametrize("function", [F.sum, F.mean])
def test_drawn_rows(config, draw, function):
    """Short ones, four of them at once and alone, and some of more than a stretch."""
    rng = np.random.default_rng(31)
    for longest in (8, 70, 600, 9000):
        for _ in range(5):
            shape = int(rng.integers(1, 10)), int(rng.integers(1, longest))
            check(config, partial(function, axis=1), draw(rng, shape, DTYPES[config]))


@configs
@draws
def test_few_long_rows_and_rows_that_others_lie_between(config, draw):
    rng, dtype = np.random.default_rng(32), DTYPES[config]
    check(config, lambda x: F.sum(x, axis=1), draw(rng, (2, 33_001), dtype))
    check(config, lambda x: F.sum(x, axis=(0, 2)), draw(rng, (3, 4, 45), dtype))
    check(config, F.global_average_pooling, draw(rng, (2, 3, 7, 9), dtype))


@configs
def test_what_is_computed_before_is_rounded_first(config):
    x = np.random.default_rng(33).standard_normal((7, 300)).astype(DTYPES[config])
    made = computed(config, F.exp, x)
    expected = computed(config, lambda made: F.sum(made, axis=1), made)
    found = computed(config, lambda x: F.sum(F.exp(x), axis=1), x)
    np.testing.assert_array_equal(found, expected)


FEW = {"sum": F.sum, "mean": F.mean, "max": F.max, "min": F.min, "prod": F.prod}


@configs
@draws
@pytest.mark.parametrize("name", FEW)
@pytest.mark.parametrize(
    "shape, axis",
    [
        *[((300, 41), 0), ((19, 2100), 0), ((5, 33, 17), 1), ((40, 3), 0), ((700, 257), 0), ((9, 1), 0)],
        *[((7, 5), 1), ((6, 43), 1), ((3, 129), 1), ((2, 5000), 1), ((4, 3, 37), (0, 2)), ((3, 4500), None)],
    ],
)
def test_columns_and_rows(config, draw, name, shape, axis):
    x = draw(np.random.default_rng(34), shape, DTYPES[config])
    check(config, partial(FEW[name], axis=axis), x)


@configs
@pytest.mark.parametrize("shape, axis", [((50, 300), 0), ((50, 300), 1), ((4, 5000), 1), ((30, 6), 1)])
@pytest.mark.parametrize("function", [F.max, F.min])
def test_gradients_go_to_the_first_extremum(config, function, shape, axis):
    rng = np.random.default_rng(35)
    x, gradient = any_numbers(rng, shape, DTYPES[config]), rng.standard_normal(shape[1 - axis]).astype(DTYPES[config])
    with np.errstate(invalid="ignore"):
        found = computed(config, lambda x: function(x, axis=axis), x, gradient)
        single = computed("float", lambda x: function(x, axis=axis), x.astype("f"), gradient.astype("f"))
    check_rounded(found, single)


@pytest.mark.parametrize("shape, axis", [((9, 200), 1), ((9, 700), 1), ((2, 9001), 1), ((200, 9), 0), ((9, 70), 1)])
@pytest.mark.parametrize("large", [1e30, 2.0**63, 2.0**64, 2.0**-64])
def test_products_of_pairs_may_leave_the_range_of_float32(shape, axis, large):
    place = np.arange(shape[axis]) % 8 < 4
    x = np.where(place if axis else place[:, None], large, 1 / large) * np.ones(shape)
    x[1] = 1.25  # a row that is in range among others that are not
    x[-1] = -1
    check("bf16", lambda x: F.prod(x, axis=axis), x.astype(DTYPES["bf16"]))


@configs
@pytest.mark.parametrize("length", [63, 64, 65, 127, 128, 200, 512, 513])
def test_a_row_has_the_same_product_among_others_and_alone(config, length):
    x = np.random.default_rng(length).uniform(0.9, 1.1, (7, length)).astype(DTYPES[config])
    x[3, 2:4] = np.array([3e38, 3e-38] if config == "bf16" else [6e4, 1e-7]).astype(DTYPES[config])
    together = computed(config, lambda x: F.prod(x, axis=1), x)
    alone = [computed(config, lambda x: F.prod(x, axis=1), row[None]) for row in x]
    np.testing.assert_array_equal(np.ravel(together), np.ravel(alone))
