"""neon's API on the device: short programs, as NumPy computes them, with nothing on the host."""

import numpy as np
import pytest

from atled.neon.backends import Autodiff, cleanup_backend, gen_backend
from atled.neon.backends.nervanagpu import NervanaGPU
from atled.neon.backends.util.check_gpu import get_device_count
from atled_contexts import best_backend


@pytest.fixture
def be(cuda):
    """What raises where an op is not computed on the device."""
    yield gen_backend(cuda, rng_seed=1, batch_size=4)
    cleanup_backend()


@pytest.fixture
def x(be):
    """Values of either sign, a third of them equal."""
    return be.array(np.random.RandomState(2).randint(-3, 3, (6, 8)) / 4)


def test_gpu_means_the_best_backend_on_one():
    be = gen_backend("nervanagpu", rng_seed=1)
    assert type(be) is NervanaGPU
    assert be.context.backends[0][0] == best_backend("gpu")
    assert be.context.deterministic
    assert be.device_type == 1
    assert get_device_count() >= 1
    cleanup_backend()


def test_a_context_on_a_gpu_makes_a_nervanagpu(be, cuda):
    assert type(be) is NervanaGPU
    assert be.context == cuda


def test_a_tree_is_computed_on_the_device(be, x):
    out = be.zeros((6, 8))
    out[:] = be.tanh(x) * x - be.sum(x, axis=1) / 8 + be.maximum(x, 0.25)
    a = x.get()
    np.testing.assert_allclose(out.get(), np.tanh(a) * a - a.sum(1, keepdims=True) / 8 + np.maximum(a, 0.25), rtol=1e-5)


def test_views_are_operands_and_targets(be, x):
    a = x.get()
    x[::2, 1:] = x[1::2, :-1] * 2
    a[::2, 1:] = a[1::2, :-1] * 2
    np.testing.assert_array_equal(x.get(), a)


def test_products_are_parts_of_trees(be, x):
    out = be.zeros((6, 6))
    out[:] = be.dot(x, x.T) * 0.5 + 1
    np.testing.assert_allclose(out.get(), x.get() @ x.get().T * 0.5 + 1, rtol=1e-5)


def test_masks_are_those_of_the_host(be):
    mask = be.make_binary_mask(be.empty((5, 7)), 0.4)
    np.testing.assert_array_equal(mask.get(), np.random.RandomState(1).uniform(size=(5, 7)) < 0.4)


def test_times_wait_for_the_device(be, x):
    start, end = be.init_mark(), be.init_mark()
    be.record_mark(start)
    x[:] = x + 1
    be.record_mark(end)
    assert be.get_time(start, end) > 0


def test_tensors_are_filled_taken_from_and_counted_on_the_device(be, x):
    a = x.get()
    x[1:, ::3] = np.ones((5, 3))
    x[:, 1] = 2
    x[:3] = x[2:5]
    a[1:, ::3], a[:, 1] = 1, 2
    a[:3] = a[2:5].copy()
    np.testing.assert_array_equal(x.get(), a)
    np.testing.assert_array_equal(x.take([5, 0, -2], 0).get(), a[[5, 0, -2]])
    with pytest.warns(UserWarning, match="it is a copy"):
        np.testing.assert_array_equal(x.T.reshape(48, 1).get(), a.T.reshape(48, 1))
    assert x.hist("x").get().sum() == a.size


def test_gradients_of_trees_are_computed_on_the_device(be, x):
    y = be.array(np.linspace(0.5, 2, 6).reshape(6, 1))
    gradients = Autodiff(be.tanh(x) * y + x * x, be).get_grad_asnumpyarray([x, y])
    a, b = x.get(), y.get()
    np.testing.assert_allclose(gradients[0], (1 - np.tanh(a) ** 2) * b + 2 * a, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(gradients[1], np.tanh(a).sum(1, keepdims=True), rtol=1e-5, atol=1e-6)


def test_convolutions_read_and_write_images_with_the_batch_innermost(be):
    layer = be.conv_layer(np.float32, 4, 2, 3, H=5, W=6, R=2, S=3)
    rng = np.random.RandomState(4)
    images, filters = rng.normal(size=layer.dimI), rng.normal(size=layer.dimF)
    out = be.empty(layer.dimO2)
    be.fprop_conv(layer, be.array(images.reshape(layer.dimI2)), be.array(filters.reshape(layer.dimF2)), out, relu=True)
    expected = np.zeros(layer.dimO)
    for p, q in np.ndindex(layer.P, layer.Q):
        window = images[:, :, p : p + layer.R, q : q + layer.S]
        expected[:, 0, p, q] = np.einsum("cdrsn,cdrsk->kn", window, filters)
    np.testing.assert_allclose(out.get().reshape(layer.dimO), np.maximum(expected, 0), rtol=1e-4, atol=1e-5)


def test_pooling_goes_both_ways(be):
    layer = be.pool_layer(np.float32, "max", 4, 2, H=4, W=6, R=2, S=2)
    images = be.array(np.random.RandomState(5).permutation(2 * 4 * 6 * 4).reshape(layer.dimI))
    out, delta, argmax = be.empty(layer.dimO), be.empty(layer.dimI), be.zeros(layer.dimO, np.uint8)
    be.fprop_pool(layer, images, out, argmax)
    windows = images.get().reshape(2, 1, 2, 2, 3, 2, 4)
    np.testing.assert_array_equal(out.get(), windows.max((3, 5)))
    be.bprop_pool(layer, out, delta, argmax)
    np.testing.assert_array_equal(
        delta.get(), np.where(windows == out.get()[:, :, :, None, :, None], windows, 0).reshape(layer.dimI)
    )


def test_products_are_written_into_views(be, x):
    wide, a = be.ones((6, 12)), x.get()
    be.compound_dot(x, x.T, wide[:, ::2], alpha=0.5, beta=2.0)
    expected = np.ones((6, 12))
    expected[:, ::2] = 0.5 * a @ a.T + 2
    np.testing.assert_allclose(wide.get(), expected, rtol=1e-5)


def test_batches_are_normalized(be, x):
    rows = [be.zeros((6, 1)) for _ in range(4)]
    gamma, beta, y, a = be.ones((6, 1)), be.zeros((6, 1)), be.empty((6, 8)), x.get()
    be.compound_fprop_bn(x, *rows, gamma, beta, y, 1e-3, 0.9, True)
    mean, var = a.mean(1, keepdims=True), a.var(1, keepdims=True)
    np.testing.assert_allclose(y.get(), (a - mean) / np.sqrt(var + 1e-3), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(rows[2].get(), 0.1 * mean, rtol=1e-5, atol=1e-7)
