"""Single layers on realistic sizes: convolutions, pooling, batch normalization, softmax cross-entropy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from bench_rows.expression import Expression, expression_case
from harness.case import Case

_BN_EPS = 1e-5


def _normal(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape, dtype=np.float32)


def convolution(
    library: str, shape: tuple[int, int, int, int], maps: int, kernel: int, pad: int, backward: bool, groups: int = 1
) -> Case:
    """A convolution with bias; gradients of x, W and b. groups: depthwise if there is one for each channel."""
    channels = shape[1]
    depthwise = groups == channels > 1

    def inputs(rng: np.random.Generator) -> list[np.ndarray]:
        w = _normal(rng, maps, channels // groups, kernel, kernel) / np.float32(kernel * (channels // groups) ** 0.5)
        return [_normal(rng, *shape), w, _normal(rng, maps)]

    def recorded(api: Any, x: Any, w: Any, b: Any) -> Any:
        if depthwise:
            return api.F.depthwise_convolution(x, api.F.reshape(w, (maps, kernel, kernel)), b, pad=(pad, pad))
        return api.F.convolution(x, w, b, pad=(pad, pad), group=groups)

    def in_torch(torch: Any, x: Any, w: Any, b: Any) -> Any:
        return torch.nn.functional.conv2d(x, w, b, padding=pad, groups=groups)

    def in_jax(jax: Any, x: Any, w: Any, b: Any) -> Any:
        y = jax.lax.conv_general_dilated(x, w, (1, 1), [(pad, pad)] * 2, feature_group_count=groups)
        return y + b[:, None, None]

    return expression_case(Expression(inputs, recorded, in_torch, in_jax), library, backward)


def spatial_convolution(
    library: str,
    shape: Sequence[int],
    maps: int,
    kernel: int,
    pad: int,
    backward: bool,
    stride: int = 1,
    dilation: int = 1,
    groups: int = 1,
) -> Case:
    """A convolution without bias over the axes behind `shape`'s first two; gradients of x and W."""
    channels, axes = shape[1], len(shape) - 2
    pads, strides, dilations = (pad,) * axes, (stride,) * axes, (dilation,) * axes

    def inputs(rng: np.random.Generator) -> list[np.ndarray]:
        terms = channels // groups * kernel**axes
        w = _normal(rng, maps, channels // groups, *(kernel,) * axes) / np.float32(math.sqrt(terms))
        return [_normal(rng, *shape), w]

    def recorded(api: Any, x: Any, w: Any) -> Any:
        return api.F.convolution(x, w, pad=pads, stride=strides, dilation=dilations, group=groups)

    def in_torch(torch: Any, x: Any, w: Any) -> Any:
        convolve = getattr(torch.nn.functional, f"conv{axes}d")
        return convolve(x, w, None, strides, pads, dilations, groups)

    def in_jax(jax: Any, x: Any, w: Any) -> Any:
        return jax.lax.conv_general_dilated(
            x, w, strides, [(pad, pad)] * axes, rhs_dilation=dilations, feature_group_count=groups
        )

    return expression_case(Expression(inputs, recorded, in_torch, in_jax), library, backward)


def pooling(library: str, kind: str, backward: bool, images: int = 16) -> Case:
    """Pooling 2x2 of `images` x64x56x56; kind: "max" or "average"."""
    is_max = kind == "max"

    def recorded(api: Any, x: Any) -> Any:
        return (api.F.max_pooling if is_max else api.F.average_pooling)(x, (2, 2))

    def in_torch(torch: Any, x: Any) -> Any:
        functional = torch.nn.functional
        return (functional.max_pool2d if is_max else functional.avg_pool2d)(x, 2)

    def in_jax(jax: Any, x: Any) -> Any:
        start, reduce = (-np.inf, jax.lax.max) if is_max else (0.0, jax.lax.add)
        y = jax.lax.reduce_window(x, start, reduce, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
        return y if is_max else y / 4

    expression = Expression(lambda rng: [_normal(rng, images, 64, 56, 56)], recorded, in_torch, in_jax)
    return expression_case(expression, library, backward)


def batch_normalization(library: str, images: int = 32, backward: bool = True, relu: bool = False) -> Case:
    """By the batch's own statistics, `images` x64x56x56, ReLU behind if asked for; gradients of x, beta and gamma."""
    channels = 64
    broadcast = (1, channels, 1, 1)

    def inputs(rng: np.random.Generator) -> list[np.ndarray]:
        gamma = rng.uniform(0.5, 1.5, broadcast).astype(np.float32)
        return [_normal(rng, images, channels, 56, 56), _normal(rng, *broadcast), gamma]

    def recorded(api: Any, x: Any, beta: Any, gamma: Any) -> Any:
        mean, variance = (api.nn.Variable(broadcast) for _ in range(2))
        mean.d, variance.d = 0, 1
        y = api.F.batch_normalization(x, beta, gamma, mean, variance, eps=_BN_EPS)
        return api.F.relu(y) if relu else y

    def in_torch(torch: Any, x: Any, beta: Any, gamma: Any) -> Any:
        functional, flat = torch.nn.functional, (gamma.reshape(-1), beta.reshape(-1))
        y = functional.batch_norm(x, None, None, *flat, training=True, eps=_BN_EPS)
        return functional.relu(y) if relu else y

    def in_jax(jax: Any, x: Any, beta: Any, gamma: Any) -> Any:
        mean = x.mean((0, 2, 3), keepdims=True)
        variance = x.var((0, 2, 3), keepdims=True)
        y = (x - mean) * (gamma * jax.lax.rsqrt(variance + _BN_EPS)) + beta
        return jax.nn.relu(y) if relu else y

    return expression_case(Expression(inputs, recorded, in_torch, in_jax), library, backward)


def softmax_cross_entropy(library: str, count: int = 256, classes: int = 1000, backward: bool = True) -> Case:
    """The mean softmax cross-entropy of (count, classes) scores, with their gradient."""

    def inputs(rng: np.random.Generator) -> list[np.ndarray]:
        return [_normal(rng, count, classes), rng.integers(0, classes, (count, 1))]

    def recorded(api: Any, x: Any, t: Any) -> Any:
        return api.F.mean(api.F.softmax_cross_entropy(x, t))

    def in_torch(torch: Any, x: Any, t: Any) -> Any:
        return torch.nn.functional.cross_entropy(x, t[:, 0])

    def in_jax(jax: Any, x: Any, t: Any) -> Any:
        return -jax.numpy.take_along_axis(jax.nn.log_softmax(x), t, 1).mean()

    def gradient_in_numpy(gy: Any, x: Any, t: Any) -> Any:
        shifted = x - x.max(1, keepdims=True)
        powers = np.exp(shifted)
        sums = powers.sum(1, keepdims=True)
        loss = (np.log(sums) - np.take_along_axis(shifted, t, 1)).mean()
        gx = powers * (gy / count / sums)
        np.put_along_axis(gx, t, np.take_along_axis(gx, t, 1) - gy / count, 1)
        return loss, gx

    expression = Expression(inputs, recorded, in_torch, in_jax, numpy_gradient=gradient_in_numpy)
    return expression_case(expression, library, backward)
