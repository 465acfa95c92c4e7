"""What networks that are only inferred are made of: layers, which are in modules of their own, and parameters."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

BN_EPS = 1e-5


class Layers(Protocol):
    """What networks are made of; h is what the library computes with, its first axis the batch."""

    def convolution(
        self, h: Any, channels: int, maps: int, kernel: int, name: str, *, stride: int = 1, groups: int = 1
    ) -> Any:
        """Without bias, of images, padded by kernel // 2."""

    def convolution_nd(
        self,
        h: Any,
        channels: int,
        maps: int,
        kernel: Sequence[int],
        name: str,
        *,
        stride: Sequence[int] | None = None,
        dilation: int = 1,
        groups: int = 1,
        is_padded: bool = True,
    ) -> Any:
        """With bias, over as many axes as the kernel has; see `window_of`."""

    def deconvolution(self, h: Any, channels: int, maps: int, kernel: int, name: str) -> Any:
        """With bias: each position of an image becomes kernel x kernel ones."""

    def batch_normalization(self, h: Any, maps: int, name: str) -> Any:
        """By running statistics, with scale and shift."""

    def affine(self, h: Any, inputs: int, outputs: int, name: str) -> Any:
        """Of the last axis, with bias."""

    def bias(self, h: Any, maps: int, name: str) -> Any:
        """One number per channel is added."""

    def flatten(self, h: Any, size: int) -> Any:
        """All axes but the batch, of `size` elements in all, as one."""

    def max_pooling(self, h: Any, size: int, stride: int, pad: int = 0) -> Any:
        """Windows of size x size."""

    def max_pooling_nd(self, h: Any, kernel: Sequence[int]) -> Any:
        """Windows beside each other."""

    def average_pooling(self, h: Any, size: int, stride: int, pad: int = 0) -> Any:
        """Windows of size x size, what is padded among their elements."""

    def mean_of_positions(self, h: Any, *, keepdims: bool = False) -> Any:
        """The mean over all axes but batch and channels: (N, C), or (N, C, 1, ...)."""

    def max_of_positions(self, h: Any) -> Any:
        """The maximum over all axes but batch and channels: (N, C)."""

    def relu(self, h: Any, limit: float | None = None) -> Any:
        """The greater of 0 and h, at most `limit`."""

    def sigmoid(self, h: Any) -> Any:
        """1 / (1 + exp(-h))."""

    def gelu(self, h: Any) -> Any:
        """h (1 + tanh(sqrt(2 / pi) (h + 0.044715 h^3))) / 2; Hendrycks and Gimpel, 2016, section 2."""

    def layer_normalization(self, h: Any, size: int, name: str) -> Any:
        """Over the last axis, with scale and shift."""

    def attention(self, q: Any, k: Any, v: Any, heads: int, size: int) -> Any:
        """softmax(q k' / sqrt(size / heads)) v of each head; (N, T, size)."""

    def lstm(self, h: Any, inputs: int, hidden: int, name: str) -> Any:
        """(N, T, inputs) to the last state (N, hidden), from zeros."""

    def gru(self, h: Any, inputs: int, hidden: int, name: str) -> Any:
        """The same of gated recurrent units; the reset gate is applied to the product with the state."""

    def transpose(self, h: Any, axes: Sequence[int]) -> Any:
        """The axes in this order, the batch among them."""

    def concatenate(self, *hs: Any) -> Any:
        """Joined along the channels."""

    def halves(self, h: Any, channels: int) -> tuple[Any, Any]:
        """The first half of the channels, and the second one."""

    def channel_shuffle(self, h: Any, groups: int, channels: int, size: int) -> Any:
        """Channels of the groups in turn, of images of size x size; Zhang et al., ShuffleNet, 2018, section 3.1."""

    def pixel_shuffle(self, h: Any, factor: int, channels: int) -> Any:
        """Images `factor` times as high and wide, from factor^2 maps for each of `channels`."""


class Window(NamedTuple):
    """Where filters are applied, by axis."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    pad: tuple[int, ...]
    dilation: tuple[int, ...]


def window_of(kernel: Sequence[int], stride: Sequence[int] | None, dilation: int, is_padded: bool) -> Window:
    """The window of a `convolution_nd`.

    stride: None: 1 along each axis.  dilation: of all axes.
    is_padded: by dilation * (kernel // 2) on both sides, which leaves the size as it is for odd kernels and stride 1.
    """
    ones = (1,) * len(kernel)
    pad = tuple(dilation * (length // 2) if is_padded else 0 for length in kernel)
    return Window(tuple(kernel), ones if stride is None else tuple(stride), pad, (dilation,) * len(kernel))


@dataclass(frozen=True)
class Network:
    """A network.

    shape: of one sample.  result: (layers, batch of samples) -> what it computes.
    """

    shape: tuple[int, ...]
    result: Callable[[Layers, Any], Any]


def normalized(
    layers: Layers, h: Any, channels: int, maps: int, kernel: int, name: str, stride: int = 1, groups: int = 1
) -> Any:
    """A convolution with batch normalization."""
    h = layers.convolution(h, channels, maps, kernel, name, stride=stride, groups=groups)
    return layers.batch_normalization(h, maps, name)


def parameter(name: str, kind: str, shape: Sequence[int]) -> np.ndarray:
    """The values of a parameter, the same for every library.

    kind: "weight", whose axis 0 has what is computed and the others what it is computed from, "scale", "variance" or
        "shift", of numbers near 1, or near 0.
    """
    rng = np.random.default_rng(zlib.crc32(f"{name} {kind}".encode()))
    values = rng.standard_normal(tuple(shape), dtype=np.float32)
    if kind == "weight":
        return values * np.float32(math.sqrt(2 / math.prod(shape[1:])))
    if kind == "shift":
        return values * np.float32(0.1)
    return np.float32(1) + np.float32(0.2) * np.clip(values, -3, 3)


def samples(network: Network, batch: int) -> np.ndarray:
    """A batch of inputs, (batch, *shape) float32."""
    return np.random.default_rng(6).standard_normal((batch, *network.shape), dtype=np.float32)
