"""Dropout."""

import numpy as np
import pytest
from tests.core.neon.layers.running import drawn, ready

import atled as nn
from atled.neon.layers import Dropout


def test_training_keeps_what_the_mask_has(be):
    layer, x, error = ready(Dropout(0.6), 30), drawn(be, (30, 4)), drawn(be, (30, 4), seed=1)
    be.rng_reset()
    y = layer.fprop(x).get()
    be.rng_reset()
    mask = be.rng.uniform(size=(30, 4)) < 0.6
    np.testing.assert_array_equal(layer.mask.get(), mask)
    np.testing.assert_array_equal(y, x.get() * mask)
    np.testing.assert_array_equal(layer.bprop(error).get(), error.get() * mask)


def test_each_step_draws_anew(be):
    layer, x = ready(Dropout(), 30), be.ones((30, 4))
    assert (layer.fprop(x).get() != layer.fprop(x).get()).any()


def test_inference_scales(be):
    layer, x = ready(Dropout(0.5), 3), drawn(be, (3, 4))
    np.testing.assert_array_equal(layer.fprop(x, inference=True).get(), 0.5 * x.get())


def test_caffe_scales_in_training(be):
    be.set_caffe_compat()
    layer, x = ready(Dropout(0.5), 30), be.ones((30, 4))
    y = layer.fprop(x).get()
    assert set(np.unique(y)) == {0, 2}
    np.testing.assert_array_equal(layer.bprop(x).get(), y)
    np.testing.assert_array_equal(layer.fprop(x, inference=True).get(), 1)


def test_results_are_scaled_and_added(be):
    layer, x = ready(Dropout(0.5), 30), be.ones((30, 4))
    layer.outputs[:] = 3
    layer.deltas[:] = 3
    y = layer.fprop(x, beta=2.0).get()
    np.testing.assert_array_equal(y, layer.mask.get() + 6)
    np.testing.assert_array_equal(layer.bprop(x, 0.5, 2.0).get(), 0.5 * layer.mask.get() + 6)


def test_all_is_computed_by_the_backend(cpu):
    before = nn.fallback_counts()
    layer = ready(Dropout(), 3)
    layer.fprop(cpu.ones((3, 4)))
    layer.bprop(cpu.ones((3, 4)))
    assert nn.fallback_counts() == before


def test_what_does_not_fit_is_refused(cpu):
    with pytest.raises(ValueError, match=r"(?s)Dropout 'd' with keep=0.*above 0"):
        Dropout(0, name="d")
    layer = ready(Dropout(name="d"), 3)
    with pytest.raises(ValueError, match=r"(?s)Dropout 'd'\.fprop: inputs have shape \[2, 4\]"):
        layer.fprop(cpu.ones((2, 4)))
