"""The fully connected layer and the table of embeddings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from atled import functions
from atled.initializer import UniformInitializer
from atled.parameter import Initializer, get_parameter_or_create
from atled.parametric.api import parametric_function_api
from atled.parametric.cached_layers import LayerCall
from atled.parametric.layer import AffineLayer, Array, Layer, bias


@parametric_function_api("affine")
def affine(
    inp: Array,
    n_outmaps: int | Sequence[int],
    base_axis: int = 1,
    w_init: Initializer | None = None,
    b_init: Initializer | None = None,
    fix_parameters: bool = False,
    rng: Any = None,
    with_bias: bool = True,
) -> Any:
    """Affine map, the fully connected layer: `y = x W + b`.

    Parameters: `affine/W` of shape (D, L...), D the product of inp.shape[base_axis:]; `affine/b` of shape (L...).

    Args:
        inp: (B..., I...) float; base_axis leading axes are kept.
        n_outmaps: L; the shape of the output from base_axis on, or one size.
        base_axis: how many leading axes count as the batch; negative counts from the end.
        w_init: first value of W, an array or initializer; default uniform with Glorot's limits.
        b_init: first value of b; default 0.
        fix_parameters: whether the parameters get no gradient.
        rng: numpy.random.RandomState or Generator of the default w_init; None: the numpy.random module.
        with_bias: whether b is added.
        name: scope above `affine`.

    Returns:
        (B..., L...) float.

    Raises:
        TypeError, ValueError: an argument that does not fit the input or the parameters that are there; no parameter
            is made then.
    """
    layer = AffineLayer("affine", inp, n_outmaps, base_axis)
    w = layer.weight(w_init, rng, not fix_parameters)
    b = bias(layer.maps, b_init, not fix_parameters, with_bias)
    return LayerCall(functions.affine, inp, w, b, base_axis=layer.base_axis)


@parametric_function_api("embed")
def embed(inp: Array, n_inputs: int, n_features: int, fix_parameters: bool = False) -> Any:
    """Rows of a learnt table by index: `y = W[x]`.

    Parameter: `embed/W` of shape (n_inputs, n_features), uniform between -sqrt(3) and sqrt(3), which is a standard
    deviation of 1.

    Args:
        inp: (I...) whole numbers in [0, n_inputs); gets no gradient.
        n_inputs: how many different indices there are.
        n_features: length of a row.
        fix_parameters: whether W gets no gradient.
        name: scope above `embed`.

    Returns:
        (I..., n_features) float.

    Raises:
        TypeError, ValueError: an argument that does not fit the input or the parameters that are there; no parameter
            is made then.
        IndexError: when computed, for an index out of range.
    """
    layer = Layer("embed", inp, n_inputs=n_inputs, n_features=n_features)
    shape = (layer.size("n_inputs", n_inputs), layer.size("n_features", n_features))
    limit = math.sqrt(3.0)
    w = get_parameter_or_create("W", shape, UniformInitializer((-limit, limit)), not fix_parameters)
    return LayerCall(functions.embed, inp, w)
