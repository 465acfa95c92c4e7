"""Layers that transform their weight, as the file of a family would define them; see `test_touched_files.py`."""

from __future__ import annotations

from typing import Any, ClassVar

from atled import functions
from atled.parametric.base_layers import BaseLayer
from atled.parametric.weight_transform import WeightTransform


class CentredWeight(WeightTransform[BaseLayer]):
    """{layer} with a weight whose mean is taken off: `y = {x} (W - mean(W)) + b`."""

    prefix = scope = "centred_"
    parameters: ClassVar = {"W": "{W}; trained as if it were used itself", "b": "{b}"}

    def call(self, layer: BaseLayer) -> Any:
        w = layer.weight()
        mean = functions.mean(w, keepdims=True)
        return getattr(functions, layer.function)(layer.inp, functions.sub2(w, mean), layer.bias(), **layer.attributes)
