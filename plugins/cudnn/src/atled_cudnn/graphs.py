"""Graphs of operations as data: tensors, convolutions, what is fused behind them, pooling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from atled_cudnn.constants import (
    ADD,
    CROSS_CORRELATION,
    DATA_TYPES,
    DOUBLE,
    FLOAT,
    MAXIMUM,
    NEGATIVE_INFINITY_PADDING,
    PROPAGATE_NAN,
    RELU,
    ZERO_PADDING,
    Kind,
    Name,
    Type,
)
from atled_cudnn.descriptors import Node

_ALIGNMENT = 16  # bytes; what cuDNN's fastest kernels ask of arrays, and less than every allocation has
Sizes = Sequence[int]


class Windows(NamedTuple):
    """Where windows lie: per spatial axis."""

    kernel: Sizes
    before: Sizes
    behind: Sizes
    stride: Sizes
    dilation: Sizes = ()


def tensor(number: int, dims: Sizes, dtype: np.dtype, channel_last: bool, *, is_virtual: bool = False) -> Node:
    """An array of dims (N, C, S...), whatever the order in memory; a virtual one is never stored.

    number: by which the operations know it. A virtual one is float32 where the others are narrower: it is not rounded.
    """
    data_type = DATA_TYPES[dtype.name]
    if is_virtual:
        data_type = math_type(dtype)
    attributes = [
        (Name.TENSOR_DATA_TYPE, Type.DATA_TYPE, (data_type,)),
        (Name.TENSOR_DIMENSIONS, Type.INT64, tuple(dims)),
        (Name.TENSOR_STRIDES, Type.INT64, _strides(dims, channel_last)),
        (Name.TENSOR_UNIQUE_ID, Type.INT64, (number,)),
        (Name.TENSOR_BYTE_ALIGNMENT, Type.INT64, (_ALIGNMENT,)),
    ]
    if is_virtual:
        attributes.append((Name.TENSOR_IS_VIRTUAL, Type.BOOLEAN, (True,)))
    return Node(Kind.TENSOR, tuple(attributes))


def _strides(dims: Sizes, channel_last: bool) -> tuple[int, ...]:
    order = [0, *range(2, len(dims)), 1] if channel_last else range(len(dims))
    strides = dict(
        zip(order, (math.prod(dims[axis] for axis in order[n + 1 :]) for n in range(len(dims))), strict=True)
    )
    return tuple(strides[axis] for axis in range(len(dims)))


def math_type(dtype: np.dtype) -> int:
    """In what sums are computed."""
    return DOUBLE if dtype == np.float64 else FLOAT


_CONVOLUTIONS = {
    Kind.CONVOLUTION_FORWARD: (
        (Name.FORWARD_X, Name.FORWARD_W, Name.FORWARD_Y),
        (Name.FORWARD_CONV_DESC, Name.FORWARD_ALPHA, Name.FORWARD_BETA),
    ),
    Kind.CONVOLUTION_DATA: (
        (Name.BWD_DATA_DX, Name.BWD_DATA_W, Name.BWD_DATA_DY),
        (Name.BWD_DATA_CONV_DESC, Name.BWD_DATA_ALPHA, Name.BWD_DATA_BETA),
    ),
    Kind.CONVOLUTION_WEIGHT: (
        (Name.BWD_FILTER_X, Name.BWD_FILTER_DW, Name.BWD_FILTER_DY),
        (Name.BWD_FILTER_CONV_DESC, Name.BWD_FILTER_ALPHA, Name.BWD_FILTER_BETA),
    ),
}


def convolution(kind: Kind, images: Node, weight: Node, maps: Node, windows: Windows, dtype: np.dtype) -> Node:
    """The operation that connects images, weight and maps; kind says which of them it computes."""
    spatial = len(windows.stride)
    described = Node(
        Kind.CONVOLUTION,
        (
            (Name.CONVOLUTION_COMP_TYPE, Type.DATA_TYPE, (math_type(dtype),)),
            (Name.CONVOLUTION_CONV_MODE, Type.CONVOLUTION_MODE, (CROSS_CORRELATION,)),
            (Name.CONVOLUTION_SPATIAL_DIMS, Type.INT64, (spatial,)),
            (Name.CONVOLUTION_PRE_PADDINGS, Type.INT64, tuple(windows.before)),
            (Name.CONVOLUTION_POST_PADDINGS, Type.INT64, tuple(windows.behind)),
            (Name.CONVOLUTION_DILATIONS, Type.INT64, tuple(windows.dilation)),
            (Name.CONVOLUTION_FILTER_STRIDES, Type.INT64, tuple(windows.stride)),
        ),
    )
    tensors, (by, alpha, beta) = _CONVOLUTIONS[kind]
    scale = Type.DOUBLE if dtype == np.float64 else Type.FLOAT
    return Node(
        kind,
        (
            (by, Type.DESCRIPTOR, (described,)),
            *((name, Type.DESCRIPTOR, (one,)) for name, one in zip(tensors, (images, weight, maps), strict=True)),
            (alpha, scale, (1.0,)),
            (beta, scale, (0.0,)),
        ),
    )


def added(x: Node, other: Node, y: Node, dtype: np.dtype) -> Node:
    """y = x + other, which broadcasts."""
    return _pointwise(ADD, x, y, dtype, (Name.OPERATION_POINTWISE_BDESC, Type.DESCRIPTOR, (other,)))


def rectified(x: Node, y: Node, dtype: np.dtype) -> Node:
    """y = max(x, 0), and NaN where x is."""
    return _pointwise(RELU, x, y, dtype)


def _pointwise(mode: int, x: Node, y: Node, dtype: np.dtype, *more: tuple[Name, Type, tuple[Node, ...]]) -> Node:
    described = Node(
        Kind.POINTWISE,
        (
            (Name.POINTWISE_MODE, Type.POINTWISE_MODE, (mode,)),
            (Name.POINTWISE_MATH_PREC, Type.DATA_TYPE, (math_type(dtype),)),
            *(((Name.POINTWISE_NAN_PROPAGATION, Type.NAN_PROPAGATION, (PROPAGATE_NAN,)),) if mode == RELU else ()),
        ),
    )
    return Node(
        Kind.OPERATION_POINTWISE,
        (
            (Name.OPERATION_POINTWISE_PW_DESCRIPTOR, Type.DESCRIPTOR, (described,)),
            (Name.OPERATION_POINTWISE_XDESC, Type.DESCRIPTOR, (x,)),
            *more,
            (Name.OPERATION_POINTWISE_YDESC, Type.DESCRIPTOR, (y,)),
        ),
    )


def _resampling(mode: int, windows: Windows, dtype: np.dtype) -> Node:
    is_maximum = mode == MAXIMUM
    attributes: list[tuple[Name, Type, tuple[int, ...]]] = [
        (Name.RESAMPLE_MODE, Type.RESAMPLE_MODE, (mode,)),
        (Name.RESAMPLE_COMP_TYPE, Type.DATA_TYPE, (math_type(dtype),)),
        (Name.RESAMPLE_SPATIAL_DIMS, Type.INT64, (len(windows.kernel),)),
        (Name.RESAMPLE_PADDING_MODE, Type.PADDING_MODE, (NEGATIVE_INFINITY_PADDING if is_maximum else ZERO_PADDING,)),
        (Name.RESAMPLE_STRIDES, Type.INT64, tuple(windows.stride)),
        (Name.RESAMPLE_PRE_PADDINGS, Type.INT64, tuple(windows.before)),
        (Name.RESAMPLE_POST_PADDINGS, Type.INT64, tuple(windows.behind)),
        (Name.RESAMPLE_WINDOW_DIMS, Type.INT64, tuple(windows.kernel)),
    ]
    if is_maximum:
        attributes.append((Name.RESAMPLE_NAN_PROPAGATION, Type.NAN_PROPAGATION, (PROPAGATE_NAN,)))
    return Node(Kind.RESAMPLE, tuple(attributes))


def pooling(mode: int, x: Node, y: Node, windows: Windows, dtype: np.dtype) -> Node:
    """y: maxima or averages of windows of x."""
    return Node(
        Kind.RESAMPLE_FORWARD,
        (
            (Name.RESAMPLE_FWD_DESC, Type.DESCRIPTOR, (_resampling(mode, windows, dtype),)),
            (Name.RESAMPLE_FWD_XDESC, Type.DESCRIPTOR, (x,)),
            (Name.RESAMPLE_FWD_YDESC, Type.DESCRIPTOR, (y,)),
        ),
    )


def pooling_gradient(
    mode: int, gx: Node, gy: Node, windows: Windows, dtype: np.dtype, values: tuple[Node, Node] | None = None
) -> Node:
    """gx: the gradient by x; values: x and y, from which maxima are found again."""
    names = (Name.RESAMPLE_BWD_XDESC, Name.RESAMPLE_BWD_YDESC)
    return Node(
        Kind.RESAMPLE_BACKWARD,
        (
            (Name.RESAMPLE_BWD_DESC, Type.DESCRIPTOR, (_resampling(mode, windows, dtype),)),
            (Name.RESAMPLE_BWD_DXDESC, Type.DESCRIPTOR, (gx,)),
            (Name.RESAMPLE_BWD_DYDESC, Type.DESCRIPTOR, (gy,)),
            *((name, Type.DESCRIPTOR, (one,)) for name, one in zip(names, values or (), strict=False)),
        ),
    )


def graph(*operations: Node) -> Node:
    """Operations as one graph."""
    return Node(Kind.OPERATION_GRAPH, ((Name.OPERATIONGRAPH_OPS, Type.DESCRIPTOR, operations),))
