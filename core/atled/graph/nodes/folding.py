"""Scales and shifts per channel behind a product, in its weight and bias.

Normalization by running statistics is both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np

from atled.array_desc import ArrayDesc
from atled.graph.nodes.ir import IRValue
from atled.named_tuple import NamedTuple

V = TypeVar("V", IRValue, np.ndarray)


class Shapes(Protocol[V]):
    """A graph of such values, or NumPy for arrays: what there is beside the operators of both."""

    def reshape(self, value: V, shape: Sequence[int], /) -> V:
        """The same elements with another shape."""


# In half and bfloat16 the statistics are float32, which scale and shift would not be.
_DTYPES = frozenset((np.dtype(np.float32), np.dtype(np.float64)))


class Product(NamedTuple):
    """A call of which each output element is a sum of products with the weights of its channel.

    weight, bias: as nodes of a graph or as arrays, as are the values of the functions below.
    """

    op: str
    x: ArrayDesc
    weight: Any
    bias: Any
    attributes: Mapping[str, Any]


def scale_and_shift(dtype: np.dtype, parameters: Sequence[V], eps: float) -> tuple[V, V] | None:
    """Of normalization by running statistics: `x scale + shift`; None for dtypes in which that would lose digits.

    dtype: of x.  parameters: beta, gamma, mean, variance.
    """
    beta, gamma, mean, variance = parameters
    if not _DTYPES.issuperset((dtype, *(value.dtype for value in parameters))):
        return None
    scale = gamma * (variance + eps) ** -0.5
    return scale, beta - mean * scale


def folded(graph: Shapes[V], product: Product, axis: int, scale: V, shift: V) -> tuple[V, V] | None:
    """The factor of the weight, and the bias, with which a product gives `y scale + shift`.

    None where the axis has no channels.
    """
    weight, bias = product.weight, product.bias
    shape = _CHANNELS[product.op](product, axis, scale.size)
    if shape is None or not _DTYPES.issuperset((product.x.dtype, weight.dtype)):
        return None
    if bias is None:
        return graph.reshape(scale, shape), graph.reshape(shift, (scale.size,))
    if bias.size != scale.size:
        return None
    own = bias * graph.reshape(scale, bias.shape) + graph.reshape(shift, bias.shape)
    return graph.reshape(scale, shape), own


def shifted(graph: Shapes[V], product: Product, shape: Sequence[int], shift: V) -> V | None:
    """The bias with which a product gives `y + shift`; None where shift is not one number per channel.

    shape: of y.
    """
    axes = [axis for axis, size in enumerate(shift.shape, len(shape) - shift.ndim) if size > 1]
    if shift.ndim > len(shape) or len(axes) != 1 or shift.size != shape[axes[0]]:
        return None
    if _CHANNELS[product.op](product, axes[0], shift.size) is None:
        return None
    if not _DTYPES.issuperset((product.x.dtype,)) or {product.weight.dtype, shift.dtype} != {product.x.dtype}:
        return None
    own = graph.reshape(shift, (shift.size,))
    return own if product.bias is None else product.bias + graph.reshape(own, product.bias.shape)


def _of_convolution(product: Product, axis: int, count: int) -> tuple[int, ...] | None:
    """Axis 0 of the weight has the channels of the result."""
    attributes, weight = product.attributes, product.weight
    channels = product.x.ndim - 1 if attributes["channel_last"] else attributes["base_axis"]
    return (count, *[1] * (weight.ndim - 1)) if axis == channels and weight.shape[0] == count else None


def _of_affine(product: Product, axis: int, count: int) -> tuple[int, ...] | None:
    """The last axis of the weight, if there is one for results."""
    weight = product.weight
    is_last = weight.ndim == 2 and axis == product.attributes["base_axis"] and weight.shape[1] == count
    return (1, count) if is_last else None


_CHANNELS: Mapping[str, Callable[[Product, int, int], tuple[int, ...] | None]] = {
    "Affine": _of_affine,
    "Convolution": _of_convolution,
    "DepthwiseConvolution": _of_convolution,
}

_READ = ("base_axis", "channel_last")


def read_attributes(op: str, attributes: Mapping[str, Any]) -> tuple[Any, ...]:
    """The attributes of a product that `folded` and `shifted` read."""
    assert op in _CHANNELS
    return tuple(attributes.get(name) for name in _READ)


PRODUCTS = frozenset(_CHANNELS)
"""The ops into which a scale and a shift per channel can go."""
