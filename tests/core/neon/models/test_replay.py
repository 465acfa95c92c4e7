"""Replayed steps of `fit`, against steps one by one: the same costs and parameters, on each backend."""

import numpy as np
import pytest

from atled.neon.backends import cleanup_backend, gen_backend
from atled.neon.data import ArrayIterator
from atled.neon.initializers import Gaussian
from atled.neon.layers import (
    Affine,
    BiRNN,
    Conv,
    Dropout,
    GeneralizedCost,
    Linear,
    MergeSum,
    Pooling,
    RecurrentSum,
)
from atled.neon.models import Model
from atled.neon.optimizers import GradientDescentMomentum, Schedule
from atled.neon.transforms import CrossEntropyMulti, Rectlin, Softmax, SumSquared, Tanh
from atled_contexts import Context
from atled_sim import faults

INIT = Gaussian(scale=0.3)
EPOCHS = 4


def mlp():
    return [
        Affine(6, INIT, bias=INIT, activation=Rectlin()),
        Dropout(0.7),
        Affine(3, INIT, bias=INIT, activation=Softmax()),
    ]


def conv_net():
    return [
        Conv((3, 3, 4), INIT, batch_norm=True, activation=Rectlin()),
        Pooling(2),
        Affine(3, INIT, activation=Softmax()),
    ]


def sums():
    branches = [Affine(5, INIT, activation=Tanh()), Affine(5, INIT, activation=Rectlin())]
    return [Affine(5, INIT), MergeSum(branches), Affine(3, INIT, activation=Softmax())]


def birnn():
    return [BiRNN(3, INIT, activation=Tanh()), RecurrentSum(), Affine(3, INIT, activation=Softmax())]


NETWORKS = {"mlp": (mlp, 8), "conv": (conv_net, (2, 6, 6)), "sums": (sums, 8), "birnn": (birnn, (4, 3))}


def data(shape, count=12):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(count, int(np.prod(shape)))).astype(np.float32)
    return ArrayIterator(x, rng.integers(3, size=count), nclass=3, lshape=shape)


class Seen:
    """Callbacks that note costs and outputs behind each batch."""

    def __init__(self, model, ordinary=False):
        self.model, self.ordinary, self.seen = model, ordinary, []

    def on_train_begin(self, epochs):
        if self.ordinary:
            self.model._replay._is_refused = True

    def on_minibatch_end(self, epoch, minibatch):
        layers = self.model.layers
        self.seen.append([float(self.model.cost.cost[0, 0]), layers.outputs.get(), layers.layers[0].outputs.get()])

    def __getattr__(self, name):
        return lambda *given: None


def trained(be, network, shape, rule=GradientDescentMomentum, ordinary=False):
    """The model, and what callbacks see, of 4 epochs of 3 batches."""
    be.rng_reset()
    model = Model(network())
    seen = Seen(model, ordinary)
    model.fit(data(shape), GeneralizedCost(CrossEntropyMulti()), rule(0.1, 0.9), EPOCHS, seen)
    return model, seen.seen


