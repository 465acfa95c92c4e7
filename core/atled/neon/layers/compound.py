"""CompoundLayer: layers in a row that are written as one."""

from __future__ import annotations

from typing import Any

from atled.errors import four_parts


class CompoundLayer(list[Any]):
    """Layers one behind the other that are written as one: containers take them out of their list.

    bias: an initializer or None.  batch_norm: whether there is one.  activation: a transform or None.
    AttributeError: both bias and batch_norm.
    """

    def __init__(
        self, bias: Any = None, batch_norm: bool = False, activation: Any = None, name: str | None = None
    ) -> None:
        super().__init__()
        if bias is not None and batch_norm:
            remedy = "leave one out: normalization takes any bias away, and adds its own"
            raise AttributeError(four_parts(type(self).__name__, "bias and batch_norm are both given", "", remedy))
        self.bias = bias
        self.batch_norm = batch_norm
        self.activation = activation
        self.base_name = name
