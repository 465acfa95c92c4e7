"""Layers whose weights become powers of two, step by step, while they are trained."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from atled import functions
from atled.parameter import Initializer
from atled.parametric.api import parametric_function_api
from atled.parametric.layer import AffineLayer, Array, ConvolutionLayer, bias, without_gradient


@parametric_function_api("inq_affine")
def inq_affine(
    inp: Array,
    n_outmaps: int | Sequence[int],
    base_axis: int = 1,
    num_bits: int = 4,
    inq_iterations: Sequence[int] = (),
    selection_algorithm: str = "random",
    seed: int = -1,
    w_init: Initializer | None = None,
    i_init: Initializer | None = None,
    b_init: Initializer | None = None,
    fix_parameters: bool = False,
    rng: Any = None,
    with_bias: bool = True,
) -> Any:
    """Affine map whose weights are fixed to powers of two, more and more of them as training goes on.

    Parameters: `inq_affine/W` of shape (D, L...), D the product of inp.shape[base_axis:]; `inq_affine/I`, of the same
    shape, 1 where a weight is fixed, written by forward; `inq_affine/b` of shape (L...).

    Args:
        inp: (B..., I...) float; base_axis leading axes are kept.
        n_outmaps: L; the shape of the output from base_axis on, or one size.
        base_axis: how many leading axes count as the batch; negative counts from the end.
        num_bits: bits of a fixed weight.
        inq_iterations: the counts of forwards at which half of the free weights are fixed; at the last one all are.
        selection_algorithm: which are fixed: "random" or "largest_abs".
        seed: of the random choice; -1: fresh entropy.
        w_init: first value of W, an array or initializer; default uniform with Glorot's limits.
        i_init: first value of I; default 0, all free.
        b_init: first value of b; default 0.
        fix_parameters: whether the parameters get no gradient.
        rng: numpy.random.RandomState or Generator of the default w_init; None: the numpy.random module.
        with_bias: whether b is added.
        name: scope above `inq_affine`.

    Returns:
        (B..., L...) float.

    Raises:
        TypeError, ValueError: an argument that does not fit the input or the parameters that are there; no parameter
            is made then.

    Source: Zhou, Yao, Guo, Xu, Chen, Incremental Network Quantization, 2017.
    """
    layer = AffineLayer("inq_affine", inp, n_outmaps, base_axis)
    w = layer.weight(w_init, rng, not fix_parameters)
    indicator = without_gradient("I", layer.w_shape, i_init)
    b = bias(layer.maps, b_init, not fix_parameters, with_bias)
    return functions.inq_affine(
        inp,
        w,
        indicator,
        b,
        base_axis=layer.base_axis,
        num_bits=num_bits,
        inq_iterations=inq_iterations,
        selection_algorithm=selection_algorithm,
        seed=seed,
    )


@parametric_function_api("inq_conv")
def inq_convolution(
    inp: Array,
    outmaps: int,
    kernel: Sequence[int],
    pad: Sequence[int] | None = None,
    stride: Sequence[int] | None = None,
    dilation: Sequence[int] | None = None,
    group: int = 1,
    num_bits: int = 4,
    inq_iterations: Sequence[int] = (),
    selection_algorithm: str = "random",
    seed: int = -1,
    w_init: Initializer | None = None,
    i_init: Initializer | None = None,
    b_init: Initializer | None = None,
    base_axis: int = 1,
    fix_parameters: bool = False,
    rng: Any = None,
    with_bias: bool = True,
) -> Any:
    """Convolution whose weights are fixed to powers of two, more and more of them as training goes on.

    Parameters: `inq_conv/W` of shape (outmaps, C / group, K...); `inq_conv/I`, of the same shape, 1 where a weight is
    fixed, written by forward; `inq_conv/b` of shape (outmaps,).

    Args:
        inp: (B..., C, S...) float; base_axis leading axes are kept.
        outmaps: count of output maps.
        kernel: K; one size per spatial axis.
        pad: zeros on both sides of each spatial axis; default 0.
        stride: step between windows per spatial axis; default 1.
        dilation: distance between the taps of the kernel per spatial axis; default 1.
        group: number of groups into which channels and output maps are split; divides both.
        num_bits: bits of a fixed weight.
        inq_iterations: the counts of forwards at which half of the free weights are fixed; at the last one all are.
        selection_algorithm: which are fixed: "random" or "largest_abs".
        seed: of the random choice; -1: fresh entropy.
        w_init: first value of W, an array or initializer; default uniform with Glorot's limits.
        i_init: first value of I; default 0, all free.
        base_axis: the channel axis; negative counts from the end.
        b_init: first value of b; default 0.
        fix_parameters: whether the parameters get no gradient.
        rng: numpy.random.RandomState or Generator of the default w_init; None: the numpy.random module.
        with_bias: whether b is added.
        name: scope above `inq_conv`.

    Returns:
        (B..., outmaps, T...) float; T = (S + 2 pad - (dilation (K - 1) + 1)) // stride + 1.

    Raises:
        TypeError, ValueError: an argument that does not fit the input or the parameters that are there; no parameter
            is made then.

    Source: Zhou, Yao, Guo, Xu, Chen, Incremental Network Quantization, 2017.
    """
    layer = ConvolutionLayer("inq_convolution", inp, outmaps, kernel, base_axis, group)
    w = layer.weight(w_init, rng, not fix_parameters)
    indicator = without_gradient("I", layer.w_shape, i_init)
    b = bias((layer.maps,), b_init, not fix_parameters, with_bias)
    return functions.inq_convolution(
        inp,
        w,
        indicator,
        b,
        base_axis=layer.base_axis,
        pad=pad,
        stride=stride,
        dilation=dilation,
        group=layer.groups,
        num_bits=num_bits,
        inq_iterations=inq_iterations,
        selection_algorithm=selection_algorithm,
        seed=seed,
    )
