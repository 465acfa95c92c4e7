"""The adjoint of a convolution."""

import numpy as np
import pytest
from tests.core.neon.layers.running import check_gradients, drawn, ready

import atled as nn
from atled.neon.layers import Convolution, Deconvolution

WEIGHTS = np.random.default_rng(5).normal(size=(12, 3))


def test_it_does_what_a_convolution_does_with_errors(be):
    layer = ready(Deconvolution((3, 2, 2), 2, 1, init=WEIGHTS), (3, 3, 4))
    assert layer.out_shape == (2, 5, 6)
    convolution = ready(Convolution((3, 2, 3), 2, 1, init=WEIGHTS), (2, 5, 6))
    x, error = drawn(be, (36, 4)), drawn(be, (60, 4), seed=1)
    y, deltas = layer.fprop(x).get(), layer.bprop(error).get()
    forth, back = convolution.fprop(error).get(), convolution.bprop(x).get()
    np.testing.assert_allclose(y, back, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(deltas, forth, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(layer.dW.get(), convolution.dW.get(), rtol=1e-4, atol=1e-4)


def test_gradients_are_those_of_differences(exact):
    layer = ready(Deconvolution((3, 2, 2), 2, {"pad_h": 1}, init=WEIGHTS), (3, 3, 2))
    check_gradients(layer, drawn(exact, (18, 4)).get())


def test_maps_are_summed(be):
    layer = ready(Deconvolution((2, 2, 3), 2, init=np.ones((12, 2)), bsum=True), (2, 2, 2))
    assert (layer.fprop(be.ones((8, 4))).get() == 2).all()
    assert layer.batch_sum.shape == (3, 1)
    assert (layer.batch_sum.get() == 2 * 16 * 4).all()


def test_all_is_computed_by_the_backend(cpu):
    before = nn.fallback_counts()
    layer = ready(Deconvolution((2, 2, 3), 2, init=np.ones((12, 2))), (2, 2, 2))
    layer.fprop(cpu.ones((8, 4)))
    layer.bprop(cpu.ones((48, 4)))
    assert nn.fallback_counts() == before


def test_what_does_not_fit_is_refused(cpu):
    layer = ready(Deconvolution((2, 2, 3), init=np.ones((12, 2)), name="d"), (2, 2, 2))
    with pytest.raises(ValueError, match=r"(?s)Deconvolution 'd'\.fprop: inputs have shape \[9, 4\]"):
        layer.fprop(cpu.ones((9, 4)))
    with pytest.raises(ValueError, match=r"(?s)Deconvolution 'd'.*no image"):
        layer.configure((4, 2))
