"""Layers whose weight is a product of smaller ones, which take less memory and work."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from atled import functions
from atled.arrays.array import check_shape
from atled.parameter import Initializer, get_parameter, get_parameter_or_create, initial_values
from atled.parametric.api import parametric_function_api
from atled.parametric.cp_decomposition import cp_decomposition
from atled.parametric.layer import AffineLayer, Array, ConvolutionLayer, Layer, bias


@parametric_function_api("svd_affine")
def svd_affine(
    inp: Array,
    n_outmaps: int | Sequence[int],
    r: int,
    base_axis: int = 1,
    uv_init: Initializer | None = None,
    b_init: Initializer | None = None,
    fix_parameters: bool = False,
    rng: Any = None,
    with_bias: bool = True,
) -> Any:
    """Affine map with a weight of rank r: `y = x U V + b`.

    Parameters: `svd_affine/U` of shape (D, r), D the product of inp.shape[base_axis:]; `svd_affine/V` of shape
    (r, L...); `svd_affine/b` of shape (L...). They start as the best approximation of `uv_init` by its singular value
    decomposition, the singular values in U.

    Args:
        inp: (B..., I...) float; base_axis leading axes are kept.
        n_outmaps: L; the shape of the output from base_axis on, or one size.
        r: the rank, at most the smaller side of the weight.
        base_axis: how many leading axes count as the batch; negative counts from the end.
        uv_init: the weight to start from, an array of shape (D, L...) or initializer; default uniform with Glorot's
            limits. Where U and V are there already it is not looked at.
        b_init: first value of b; default 0.
        fix_parameters: whether the parameters get no gradient.
        rng: numpy.random.RandomState or Generator of the default uv_init; None: the numpy.random module.
        with_bias: whether b is added.
        name: scope above `svd_affine`.

    Returns:
        (B..., L...) float.

    Raises:
        TypeError, ValueError: an argument that does not fit the input or the parameters that are there; no parameter
            is made then.
    """
    layer = AffineLayer("svd_affine", inp, n_outmaps, base_axis, r=r)
    rank = _rank(layer, r, layer.depth, math.prod(layer.maps))
    u_init = v_init = None
    if _are_missing("U", "V"):
        weight = _weight(layer, layer.default(uv_init, rng), layer.w_shape)
        u_init, v_init = _low_rank(weight.reshape(layer.depth, -1), rank)
        v_init = v_init.reshape(rank, *layer.maps)
    u = get_parameter_or_create("U", (layer.depth, rank), u_init, not fix_parameters)
    v = get_parameter_or_create("V", (rank, *layer.maps), v_init, not fix_parameters)
    b = bias(layer.maps, b_init, not fix_parameters, with_bias)
    return functions.affine(functions.affine(inp, u, None, base_axis=layer.base_axis), v, b, base_axis=layer.base_axis)


@parametric_function_api("svd_conv")
def svd_convolution(
    inp: Array,
    outmaps: int,
    kernel: Sequence[int],
    r: int,
    pad: Sequence[int] | None = None,
    stride: Sequence[int] | None = None,
    dilation: Sequence[int] | None = None,
    uv_init: Initializer | None = None,
    b_init: Initializer | None = None,
    base_axis: int = 1,
    fix_parameters: bool = False,
    rng: Any = None,
    with_bias: bool = True,
) -> Any:
    """Convolution as r depthwise ones per channel, mixed by a 1x1 convolution.

    Parameters: `svd_conv/U` of shape (C r, K...), depthwise; `svd_conv/V` of shape (outmaps, C r, 1...);
    `svd_conv/b` of shape (outmaps,). They start, channel by channel, as the best approximation of `uv_init` by its
    singular value decomposition.

    Args:
        inp: (B..., C, S...) float; base_axis leading axes are kept.
        outmaps: count of output maps.
        kernel: K; one size per spatial axis.
        r: count of kernels per channel, at most the smaller of outmaps and the size of the kernel.
        pad: zeros on both sides of each spatial axis; default 0.
        stride: step between windows per spatial axis; default 1.
        dilation: distance between the taps of the kernel per spatial axis; default 1.
        uv_init: the weight to start from, an array of shape (outmaps, C, K...) or initializer; default uniform with
            Glorot's limits. Where U and V are there already it is not looked at.
        base_axis: the channel axis; negative counts from the end.
        b_init: first value of b; default 0.
        fix_parameters: whether the parameters get no gradient.
        rng: numpy.random.RandomState or Generator of the default uv_init; None: the numpy.random module.
        with_bias: whether b is added.
        name: scope above `svd_conv`.

    Returns:
        (B..., outmaps, T...) float; T = (S + 2 pad - (dilation (K - 1) + 1)) // stride + 1.

    Raises:
        TypeError, ValueError: an argument that does not fit the input or the parameters that are there; no parameter
            is made then.
    """
    layer = ConvolutionLayer("svd_convolution", inp, outmaps, kernel, base_axis, r=r)
    rank = _rank(layer, r, layer.maps, math.prod(layer.window))
    channels, maps = layer.channels, layer.maps
    u_init = v_init = None
    if _are_missing("U", "V"):
        weight = _weight(layer, layer.default(uv_init, channels, maps, rng), layer.w_shape)
        # One matrix (K, outmaps) per channel.
        matrices = weight.reshape(maps, channels, -1).transpose(1, 2, 0)
        left, right = _low_rank(matrices, rank)
        u_init = left.transpose(0, 2, 1).reshape(channels * rank, *layer.window)
        v_init = right.reshape(channels * rank, maps).T.reshape(maps, channels * rank, *(1 for _ in layer.window))
    ones = (1,) * len(layer.window)
    u = get_parameter_or_create("U", (channels * rank, *layer.window), u_init, not fix_parameters)
    v = get_parameter_or_create("V", (maps, channels * rank, *ones), v_init, not fix_parameters)
    b = bias((maps,), b_init, not fix_parameters, with_bias)
    h = functions.depthwise_convolution(
        inp, u, None, base_axis=layer.base_axis, pad=pad, stride=stride, dilation=dilation, multiplier=rank
    )
    return functions.convolution(h, v, b, base_axis=layer.base_axis)


@parametric_function_api("cpd3_conv")
def cpd3_convolution(
    inp: Array,
    outmaps: int,
    kernel: Sequence[int],
    r: int,
    pad: Sequence[int] | None = None,
    stride: Sequence[int] | None = None,
    dilation: Sequence[int] | None = None,
    oik_init: Initializer | None = None,
    b_init: Initializer | None = None,
    base_axis: int = 1,
    fix_parameters: bool = False,
    rng: Any = None,
    with_bias: bool = True,
    max_iter: int = 500,
    stopping_criterion: float = 1e-5,
) -> Any:
    """Convolution as a chain of three: 1x1 to r maps, depthwise, 1x1 to the output maps.

    Parameters: `cpd3_conv/I` of shape (r, C, 1...); `cpd3_conv/O` of shape (outmaps, r, 1...); `cpd3_conv/K` of shape
    (r, K...); `cpd3_conv/b` of shape (outmaps,). They start as the CP decomposition of `oik_init` of rank r, found by
    alternating least squares.

    Args:
        inp: (B..., C, S...) float; base_axis leading axes are kept.
        outmaps: count of output maps.
        kernel: K; one size per spatial axis.
        r: the rank: how many maps lie between.
        pad: zeros on both sides of each spatial axis; default 0.
        stride: step between windows per spatial axis; default 1.
        dilation: distance between the taps of the kernel per spatial axis; default 1.
        oik_init: the weight to start from, an array of shape (outmaps, C, K...) or initializer; default uniform with
            Glorot's limits. Where I, K and O are there already it is not looked at.
        base_axis: the channel axis; negative counts from the end.
        b_init: first value of b; default 0.
        fix_parameters: whether the parameters get no gradient.
        rng: numpy.random.RandomState or Generator of the default oik_init and of the start of the decomposition; None:
            the numpy.random module.
        with_bias: whether b is added.
        name: scope above `cpd3_conv`.
        max_iter: the most rounds of alternating least squares.
        stopping_criterion: how little the relative error must change in a round for the decomposition to end.

    Returns:
        (B..., outmaps, T...) float; T = (S + 2 pad - (dilation (K - 1) + 1)) // stride + 1.

    Raises:
        TypeError, ValueError: an argument that does not fit the input or the parameters that are there; no parameter
            is made then.

    Source: Kolda, Bader, Tensor Decompositions and Applications, 2009; Lebedev et al., Speeding-up Convolutional Neural
    Networks Using Fine-tuned CP-Decomposition, 2015.
    """
    layer = ConvolutionLayer("cpd3_convolution", inp, outmaps, kernel, base_axis, r=r)
    rank, rounds = layer.size("r", r), layer.size("max_iter", max_iter)
    least = layer.number("stopping_criterion", stopping_criterion)
    channels, maps = layer.channels, layer.maps
    ones = (1,) * len(layer.window)
    inits: tuple[np.ndarray | None, ...] = (None, None, None)
    if _are_missing("I", "O", "K"):
        weight = _weight(layer, layer.default(oik_init, channels, maps, rng), layer.w_shape)
        tensor = weight.reshape(maps, channels, -1)
        o, i, k = cp_decomposition(tensor, rank, rounds, least, rng)
        inits = (
            i.T.reshape(rank, channels, *ones),
            o.reshape(maps, rank, *ones),
            k.T.reshape(rank, *layer.window),
        )
    w_in = get_parameter_or_create("I", (rank, channels, *ones), inits[0], not fix_parameters)
    w_out = get_parameter_or_create("O", (maps, rank, *ones), inits[1], not fix_parameters)
    w_kernel = get_parameter_or_create("K", (rank, *layer.window), inits[2], not fix_parameters)
    b = bias((maps,), b_init, not fix_parameters, with_bias)
    h = functions.convolution(inp, w_in, None, base_axis=layer.base_axis)
    h = functions.depthwise_convolution(
        h, w_kernel, None, base_axis=layer.base_axis, pad=pad, stride=stride, dilation=dilation
    )
    return functions.convolution(h, w_out, b, base_axis=layer.base_axis)


def _rank(layer: Layer, r: Any, rows: int, columns: int) -> int:
    rank = layer.size("r", r)
    if rank > min(rows, columns):
        raise layer.error(
            f"r is {rank}, but a {rows} x {columns} matrix has at most rank {min(rows, columns)}",
            f"use r of 1 to {min(rows, columns)}",
        )
    return rank


def _are_missing(*names: str) -> bool:
    """Whether there is something to be made of the weight to start from."""
    return any(get_parameter(name) is None for name in names)


def _weight(layer: Layer, init: Initializer, shape: tuple[int, ...]) -> np.ndarray:
    """The weight to start from, as float64."""
    asked = f"parametric_functions.{layer.name}, the weight of shape {check_shape(shape)} to start from"
    values = initial_values(asked, init, shape).astype(np.float64, copy=False)
    if values.shape != shape:
        raise layer.error(f"the weight to start from has shape {values.shape}", f"give one of shape {shape}")
    return values


def _low_rank(matrices: np.ndarray, rank: int) -> tuple[np.ndarray, np.ndarray]:
    """The best (..., M, rank) and (..., rank, N) whose product approximates (..., M, N)."""
    u, s, v = np.linalg.svd(matrices, full_matrices=False)
    return u[..., :rank] * s[..., None, :rank], v[..., :rank, :]
