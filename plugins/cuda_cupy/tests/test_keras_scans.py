"""Scans of the Keras-style backend on the device, with draws, a condition and gradients, as in host memory."""

import numpy as np
import pytest

import atled as nn
import atled.keras_backend as B
from atled_contexts import Context, context_scope, get_extension_context


def chain():
    """Samples, a loop that a condition ends, and gradients through both."""
    values = np.random.default_rng(0)
    w, start = (B.variable(values.normal(size=shape)) for shape in ((64, 64), (2, 64)))
    rng = B.make_rng(5)

    def step(h, count):
        p = B.sigmoid(h.dot(w))
        return [p + B.random_binomial((2, 64), p=0.5, rng=rng), count + 1, p], B.until(count > 1)

    (states, _, p), _ = B.scan(step, [start, B.variable(0, "int32"), None], n_steps=9)
    loss = B.sum(states[-1] * states[-1]) + B.sum(p)
    return [states, p[-1], *B.gradients(loss, [w, start])]


@pytest.mark.parametrize("calls", [1, 2])
def test_a_chain_gives_what_it_gives_in_host_memory(cuda, calls):
    with context_scope(Context(["cpu"])):
        function = B.function([], chain())
        expected = [function() for _ in range(calls)][-1]
    with context_scope(get_extension_context("cuda", fallback="quiet")):
        function = B.function([], chain())
        found = [function() for _ in range(calls)][-1]
        assert nn.fallback_counts() == {}
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-3)
