"""What a step does not train is computed once: normalization by running statistics goes into the product before it."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import atled as nn
import atled.functions as F
import atled.solvers as S
from atled.arrays.constants import CONSTANTS
from atled.graph.constants import cut
from ways_of_writing import all_ways

RNG = np.random.default_rng(3)
SHAPE = (4, 3, 6, 5)
BATCHES = RNG.standard_normal((6, *SHAPE), "f")
LABELS = RNG.integers(0, 3, (6, 4, 1))


@pytest.fixture(autouse=True)
def empty():
    nn.clear_memory_cache()
    yield
    CONSTANTS.set_limit(1 << 30)


def weights(*shape, seed, low=None):
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(shape, "f") if low is None else rng.uniform(low, 2, shape).astype(np.float32)
    return nn.Variable.from_numpy_array(values, need_grad=False)


class Network:
    """Layers that are not trained, then one that is.

    trained: parameters in front, too, so that gradients pass through those layers.
    cut: how gradients are kept from them, whose parameters need some then.
    """

    def __init__(self, *, trained=False, cut=None, hold=False):
        self.x, self.t = nn.Variable(SHAPE), nn.Variable((4, 1))
        self.w, self.b = weights(7, 3, 3, 3, seed=1), weights(7, seed=2)
        beta, gamma, mean = (weights(1, 7, 1, 1, seed=seed) for seed in (3, 4, 5))
        self.statistics = [beta, gamma, mean, weights(1, 7, 1, 1, seed=6, low=0.5)]
        self.front = weights(1, 3, 1, 1, seed=7)
        self.head = weights(14, 3, seed=8)
        self.head.need_grad = True
        self.front.need_grad = trained
        for variable in (self.w, self.b, *self.statistics[:2]):
            variable.need_grad = cut is not None
        h = F.convolution(self.x * self.front, self.w, self.b)
        self.held = h if hold else None
        h = F.relu(F.batch_normalization(h, *self.statistics, batch_stat=False, eps=1e-3))
        h = F.max_pooling(h, (2, 2))
        if cut == "flag":
            h.need_grad = False
        elif cut == "call":
            h = F.unlink(h)
        self.loss = F.mean(F.softmax_cross_entropy(F.affine(h, self.head), self.t))
        self.solver = S.Momentum(0.05)
        self.solver.set_parameters({"head": self.head, **({"front": self.front} if trained else {})})

    @property
    def frozen(self):
        return [self.w, self.b, *self.statistics]

    def by_step(self, times, before=None, **how):
        """Losses of compiled steps; before: is called with the number of each."""
        step = nn.compile_step(self.loss, self.solver, [self.x, self.t], **how)
        losses = []
        for number in range(times):
            if before is not None:
                before(number)
            losses.append(float(step(BATCHES[number % 6], LABELS[number % 6]).d))
        self.plan = step.plan
        return losses

    def by_calls(self, times, before=None):
        """The same by forward, backward and update."""
        losses = []
        for number in range(times):
            if before is not None:
                before(number)
            self.x.d, self.t.d = BATCHES[number % 6], LABELS[number % 6]
            self.loss.forward()
            self.solver.zero_grad()
            self.loss.backward()
            self.solver.update()
            losses.append(float(self.loss.d))
        self.plan = self.loss.plan
        return losses

    @property
    def is_folded(self):
        return not any("BatchNormalization" in step.name for step in self.plan.steps)

    @property
    def moved(self):
        return np.concatenate([self.head.d.ravel(), self.front.d.ravel()])


def computed(times, **how):
    """Losses and parameters where nothing is kept."""
    limit = CONSTANTS.limit_bytes
    nn.set_constants_limit(0)
    network = Network(**how)
    losses = network.by_calls(times)
    assert not network.is_folded
    nn.set_constants_limit(limit)
    return losses, network.moved


@pytest.mark.parametrize("way", ["by_step", "by_calls"])
@pytest.mark.parametrize("how", [{}, {"cut": "flag"}, {"cut": "call"}, {"trained": True}], ids=str)
def test_what_is_not_trained_is_computed_once_and_the_rest_moves_alike(way, how):
    losses, moved = computed(6, **how)
    network = Network(**how)
    assert_allclose(getattr(network, way)(6), losses, rtol=1e-5)
    assert network.is_folded
    assert_allclose(network.moved, moved, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("way", ["by_step", "by_calls"])
def test_a_deterministic_context_has_the_bits_of_a_run_without(way):
    with nn.context_scope(nn.Context(["cpu:float"], deterministic=True)):
        nn.set_constants_limit(0)
        first = Network()
        losses = getattr(first, way)(6)
        nn.set_constants_limit(1 << 30)
        second = Network()
        assert getattr(second, way)(6) == losses
        assert not second.is_folded
        assert_array_equal(first.moved, second.moved)


@pytest.mark.parametrize("number", range(6))
@all_ways
def test_no_way_of_writing_leaves_an_old_value(number, write):
    network, other = Network(), Network()

    def written(one, when):
        of = one.frozen[number]
        values = np.random.default_rng(9).uniform(0.5, 2, of.shape).astype(np.float32)
        return lambda step: write(of, values) if step == when else None

    losses = network.by_step(7, written(network, 4))
    assert_allclose(losses, other.by_calls(7, written(other, 4)), rtol=1e-5)
    assert_allclose(network.moved, other.moved, rtol=1e-4, atol=1e-5)


def test_a_layer_that_is_trained_again_is_not_folded():
    network, other = Network(), Network()

    def change(one):
        def at(number):
            if number == 3:
                one.w.need_grad = True
                one.solver.set_parameters({"w": one.w}, reset=False, retain_state=True)

        return at

    losses = network.by_step(8, change(network))
    assert not network.is_folded
    assert_allclose(losses, other.by_calls(8, change(other)), rtol=1e-4)
    assert_allclose(network.w.d, other.w.d, rtol=1e-4, atol=1e-5)


def test_a_product_that_is_held_stays():
    network = Network(hold=True)
    network.by_step(5)
    assert not network.is_folded
    expected = F.convolution(nn.Variable.from_numpy_array(BATCHES[4] * network.front.d), network.w, network.b)
    expected.forward()
    assert_allclose(network.held.d, expected.d, rtol=1e-4, atol=1e-5)


def test_steps_with_decay_or_without_room_move_alike():
    networks = [Network() for _ in range(2)]
    kept = networks[0].by_step(6, weight_decay=0.1, scale_grad=0.5)
    nn.set_constants_limit(0)
    assert_allclose(networks[1].by_step(6, weight_decay=0.1, scale_grad=0.5), kept, rtol=1e-5)
    assert networks[0].is_folded and not networks[1].is_folded


def test_on_a_device_normalization_stays():
    with nn.context_scope(nn.Context(["sim:float", "cpu:float"])):
        network = Network()
        losses = network.by_step(5)
        assert not network.is_folded
    assert_allclose(losses, Network().by_step(5), rtol=1e-5)


def test_features_of_a_batch_that_stays_are_computed_once_until_another_one_comes(monkeypatch):
    monkeypatch.setattr(cut, "_LEAST_BYTES", 1)  # as of larger images
    network, other = Network(), Network()
    step = nn.compile_step(network.loss, network.solver)
    convolving = []
    for number, last in zip((0, 0, 0, 0, 1, 2), (-1, 0, 0, 0, 0, 1), strict=True):
        if number != last:
            for one in (network, other):
                one.x.d, one.t.d = BATCHES[number], LABELS[number]
        step()
        convolving.append(any("Convolution" in each.name for each in step.plan.steps))
        other.loss.forward()
        other.solver.zero_grad()
        other.loss.backward()
        other.solver.update()
        assert_allclose(network.loss.d, other.loss.d, rtol=1e-5)
    assert convolving[0] and not convolving[3] and convolving[4]
    assert_allclose(network.moved, other.moved, rtol=1e-4, atol=1e-5)


def test_a_step_leaves_no_auxiliary_output_and_says_so():
    network = Network()
    network.by_step(1)
    with pytest.raises(RuntimeError, match="in a compiled step"):
        network.loss.backward()
    network.loss.forward()
    network.loss.backward()


def test_zeros_of_either_sign_and_nan_are_numbers_of_their_own(monkeypatch):
    monkeypatch.setattr(cut, "_LEAST_BYTES", 1)  # as of larger weights
    frozen = weights(2, 3, seed=1, low=1)
    for number, expected in ((0.0, np.inf), (-0.0, -np.inf), (np.nan, np.nan), (0.0, np.inf)):
        x, w = nn.Variable((2, 3)), nn.Variable.from_numpy_array(np.zeros((2, 3), "f"), need_grad=True)
        loss = F.sum(x / (F.tanh(frozen) * number) + w)
        solver = S.Sgd(0.1)
        solver.set_parameters({"w": w})
        step = nn.compile_step(loss, solver, [x])
        for _ in range(4):
            assert_array_equal(step(np.ones((2, 3), "f")).d, expected)
        assert not any("Tanh" in one.name for one in step.plan.steps)
