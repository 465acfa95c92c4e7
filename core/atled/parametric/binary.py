"""Layers that compute with weights of two values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from atled import functions
from atled.parameter import Initializer
from atled.parametric.api import parametric_function_api
from atled.parametric.cached_layers import LayerCall
from atled.parametric.layer import AffineLayer, Array, ConvolutionLayer, bias, without_gradient


@parametric_function_api("bicon_affine")
def binary_connect_affine(
    inp: Array,
    n_outmaps: int | Sequence[int],
    base_axis: int = 1,
    w_init: Initializer | None = None,
    wb_init: Initializer | None = None,
    b_init: Initializer | None = None,
    fix_parameters: bool = False,
    rng: Any = None,
    with_bias: bool = True,
) -> Any:
    """Affine map with the signs of a weight: `y = x sign(W) + b`, sign(0) = -1.

    Parameters: `bicon_affine/W` of shape (D, L...), D the product of inp.shape[base_axis:], trained as if it were used
    itself; `bicon_affine/Wb`, of the same shape, its signs, written by forward; `bicon_affine/b` of shape (L...).

    Args:
        inp: (B..., I...) float; base_axis leading axes are kept.
        n_outmaps: L; the shape of the output from base_axis on, or one size.
        base_axis: how many leading axes count as the batch; negative counts from the end.
        w_init: first value of W, an array or initializer; default uniform with Glorot's limits.
        wb_init: first value of Wb, which the first forward overwrites; default as w_init.
        b_init: first value of b; default 0.
        fix_parameters: whether the parameters get no gradient.
        rng: numpy.random.RandomState or Generator of the default w_init; None: the numpy.random module.
        with_bias: whether b is added.
        name: scope above `bicon_affine`.

    Returns:
        (B..., L...) float.

    Raises:
        TypeError, ValueError: an argument that does not fit the input or the parameters that are there; no parameter
            is made then.

    Source: Courbariaux, Bengio, David, BinaryConnect, 2015.
    """
    layer = AffineLayer("binary_connect_affine", inp, n_outmaps, base_axis)
    w = layer.weight(w_init, rng, not fix_parameters)
    wb = without_gradient("Wb", layer.w_shape, layer.default(wb_init, rng))
    b = bias(layer.maps, b_init, not fix_parameters, with_bias)
    return LayerCall(functions.binary_connect_affine, inp, w, wb, b, base_axis=layer.base_axis)


@parametric_function_api("bicon_conv")
def binary_connect_convolution(
    inp: Array,
    outmaps: int,
    kernel: Sequence[int],
    pad: Sequence[int] | None = None,
    stride: Sequence[int] | None = None,
    dilation: Sequence[int] | None = None,
    group: int = 1,
    w_init: Initializer | None = None,
    wb_init: Initializer | None = None,
    b_init: Initializer | None = None,
    base_axis: int = 1,
    fix_parameters: bool = False,
    rng: Any = None,
    with_bias: bool = True,
) -> Any:
    """Convolution with the signs of a weight, where sign(0) = -1.

    Parameters: `bicon_conv/W` of shape (outmaps, C / group, K...), trained as if it were used itself; `bicon_conv/Wb`,
    of the same shape, its signs, written by forward; `bicon_conv/b` of shape (outmaps,).

    Args:
        inp: (B..., C, S...) float; base_axis leading axes are kept.
        outmaps: count of output maps.
        kernel: K; one size per spatial axis.
        pad: zeros on both sides of each spatial axis; default 0.
        stride: step between windows per spatial axis; default 1.
        dilation: distance between the taps of the kernel per spatial axis; default 1.
        group: number of groups into which channels and output maps are split; divides both.
        w_init: first value of W, an array or initializer; default uniform with Glorot's limits.
        wb_init: first value of Wb, which the first forward overwrites; default as w_init.
        base_axis: the channel axis; negative counts from the end.
        b_init: first value of b; default 0.
        fix_parameters: whether the parameters get no gradient.
        rng: numpy.random.RandomState or Generator of the default w_init; None: the numpy.random module.
        with_bias: whether b is added.
        name: scope above `bicon_conv`.

    Returns:
        (B..., outmaps, T...) float; T = (S + 2 pad - (dilation (K - 1) + 1)) // stride + 1.

    Raises:
        TypeError, ValueError: an argument that does not fit the input or the parameters that are there; no parameter
            is made then.

    Source: Courbariaux, Bengio, David, BinaryConnect, 2015.
    """
    layer = ConvolutionLayer("binary_connect_convolution", inp, outmaps, kernel, base_axis, group)
    w = layer.weight(w_init, rng, not fix_parameters)
    wb = without_gradient("Wb", layer.w_shape, layer.default(wb_init, layer.channels, layer.maps, rng))
    b = bias((layer.maps,), b_init, not fix_parameters, with_bias)
    return LayerCall(
        functions.binary_connect_convolution,
        inp,
        w,
        wb,
        b,
        base_axis=layer.base_axis,
        pad=pad,
        stride=stride,
        dilation=dilation,
        group=layer.groups,
    )


@parametric_function_api("bwn_affine")
def binary_weight_affine(
    inp: Array,
    n_outmaps: int | Sequence[int],
    base_axis: int = 1,
    w_init: Initializer | None = None,
    wb_init: Initializer | None = None,
    b_init: Initializer | None = None,
    fix_parameters: bool = False,
    rng: Any = None,
    with_bias: bool = True,
) -> Any:
    """Affine map with the signs of a weight and one size per output: `y = x (alpha sign(W)) + b`.

    Parameters: `bwn_affine/W` of shape (D, L...), D the product of inp.shape[base_axis:], trained as if it were used
    itself; written by forward, `bwn_affine/Wb`, of the same shape, its signs, and `bwn_affine/alpha` of shape (L...),
    its mean sizes; `bwn_affine/b` of shape (L...).

    Args:
        inp: (B..., I...) float; base_axis leading axes are kept.
        n_outmaps: L; the shape of the output from base_axis on, or one size.
        base_axis: how many leading axes count as the batch; negative counts from the end.
        w_init: first value of W, an array or initializer; default uniform with Glorot's limits.
        wb_init: first value of Wb, which the first forward overwrites; default as w_init.
        b_init: first value of b; default 0.
        fix_parameters: whether the parameters get no gradient.
        rng: numpy.random.RandomState or Generator of the default w_init; None: the numpy.random module.
        with_bias: whether b is added.
        name: scope above `bwn_affine`.

    Returns:
        (B..., L...) float.

    Raises:
        TypeError, ValueError: an argument that does not fit the input or the parameters that are there; no parameter
            is made then.

    Source: Rastegari, Ordonez, Redmon, Farhadi, XNOR-Net, 2016, section 3.1.
    """
    layer = AffineLayer("binary_weight_affine", inp, n_outmaps, base_axis)
    w = layer.weight(w_init, rng, not fix_parameters)
    wb = without_gradient("Wb", layer.w_shape, layer.default(wb_init, rng))
    alpha = without_gradient("alpha", layer.maps)
    b = bias(layer.maps, b_init, not fix_parameters, with_bias)
    return LayerCall(functions.binary_weight_affine, inp, w, wb, alpha, b, base_axis=layer.base_axis)


@parametric_function_api("bwn_conv")
def binary_weight_convolution(
    inp: Array,
    outmaps: int,
    kernel: Sequence[int],
    pad: Sequence[int] | None = None,
    stride: Sequence[int] | None = None,
    dilation: Sequence[int] | None = None,
    group: int = 1,
    w_init: Initializer | None = None,
    wb_init: Initializer | None = None,
    b_init: Initializer | None = None,
    base_axis: int = 1,
    fix_parameters: bool = False,
    rng: Any = None,
    with_bias: bool = True,
) -> Any:
    """Convolution with the signs of a weight and one size per output map.

    Parameters: `bwn_conv/W` of shape (outmaps, C / group, K...), trained as if it were used itself; written by
    forward, `bwn_conv/Wb`, of the same shape, its signs, and `bwn_conv/alpha` of shape (outmaps,), its mean sizes;
    `bwn_conv/b` of shape (outmaps,).

    Args:
        inp: (B..., C, S...) float; base_axis leading axes are kept.
        outmaps: count of output maps.
        kernel: K; one size per spatial axis.
        pad: zeros on both sides of each spatial axis; default 0.
        stride: step between windows per spatial axis; default 1.
        dilation: distance between the taps of the kernel per spatial axis; default 1.
        group: number of groups into which channels and output maps are split; divides both.
        w_init: first value of W, an array or initializer; default uniform with Glorot's limits.
        wb_init: first value of Wb, which the first forward overwrites; default as w_init.
        base_axis: the channel axis; negative counts from the end.
        b_init: first value of b; default 0.
        fix_parameters: whether the parameters get no gradient.
        rng: numpy.random.RandomState or Generator of the default w_init; None: the numpy.random module.
        with_bias: whether b is added.
        name: scope above `bwn_conv`.

    Returns:
        (B..., outmaps, T...) float; T = (S + 2 pad - (dilation (K - 1) + 1)) // stride + 1.

    Raises:
        TypeError, ValueError: an argument that does not fit the input or the parameters that are there; no parameter
            is made then.

    Source: Rastegari, Ordonez, Redmon, Farhadi, XNOR-Net, 2016, section 3.1.
    """
    layer = ConvolutionLayer("binary_weight_convolution", inp, outmaps, kernel, base_axis, group)
    w = layer.weight(w_init, rng, not fix_parameters)
    wb = without_gradient("Wb", layer.w_shape, layer.default(wb_init, layer.channels, layer.maps, rng))
    alpha = without_gradient("alpha", (layer.maps,))
    b = bias((layer.maps,), b_init, not fix_parameters, with_bias)
    return LayerCall(
        functions.binary_weight_convolution,
        inp,
        w,
        wb,
        alpha,
        b,
        base_axis=layer.base_axis,
        pad=pad,
        stride=stride,
        dilation=dilation,
        group=layer.groups,
    )
