"""Pooling of regions of images."""

import numpy as np
import pytest
from tests.core.neon.layers.running import drawn, ready

import atled as nn
from atled.neon.layers import RoiPooling

# Two boxes for each of four images: one of 4 x 4, whose cells are 2 x 2, and a single element.
BOXES = np.array([box for image in range(4) for box in ((image, 0, 0, 6, 6), (image, 4, 2, 4, 2))], np.float32).T


def made(**keywords):
    return ready(RoiPooling((2, 2), spatial_scale=0.5, name="r", **keywords), [(3, 4, 5), (5, 2)])


def test_cells_have_their_maxima(be):
    layer, x, boxes = made(), drawn(be, (60, 4)), be.array(BOXES)
    assert layer.out_shape == (12, 2)
    y = layer.fprop([x, boxes]).get().reshape(3, 2, 2, 4, 2)
    images = x.get().reshape(3, 4, 5, 4)
    expected = images[:, :, :4].reshape(3, 2, 2, 2, 2, 4).max(axis=(2, 4))
    np.testing.assert_allclose(y[..., 0], expected)
    np.testing.assert_allclose(y[:, 0, 0, :, 1], images[:, 1, 2])


def test_errors_go_to_the_maxima(be):
    layer, x = made(), drawn(be, (60, 4))
    y = layer.fprop([x, be.array(BOXES)])
    error = drawn(be, y.shape, seed=1)
    deltas = layer.bprop(error).get()
    np.testing.assert_allclose((deltas * x.get()).sum(), (error.get() * y.get()).sum(), rtol=1e-4)
    layer.deltas[:] = 1
    np.testing.assert_allclose(layer.bprop(error, 2.0, 0.5).get(), 2 * deltas + 0.5, rtol=1e-5, atol=1e-6)


def test_errors_stop_where_they_are_not_wanted(be):
    layer = made(bprop_enabled=False)
    y = layer.fprop([be.ones((60, 4)), be.array(BOXES)])
    assert layer.bprop(be.ones(y.shape)) is None


def test_all_is_computed_by_the_backend(cpu):
    before = nn.fallback_counts()
    layer = made()
    layer.bprop(cpu.ones(layer.fprop([cpu.ones((60, 4)), cpu.array(BOXES)]).shape))
    assert nn.fallback_counts() == before


def test_what_does_not_fit_is_refused(cpu):
    layer, images, boxes = made(), cpu.ones((60, 4)), cpu.array(BOXES)
    with pytest.raises(TypeError, match=r"(?s)RoiPooling 'r'\.configure.*list of two"):
        layer.configure((3, 4, 5))
    with pytest.raises(ValueError, match=r"(?s)RoiPooling 'r'\.configure.*boxes of sizes"):
        layer.configure([(3, 4, 5), (4, 2)])
    with pytest.raises(TypeError, match=r"(?s)RoiPooling 'r'\.fprop.*list of two"):
        layer.fprop(images)
    with pytest.raises(ValueError, match=r"(?s)RoiPooling 'r'\.fprop: boxes have shape \[8, 5\]"):
        layer.fprop([images, boxes.T])
    boxes[0] = 4
    with pytest.raises(IndexError):
        layer.fprop([images, boxes])
