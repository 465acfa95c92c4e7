"""The gradient of normalization by running statistics with respect to x alone, which is a factor per channel."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import atled as nn
import atled.functions as F

RNG = np.random.default_rng(5)


def leaf(shape, dtype, need_grad=False, low=None):
    values = RNG.standard_normal(shape) if low is None else RNG.uniform(low, 2, shape)
    return nn.Variable.from_numpy_array(values.astype(dtype), need_grad=need_grad)


@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (5, 3), (0, 3, 2, 2), (1, 3, 1, 1)])
@pytest.mark.parametrize(
    ("type_config", "dtype", "rtol"), [("float", np.float32, 1e-5), ("double", np.float64, 1e-12), ("half", "f2", 4e-3)]
)
@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_it_is_that_of_all_gradients(backend, type_config, dtype, rtol, shape):
    with nn.context_scope(nn.Context([f"{backend}:{type_config}"], fallback="raise")):
        channels = (1, 3, *[1] * (len(shape) - 2))
        x = leaf(shape, dtype, need_grad=True)
        parameters = [leaf(channels, dtype) for _ in range(2)]
        wide = np.float32 if dtype == "f2" else dtype
        statistics = [leaf(channels, wide), leaf(channels, wide, low=0.5)]
        gradient = RNG.standard_normal(shape).astype(dtype)
        found = []
        for is_alone in (True, False):
            for each in parameters:
                each.need_grad = not is_alone
            y = F.batch_normalization(x, *parameters, *statistics, batch_stat=False, eps=1e-2)
            y.forward()
            x.grad.zero()
            y.backward(gradient)
            found.append(np.float64(x.g))
        factor = np.float64(parameters[1].d) / np.sqrt(np.float64(statistics[1].d) + 1e-2)
        assert_allclose(found[0], gradient * factor, rtol=rtol, atol=rtol)
        assert_allclose(found[0], found[1], rtol=rtol, atol=rtol)


def test_a_second_derivative_reaches_gamma():
    x, gy = leaf((4, 3), np.float32, True), leaf((4, 3), np.float32, True)
    beta, gamma, mean = (leaf((1, 3), np.float32) for _ in range(3))
    variance = leaf((1, 3), np.float32, low=0.5)
    y = F.batch_normalization(x, beta, gamma, mean, variance, batch_stat=False, eps=1e-2)
    (first,) = nn.grad([y], [x], grad_outputs=[gy])
    gamma.need_grad = True
    gamma.grad.zero()
    total = F.sum(first)
    total.forward()
    total.backward()
    assert_allclose(gamma.g, (gy.d / np.sqrt(variance.d + 1e-2)).sum(0, keepdims=True), rtol=1e-5)
