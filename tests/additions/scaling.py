"""Layers that scale: the file of a family of layers; see `test_touched_files.py`."""

from __future__ import annotations

from typing import Any

from atled import functions
from atled.initializer import ConstantInitializer
from atled.parameter import get_parameter_or_create
from atled.parametric.api import parametric_function_api
from atled.parametric.cached_layers import LayerCall
from atled.parametric.layer import Array, Layer


@parametric_function_api("channel_scale")
def channel_scale(inp: Array, base_axis: int = 1, fix_parameters: bool = False) -> Any:
    """A factor for each channel: `y = s x`.

    Parameters, in scope `channel_scale`:
        s: float, of the shape of inp with 1 on every axis but the channel axis; starts at 1.

    Args:
        inp: (B..., C, S...) float.
        base_axis: the channel axis; negative counts from the end.
        fix_parameters: whether s gets no gradient.
        name: scope above `channel_scale`.

    Returns:
        the shape of inp, float.

    Raises:
        TypeError, ValueError: an argument that does not fit the input or the parameters that are there; no parameter
            is made then.
    """
    layer = Layer("channel_scale", inp, base_axis=base_axis)
    axis = layer.axis("base_axis", base_axis)
    shape = tuple(size if position == axis else 1 for position, size in enumerate(inp.shape))
    s = get_parameter_or_create("s", shape, ConstantInitializer(1), not fix_parameters)
    return LayerCall(functions.mul2, inp, s)
