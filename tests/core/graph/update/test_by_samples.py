"""Layers that are not trained take the samples of a batch in turn in front of what is trained, as in an inference."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import atled as nn
import atled.functions as F
import atled.solvers as S
from atled.arrays.constants import CONSTANTS
from atled.graph.compile import loops
from atled.graph.inference import by_samples
from atled.graph.inference.by_samples import loops_of

BATCH = 4
RNG = np.random.default_rng(4)
IMAGES = RNG.standard_normal((3, BATCH, 3, 20, 18), "f")
LABELS = RNG.integers(0, 5, (3, BATCH, 1))


@pytest.fixture(autouse=True)
def small_caches(monkeypatch):
    """Caches in which hardly anything stays; no weight is too large to be read again."""
    nn.clear_memory_cache()
    monkeypatch.setattr(by_samples, "core_cache_bytes", lambda: 1 << 10)
    monkeypatch.setattr(by_samples, "_read_again", lambda _: 0)
    with nn.context_scope(nn.Context(["cpu"], fallback="raise")):
        yield
    nn.clear_memory_cache()
    CONSTANTS.set_limit(1 << 30)


def leaf(rng, *shape, low=None, need_grad=False):
    values = rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:])) if low is None else rng.uniform(low, 2, shape)
    return nn.Variable.from_numpy_array(values.astype(np.float32), need_grad=need_grad)


def normalized(rng, h, maps, batch_stat=False, need_grad=False, **geometry):
    w = leaf(rng, maps, h.shape[1], 3, 3, need_grad=need_grad)
    beta, gamma, mean = (leaf(rng, 1, maps, 1, 1) for _ in range(3))
    statistics = beta, gamma, mean, leaf(rng, 1, maps, 1, 1, low=0.5)
    h = F.batch_normalization(F.convolution(h, w, pad=(1, 1), **geometry), *statistics, batch_stat=batch_stat)
    return F.leaky_relu(h, 0.2), [w, *statistics]


class Network:
    """Two layers that are not trained, of which the first is read twice, and what is trained.

    tail: "flat" for a product of the elements of a sample, "layer" for one more layer with statistics of the batch.
    """

    def __init__(self, tail):
        rng = np.random.default_rng(8)
        self.x, self.t = nn.Variable(IMAGES.shape[1:]), nn.Variable((BATCH, 1))
        first, self.frozen = normalized(rng, self.x * 0.5 + 0.1, 6)
        h, further = normalized(rng, first, 6)
        h = F.max_pooling(h + first, (2, 2))
        self.frozen += further
        self.trained = {}
        if tail == "layer":
            h, (w, *self.statistics) = normalized(rng, h, 7, batch_stat=True, need_grad=True)
            self.trained["w"] = w
        h = F.reshape(h, (BATCH, -1))
        self.trained["head"] = leaf(rng, h.shape[1], 5, need_grad=True)
        self.loss = F.mean(F.softmax_cross_entropy(F.affine(h, self.trained["head"]), self.t))
        self.solver = S.Momentum(0.05)
        self.solver.set_parameters(self.trained)

    def run(self, way, times=6):
        step = nn.compile_step(self.loss, self.solver, [self.x, self.t])
        losses = []
        for number in range(times):
            values = IMAGES[number % 3], LABELS[number % 3]
            if way == "step":
                step(*values)
            else:
                self.x.d, self.t.d = values
                self.loss.forward()
                self.solver.zero_grad()
                self.loss.backward()
                self.solver.update()
            losses.append(float(self.loss.d))
        self.plan = step.plan if way == "step" else self.loss.plan
        return losses

    @property
    def values(self):
        moved = [each.d.ravel() for each in self.trained.values()]
        return np.concatenate([*moved, *(each.d.ravel() for each in getattr(self, "statistics", ()))])

    @property
    def loop_count(self):
        return len(list(loops_of(self.plan)))


@pytest.mark.parametrize("tail", ["flat", "layer"])
@pytest.mark.parametrize("way", ["step", "calls"])
def test_all_moves_as_without_a_loop(way, tail):
    network, other = Network(tail), Network(tail)
    losses = network.run(way)
    assert network.loop_count == 1
    nn.set_constants_limit(0)
    assert_allclose(losses, other.run("calls"), rtol=1e-4)
    assert other.loop_count == 0
    assert_allclose(network.values, other.values, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("way", ["step", "calls"])
def test_a_weight_that_is_written_is_seen(way):
    network, other = Network("layer"), Network("layer")
    for one, how in ((network, way), (other, "calls")):
        one.run(how)
        one.frozen[0].d = one.frozen[0].d * 1.5
        one.losses = one.run(how, 5)
    assert_allclose(network.losses, other.losses, rtol=1e-4)
    assert_allclose(network.values, other.values, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("way", ["step", "calls"])
def test_equal_inputs_give_equal_bits_where_the_context_says_so(way):
    with nn.context_scope(nn.Context(["cpu:float"], deterministic=True)):
        network, other = Network("layer"), Network("layer")
        losses = network.run(way)
        assert network.loop_count == 0
        nn.set_constants_limit(0)
        assert losses == other.run(way)
    assert_array_equal(network.values, other.values)


def test_a_chain_whose_kernels_are_not_all_native_stays(monkeypatch):
    monkeypatch.setattr(loops, "make_native", lambda *_: None)
    for way in ("step", "calls"):
        network = Network("flat")
        network.run(way)
        assert network.loop_count == 0


def test_a_trace_and_a_verification_see_the_same_values():
    network, other = Network("layer"), Network("layer")
    network.run("calls")
    other.run("calls")
    with nn.trace():
        losses = network.run("calls", 3)
    with nn.verify(1.0):
        assert_allclose(other.run("calls", 3), losses, rtol=1e-5)
