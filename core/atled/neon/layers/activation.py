"""Layers that apply a transform."""

from __future__ import annotations

from typing import Any

from atled.neon.backends.backend import Tensor
from atled.neon.layers.base import Layer


class _Transform(Layer):
    """`y = transform(x)`, written into x."""

    owns_output = False

    def __init__(self, transform: Any, name: str | None = None) -> None:
        super().__init__(name)
        self.transform = transform

    def configure(self, in_obj: Any) -> _Transform:
        """Take sizes, which do not change; see Layer."""
        super().configure(in_obj)
        self.out_shape = self.in_shape
        return self

    def fprop(self, inputs: Tensor, inference: bool = False) -> Tensor:
        """`inputs = transform(inputs)`; gives the inputs.

        inputs: (features, steps * batch) float.  inference: no effect.
        RuntimeError: it is not configured.  ValueError: another count of rows.  TypeError: no tensor.
        """
        self._check_configured("fprop")
        self._check_rows("fprop", "inputs", inputs)
        self._present.fprop_transform(None, self.transform, inputs, inputs)
        self.inputs = self.outputs = inputs
        return inputs


class Activation(_Transform):
    """`y = transform(x)`, written into x.  transform: a function with `bprop`, such as Rectlin()."""

    def bprop(self, error: Tensor, alpha: float = 1.0, beta: float = 0.0) -> Tensor:
        """`error = transform.bprop(outputs) * error`; gives the error. Raises as `fprop`."""
        self._check_in_place("bprop", alpha, beta)
        self._check_allocated("bprop")
        self._check_size("bprop", "errors", error, self.outputs.shape)
        self._present.bprop_transform(None, self.transform, self.outputs, error, error)
        return error


class DataTransform(_Transform):
    """`y = transform(x)`, written into x: a step for data, to which no error goes back."""

    def bprop(self, error: Any, alpha: float = 1.0, beta: float = 0.0) -> None:
        """None."""
