"""Bias: what is added to rows, or to the maps of images."""

from __future__ import annotations

from typing import Any

from atled.neon.backends.backend import Tensor
from atled.neon.layers.parameter_layer import ParameterLayer
from atled.neon.layers.shapes import maps_of


class Bias(ParameterLayer):
    """`y = x + W`, written into x.

    init: of W, (rows, 1), or (C, 1) for images (C, H, W): one element for each map.
    """

    owns_output = False
    owns_delta = False

    def configure(self, in_obj: Any) -> Bias:
        """Take sizes, which do not change; see Layer."""
        super().configure(in_obj)
        self.out_shape = self.in_shape
        self.weight_shape = maps_of(self.in_shape), 1
        return self

    def fprop(self, inputs: Tensor, inference: bool = False) -> Tensor:
        """`inputs += W`; gives the inputs.

        inputs: (features, steps * batch) float.  inference: no effect.
        RuntimeError: there is no memory yet.  ValueError: another count of rows.  TypeError: no tensor.
        """
        self._check_parameters("fprop")
        self._check_rows("fprop", "inputs", inputs)
        self._present.add_fc_bias(self._by_map("x", inputs), self.W)
        self.inputs = self.outputs = inputs
        return inputs

    @ParameterLayer.accumulates
    def bprop(self, error: Tensor, alpha: float = 1.0, beta: float = 0.0) -> Tensor:
        """`dW` are the sums of the error over each row or map; gives the error. Raises as `fprop`."""
        self._check_in_place("bprop", alpha, beta)
        self._check_parameters("bprop")
        self._check_rows("bprop", "errors", error)
        self._present.update_fc_bias(self._by_map("e", error), self.dW)
        return error

    def _by_map(self, name: str, tensor: Tensor) -> Tensor:
        """The view with a row for each element of W."""
        view: Tensor = self._seen(name, tensor, lambda whole: whole.reshape((self.W.shape[0], -1)))
        return view
