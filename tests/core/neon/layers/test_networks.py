"""Layers in a row: the gradients of all parameters are those of differences of the cost."""

import numpy as np
import pytest
from tests.core.neon.layers.running import BOUND, pairs_of, slope_along

from atled.neon.initializers import Gaussian
from atled.neon.layers import (
    LRN,
    Activation,
    Affine,
    BatchNorm,
    Bias,
    Conv,
    Deconv,
    GeneralizedCost,
    LookupTable,
    MergeBroadcast,
    MergeSum,
    Pooling,
    Reshape,
    Sequential,
    SkipNode,
)
from atled.neon.transforms import CrossEntropyMulti, Logistic, Softmax, SumSquared, Tanh

DRAW = Gaussian(scale=0.3)

NETWORKS = {
    "perceptron": lambda: [Affine(5, DRAW, bias=DRAW, activation=Tanh()), Affine(3, DRAW, activation=Softmax())],
    "images": lambda: [
        Conv((3, 3, 4), DRAW, padding=1, bias=DRAW, activation=Tanh()),
        Pooling(2, strides=1),
        LRN(3),
        Conv((2, 2, 3), DRAW, batch_norm=True, activation=Logistic()),
        Pooling("all", "avg"),
        Affine(3, DRAW, bias=DRAW, activation=Softmax()),
    ],
    "branches": lambda: [
        Conv((3, 3, 2), DRAW, padding=1, activation=Tanh()),
        MergeSum([[BatchNorm(), Conv((3, 3, 2), DRAW, padding=1)], [SkipNode()]]),
        MergeSum([[Bias(DRAW), Activation(Tanh()), Conv((3, 3, 2), DRAW, padding=1)], [SkipNode()]]),
        MergeBroadcast([[Pooling(3, strides=1, padding=1), Conv((1, 1, 2), DRAW)], [LRN(3)]], "depth"),
        Affine(3, DRAW, activation=Softmax()),
    ],
    "back to images": lambda: [
        Affine(8, DRAW, batch_norm=True, activation=Tanh()),
        Reshape((2, 2, 2)),
        Deconv((2, 2, 3), DRAW, bias=DRAW, activation=Logistic()),
        Reshape((-1, 1)),
        Affine(3, DRAW, activation=Softmax()),
    ],
}


def check(network, cost, x, t):
    """Differences along a random direction of each parameter."""
    be, rng = network.be, np.random.default_rng(2)
    columns = cost.outputs.shape[1]

    def total():
        return cost.get_cost(network.fprop(be.array(x)), be.array(t))[0, 0] * columns

    total()
    network.bprop(cost.get_errors(network.layers[-1].outputs, be.array(t)))
    found = [
        (parameter, gradient.get()) for layer in network.layers_to_optimize for parameter, gradient in pairs_of(layer)
    ]
    assert found
    for parameter, gradient in found:
        before, along = parameter.get(), rng.normal(size=parameter.shape)

        def of_parameter(at, parameter=parameter):
            parameter.set(at)
            return total()

        expected = slope_along(of_parameter, before, along)
        parameter.set(before)
        np.testing.assert_allclose((gradient * along).sum(), expected, rtol=10 * BOUND, atol=10 * BOUND)


def ready(layers, in_shape, costfunc):
    network = Sequential(layers)
    network.configure(in_shape)
    network.allocate()
    network.allocate_deltas()
    cost = GeneralizedCost(costfunc)
    cost.initialize(network.layers[-1])
    return network, cost


@pytest.mark.parametrize("name", NETWORKS)
def test_gradients_are_those_of_differences(exact, name):
    network, cost = ready(NETWORKS[name](), (2, 4, 4), CrossEntropyMulti())
    x = np.random.default_rng(0).normal(size=(32, 4))
    check(network, cost, x, np.eye(3)[[0, 2, 1, 0]].T)


def test_gradients_of_words_are_those_of_differences(exact):
    layers = [LookupTable(6, 3, DRAW), BatchNorm(), Bias(DRAW), Affine(2, DRAW, activation=Tanh())]
    network, cost = ready(layers, 2, SumSquared())
    x = np.random.default_rng(0).integers(0, 6, (2, 4))
    check(network, cost, x, np.random.default_rng(1).normal(size=(2, 8)))
