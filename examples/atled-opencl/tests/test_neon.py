"""neon's API on an OpenCL device: trees and draws as NumPy has them."""

import numpy as np
import pytest

pytest.importorskip("atled_opencl", reason="the example is not installed")

from atled.neon.backends import cleanup_backend, gen_backend
from atled.plugin import Usable
from atled_contexts import get_extension_context
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
