"""Layers by themselves: made ready, run, and compared with differences."""

import numpy as np

from atled.neon.layers import DeltasTree

STEP = 1e-5
BOUND = 1e-6
"""Of the error of differences in float64: STEP squared, and roundings by STEP, with some room."""


def ready(layer, in_shape, **keywords):
    """A layer that is not the first of its network, with memory."""
    layer.configure(in_shape)
    layer.prev_layer = True
    layer.allocate(**keywords)
    pool = DeltasTree()
    layer.allocate_deltas(pool)
    pool.allocate_buffers()
    layer.set_deltas(pool)
    return layer


def drawn(be, shape, seed=0):
    return be.array(np.random.default_rng(seed).normal(size=shape))


def loss(layer, x, weights, inference=False):
    """The sum of the outputs times weights."""
    return (layer.fprop(layer.be.array(x), inference).get() * weights).sum()


def slope_along(function, x, direction):
    return (function(x + STEP * direction) - function(x - STEP * direction)) / (2 * STEP)


def pairs_of(layer):
    """Parameters with their gradients."""
    found = layer.get_params() if layer.has_params else []
    return [pair for pair, _ in (found if isinstance(found, list) else [found])]


def check_gradients(layer, x, seed=3):
    """The deltas and gradients of a layer that is ready are those of differences along random directions."""
    rng, be = np.random.default_rng(seed), layer.be
    x = np.asarray(x, np.float64)
    weights = rng.normal(size=layer.fprop(be.array(x)).shape)
    deltas = layer.bprop(be.array(weights)).get()
    gradients = [gradient.get() for _, gradient in pairs_of(layer)]
    along = rng.normal(size=x.shape)
    expected = slope_along(lambda at: loss(layer, at, weights), x, along)
    np.testing.assert_allclose((deltas.reshape(x.shape) * along).sum(), expected, rtol=BOUND, atol=BOUND)
    for (parameter, _), gradient in zip(pairs_of(layer), gradients, strict=True):
        before, along = parameter.get(), rng.normal(size=parameter.shape)

        def of_parameter(at, parameter=parameter):
            parameter.set(at)
            return loss(layer, x, weights)

        expected = slope_along(of_parameter, before, along)
        parameter.set(before)
        np.testing.assert_allclose((gradient * along).sum(), expected, rtol=BOUND, atol=BOUND)
