"""CReLU, CELU and PReLU in the front end: values and gradients, at 0 above all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import atled as nn
import atled.functions as F

pytestmark = pytest.mark.usefixtures("backend")


def leaf(values: Any) -> nn.Variable:
    return nn.Variable.from_numpy_array(np.asarray(values, np.float32), need_grad=True)


def gradient(y: nn.Variable, x: nn.Variable, gy: Any) -> np.ndarray:
    y.forward()
    x.grad.zero()
    y.backward(np.asarray(gy, np.float32))
    return x.g


def test_crelu_puts_both_halves_along_the_axis():
    x = leaf([[-1, 0, 2]])
    y = F.crelu(x)
    assert_array_equal(gradient(y, x, [[1, 2, 3, 4, 5, 6]]), [[-4, -5, 3]])  # at 0 that of the second half
    assert_array_equal(y.d, [[0, 0, 2, 1, 0, 0]])


def test_crelu_along_the_first_axis():
    y = F.crelu(leaf([[-1, 2]]), axis=0)
    y.forward()
    assert_array_equal(y.d, [[0, 2], [1, 0]])


def test_celu_has_slope_one_in_both_halves_at_zero():
    x = leaf([[0, 1]])
    y = F.celu(x, alpha=2.0)
    e = np.exp(-1)
    assert_allclose(gradient(y, x, [[1, 2, 3, 4]]), [[1 - 3, 2 - 4 * 2 * e]], rtol=1e-6)
    assert_allclose(y.d, [[0, 1, 0, 2 * (e - 1)]], rtol=1e-6)


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_prelu_with_one_slope(shape):
    x, slope = leaf([[-2, 0, 3], [-1, 1, -1]]), leaf(np.full(shape, 0.5))
    y = F.prelu(x, slope)
    slope.grad.zero()
    assert_array_equal(gradient(y, x, np.ones((2, 3))), [[0.5, 1, 1], [0.5, 1, 0.5]])
    assert_array_equal(y.d, [[-1, 0, 3], [-0.5, 1, -0.5]])
    assert slope.g.shape == shape
    assert slope.g.item() == -4


def test_prelu_with_a_slope_per_channel():
    x, slope = leaf([[[-2, 1], [-1, -1]], [[-1, -1], [2, 3]]]), leaf([0.5, 0.25])
    y = F.prelu(x, slope)
    y.forward()
    slope.grad.zero()
    y.backward()
    assert_array_equal(y.d, [[[-1, 1], [-0.25, -0.25]], [[-0.5, -0.5], [2, 3]]])
    assert_array_equal(slope.g, [-4, -2])
    assert y.parent.name == "PReLU"
