"""Costs of a network's outputs."""

import numpy as np
import pytest
from tests.core.neon.layers.running import STEP, drawn

import atled as nn
from atled.neon.layers import GeneralizedCost, GeneralizedCostMask, GeneralizedGANCost, SkipNode
from atled.neon.nervana_object import NervanaObject


class Squares(NervanaObject):
    def __call__(self, y, t):
        return self.be.sum(self.be.square(y - t), axis=0) / 2

    def bprop(self, y, t):
        return y - t


class OfNoise(NervanaObject):
    def __call__(self, y_data, y_noise, cost_type):
        parts = {"dis_data": y_data, "dis_noise": y_noise, "dis": y_data - y_noise}
        return self.be.mean(parts[cost_type], axis=0)


def made(kind, *arguments, shape=(3, 2), **keywords):
    cost = kind(*arguments, name="c", **keywords)
    cost.initialize(SkipNode().configure(shape))
    return cost


def test_the_cost_is_a_mean_over_columns(be):
    cost, y, t = made(GeneralizedCost, Squares()), drawn(be, (3, 8)), drawn(be, (3, 8), seed=1)
    columns = ((y.get() - t.get()) ** 2).sum(axis=0) / 2
    found = cost.get_cost(y, t)
    assert found.shape == (1, 1)
    np.testing.assert_allclose(found, columns.mean(), rtol=1e-5)
    np.testing.assert_allclose(cost.outputs.get(), columns[None], rtol=1e-5)
    assert cost.cost is found


def test_errors_are_not_divided_by_the_batch(be):
    cost, y, t = made(GeneralizedCost, Squares()), drawn(be, (3, 8)), drawn(be, (3, 8), seed=1)
    errors = cost.get_errors(y, t)
    assert errors is cost.deltas
    np.testing.assert_allclose(errors.get(), y.get() - t.get(), rtol=1e-5)


def test_masked_outputs_do_not_count(be):
    cost, y, t = made(GeneralizedCostMask, Squares(), weights=2.0), drawn(be, (3, 8)), drawn(be, (3, 8), seed=1)
    mask = np.random.default_rng(2).integers(0, 2, (3, 8))
    targets = t, be.array(mask)
    difference = (y.get() - t.get()) * mask
    np.testing.assert_allclose(cost.get_cost(y, targets), (difference**2).sum() / 8, rtol=1e-5)
    np.testing.assert_allclose(cost.get_errors(y, targets).get(), 2 * difference, rtol=1e-5)


def test_errors_behind_a_mask_are_those_of_differences(exact):
    cost, y, along = made(GeneralizedCostMask, Squares(), weights=0.5), drawn(exact, (3, 8)), drawn(exact, (3, 8), 1)
    targets = drawn(exact, (3, 8), 2), drawn(exact, (3, 8), 3)
    errors, values, steps = cost.get_errors(y, targets).get(), y.get(), STEP * along.get()
    ends = [cost.get_cost(exact.array(values + sign * steps), targets)[0, 0] for sign in (1, -1)]
    np.testing.assert_allclose((errors * along.get()).sum(), 8 * (ends[0] - ends[1]) / (2 * STEP), rtol=1e-6)


def test_the_cost_of_a_gan_has_parts(be):
    cost, data, noise = made(GeneralizedGANCost, OfNoise(), shape=1), drawn(be, (1, 4)), drawn(be, (1, 4), seed=1)
    for part, expected in {"dis_data": data.get(), "dis_noise": noise.get(), "dis": data.get() - noise.get()}.items():
        np.testing.assert_allclose(cost.get_cost(data, noise, part), expected.mean(), rtol=1e-4, atol=1e-6)


def test_all_is_computed_by_the_backend(cpu):
    before = nn.fallback_counts()
    cost, y = made(GeneralizedCost, Squares()), cpu.ones((3, 8))
    cost.get_cost(y, y)
    cost.get_errors(y, y)
    assert nn.fallback_counts() == before


class Elementwise(Squares):
    def __call__(self, y, t):
        return y - t


def test_what_does_not_fit_is_refused(cpu):
    y = cpu.ones((3, 8))
    with pytest.raises(RuntimeError, match=r"(?s)GeneralizedCost 'c'\.get_cost.*not initialized"):
        GeneralizedCost(Squares(), name="c").get_cost(y, y)
    with pytest.raises(TypeError, match=r"(?s)GeneralizedCost 'c'\.initialize.*no sizes"):
        GeneralizedCost(Squares(), name="c").initialize(3)
    with pytest.raises(ValueError, match=r"(?s)GeneralizedCost 'c'\.get_cost: Elementwise gives shape \[3, 8\]"):
        made(GeneralizedCost, Elementwise()).get_cost(y, y)
    with pytest.raises(ValueError, match=r"(?s)GeneralizedCost 'c'\.get_errors.*shape \[4, 8\].*\[3, 8\]"):
        made(GeneralizedCost, Squares()).get_errors(cpu.ones((4, 8)), y)
    with pytest.raises(TypeError, match=r"(?s)GeneralizedCostMask 'c'\.get_cost.*pair"):
        made(GeneralizedCostMask, Squares()).get_cost(y, y)


@pytest.mark.parametrize("costfunc", ["squares", Squares])
def test_what_is_no_cost_function_is_refused(costfunc):
    with pytest.raises(TypeError, match="no cost function"):
        GeneralizedCost(costfunc)
