"""Layers that compute with rounded weights and are trained as if they did not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from atled import functions
from atled.parameter import Initializer
from atled.parametric.api import parametric_function_api
from atled.parametric.layer import AffineLayer, Array, ConvolutionLayer, Layer, bias, without_gradient
from atled.variable import Variable

Quantize = Callable[..., Any]


def _quantized(layer: Layer, name: str, parameter: Variable, quantize: Quantize, **attributes: Any) -> Any:
    """What to compute with instead of a parameter; the parameter `name` keeps its values."""
    kept = without_gradient(name, parameter.shape)
    rounded = quantize(layer.array(parameter), **attributes, outputs=[kept.data])
    if isinstance(rounded, Variable):
        rounded.persistent = True
    return rounded


@parametric_function_api("fp_quantized_affine")
def fixed_point_quantized_affine(
    inp: Array,
    n_outmaps: int | Sequence[int],
    base_axis: int = 1,
    w_init: Initializer | None = None,
    b_init: Initializer | None = None,
    fix_parameters: bool = False,
    rng: Any = None,
    with_bias: bool = True,
    quantize_w: bool = True,
    sign_w: bool = True,
    n_w: int = 8,
    delta_w: float = 2**-4,
    ste_fine_grained_w: bool = True,
    quantize_b: bool = True,
    sign_b: bool = True,
    n_b: int = 8,
    delta_b: float = 2**-4,
    ste_fine_grained_b: bool = True,
) -> Any:
    """Affine map with weight and bias rounded to multiples of delta.

    Parameters: `fp_quantized_affine/W` of shape (D, L...), D the product of inp.shape[base_axis:], and
    `fp_quantized_affine/b` of shape (L...), trained as if they were used themselves; the rounded values, written by
    forward, `fp_quantized_affine/W_q` and `fp_quantized_affine/b_q`.

    Args:
        inp: (B..., I...) float; base_axis leading axes are kept.
        n_outmaps: L; the shape of the output from base_axis on, or one size.
        base_axis: how many leading axes count as the batch; negative counts from the end.
        w_init: first value of W, an array or initializer; default uniform with Glorot's limits.
        b_init: first value of b; default 0.
        fix_parameters: whether the parameters get no gradient.
        rng: numpy.random.RandomState or Generator of the default w_init; None: the numpy.random module.
        with_bias: whether b is added.
        quantize_w, quantize_b: whether W, b are rounded.
        sign_w, sign_b: whether negative values stay negative; else they become 0.
        n_w, n_b: bits of a rounded value.
        delta_w, delta_b: distance between neighbouring rounded values.
        ste_fine_grained_w, ste_fine_grained_b: whether values beyond the largest get no gradient.
        name: scope above `fp_quantized_affine`.

    Returns:
        (B..., L...) float.

    Raises:
        TypeError, ValueError: an argument that does not fit the input or the parameters that are there; no parameter
            is made then.
    """
    layer = AffineLayer("fixed_point_quantized_affine", inp, n_outmaps, base_axis)
    w: Any = layer.weight(w_init, rng, not fix_parameters)
    if quantize_w:
        attributes = {"sign": sign_w, "n": n_w, "delta": delta_w, "ste_fine_grained": ste_fine_grained_w}
        w = _quantized(layer, "W_q", w, functions.fixed_point_quantize, **attributes)
    b: Any = bias(layer.maps, b_init, not fix_parameters, with_bias)
    if quantize_b and b is not None:
        attributes = {"sign": sign_b, "n": n_b, "delta": delta_b, "ste_fine_grained": ste_fine_grained_b}
        b = _quantized(layer, "b_q", b, functions.fixed_point_quantize, **attributes)
    return functions.affine(inp, w, b, base_axis=layer.base_axis)


@parametric_function_api("fp_quantized_conv")
def fixed_point_quantized_convolution(
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
    quantize_w: bool = True,
    sign_w: bool = True,
    n_w: int = 8,
    delta_w: float = 2**-4,
    ste_fine_grained_w: bool = True,
    quantize_b: bool = True,
    sign_b: bool = True,
    n_b: int = 8,
    delta_b: float = 2**-4,
    ste_fine_grained_b: bool = True,
) -> Any:
    """Convolution with weight and bias rounded to multiples of delta.

    Parameters: `fp_quantized_conv/W` of shape (outmaps, C / group, K...), and
    `fp_quantized_conv/b` of shape (outmaps,), trained as if they were used themselves; the rounded values, written by
    forward, `fp_quantized_conv/W_q` and `fp_quantized_conv/b_q`.

    Args:
        inp: (B..., C, S...) float; base_axis leading axes are kept.
        outmaps: count of output maps.
        kernel: K; one size per spatial axis.
        pad: zeros on both sides of each spatial axis; default 0.
        stride: step between windows per spatial axis; default 1.
        dilation: distance between the taps of the kernel per spatial axis; default 1.
        group: number of groups into which channels and output maps are split; divides both.
        w_init: first value of W, an array or initializer; default uniform with Glorot's limits.
        base_axis: the channel axis; negative counts from the end.
        b_init: first value of b; default 0.
        fix_parameters: whether the parameters get no gradient.
        rng: numpy.random.RandomState or Generator of the default w_init; None: the numpy.random module.
        with_bias: whether b is added.
        quantize_w, quantize_b: whether W, b are rounded.
        sign_w, sign_b: whether negative values stay negative; else they become 0.
        n_w, n_b: bits of a rounded value.
        delta_w, delta_b: distance between neighbouring rounded values.
        ste_fine_grained_w, ste_fine_grained_b: whether values beyond the largest get no gradient.
        name: scope above `fp_quantized_conv`.

    Returns:
        (B..., outmaps, T...) float; T = (S + 2 pad - (dilation (K - 1) + 1)) // stride + 1.

    Raises:
        TypeError, ValueError: an argument that does not fit the input or the parameters that are there; no parameter
            is made then.
    """
    layer = ConvolutionLayer("fixed_point_quantized_convolution", inp, outmaps, kernel, base_axis, group)
    w: Any = layer.weight(w_init, rng, not fix_parameters)
    if quantize_w:
        attributes = {"sign": sign_w, "n": n_w, "delta": delta_w, "ste_fine_grained": ste_fine_grained_w}
        w = _quantized(layer, "W_q", w, functions.fixed_point_quantize, **attributes)
    b: Any = bias((layer.maps,), b_init, not fix_parameters, with_bias)
    if quantize_b and b is not None:
        attributes = {"sign": sign_b, "n": n_b, "delta": delta_b, "ste_fine_grained": ste_fine_grained_b}
        b = _quantized(layer, "b_q", b, functions.fixed_point_quantize, **attributes)
    return functions.convolution(
        inp, w, b, base_axis=layer.base_axis, pad=pad, stride=stride, dilation=dilation, group=layer.groups
    )


@parametric_function_api("pow2_quantized_affine")
def pow2_quantized_affine(
    inp: Array,
    n_outmaps: int | Sequence[int],
    base_axis: int = 1,
    w_init: Initializer | None = None,
    b_init: Initializer | None = None,
    fix_parameters: bool = False,
    rng: Any = None,
    with_bias: bool = True,
    quantize_w: bool = True,
    sign_w: bool = True,
    with_zero_w: bool = False,
    n_w: int = 8,
    m_w: int = 2,
    ste_fine_grained_w: bool = True,
    quantize_b: bool = True,
    sign_b: bool = True,
    with_zero_b: bool = False,
    n_b: int = 8,
    m_b: int = 2,
    ste_fine_grained_b: bool = True,
) -> Any:
    """Affine map with weight and bias rounded to powers of two.

    Parameters: `pow2_quantized_affine/W` of shape (D, L...), D the product of inp.shape[base_axis:], and
    `pow2_quantized_affine/b` of shape (L...), trained as if they were used themselves; the rounded values, written by
    forward, `pow2_quantized_affine/W_q` and `pow2_quantized_affine/b_q`.

    Args:
        inp: (B..., I...) float; base_axis leading axes are kept.
        n_outmaps: L; the shape of the output from base_axis on, or one size.
        base_axis: how many leading axes count as the batch; negative counts from the end.
        w_init: first value of W, an array or initializer; default uniform with Glorot's limits.
        b_init: first value of b; default 0.
        fix_parameters: whether the parameters get no gradient.
        rng: numpy.random.RandomState or Generator of the default w_init; None: the numpy.random module.
        with_bias: whether b is added.
        quantize_w, quantize_b: whether W, b are rounded.
        sign_w, sign_b: whether negative values stay negative.
        with_zero_w, with_zero_b: whether small values become 0.
        n_w, n_b: bits of a rounded value.
        m_w, m_b: the largest rounded value is 2 to this power.
        ste_fine_grained_w, ste_fine_grained_b: whether values beyond the largest get no gradient.
        name: scope above `pow2_quantized_affine`.

    Returns:
        (B..., L...) float.

    Raises:
        TypeError, ValueError: an argument that does not fit the input or the parameters that are there; no parameter
            is made then.
    """
    layer = AffineLayer("pow2_quantized_affine", inp, n_outmaps, base_axis)
    w: Any = layer.weight(w_init, rng, not fix_parameters)
    if quantize_w:
        attributes = {
            "sign": sign_w,
            "with_zero": with_zero_w,
            "n": n_w,
            "m": m_w,
            "ste_fine_grained": ste_fine_grained_w,
        }
        w = _quantized(layer, "W_q", w, functions.pow2_quantize, **attributes)
    b: Any = bias(layer.maps, b_init, not fix_parameters, with_bias)
    if quantize_b and b is not None:
        attributes = {
            "sign": sign_b,
            "with_zero": with_zero_b,
            "n": n_b,
            "m": m_b,
            "ste_fine_grained": ste_fine_grained_b,
        }
        b = _quantized(layer, "b_q", b, functions.pow2_quantize, **attributes)
    return functions.affine(inp, w, b, base_axis=layer.base_axis)


@parametric_function_api("pow2_quantized_conv")
def pow2_quantized_convolution(
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
    quantize_w: bool = True,
    with_zero_w: bool = False,
    sign_w: bool = True,
    n_w: int = 8,
    m_w: int = 2,
    ste_fine_grained_w: bool = True,
    quantize_b: bool = True,
    with_zero_b: bool = False,
    sign_b: bool = True,
    n_b: int = 8,
    m_b: int = 2,
    ste_fine_grained_b: bool = True,
) -> Any:
    """Convolution with weight and bias rounded to powers of two.

    Parameters: `pow2_quantized_conv/W` of shape (outmaps, C / group, K...), and
    `pow2_quantized_conv/b` of shape (outmaps,), trained as if they were used themselves; the rounded values, written by
    forward, `pow2_quantized_conv/W_q` and `pow2_quantized_conv/b_q`.

    Args:
        inp: (B..., C, S...) float; base_axis leading axes are kept.
        outmaps: count of output maps.
        kernel: K; one size per spatial axis.
        pad: zeros on both sides of each spatial axis; default 0.
        stride: step between windows per spatial axis; default 1.
        dilation: distance between the taps of the kernel per spatial axis; default 1.
        group: number of groups into which channels and output maps are split; divides both.
        w_init: first value of W, an array or initializer; default uniform with Glorot's limits.
        base_axis: the channel axis; negative counts from the end.
        b_init: first value of b; default 0.
        fix_parameters: whether the parameters get no gradient.
        rng: numpy.random.RandomState or Generator of the default w_init; None: the numpy.random module.
        with_bias: whether b is added.
        quantize_w, quantize_b: whether W, b are rounded.
        sign_w, sign_b: whether negative values stay negative.
        with_zero_w, with_zero_b: whether small values become 0.
        n_w, n_b: bits of a rounded value.
        m_w, m_b: the largest rounded value is 2 to this power.
        ste_fine_grained_w, ste_fine_grained_b: whether values beyond the largest get no gradient.
        name: scope above `pow2_quantized_conv`.

    Returns:
        (B..., outmaps, T...) float; T = (S + 2 pad - (dilation (K - 1) + 1)) // stride + 1.

    Raises:
        TypeError, ValueError: an argument that does not fit the input or the parameters that are there; no parameter
            is made then.
    """
    layer = ConvolutionLayer("pow2_quantized_convolution", inp, outmaps, kernel, base_axis, group)
    w: Any = layer.weight(w_init, rng, not fix_parameters)
    if quantize_w:
        attributes = {
            "sign": sign_w,
            "with_zero": with_zero_w,
            "n": n_w,
            "m": m_w,
            "ste_fine_grained": ste_fine_grained_w,
        }
        w = _quantized(layer, "W_q", w, functions.pow2_quantize, **attributes)
    b: Any = bias((layer.maps,), b_init, not fix_parameters, with_bias)
    if quantize_b and b is not None:
        attributes = {
            "sign": sign_b,
            "with_zero": with_zero_b,
            "n": n_b,
            "m": m_b,
            "ste_fine_grained": ste_fine_grained_b,
        }
        b = _quantized(layer, "b_q", b, functions.pow2_quantize, **attributes)
    return functions.convolution(
        inp, w, b, base_axis=layer.base_axis, pad=pad, stride=stride, dilation=dilation, group=layer.groups
    )
