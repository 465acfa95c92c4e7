"""neon's optimizers, costs and metrics on the device, with nothing on the host."""

import numpy as np
import pytest

from atled.neon.backends import cleanup_backend, gen_backend
from atled.neon.optimizers import Adadelta, Adam, GradientDescentMomentum, RMSProp, ShiftAdaMax
from atled.neon.transforms import (
    CrossEntropyMulti,
    LogLoss,
    Misclassification,
    PrecisionRecall,
    SmoothL1Loss,
    SquareHingeLoss,
    TopKMisclassification,
)

VALUES = np.random.RandomState(2).uniform(0.1, 1, (3, 4))
TARGETS = np.eye(3)[:, [0, 2, 1, 0]]


@pytest.fixture
def be(cuda):
    """What raises where an op is not computed on the device."""
    yield gen_backend(cuda, rng_seed=1, batch_size=4)
    cleanup_backend()


class Layer:
    """One pair of parameter and gradient."""

    name = "layer"

    def __init__(self, be):
        self.W, self.dW, self.states = be.array(VALUES), be.array(VALUES - 0.5), []

    def get_params(self):
        return (self.W, self.dW), self.states


def stepped(be, make):
    """Parameters and states behind three steps."""
    layers, optimizer = [Layer(be), Layer(be)], make()
    for epoch in range(3):
        optimizer.optimize(layers, epoch)
    return [each.get() for layer in layers for each in (layer.W, *layer.states)]


@pytest.mark.parametrize(
    "make",
    [
        lambda: GradientDescentMomentum(0.1, 0.9, wdecay=0.01, gradient_clip_norm=0.1),
        lambda: GradientDescentMomentum(0.1, 0.9, nesterov=True, gradient_clip_value=0.05, param_clip_value=0.5),
        RMSProp,
        Adadelta,
        Adam,
        ShiftAdaMax,
    ],
)
def test_steps_are_those_of_the_host(be, make):
    found = stepped(be, make)
    cleanup_backend()
    wanted = stepped(gen_backend("cpu", rng_seed=1, batch_size=4), make)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("cost", [CrossEntropyMulti(), SmoothL1Loss(sigma=2.0), SquareHingeLoss()])
def test_costs_are_those_of_the_host(be, cost):
    def computed(be):
        y, t, costs, errors = be.array(VALUES), be.array(TARGETS), be.zeros((1, 4)), be.zeros((3, 4))
        costs[:], errors[:] = cost(y, t), cost.bprop(y, t)
        return np.concatenate([costs.get(), errors.get()])

    found = computed(be)
    cleanup_backend()
    np.testing.assert_allclose(found, computed(gen_backend("cpu", batch_size=4)), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "metric", [LogLoss(), Misclassification(), TopKMisclassification(2), PrecisionRecall(3, binarize=True)]
)
def test_metrics_are_those_of_the_host(be, metric):
    found = metric(be.array(VALUES), be.array(TARGETS))
    cleanup_backend()
    host = gen_backend("cpu", batch_size=4)
    np.testing.assert_allclose(found, metric(host.array(VALUES), host.array(TARGETS)), rtol=1e-5, atol=1e-6)
