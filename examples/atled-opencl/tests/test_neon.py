"""neon's API on an OpenCL device: trees and draws as NumPy has them."""

import numpy as np
import pytest

pytest.importorskip("atled_opencl", reason="the example is not installed")

from atled.neon.backends import Autodiff, cleanup_backend, gen_backend
from atled.plugin import Usable
from atled_contexts import fallback_counts, get_extension_context, reset_fallback_counts
from atled_opencl.plugin import PLUGIN

_PROBED = PLUGIN.atled_probe()
pytestmark = pytest.mark.skipif(
    not isinstance(_PROBED, Usable),
    reason="" if isinstance(_PROBED, Usable) else f"{_PROBED.reason}; {_PROBED.remedy}, or make check-opencl",
)


@pytest.fixture
def be():
    """What raises where an op is not computed on the device."""
    yield gen_backend(get_extension_context("opencl", fallback="raise"), rng_seed=1, batch_size=4)
    cleanup_backend()


@pytest.fixture
def x(be):
    """Values of either sign."""
    return be.array(np.random.RandomState(2).normal(size=(6, 8)))


def test_the_backend_is_found_by_its_name():
    be = gen_backend("opencl", batch_size=2)
    assert be.backend_name == "opencl"
    assert be.context.backends[0] == ("opencl", "float")
    cleanup_backend()


def test_a_tree_is_computed_on_the_device(be, x):
    out, a = be.zeros((6, 8)), x.get()
    out[:] = be.tanh(x) * x - be.sum(x, axis=1) / 8 + be.maximum(x, 0.25)
    expected = np.tanh(a) * a - a.sum(1, keepdims=True) / 8 + np.maximum(a, 0.25)
    np.testing.assert_allclose(out.get(), expected, rtol=1e-4, atol=1e-6)


def test_masks_are_those_of_the_host(be):
    mask = be.make_binary_mask(be.empty((5, 7)), 0.4)
    np.testing.assert_array_equal(mask.get(), np.random.RandomState(1).uniform(size=(5, 7)) < 0.4)


def test_gradients_are_computed_on_the_device(be, x):
    y = be.array(np.linspace(0.5, 2, 6).reshape(6, 1))
    gradients = Autodiff(be.tanh(x) * y + x * x, be).get_grad_asnumpyarray([x, y])
    a, b = x.get(), y.get()
    np.testing.assert_allclose(gradients[0], (1 - np.tanh(a) ** 2) * b + 2 * a, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(gradients[1], np.tanh(a).sum(1, keepdims=True), rtol=1e-4, atol=1e-5)


def test_convolutions_are_computed_on_the_device(be):
    layer = be.conv_layer(np.float32, 4, 2, 3, H=5, W=6, R=2, S=3)
    rng = np.random.RandomState(4)
    images, filters = rng.normal(size=layer.dimI), rng.normal(size=layer.dimF)
    out = be.empty(layer.dimO)
    be.fprop_conv(layer, be.array(images), be.array(filters), out)
    expected = np.zeros(layer.dimO)
    for p, q in np.ndindex(layer.P, layer.Q):
        window = images[:, :, p : p + layer.R, q : q + layer.S]
        expected[:, 0, p, q] = np.einsum("cdrsn,cdrsk->kn", window, filters)
    np.testing.assert_allclose(out.get(), expected, rtol=1e-4, atol=1e-5)


def test_products_are_computed_on_the_device(be, x):
    out = be.ones((6, 6))
    be.compound_dot(x, x.T, out, alpha=0.5, beta=2.0)
    np.testing.assert_allclose(out.get(), 0.5 * x.get() @ x.get().T + 2, rtol=1e-4, atol=1e-5)


def test_what_the_device_does_not_compute_is_computed_by_the_reference_and_counted():
    be = gen_backend(get_extension_context("opencl", fallback="quiet"))
    reset_fallback_counts()
    x, out = be.array(np.arange(12.0).reshape(3, 4)), be.empty((3, 1))
    out[:] = be.max(x, axis=1) + 1
    np.testing.assert_array_equal(out.get(), [[4], [8], [12]])
    assert list(fallback_counts()) == [("MaxTies", "reference")]
    cleanup_backend()
