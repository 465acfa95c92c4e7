"""Convolutions that are drawn from a seed, with their gradients."""

import numpy as np
import pytest

import atled.functions as F
from drawn_calls import check
from drawn_convolutions import drawn

TOLERANCE = {"float": 3e-4}  # Winograd's algorithm errs by some 1e-5 of the largest element, direct sums by less


def attempt(rng, config):
    x_shape, w_shape, geometry = drawn(rng)
    arrays = [rng.standard_normal(shape).astype("f") for shape in (x_shape, w_shape, w_shape[:1])]
    what = f"x {x_shape}, weight {w_shape}, {geometry}"
    check(lambda *given: F.convolution(*given, **geometry), arrays, what, config, TOLERANCE.get(config))


@pytest.mark.parametrize(
    "config, seed", [*(("float", seed) for seed in range(8)), ("half", 8), ("double", 9), ("bf16", 10)]
)
def test_values_and_gradients_on_any_count_of_threads(config, seed):
    rng = np.random.default_rng(seed)
    for _ in range(30):
        attempt(rng, config)
