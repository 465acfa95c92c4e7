"""All ways to compute a convolution, those that rules would not take among them, on drawn convolutions."""

import zlib

import numpy as np
import pytest

import atled.functions as F
from atled_cpu_numba.kernels.convolution import choice, weight
from drawn_calls import check
from drawn_convolutions import drawn

# Winograd's of fewer channels, or with more of a tile beyond the borders, err as they do elsewhere.
TOLERANCE = {"float": 3e-4, "double": 1e-11}


class AnyWay:
    """In the place of `chosen`: one of the ways by chance, the same each time for a problem."""

    def __init__(self, seed):
        self.seed = seed
        self.taken = {}

    def __call__(self, ways, problem, sizes, dtype, **conditions):
        found = list(ways)
        number = zlib.crc32(repr((self.seed, problem)).encode()) % len(found)
        self.taken[found[number].name] = self.taken.get(found[number].name, 0) + 1
        return found[number].prepare()


@pytest.fixture
def any_way(monkeypatch, request):
    made = AnyWay(request.node.callspec.params["seed"])
    for module in (choice, weight):
        monkeypatch.setattr(module, "chosen", made)
    return made


@pytest.mark.parametrize("config, seed", [*(("float", seed) for seed in range(100, 106)), ("double", 106)])
def test_each_way_gives_the_same(any_way, config, seed):
    rng = np.random.default_rng(seed)
    for _ in range(30):
        x_shape, w_shape, geometry = drawn(rng)
        arrays = [rng.standard_normal(shape).astype("f") for shape in (x_shape, w_shape, w_shape[:1])]
        what = f"x {x_shape}, weight {w_shape}, {geometry}"
        check(lambda *given, by=geometry: F.convolution(*given, **by), arrays, what, config, TOLERANCE[config])
