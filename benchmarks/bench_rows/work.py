"""What the rows of the tables cannot do without: operations and bytes of layers and networks, by their definition."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from bench_rows import inference_layers, networks
from harness.case import Work

_FLOAT = 4
# A gradient with respect to the input and one to the weights take as many operations as the product itself.
_BOTH_WAYS = 3


def arrays(count: float, *shape: int) -> Work:
    """So many arrays of float32 of one shape are read or written."""
    return Work(bytes=count * _FLOAT * math.prod(shape))


def product(rows: int, inner: int, columns: int, count: int = 1) -> Work:
    """`count` products of (rows, inner) by (inner, columns)."""
    values = rows * inner + inner * columns + rows * columns
    return Work(2.0 * count * rows * inner * columns, float(_FLOAT * count * values))


def convolution(
    shape: Sequence[int], maps: int, kernel: int, pad: int, *, stride: int = 1, groups: int = 1, backward: bool = False
) -> Work:
    """Of images (N, C, H, W) by square filters; backward: with both gradients."""
    images, channels, *size = shape
    made = [(length + 2 * pad - kernel) // stride + 1 for length in size]
    per_result = channels // groups * kernel**2
    results = images * maps * math.prod(made)
    values = math.prod(shape) + maps * per_result + results
    times = _BOTH_WAYS if backward else 1
    return Work(2.0 * times * results * per_result, float(times * _FLOAT * values))


def training(network: networks.Network) -> Work:
    """Of a step: the products of all layers, and of their gradients but the first layer's to the images."""
    counted = _Counted()
    network.scores(counted, networks.Shape(network.shape))
    return Work(2.0 * network.batch * (_BOTH_WAYS * sum(counted.products) - counted.products[0]))


def inference(network: inference_layers.Network, batch: int) -> Work:
    """Of one call: the products of all layers."""
    counted = _CountedInference()
    network.result(counted, networks.Shape(network.shape))
    return Work(2.0 * batch * counted.products)


def recurrent(steps: int, batch: int, inputs: int, hidden: int, gates: int = 4, *, backward: bool = False) -> Work:
    """The products of a recurrent layer; backward: with all gradients."""
    times = _BOTH_WAYS if backward else 1
    return Work(2.0 * times * steps * batch * (inputs + hidden) * gates * hidden)


@dataclass
class _Counted(networks.Shapes):
    """Layers that compute nothing but shapes, and count the multiplications of one image in each product."""

    products: list[int] = field(default_factory=list)

    def convolution(
        self, h: networks.Shape, maps: int, kernel: int, name: str, pad: int = 0, stride: int = 1
    ) -> networks.Shape:
        made = super().convolution(h, maps, kernel, name, pad, stride)
        self.products.append(math.prod(made.shape) * h.shape[0] * kernel**2)
        return made

    def affine(self, h: networks.Shape, size: int, name: str) -> networks.Shape:
        self.products.append(math.prod(h.shape) * size)
        return super().affine(h, size, name)


@dataclass
class _CountedInference:
    """The same of the networks that are only inferred."""

    products: int = 0

    def convolution(
        self, h: Any, channels: int, maps: int, kernel: int, name: str, *, stride: int = 1, groups: int = 1
    ) -> Any:
        made = networks.Shape((maps, *((n + 2 * (kernel // 2) - kernel) // stride + 1 for n in h.shape[1:])))
        self.products += math.prod(made.shape) * channels // groups * kernel**2
        return made

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
        window = inference_layers.window_of(kernel, stride, dilation, is_padded)
        size = (
            (length + 2 * p - d * (k - 1) - 1) // s + 1 for length, k, s, p, d in zip(h.shape[1:], *window, strict=True)
        )
        made = networks.Shape((maps, *size))
        self.products += math.prod(made.shape) * channels // groups * math.prod(kernel)
        return made

    def deconvolution(self, h: Any, channels: int, maps: int, kernel: int, name: str) -> Any:
        self.products += math.prod(h.shape) * maps * kernel**2
        return networks.Shape((maps, *(n * kernel for n in h.shape[1:])))

    def affine(self, h: Any, inputs: int, outputs: int, name: str) -> Any:
        self.products += math.prod(h.shape) * outputs
        return networks.Shape((*h.shape[:-1], outputs))

    def flatten(self, h: Any, size: int) -> Any:
        return networks.Shape((size,))

    def max_pooling(self, h: Any, size: int, stride: int, pad: int = 0) -> Any:
        return networks.Shape((h.shape[0], *((n + 2 * pad - size) // stride + 1 for n in h.shape[1:])))

    average_pooling = max_pooling

    def max_pooling_nd(self, h: Any, kernel: Sequence[int]) -> Any:
        return networks.Shape((h.shape[0], *(n // size for n, size in zip(h.shape[1:], kernel, strict=True))))

    def mean_of_positions(self, h: Any, *, keepdims: bool = False) -> Any:
        return networks.Shape((h.shape[0], *(1 for _ in h.shape[1:] if keepdims)))

    def max_of_positions(self, h: Any) -> Any:
        return networks.Shape(h.shape[:1])

    def attention(self, q: Any, k: Any, v: Any, heads: int, size: int) -> Any:
        self.products += 2 * q.shape[0] ** 2 * size
        return q

    def lstm(self, h: Any, inputs: int, hidden: int, name: str) -> Any:
        self.products += h.shape[0] * (inputs + hidden) * 4 * hidden
        return networks.Shape((hidden,))

    def gru(self, h: Any, inputs: int, hidden: int, name: str) -> Any:
        self.products += h.shape[0] * (inputs + hidden) * 3 * hidden
        return networks.Shape((hidden,))

    def transpose(self, h: Any, axes: Sequence[int]) -> Any:
        return networks.Shape(tuple(h.shape[axis - 1] for axis in axes[1:]))

    def concatenate(self, *hs: Any) -> Any:
        return networks.Shape((sum(h.shape[0] for h in hs), *hs[0].shape[1:]))

    def halves(self, h: Any, channels: int) -> tuple[Any, Any]:
        half = networks.Shape((channels // 2, *h.shape[1:]))
        return half, half

    def channel_shuffle(self, h: Any, groups: int, channels: int, size: int) -> Any:
        return h

    def pixel_shuffle(self, h: Any, factor: int, channels: int) -> Any:
        return networks.Shape((channels, *(n * factor for n in h.shape[1:])))

    def batch_normalization(self, h: Any, maps: int, name: str) -> Any:
        return h

    def bias(self, h: Any, maps: int, name: str) -> Any:
        return h

    def relu(self, h: Any, limit: float | None = None) -> Any:
        return h

    def sigmoid(self, h: Any) -> Any:
        return h

    def gelu(self, h: Any) -> Any:
        return h

    def layer_normalization(self, h: Any, size: int, name: str) -> Any:
        return h
