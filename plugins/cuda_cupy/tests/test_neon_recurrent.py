"""neon's recurrent layers, computed in kernels of the device."""

import numpy as np
import pytest

import atled as nn
from atled.neon.backends import cleanup_backend, gen_backend
from atled.neon.layers import GRU, LSTM, BiBNRNN, BiLSTM, BiRNN, DeltasTree, Recurrent, RecurrentMean
from atled.neon.transforms import Logistic, Tanh
from atled_contexts import Context

CUDA = Context(["cuda:float", "reference:float"])
HOST = Context(["reference:float"])
DRAWN = np.random.default_rng(1).normal(size=(30, 30)) / 2


class Draws:
    """An initializer."""

    def fill(self, param):
        param[:] = DRAWN[: param.shape[0], : param.shape[1]]


def gated(kind):
    return lambda: kind(3, Draws(), activation=Tanh(), gate_activation=Logistic())


MADE = {
    "plain": lambda: Recurrent(3, Draws(), activation=Tanh()),
    "LSTM": gated(LSTM),
    "GRU": gated(GRU),
    "both ways": lambda: BiRNN(3, Draws(), activation=Tanh()),
    "both ways, normalized": lambda: BiBNRNN(3, Draws(), activation=Tanh()),
    "LSTM both ways": gated(BiLSTM),
    "mean": RecurrentMean,
}


def results(context, name):
    """Outputs of two calls, of which the second goes on, deltas and gradients; of 4 steps of 2 rows."""
    be = gen_backend(context, rng_seed=1, batch_size=4)
    layer, pool = MADE[name](), DeltasTree()
    layer.configure((2, 4)).prev_layer = True
    layer.allocate()
    layer.allocate_deltas(pool)
    pool.allocate_buffers()
    layer.set_deltas(pool)
    nn.reset_fallback_counts()
    found = [layer.fprop(be.array(DRAWN[rows : rows + 2, :16])).get() for rows in (0, 2)]
    error = be.array(np.resize(DRAWN, layer.outputs.shape))
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
