"""GANCost has the costs and derivatives of its table."""

import numpy as np
import pytest

from atled.neon.transforms import GANCost

DATA = np.array([[0.9, 0.6, 0.3, 0.8], [0.5, 0.7, 0.2, 0.1]])
NOISE = np.array([[0.1, 0.4, 0.7, 0.25], [0.5, 0.2, 0.9, 0.3]])
COSTS = {
    "original": (-np.log(DATA), -np.log(1 - NOISE), -np.log(NOISE)),
    "modified": (-np.log(DATA), -np.log(1 - NOISE), np.log(1 - NOISE)),
    "wasserstein": (DATA, -NOISE, NOISE),
}
ONES = np.ones(NOISE.shape)
DERIVATIVES = {
    "original": (-1 / DATA, 1 / (1 - NOISE), 1 / (NOISE - 1)),
    "modified": (-1 / DATA, 1 / (1 - NOISE), -1 / NOISE),
    "wasserstein": (ONES, -ONES, ONES),
}


@pytest.mark.parametrize("func", COSTS)
def test_costs_are_means_over_rows(be, func):
    y_data, y_noise, found = be.array(DATA), be.array(NOISE), be.zeros((1, 4))
    of_data, of_noise, of_generator = COSTS[func]
    wanted = {"dis": of_data + of_noise, "dis_data": of_data, "dis_noise": of_noise, "gen": of_generator}
    for cost_type, values in wanted.items():
        found[:] = GANCost(func=func)(y_data, y_noise, cost_type=cost_type)
        np.testing.assert_allclose(found.get(), values.mean(0, keepdims=True), rtol=1e-5)
        found[:] = GANCost(func=func, cost_type=cost_type)(y_data, y_noise)
        np.testing.assert_allclose(found.get(), values.mean(0, keepdims=True), rtol=1e-5)


@pytest.mark.parametrize("func", COSTS)
def test_derivatives_have_the_scale(be, func):
    cost, found = GANCost(func=func, scale=0.5), be.zeros(NOISE.shape)
    calls = [(cost.bprop_data, DATA), (cost.bprop_noise, NOISE), (cost.bprop_generator, NOISE)]
    for (bprop, y), wanted in zip(calls, DERIVATIVES[func], strict=True):
        tree = bprop(be.array(y))
        found[:] = tree
        np.testing.assert_allclose(found.get(), 0.5 * wanted, rtol=1e-5)
        assert tree.shape == NOISE.shape


def test_unknown_names_are_refused(cpu):
    with pytest.raises(ValueError, match=r"(?s)func='wassersteen'.*wasserstein"):
        GANCost(func="wassersteen")
    with pytest.raises(ValueError, match=r"(?s)cost_type='generator'"):
        GANCost()(cpu.array(DATA), cpu.array(NOISE), cost_type="generator")
    with pytest.raises(ValueError, match="the shapes differ"):
        GANCost()(cpu.array(DATA), cpu.array(NOISE[:1]))
