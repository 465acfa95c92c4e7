"""Normalization by running statistics as what it is: a scale and a shift per channel, those of what is before it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from atled.graph.nodes.ir import Graph, IRValue

# In half and bfloat16 the statistics are float32, which scale and shift would not be.
_DTYPES = frozenset((np.dtype(np.float32), np.dtype(np.float64)))


class Product(NamedTuple):
    """A call of which each output element is a sum of products with one weight of its channel each.

    inputs: x, weight, bias; the last may be absent.
    """

    op: str
    inputs: tuple[IRValue | None, ...]
    attributes: Mapping[str, Any]


def scale_and_shift(graph: Graph, inputs: Sequence[Any], eps: Any) -> tuple[IRValue, IRValue] | None:
    """Of normalization by running statistics: `x scale + shift`; None for dtypes in which that would lose digits.

    inputs: x, beta, gamma, mean, variance.
    """
    x, beta, gamma, mean, variance = inputs
    if not _DTYPES.issuperset(value.dtype for value in (x, beta, gamma, mean, variance)):
        return None
    scale = gamma * graph.op("PowScalar", graph.op("AddScalar", variance, val=eps), val=-0.5)
    return scale, beta - mean * scale


def folded(
    graph: Graph, product: Product, axis: int, scale: IRValue, shift: IRValue
) -> tuple[IRValue | None, ...] | None:
    """The inputs with which a product gives `y scale + shift`; None where the axis is not that of its channels."""
    x, weight, bias = (*product.inputs, None)[:3]
    assert x is not None and weight is not None
    if not _DTYPES.issuperset((x.dtype, weight.dtype)):
        return None
    shape = _CHANNELS[product.op](x, weight, product.attributes, axis, scale.size)
    if shape is None:
        return None
    bias_shape = (scale.size,) if bias is None else bias.shape
    if bias is not None and bias.size != scale.size:
        return None
    own = graph.reshape(shift, bias_shape)
    if bias is not None:
        own = bias * graph.reshape(scale, bias_shape) + own
    return x, weight * graph.reshape(scale, shape), own


def _of_convolution(
    x: IRValue, weight: IRValue, attributes: Mapping[str, Any], axis: int, count: int
) -> tuple[int, ...] | None:
    """Axis 0 of the weight has the channels of the result."""
    channels = x.ndim - 1 if attributes.get("channel_last") else attributes["base_axis"]
    return (count, *[1] * (weight.ndim - 1)) if axis == channels and weight.shape[0] == count else None


def _of_affine(
    x: IRValue, weight: IRValue, attributes: Mapping[str, Any], axis: int, count: int
) -> tuple[int, ...] | None:
    """The last axis of the weight, if there is one for results."""
    is_last = weight.ndim == 2 and axis == attributes["base_axis"] and weight.shape[1] == count
    return (1, count) if is_last else None


_CHANNELS: Mapping[str, Callable[[IRValue, IRValue, Mapping[str, Any], int, int], tuple[int, ...] | None]] = {
    "Affine": _of_affine,
    "Convolution": _of_convolution,
    "DepthwiseConvolution": _of_convolution,
}

PRODUCTS = frozenset(_CHANNELS)
"""The ops into which a scale and a shift per channel can go."""
