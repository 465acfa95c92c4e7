"""neon's API on PyTorch's tensors: trees and draws as NumPy has them."""

import numpy as np
import pytest

pytest.importorskip("atled_torch", reason="the example is not installed")
pytest.importorskip("torch", reason="PyTorch is not installed; make check-torch does it")

from atled.neon.backends import Autodiff, cleanup_backend, gen_backend
from atled_contexts import get_extension_context


@pytest.fixture
def be():
    """What raises where an op is not computed on the device."""
    yield gen_backend(get_extension_context("torch", fallback="raise"), rng_seed=1, batch_size=4)
    cleanup_backend()


@pytest.fixture
def x(be):
    """Values of either sign."""
    return be.array(np.random.RandomState(2).normal(size=(6, 8)))


def test_the_backend_is_found_by_its_name():
    be = gen_backend("torch", batch_size=2)
    assert be.backend_name == "torch"
    assert be.context.backends[0] == ("torch", "float")
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


def test_products_are_computed_on_the_device(be, x):
    out, y = be.ones((6, 6)), be.array(np.random.RandomState(3).normal(size=(8, 6)))
    be.compound_dot(x, y, out, alpha=0.5, beta=2.0)
    np.testing.assert_allclose(out.get(), 0.5 * x.get() @ y.get() + 2, rtol=1e-4, atol=1e-5)
