"""Fourier transforms: against NumPy's, and each the inverse of the other."""

import numpy as np
import pytest

X = np.random.default_rng(0).standard_normal((3, 4, 5, 2))


@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize("signal_ndim", [1, 2, 3])
def test_transforms_are_numpys(reference, signal_ndim, normalized):
    axes = tuple(range(3 - signal_ndim, 3))
    norm = "ortho" if normalized else "backward"
    x = X[..., 0] + 1j * X[..., 1]
    for op, transform in (("FFT", np.fft.fftn), ("IFFT", np.fft.ifftn)):
        y = reference(op, X, signal_ndim=signal_ndim, normalized=normalized)
        np.testing.assert_allclose(y[..., 0] + 1j * y[..., 1], transform(x, axes=axes, norm=norm), atol=1e-12)


@pytest.mark.parametrize("normalized", [False, True])
def test_one_undoes_the_other(reference, normalized):
    attributes = {"signal_ndim": 2, "normalized": normalized}
    np.testing.assert_allclose(reference("IFFT", reference("FFT", X, **attributes), **attributes), X, atol=1e-12)


def test_the_transform_of_an_impulse_is_flat(reference):
    x = np.zeros((4, 2))
    x[1, 0] = 1
    y = reference("FFT", x, signal_ndim=1)
    np.testing.assert_allclose(y, [[1, 0], [0, -1], [-1, 0], [0, 1]], atol=1e-15)


def test_float32_stays_float32(reference):
    assert reference("FFT", X.astype(np.float32), signal_ndim=3).dtype == np.float32
