"""The layer that looks up rows of a learnt table."""

from __future__ import annotations

import math
from typing import Any

from atled import functions
from atled.initializer import UniformInitializer
from atled.parameter import get_parameter_or_create
from atled.parametric.api import parametric_function_api
from atled.parametric.cached_layers import LayerCall
from atled.parametric.layer import Array, Layer


@parametric_function_api("embed")
def embed(inp: Array, n_inputs: int, n_features: int, fix_parameters: bool = False) -> Any:
    """Rows of a learnt table by index: `y = W[x]`.

    Parameters, in scope `embed`:
        W: (n_inputs, n_features) float; starts uniform between -sqrt(3) and sqrt(3), a standard deviation of 1.

    Args:
        inp: (I...) int, or float that is cast to int; indices in [0, n_inputs); gets no gradient.
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
