"""Fourier transforms of sizes that take one pass, several, and one over a large prime."""

from __future__ import annotations

import math

import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled_contexts import get_extension_context

TOLERANCES = {"float": 2e-6, "double": 1e-14, "half": 2e-3, "bf16": 2e-2}


def transformed(function, x, type_config="float", **attributes):
    """The result on the device, and NumPy's in complex128."""
    wide, inverts = x.astype(np.float64), function is F.ifft
    axes = tuple(range(-attributes["signal_ndim"], 0))
    norm = "ortho" if attributes.get("normalized") else "backward"
    expected = (np.fft.ifftn if inverts else np.fft.fftn)(wide[..., 0] + 1j * wide[..., 1], axes=axes, norm=norm)
    with nn.context_scope(get_extension_context("cuda", type_config=type_config, fallback="raise")):
        found = function(nn.NdArray.from_numpy_array(x), **attributes).data
    return found, np.stack((expected.real, expected.imag), axis=-1)


@pytest.mark.parametrize("type_config", TOLERANCES)
@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize("function", [F.fft, F.ifft])
@pytest.mark.parametrize(("shape", "signal_ndim"), [((3, 1024), 1), ((2, 360), 1), ((4, 97), 1), ((2, 12, 35), 2)])
def test_transforms(function, shape, signal_ndim, normalized, type_config):
    x = np.random.default_rng(0).standard_normal((*shape, 2)).astype(np.float32)
    found, expected = transformed(function, x, type_config, signal_ndim=signal_ndim, normalized=normalized)
    np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCES[type_config] * np.abs(expected).max())


def test_a_transform_over_a_large_prime_is_as_exact():
    """Turns are computed again after some terms."""
    x = np.random.default_rng(0).standard_normal((1, 1009, 2)).astype(np.float32)
    found, expected = transformed(F.fft, x, signal_ndim=1)
    np.testing.assert_allclose(found, expected, rtol=0, atol=3e-6 * np.abs(expected).max())


@pytest.mark.parametrize("size", [1, 2, 16, 17, 30, 97, 1024, 5040, 2 * 3 * 5 * 101])
def test_radices_are_small_or_prime(size):
    from atled_cuda_cupy.kernels.fourier import radices

    found = radices(size)
    assert math.prod(found) == size
    assert all(radix <= 16 or all(radix % divisor for divisor in range(2, radix)) for radix in found)
