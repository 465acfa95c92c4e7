"""Local response normalization."""

import numpy as np
import pytest
from tests.core.neon.layers.running import check_gradients, drawn, ready

import atled as nn
from atled.neon.layers import LRN


def test_elements_are_divided_by_powers_of_what_is_around(be):
    layer, x = ready(LRN(3, ascale=0.5, bpower=0.75), (4, 2, 2)), drawn(be, (16, 4))
    squares = np.pad(x.get().reshape(4, 16) ** 2, ((1, 1), (0, 0)))
    denom = 1 + 0.5 / 3 * (squares[:-2] + squares[1:-1] + squares[2:])
    expected = x.get() * denom.reshape(16, 4) ** -0.75
    np.testing.assert_allclose(layer.fprop(x).get(), expected, rtol=1e-4, atol=1e-5)
    scaled = ready(LRN(3, alpha=2.0, beta=0.5, ascale=0.5, bpower=0.75), (4, 2, 2))
    scaled.outputs[:] = 1
    np.testing.assert_allclose(scaled.fprop(x).get(), 2 * expected + 0.5, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("alpha", [1.0, 3.0])
def test_gradients_are_those_of_differences(exact, alpha):
    layer = ready(LRN(3, alpha=alpha, ascale=0.5, bpower=0.75), (4, 2, 1))
    check_gradients(layer, drawn(exact, (8, 4)).get())


def test_deltas_are_scaled_and_added(be):
    layer, error = ready(LRN(3), (4, 2, 1)), drawn(be, (8, 4), seed=1)
    layer.fprop(drawn(be, (8, 4)))
    plain = layer.bprop(error).get()
    layer.deltas[:] = 1
    np.testing.assert_allclose(layer.bprop(error, 2.0, 0.5).get(), 2 * plain + 0.5, rtol=1e-4, atol=1e-5)


def test_all_is_computed_by_the_backend(cpu):
    before = nn.fallback_counts()
    layer = ready(LRN(3), (4, 2, 1))
    layer.fprop(cpu.ones((8, 4)))
    layer.bprop(cpu.ones((8, 4)))
    assert nn.fallback_counts() == before


def test_what_does_not_fit_is_refused(cpu):
    with pytest.raises(ValueError, match=r"(?s)LRN 'n': lrn_layer\(J=2\).*odd"):
        LRN(2, name="n").configure((4, 2, 1))
    with pytest.raises(ValueError, match=r"(?s)LRN 'n'\.fprop: inputs have shape \[3, 4\]"):
        ready(LRN(3, name="n"), (4, 2, 1)).fprop(cpu.ones((3, 4)))
