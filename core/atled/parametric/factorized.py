"""Layers whose weight is a product of smaller ones, which take less memory and work."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from atled import functions
from atled.arrays.array import check_shape
from atled.ops.spec import REQUIRED
from atled.parameter import Initializer, get_parameter, get_parameter_or_create, initial_values
from atled.parametric.arguments import Argument
from atled.parametric.base_layers import Affine, BaseLayer, Convolution
from atled.parametric.cp_decomposition import cp_decomposition
from atled.parametric.weight_transform import WeightTransform
from atled.variable import Variable


def _weight_init(name: str, shape: str, factors: str) -> Argument:
    text = (
        f"the weight to start from, an array of shape {shape} or an initializer; default uniform with Glorot's limits"
    )
    return Argument(name, "Initializer | None", None, f"{text}. Where {factors} are there already it is not looked at")


class SvdAffine(WeightTransform[Affine]):
    """Affine map with a weight of rank r: `y = x U V + b`.

    U and V start as the best approximation of `uv_init` by its singular value decomposition, the singular values in U.
    """

    prefix = scope = "svd_"
    bases = (Affine,)
    before: ClassVar = {
        "base_axis": (Argument("r", "int", REQUIRED, "the rank, 1 to the smaller side of the weight (D, L...)"),),
        "w_init": (_weight_init("uv_init", "(D, L...)", "U and V"),),
    }
    without = ("w_init",)
    shown = ("r",)
    parameters: ClassVar = {
        "U": "(D, r) float, D the product of inp.shape[base_axis:]",
        "V": "(r, L...) float",
        "b": "{b}",
    }

    def call(self, layer: Affine) -> Any:
        rank = _rank(layer, layer.depth, math.prod(layer.b_shape))
        u_init = v_init = None
        if _are_missing("U", "V"):
            weight = _start(layer, layer.given.uv_init)
            u_init, v_init = _low_rank(weight.reshape(layer.depth, -1), rank)
            v_init = v_init.reshape(rank, *layer.b_shape)
        u = _factor("U", (layer.depth, rank), u_init, layer)
        v = _factor("V", (rank, *layer.b_shape), v_init, layer)
        b = layer.bias()
        return functions.affine(functions.affine(layer.inp, u, None, **layer.attributes), v, b, **layer.attributes)


class SvdConvolution(WeightTransform[Convolution]):
    """Convolution as r depthwise ones per channel, mixed by a 1x1 convolution.

    U and V start, channel by channel, as the best approximation of `uv_init` by its singular value decomposition.
    """

    prefix = scope = "svd_"
    bases = (Convolution,)
    before: ClassVar = {
        "pad": (
            Argument(
                "r",
                "int",
                REQUIRED,
                "count of kernels per channel, 1 to the smaller of outmaps and the size of the kernel",
            ),
        ),
        "w_init": (_weight_init("uv_init", "(outmaps, C, K...)", "U and V"),),
    }
    without = ("group", "w_init", "channel_last")
    shown = ("r",)
    parameters: ClassVar = {
        "U": "(C r, K...) float, depthwise",
        "V": "(outmaps, C r, 1...) float",
        "b": "{b}",
    }

    def call(self, layer: Convolution) -> Any:
        rank = _rank(layer, layer.maps, math.prod(layer.window))
        channels, maps = layer.channels, layer.maps
        ones = (1,) * len(layer.window)
        u_init = v_init = None
        if _are_missing("U", "V"):
            weight = _start(layer, layer.given.uv_init)
            # One matrix (K, outmaps) per channel.
            matrices = weight.reshape(maps, channels, -1).transpose(1, 2, 0)
            left, right = _low_rank(matrices, rank)
            u_init = left.transpose(0, 2, 1).reshape(channels * rank, *layer.window)
            v_init = right.reshape(channels * rank, maps).T.reshape(maps, channels * rank, *ones)
        u = _factor("U", (channels * rank, *layer.window), u_init, layer)
        v = _factor("V", (maps, channels * rank, *ones), v_init, layer)
        b = layer.bias()
        h = functions.depthwise_convolution(layer.inp, u, None, multiplier=rank, **layer.windows)
        return functions.convolution(h, v, b, base_axis=layer.base_axis)


class Cpd3Convolution(WeightTransform[Convolution]):
    """Convolution as a chain of three: 1x1 to r maps, depthwise, 1x1 to the output maps.

    I, O and K start as the CP decomposition of `oik_init` of rank r, found by alternating least squares; the start of
    that may draw from `rng`.
    """

    prefix = scope = "cpd3_"
    bases = (Convolution,)
    before: ClassVar = {
        "pad": (Argument("r", "int", REQUIRED, "the rank, at least 1: how many maps lie between"),),
        "w_init": (_weight_init("oik_init", "(outmaps, C, K...)", "I, O and K"),),
        "": (
            Argument("max_iter", "int", 500, "the most rounds of alternating least squares, at least 1"),
            Argument(
                "stopping_criterion",
                "float",
                1e-5,
                "how little the relative error must change in a round for the decomposition to end",
            ),
        ),
    }
    without = ("group", "w_init", "channel_last")
    shown = ("r",)
    parameters: ClassVar = {
        "I": "(r, C, 1...) float",
        "O": "(outmaps, r, 1...) float",
        "K": "(r, K...) float",
        "b": "{b}",
    }
    source = (
        "Kolda, Bader, Tensor Decompositions and Applications, 2009; Lebedev et al., Speeding-up Convolutional Neural "
        "Networks Using Fine-tuned CP-Decomposition, 2015."
    )

    def call(self, layer: Convolution) -> Any:
        given = layer.given
        rank, rounds = layer.size("r", given.r), layer.size("max_iter", given.max_iter)
        least = layer.number("stopping_criterion", given.stopping_criterion)
        channels, maps = layer.channels, layer.maps
        ones = (1,) * len(layer.window)
        i_init = o_init = k_init = None
        if _are_missing("I", "O", "K"):
            weight = _start(layer, given.oik_init)
            o, i, k = cp_decomposition(weight.reshape(maps, channels, -1), rank, rounds, least, given.rng)
            i_init = i.T.reshape(rank, channels, *ones)
            o_init = o.reshape(maps, rank, *ones)
            k_init = k.T.reshape(rank, *layer.window)
        w_in = _factor("I", (rank, channels, *ones), i_init, layer)
        w_out = _factor("O", (maps, rank, *ones), o_init, layer)
        w_kernel = _factor("K", (rank, *layer.window), k_init, layer)
        b = layer.bias()
        h = functions.convolution(layer.inp, w_in, None, base_axis=layer.base_axis)
        h = functions.depthwise_convolution(h, w_kernel, None, **layer.windows)
        return functions.convolution(h, w_out, b, base_axis=layer.base_axis)


def _factor(name: str, shape: Sequence[int], init: np.ndarray | None, layer: BaseLayer) -> Variable:
    """The parameter of that name and shape, float; init: its first value, None if it is there already."""
    return get_parameter_or_create(name, shape, init, not layer.given.fix_parameters)


def _rank(layer: BaseLayer, rows: int, columns: int) -> int:
    """The argument r, at most the rank that a matrix of so many rows and columns can have."""
    rank = layer.size("r", layer.given.r)
    if rank > min(rows, columns):
        raise layer.error(
            f"r is {rank}, but a {rows} x {columns} matrix has at most rank {min(rows, columns)}",
            f"use r of 1 to {min(rows, columns)}",
        )
    return rank


def _are_missing(*names: str) -> bool:
    """Whether one of the parameters is not there yet."""
    return any(get_parameter(name) is None for name in names)


def _start(layer: BaseLayer, init: Initializer | None) -> np.ndarray:
    """The weight to start from, of the weight's shape, float64."""
    shape = layer.w_shape
    asked = f"parametric_functions.{layer.name}, the weight of shape {check_shape(shape)} to start from"
    values = initial_values(asked, layer.default(init), shape).astype(np.float64, copy=False)
    if values.shape != shape:
        raise layer.error(f"the weight to start from has shape {values.shape}", f"give one of shape {shape}")
    return values


def _low_rank(matrices: np.ndarray, rank: int) -> tuple[np.ndarray, np.ndarray]:
    """The (..., M, rank) and (..., rank, N) float64 whose product is nearest to the matrices (..., M, N) float64."""
    u, s, v = np.linalg.svd(matrices, full_matrices=False)
    return u[..., :rank] * s[..., None, :rank], v[..., :rank, :]
