"""Sums along rows of half and bf16, which are widened as they are read: float32's results, rounded once."""

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
