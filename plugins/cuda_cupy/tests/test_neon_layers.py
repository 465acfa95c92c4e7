"""neon's layers, computed in kernels of the device."""

import numpy as np
import pytest

import atled as nn
from atled.neon.backends import cleanup_backend, gen_backend
from atled.neon.layers import (
    LRN,
    Activation,
    BatchNorm,
    BatchNormAutodiff,
    Bias,
    Convolution_bias,
    Deconvolution,
    DeltasTree,
    Dropout,
    Linear,
    LookupTable,
    Pooling,
    Reshape,
    SkipNode,
)
from atled.neon.transforms import Rectlin
from atled_contexts import Context

CUDA = Context(["cuda:float", "reference:float"])
HOST = Context(["reference:float"])
DRAWN = np.random.default_rng(1).normal(size=(60, 60))

MADE = {
    "linear": lambda: Linear(3, DRAWN[:3, :24]),
    "bias": lambda: Bias(DRAWN[:2, :1]),
    "activation": lambda: Activation(Rectlin(0.1)),
    "convolution": lambda: Convolution_bias((2, 2, 3), 1, 1, init=DRAWN[:8, :3], bias=DRAWN[:3, :1]),
    "deconvolution": lambda: Deconvolution((2, 2, 3), 2, init=DRAWN[:12, :2]),
    "max": lambda: Pooling(2),
    "avg": lambda: Pooling(2, "avg", 1),
    "batch normalization": BatchNorm,
    "batch normalization by Autodiff": BatchNormAutodiff,
    "drop-out": lambda: Dropout(0.5),
    "local response": lambda: LRN(3),
    "reshape": lambda: Reshape((4, -1)),
    "skip": SkipNode,
}


def results(context, name):
    """Outputs, deltas and gradients of a layer on images of 2 maps of 3 x 4."""
    be = gen_backend(context, rng_seed=1, batch_size=4)
    layer, pool = MADE[name](), DeltasTree()
    layer.configure((2, 3, 4)).prev_layer = True
    layer.allocate()
    layer.allocate_deltas(pool)
    pool.allocate_buffers()
    layer.set_deltas(pool)
    nn.reset_fallback_counts()
    outputs = layer.fprop(be.array(DRAWN[:24, :4]))
    found = [outputs.get()]
    error = be.array(np.resize(DRAWN, outputs.shape))
    found.append(layer.bprop(error).get())
    assert nn.fallback_counts() == {}
    if layer.has_params:
        params = layer.get_params()
        found += [gradient.get() for (_, gradient), _ in (params if isinstance(params, list) else [params])]
    cleanup_backend()
    return found


@pytest.mark.parametrize("name", MADE)
def test_a_layer_gives_what_it_gives_on_the_host(name):
    for found, expected in zip(results(CUDA, name), results(HOST, name), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_words_are_looked_up_and_words_that_there_are_not_refused():
    be = gen_backend(CUDA, batch_size=4)
    layer = LookupTable(6, 3, DRAWN[:6, :3])
    layer.configure(2).allocate()
    words = np.array([[0, 5, 2, 2], [1, 5, 0, 3]])
    np.testing.assert_allclose(layer.fprop(be.array(words)).get(), DRAWN[words.ravel(), :3].T, rtol=1e-6)
    layer.bprop(be.ones((3, 8)))
    np.testing.assert_array_equal(layer.dW.get()[:, 0], [2, 1, 2, 1, 0, 2])
    with pytest.raises(IndexError, match="6 rows"):
        layer.fprop(be.array(words + 1))
    cleanup_backend()
