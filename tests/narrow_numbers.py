"""What tests of kernels on half and bf16 draw, and how they compare."""

import ml_dtypes
import numpy as np

import atled as nn
from atled_contexts import Context

DTYPES = {"half": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16)}
"""By type config."""


def any_numbers(rng, shape, dtype):
    """Infinities, NaN, denormals and zeros of both signs among numbers around 1, some of them equal."""
    bits = rng.integers(0, 1 << 16, shape).astype(np.uint16).view(dtype)
    few = rng.choice(np.array([0.0, -0.0, 1.5, -2.0, np.inf, -np.inf, np.nan], "f"), shape).astype(dtype)
    usual = rng.standard_normal(shape).astype(dtype)
    kind = rng.random(shape)
    return np.where(kind < 0.1, bits, np.where(kind < 0.4, few, usual))


def computed(config, function, x, gradient=None):
    """The result of a function of one array, or the gradient of that."""
    with nn.context_scope(Context([f"cpu:{config}"], fallback="raise")):
        if gradient is None:
            return function(nn.NdArray.from_numpy_array(x)).data
        value = nn.Variable(x.shape, need_grad=True)
        value.data = nn.NdArray.from_numpy_array(x)
        y = function(value)
        y.forward()
        value.grad.zero()
        y.backward(nn.NdArray.from_numpy_array(gradient))
        return value.grad.data


def check_rounded(found, single):
    """Whether a narrow array has the bits of one in float32, rounded; of NaN, that it is one."""
    with np.errstate(over="ignore", invalid="ignore"):
        expected = single.astype(found.dtype)
        is_nan, is_found = np.isnan(expected), np.isnan(found)  # a signaling one is moved as it is
    np.testing.assert_array_equal(is_found, is_nan)
    np.testing.assert_array_equal(found.view(np.uint16)[~is_nan], expected.view(np.uint16)[~is_nan])