@pytest.mark.parametrize("name", NETWORKS)
def test_training_is_the_same(be, name):
    ordinary, wanted = trained(be, *NETWORKS[name], ordinary=True)
    model, seen = trained(be, *NETWORKS[name])
    assert "replayed" in model.plan.replay
    assert "one by one" in ordinary.plan.replay
    for a, b in zip(seen, wanted, strict=True):
        for one, other in zip(a, b, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_steps_of_a_perceptron_are_one_program(cpu):
    model, _ = trained(cpu, lambda: [Affine(6, INIT, bias=INIT, activation=Rectlin()), *mlp()[2:]], 8)
    assert " by 1 programs" in model.plan.replay


def test_rates_that_change_count(be):
    def rule(rate, momentum):
        return GradientDescentMomentum(rate, momentum, schedule=Schedule([2], 0.5))

    wanted, seen = trained(be, mlp, 8, rule, True)[1], trained(be, mlp, 8, rule)[1]
    np.testing.assert_allclose([each[0] for each in seen], [each[0] for each in wanted], rtol=1e-4)


def test_weights_that_are_replaced_are_used(cpu):
    class Replacing(Seen):
        def on_epoch_end(self, epoch):
            if epoch == 1:
                layer = self.model.layers.layers[0]
                layer.W = self.model.be.array(layer.W.get() * 0.5)

    costs = []
    for ordinary in (True, False):
        cpu.rng_reset()
        model = Model(sums())
        seen = Replacing(model, ordinary)
        rule = GradientDescentMomentum(0.1, 0.9)
        model.fit(data(8), GeneralizedCost(CrossEntropyMulti()), rule, EPOCHS, seen)
        costs.append([each[0] for each in seen.seen])
    np.testing.assert_allclose(*costs, rtol=1e-4)


def test_steps_with_code_of_a_program_run_one_by_one(cpu):
    class Own(Linear):
        """A layer of a program."""

    model, _ = trained(cpu, lambda: [Own(3, INIT)], 8)
    assert "Own" in model.plan.replay and "one by one" in model.plan.replay


def test_steps_that_read_tensors_run_one_by_one(cpu):
    layer = Linear(3, INIT)
    fprop = layer.fprop
    layer.fprop = lambda x, inference=False: (x.get(), fprop(x, inference))[1]
    model, _ = trained(cpu, lambda: [layer], 8)
    assert "a tensor is read" in model.plan.replay


def test_steps_of_large_models_run_one_by_one(cpu, monkeypatch):
    monkeypatch.setattr("atled.neon.models.replay._MOST_ELEMENTS", 4 * (8 + 3))  # a batch is 4
    model, _ = trained(cpu, lambda: [Linear(8, INIT), Linear(3, INIT)], 8)
    assert "one by one" not in model.plan.replay
    model, _ = trained(cpu, lambda: [Linear(9, INIT), Linear(3, INIT)], 8)
    assert "outputs of its layers have 48 elements" in model.plan.replay


def test_batches_in_other_tensors_run_one_by_one(cpu):
    rng = np.random.default_rng(0)
    pairs = [(cpu.array(rng.normal(size=(8, 4))), cpu.array(rng.normal(size=(3, 4)))) for _ in range(3)]

    class Pairs:
        shape, nbatches, ndata = 8, 3, 12

        def __iter__(self):
            return iter(pairs)

    model = Model([Linear(3, INIT)])
    model.fit(Pairs(), GeneralizedCost(SumSquared()), GradientDescentMomentum(0.1, 0.9), 3)
    assert "one by one" in model.plan.replay


def test_a_device_that_fails_in_a_replayed_step_leaves_the_parameters():
    be = gen_backend(Context(["sim:float"]), rng_seed=1, batch_size=4)

    class Failing(Seen):
        def on_minibatch_begin(self, epoch, minibatch):
            if epoch == 2:
                assert "replayed" in self.model.plan.replay
                self.before = [layer.W.get() for layer in self.model.layers_to_optimize]
                self.fault = faults.fail("launch")
                self.fault.__enter__()

    be.rng_reset()
    model = Model(sums())
    seen = Failing(model)
    with pytest.raises(faults.SimFault):
        model.fit(data(8), GeneralizedCost(CrossEntropyMulti()), GradientDescentMomentum(0.1, 0.9), EPOCHS, seen)
    seen.fault.__exit__(None, None, None)
    assert len(seen.seen) == 6
    for layer, values in zip(model.layers_to_optimize, seen.before, strict=True):
        np.testing.assert_array_equal(layer.W.get(), values)
    model.fit(data(8), GeneralizedCost(CrossEntropyMulti()), GradientDescentMomentum(0.1, 0.9), EPOCHS)
    assert np.isfinite(model.total_cost.get()).all()
    cleanup_backend()
