"""Small layers of parameters, and NumPy arrays that go the same way."""

import numpy as np
import pytest


class Parameters:
    """A layer as optimizers see it: one pair, or several."""

    def __init__(self, be, values, name="layer", dtype=np.float32):
        self.name = name
        self.pairs = [(be.array(each, dtype=dtype), be.zeros(each.shape, dtype=dtype)) for each in values]
        self.states = [[] for _ in values]

    def get_params(self):
        found = list(zip(self.pairs, self.states, strict=True))
        return found[0] if len(found) == 1 else found

    def values(self):
        return [p.get() for p, _ in self.pairs]


class Bare(Parameters):
    """Another class."""


@pytest.fixture
def rng():
    return np.random.default_rng(3)


@pytest.fixture
def layers(be, rng):
    """One layer with one pair, and one with two, in the dtype that is asked for."""

    def made(dtype=np.float32):
        shapes = [[(3, 5)], [(4, 2), (4, 1)]]
        found = []
        for n, each in enumerate(shapes):
            values = [rng.normal(size=shape).astype(dtype) for shape in each]
            found.append(Parameters(be, values, name=f"layer {n}", dtype=dtype))
        return found

    return made
