"""Layers that keep running statistics of their input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from atled import functions
from atled.initializer import ConstantInitializer
from atled.parameter import get_parameter_or_create
from atled.parametric.api import parametric_function_api
from atled.parametric.cached_layers import LayerCall
from atled.parametric.layer import Array, Layer, without_gradient


@parametric_function_api("bn")
def batch_normalization(
    inp: Array,
    axes: Sequence[int] = [1],  # never changed; a list, as NNabla's signature shows it
    decay_rate: float = 0.9,
    eps: float = 1e-5,
    batch_stat: bool = True,
    output_stat: bool = False,
    fix_parameters: bool = False,
) -> Any:
    """Batch normalization: `y = gamma (x - m) / sqrt(v + eps) + beta` with one m and one v per channel.

    Parameters, in scope `bn`, of the shape of inp with 1 on every axis but the channel axis:
        beta, gamma: float; start at 0 and at 1.
        mean, var: float; the running statistics; start at 0 and get no gradient.

    Args:
        inp: (..., C, ...) float; at least one axis.
        axes: the channel axis, exactly one.
        decay_rate: weight of the past in the running statistics, 0 to 1.
        eps: added to the variance, >= 0.
        batch_stat: whether to normalize by the batch, which moves the running statistics (training), or by the running
            statistics (inference).
        output_stat: whether to return the batch's mean and biased variance as well; needs batch_stat.
        fix_parameters: whether beta and gamma get no gradient.
        name: scope above `bn`.

    Returns:
        the shape of inp, float; with output_stat a tuple (y, mean, variance), mean and variance float, of the shape
        of the parameters.

    Raises:
        TypeError, ValueError: an argument that does not fit the input or the parameters that are there; no parameter
            is made then.
    """
    layer = Layer("batch_normalization", inp, axes=axes)
    given: Any = axes  # or one number; an array without axes is one, though it has __iter__
    channel_axes = tuple(given) if hasattr(given, "__iter__") and getattr(given, "shape", None) != () else (given,)
    if len(channel_axes) != 1:
        raise layer.error(f"axes names {len(channel_axes)} axes", "give exactly one, the channel axis")
    axis = layer.axis("axes", channel_axes[0])
    shape = tuple(size if position == axis else 1 for position, size in enumerate(inp.shape))
    beta = get_parameter_or_create("beta", shape, ConstantInitializer(0), not fix_parameters)
    gamma = get_parameter_or_create("gamma", shape, ConstantInitializer(1), not fix_parameters)
    mean = without_gradient("mean", shape)
    var = without_gradient("var", shape)
    return LayerCall(
        functions.batch_normalization,
        inp,
        beta,
        gamma,
        mean,
        var,
        axes=(axis,),
        decay_rate=decay_rate,
        eps=eps,
        batch_stat=batch_stat,
        output_stat=output_stat,
    )


@parametric_function_api("mean_subtraction")
def mean_subtraction(
    inp: Array, base_axis: int = 1, update_running_mean: bool = True, fix_parameters: bool = False
) -> Any:
    """Subtract the running mean over batches: `y = x - m`.

    Parameters, in scope `mean_subtraction`, which start at 0 and get no gradient:
        mean: the shape of inp from base_axis on, float; m.
        t: (1,) float; the count of batches that m is the mean of.

    Args:
        inp: (B..., I...) float; base_axis leading axes count as the batch.
        base_axis: how many leading axes those are; negative counts from the end.
        update_running_mean: whether the batch moves m first, at each forward (training).
        fix_parameters: accepted, without effect: there is nothing to train.
        name: scope above `mean_subtraction`.

    Returns:
        the shape of inp, float.

    Raises:
        TypeError, ValueError: an argument that does not fit the input or the parameters that are there; no parameter
            is made then.
    """
    layer = Layer("mean_subtraction", inp, base_axis=base_axis)
    axis = layer.axis("base_axis", base_axis)
    mean = without_gradient("mean", inp.shape[axis:])
    t = without_gradient("t", (1,))
    return LayerCall(functions.mean_subtraction, inp, mean, t, base_axis=axis, update_running_mean=update_running_mean)
