"""Discrete Fourier transforms of complex arrays whose last axis holds real and imaginary part."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from atled.array_desc import ArrayDesc
from atled.ops.samples import Refused, Sample
from atled.ops.spec import Attribute, Input, OpSpec

if TYPE_CHECKING:
    from atled.ops.rules import GradientCall, IRValue


class _Fourier(OpSpec, abstract=True):
    """What the transform and its inverse share: which axes are transformed, and samples."""

    category = "spectral"
    inputs = (Input("x"),)
    attributes = (Attribute("signal_ndim", "int"), Attribute("normalized", "bool", False))

    def infer(self, x: ArrayDesc, *, signal_ndim: int, normalized: bool) -> ArrayDesc:
        if not x.ndim or x.shape[-1] != 2:
            raise self.error((x,), "the last axis is not (real, imaginary)", "give it size 2")
        if not 1 <= signal_ndim < x.ndim:
            raise self.error(
                (x,), f"signal_ndim={signal_ndim}", f"use 1 to {x.ndim - 1}: the last axis is no signal axis"
            )
        if 0 in self._sizes(x.shape, signal_ndim):
            raise self.error((x,), "a signal axis is empty", "give every signal axis at least one element")
        return x

    @staticmethod
    def _sizes(shape: Sequence[int], signal_ndim: int) -> tuple[int, ...]:
        """The sizes of the axes that are transformed."""
        return tuple(shape[-1 - signal_ndim : -1])

    def samples(self) -> Sequence[Sample]:
        return (
            Sample((2, 5, 2), signal_ndim=1),
            Sample((2, 6, 2), signal_ndim=1, normalized=True),
            Sample((2, 3, 4, 2), signal_ndim=2),
            Sample((3, 4, 2), signal_ndim=2, normalized=True),
            Sample((2, 3, 2, 4, 2), signal_ndim=3),
            Sample((2, 3, 5, 2), signal_ndim=1),
            Sample((1, 2), signal_ndim=1),
            Sample((0, 4, 2), signal_ndim=1),
        )

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "not \\(real, imaginary\\)", (2, 5), signal_ndim=1),
            Refused(ValueError, "use 1 to 2", (3, 5, 2), signal_ndim=3),
            Refused(ValueError, "use 1 to 1", (5, 2), signal_ndim=0),
            Refused(ValueError, "signal axis is empty", (3, 0, 2), signal_ndim=1),
            Refused(TypeError, "signal_ndim is missing", (5, 2)),
        )


class FFT(_Fourier):
    """Discrete Fourier transform: `Y[k] = sum over n of X[n] exp(-2 pi i (k n / N))`, over the signal axes.

    With several signal axes, k n / N is the sum of that over them. With normalized, Y is divided by sqrt(N), N the
    product of their sizes, and the transform is unitary.

    Args:
        x: (B..., N..., 2) float; the last axis holds real and imaginary part.
        signal_ndim: how many axes N... before the last one are transformed; at least 1.
        normalized: whether to divide by sqrt(N).

    Returns:
        y: shape of x, float.

    Raises:
        ValueError: the last axis has not size 2, signal_ndim is out of range, a signal axis is empty.
    """

    function = "fft"

    def reference(self, x: np.ndarray, *, signal_ndim: int, normalized: bool) -> np.ndarray:
        y = np.fft.fftn(_complex(x), axes=_signal_axes(signal_ndim), norm="ortho" if normalized else "backward")
        return _pairs(y)

    def gradient(self, g: GradientCall, x: IRValue, *, signal_ndim: int, normalized: bool) -> Sequence[IRValue | None]:
        # The adjoint of a complex linear map is its conjugate transpose: N times the inverse, which divides by N.
        gx = g.op("IFFT", g.gy, signal_ndim=signal_ndim, normalized=normalized)
        return (gx if normalized else gx * float(math.prod(self._sizes(x.shape, signal_ndim))),)


class IFFT(_Fourier):
    """Inverse Fourier transform: `Y[n] = 1 / N sum over k of X[k] exp(2 pi i (k n / N))`, over the signal axes.

    With several signal axes, k n / N is the sum of that over them, and N in front the product of their sizes. With
    normalized, the factor is 1 / sqrt(N) and the transform is unitary.

    Args:
        x: (B..., N..., 2) float; the last axis holds real and imaginary part.
        signal_ndim: how many axes N... before the last one are transformed; at least 1.
        normalized: whether to divide by sqrt(N) instead of N.

    Returns:
        y: shape of x, float.

    Raises:
        ValueError: the last axis has not size 2, signal_ndim is out of range, a signal axis is empty.
    """

    function = "ifft"

    def reference(self, x: np.ndarray, *, signal_ndim: int, normalized: bool) -> np.ndarray:
        y = np.fft.ifftn(_complex(x), axes=_signal_axes(signal_ndim), norm="ortho" if normalized else "backward")
        return _pairs(y)

    def gradient(self, g: GradientCall, x: IRValue, *, signal_ndim: int, normalized: bool) -> Sequence[IRValue | None]:
        gx = g.op("FFT", g.gy, signal_ndim=signal_ndim, normalized=normalized)
        return (gx if normalized else gx * (1.0 / math.prod(self._sizes(x.shape, signal_ndim))),)


def _signal_axes(signal_ndim: int) -> tuple[int, ...]:
    return tuple(range(-signal_ndim, 0))


def _complex(x: np.ndarray) -> np.ndarray:
    """(..., 2) float -> (...) complex of the same precision."""
    return x[..., 0] + 1j * x[..., 1]


def _pairs(y: np.ndarray) -> np.ndarray:
    """(...) complex -> (..., 2) float."""
    return np.stack((y.real, y.imag), axis=-1)
