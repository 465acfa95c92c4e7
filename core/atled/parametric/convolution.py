"""Convolutions, deconvolutions, and their depthwise forms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from atled import functions
from atled.parameter import Initializer, get_parameter_or_create
from atled.parametric.api import parametric_function_api
from atled.parametric.cached_layers import LayerCall
from atled.parametric.layer import Array, ConvolutionLayer, SpatialLayer, bias


@parametric_function_api("conv")
def convolution(
    inp: Array,
    outmaps: int,
    kernel: Sequence[int],
    pad: Sequence[int] | None = None,
    stride: Sequence[int] | None = None,
    dilation: Sequence[int] | None = None,
    group: int = 1,
    w_init: Initializer | None = None,
    b_init: Initializer | None = None,
    base_axis: int = 1,
    fix_parameters: bool = False,
    rng: Any = None,
    with_bias: bool = True,
) -> Any:
    """Convolution over any number of spatial axes.

    Parameters: `conv/W` of shape (outmaps, C / group, K...); `conv/b` of shape (outmaps,).

    Args:
        inp: (B..., C, S...) float; base_axis leading axes are kept.
        outmaps: count of output maps.
        kernel: K; one size per spatial axis.
        pad: zeros on both sides of each spatial axis; default 0.
        stride: step between windows per spatial axis; default 1.
        dilation: distance between the taps of the kernel per spatial axis; default 1.
        group: number of groups into which channels and output maps are split; divides both.
        w_init: first value of W, an array or initializer; default uniform with Glorot's limits, for which all C
            channels count whatever the group.
        b_init: first value of b; default 0.
        base_axis: the channel axis; negative counts from the end.
        fix_parameters: whether the parameters get no gradient.
        rng: numpy.random.RandomState or Generator of the default w_init; None: the numpy.random module.
        with_bias: whether b is added.
        name: scope above `conv`.

    Returns:
        (B..., outmaps, T...) float; T = (S + 2 pad - (dilation (K - 1) + 1)) // stride + 1.

    Raises:
        TypeError, ValueError: an argument that does not fit the input or the parameters that are there; no parameter
            is made then.
    """
    layer = ConvolutionLayer("convolution", inp, outmaps, kernel, base_axis, group)
    w = layer.weight(w_init, rng, not fix_parameters)
    b = bias((layer.maps,), b_init, not fix_parameters, with_bias)
    return LayerCall(
        functions.convolution,
        inp,
        w,
        b,
        base_axis=layer.base_axis,
        pad=pad,
        stride=stride,
        dilation=dilation,
        group=layer.groups,
    )


@parametric_function_api("depthwise_conv")
def depthwise_convolution(
    inp: Array,
    kernel: Sequence[int],
    pad: Sequence[int] | None = None,
    stride: Sequence[int] | None = None,
    dilation: Sequence[int] | None = None,
    multiplier: int = 1,
    w_init: Initializer | None = None,
    b_init: Initializer | None = None,
    base_axis: int = 1,
    fix_parameters: bool = False,
    rng: Any = None,
    with_bias: bool = True,
) -> Any:
    """Convolution of each channel by itself, with `multiplier` kernels.

    Parameters: `depthwise_conv/W` of shape (C multiplier, K...); `depthwise_conv/b` of shape (C multiplier,). Output
    map o reads channel o // multiplier.

    Args:
        inp: (B..., C, S...) float; one or two spatial axes.
        kernel: K; one size per spatial axis.
        pad: zeros on both sides of each spatial axis; default 0.
        stride: step between windows per spatial axis; default 1.
        dilation: distance between the taps of the kernel per spatial axis; default 1.
        multiplier: count of output maps per channel.
        w_init: first value of W, an array or initializer; default uniform with Glorot's limits for C inputs and
            C multiplier outputs.
        b_init: first value of b; default 0.
        base_axis: the channel axis; negative counts from the end.
        fix_parameters: whether the parameters get no gradient.
        rng: numpy.random.RandomState or Generator of the default w_init; None: the numpy.random module.
        with_bias: whether b is added.
        name: scope above `depthwise_conv`.

    Returns:
        (B..., C multiplier, T...) float; T = (S + 2 pad - (dilation (K - 1) + 1)) // stride + 1.

    Raises:
        TypeError, ValueError: an argument that does not fit the input or the parameters that are there; no parameter
            is made then.
    """
    layer = SpatialLayer("depthwise_convolution", inp, kernel, base_axis, multiplier=multiplier)
    maps = layer.channels * layer.size("multiplier", multiplier)
    init = layer.default(w_init, layer.channels, maps, rng)
    w = get_parameter_or_create("W", (maps, *layer.window), init, not fix_parameters)
    b = bias((maps,), b_init, not fix_parameters, with_bias)
    return LayerCall(
        functions.depthwise_convolution,
        inp,
        w,
        b,
        base_axis=layer.base_axis,
        pad=pad,
        stride=stride,
        dilation=dilation,
        multiplier=multiplier,
    )


@parametric_function_api("deconv")
def deconvolution(
    inp: Array,
    outmaps: int,
    kernel: Sequence[int],
    pad: Sequence[int] | None = None,
    stride: Sequence[int] | None = None,
    dilation: Sequence[int] | None = None,
    group: int = 1,
    w_init: Initializer | None = None,
    b_init: Initializer | None = None,
    base_axis: int = 1,
    fix_parameters: bool = False,
    rng: Any = None,
    with_bias: bool = True,
) -> Any:
    """Transposed convolution, the map that a convolution's gradient applies: it spreads each element over a window.

    Parameters: `deconv/W` of shape (C, outmaps / group, K...); `deconv/b` of shape (outmaps,).

    Args:
        inp: (B..., C, S...) float; base_axis leading axes are kept.
        outmaps: count of output maps.
        kernel: K; one size per spatial axis.
        pad: how much is cut off on both sides of each spatial axis; default 0.
        stride: distance between the windows of neighbours per spatial axis; default 1.
        dilation: distance between the taps of the kernel per spatial axis; default 1.
        group: number of groups into which channels and output maps are split; divides both.
        w_init: first value of W, an array or initializer; default uniform with Glorot's limits for outmaps inputs and
            C outputs.
        b_init: first value of b; default 0.
        base_axis: the channel axis; negative counts from the end.
        fix_parameters: whether the parameters get no gradient.
        rng: numpy.random.RandomState or Generator of the default w_init; None: the numpy.random module.
        with_bias: whether b is added.
        name: scope above `deconv`.

    Returns:
        (B..., outmaps, T...) float; T = stride (S - 1) - 2 pad + dilation (K - 1) + 1.

    Raises:
        TypeError, ValueError: an argument that does not fit the input or the parameters that are there; no parameter
            is made then.
    """
    layer = ConvolutionLayer("deconvolution", inp, outmaps, kernel, base_axis, group)
    init = layer.default(w_init, layer.maps, layer.channels, rng)
    shape = (layer.channels, layer.maps // layer.groups, *layer.window)
    w = get_parameter_or_create("W", shape, init, not fix_parameters)
    b = bias((layer.maps,), b_init, not fix_parameters, with_bias)
    return LayerCall(
        functions.deconvolution,
        inp,
        w,
        b,
        base_axis=layer.base_axis,
        pad=pad,
        stride=stride,
        dilation=dilation,
        group=layer.groups,
    )


@parametric_function_api("depthwise_deconv")
def depthwise_deconvolution(
    inp: Array,
    kernel: Sequence[int],
    pad: Sequence[int] | None = None,
    stride: Sequence[int] | None = None,
    dilation: Sequence[int] | None = None,
    divisor: int = 1,
    w_init: Initializer | None = None,
    b_init: Initializer | None = None,
    base_axis: int = 1,
    fix_parameters: bool = False,
    rng: Any = None,
    with_bias: bool = True,
) -> Any:
    """Transposed convolution of each channel by itself, where every `divisor` neighbouring results are added up.

    Parameters: `depthwise_deconv/W` of shape (C, K...); `depthwise_deconv/b` of shape (C / divisor,).

    Args:
        inp: (B..., C, S...) float; one or two spatial axes.
        kernel: K; one size per spatial axis.
        pad: how much is cut off on both sides of each spatial axis; default 0.
        stride: distance between the windows of neighbours per spatial axis; default 1.
        dilation: distance between the taps of the kernel per spatial axis; default 1.
        divisor: count of channels per output map; divides C.
        w_init: first value of W, an array or initializer; default uniform with Glorot's limits for C inputs and
            outputs.
        b_init: first value of b; default 0.
        base_axis: the channel axis; negative counts from the end.
        fix_parameters: whether the parameters get no gradient.
        rng: numpy.random.RandomState or Generator of the default w_init; None: the numpy.random module.
        with_bias: whether b is added.
        name: scope above `depthwise_deconv`.

    Returns:
        (B..., C / divisor, T...) float; T = stride (S - 1) - 2 pad + dilation (K - 1) + 1.

    Raises:
        TypeError, ValueError: an argument that does not fit the input or the parameters that are there; no parameter
            is made then.
    """
    layer = SpatialLayer("depthwise_deconvolution", inp, kernel, base_axis, divisor=divisor)
    maps = layer.channels // layer.divided("divisor", divisor, ("channels", layer.channels))
    init = layer.default(w_init, layer.channels, layer.channels, rng)
    w = get_parameter_or_create("W", (layer.channels, *layer.window), init, not fix_parameters)
    b = bias((maps,), b_init, not fix_parameters, with_bias)
    return LayerCall(
        functions.depthwise_deconvolution,
        inp,
        w,
        b,
        base_axis=layer.base_axis,
        pad=pad,
        stride=stride,
        dilation=dilation,
        divisor=divisor,
    )
