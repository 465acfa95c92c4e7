"""The activation PReLU, which has a learnt slope."""

from __future__ import annotations

from typing import Any

from atled import functions
from atled.initializer import ConstantInitializer
from atled.parameter import get_parameter_or_create
from atled.parametric.api import parametric_function_api
from atled.parametric.cached_layers import LayerCall
from atled.parametric.layer import Array, Layer


@parametric_function_api("prelu")
def prelu(inp: Array, base_axis: int = 1, shared: bool = True, fix_parameters: bool = False) -> Any:
    """Leaky ReLU with a learnt slope: `y = x where x >= 0 else slope x`.

    Parameters, in scope `prelu`:
        slope: () float if shared, else (C,) float; starts at -1, where y is |x|.

    Args:
        inp: (B..., C, S...) float.
        base_axis: the channel axis; negative counts from the end.
        shared: whether all channels have one slope.
        fix_parameters: whether the slope gets no gradient.
        name: scope above `prelu`.

    Returns:
        the shape of inp, float.

    Raises:
        TypeError, ValueError: an argument that does not fit the input or the parameters that are there; no parameter
            is made then.

    Source: He, Zhang, Ren, Sun, Delving Deep into Rectifiers, 2015.
    """
    layer = Layer("prelu", inp, base_axis=base_axis)
    axis = layer.axis("base_axis", base_axis)
    shape = () if shared else (inp.shape[axis],)
    slope = get_parameter_or_create("slope", shape, ConstantInitializer(-1), not fix_parameters)
    return LayerCall(functions.prelu, inp, slope, base_axis=axis)
