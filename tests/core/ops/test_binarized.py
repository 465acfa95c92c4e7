"""Layers with binary weights: what they write into their arrays, and straight-through gradients."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import atled as nn
import atled.functions as F

pytestmark = pytest.mark.usefixtures("backend")

RNG = np.random.default_rng(3)
X, IMAGES = RNG.standard_normal((2, 3)), RNG.standard_normal((2, 4, 4, 5))
W = np.array([[1, 0], [-2, 0.5], [0.25, -3]])
KERNELS = RNG.standard_normal((6, 2, 3, 3))
SIGNS = [[1, -1], [-1, 1], [1, -1]]


def leaf(values, need_grad=True):
    return nn.Variable.from_numpy_array(np.asarray(values, np.float32), need_grad=need_grad)


def run(y, *leaves):
    """Forward, backward with gradients that differ, and the gradients of the leaves."""
    y.forward()
    for each in leaves:
        each.grad.zero()
    y.backward(np.arange(y.size).reshape(y.shape) % 5 - 1.5)
    return [each.g.copy() for each in leaves]


def test_binary_connect_writes_signs_and_uses_them():
    x, w, binary, b = leaf(X), leaf(W), leaf(np.full((3, 2), 7)), leaf([1, 2])
    gradients = run(F.binary_connect_affine(x, w, binary, b), x, w, b, binary)
    assert binary.d.tolist() == SIGNS
    assert_array_equal(w.d, np.float32(W))
    plain = leaf(SIGNS)
    y = F.affine(x, plain, b)
    for mine, theirs in zip(gradients, run(y, x, plain, b), strict=False):
        assert_allclose(mine, theirs, rtol=1e-6)
    assert_array_equal(gradients[3], 0)


def test_binary_weight_writes_signs_and_scales():
    x, w, binary, alpha, b = leaf(X), leaf(W), leaf(np.zeros((3, 2))), leaf(np.zeros(2)), leaf([1, 2])
    y = F.binary_weight_affine(x, w, binary, alpha, b)
    gradients = run(y, x, w, b, binary, alpha)
    assert binary.d.tolist() == SIGNS
    assert_allclose(alpha.d, np.abs(W).mean(axis=0), rtol=1e-6)
    plain = leaf(SIGNS * np.abs(W).mean(axis=0))
    z = F.affine(x, plain, b)
    for mine, theirs in zip(gradients, run(z, x, plain, b), strict=False):
        assert_allclose(mine, theirs, rtol=1e-6)
    assert_allclose(y.d, z.d, rtol=1e-6)
    assert not np.any([g.any() for g in gradients[3:]])


@pytest.mark.parametrize("scaled", [False, True])
def test_convolutions_are_those_of_the_binary_weight(scaled):
    geometry = {"pad": (1, 0), "stride": (2, 1), "group": 2}
    x, w, binary, b = leaf(IMAGES), leaf(KERNELS), leaf(np.zeros(KERNELS.shape), False), leaf(np.arange(6))
    alpha = leaf(np.zeros(6), False)
    if scaled:
        y = F.binary_weight_convolution(x, w, binary, alpha, b, **geometry)
    else:
        y = F.binary_connect_convolution(x, w, binary, b, **geometry)
    gradients = run(y, x, w, b)
    scales = np.abs(KERNELS).mean(axis=(1, 2, 3), keepdims=True) if scaled else 1
    plain = leaf(np.sign(KERNELS) * scales)
    z = F.convolution(x, plain, b, **geometry)
    for mine, theirs in zip(gradients, run(z, x, plain, b), strict=True):
        assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)
    assert_allclose(y.d, z.d, rtol=1e-4, atol=1e-5)
    assert_array_equal(binary.d, np.sign(KERNELS))
    if scaled:
        assert_allclose(alpha.d, scales.ravel(), rtol=1e-6)


def test_alpha_may_have_any_shape_of_its_size():
    w = leaf(RNG.standard_normal((3, 2, 2)))
    for shape in ((2, 2), (4,), (1, 2, 2)):
        alpha = leaf(np.zeros(shape), False)
        run(F.binary_weight_affine(leaf(X), w, leaf(np.zeros((3, 2, 2)), False), alpha), w)
        assert_allclose(alpha.d.ravel(), np.abs(w.d).mean(axis=0).ravel(), rtol=1e-6)


def test_a_changed_weight_counts_at_the_next_forward():
    w, binary = leaf(W), leaf(np.zeros((3, 2)), False)
    y = F.binary_connect_affine(leaf(X), w, binary)
    y.forward()
    w.d = -W
    y.forward()
    assert binary.d.tolist() == [[-1, -1], [1, -1], [-1, 1]]
