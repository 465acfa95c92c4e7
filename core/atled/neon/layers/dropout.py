"""Dropout."""

from __future__ import annotations

from typing import Any

from atled.errors import four_parts
from atled.neon.backends.backend import Tensor
from atled.neon.layers.base import Layer


class Dropout(Layer):
    """In training `y = x * mask`, with a mask of ones at random places, else zeros; in inference `y = x * keep`.

    In caffe mode `y = x * mask / keep` and `y = x`, which on average is the same.

    keep: the probability of a one, above 0, at most 1.  mask: of the last step, drawn from `be.rng`.
    """

    owns_delta = True

    def __init__(self, keep: float = 0.5, name: str | None = None) -> None:
        super().__init__(name)
        if not 0 < keep <= 1:
            remedy = "give the probability that an element is kept, above 0, at most 1"
            raise ValueError(four_parts(f"{self._told} with keep={keep}", "it is no such probability", "", remedy))
        self.keep = keep
        self.mask: Any = None
        self._was_inference = False

    def configure(self, in_obj: Any) -> Dropout:
        """Take sizes, which do not change; see Layer."""
        super().configure(in_obj)
        self.out_shape = self.in_shape
        return self

    def allocate(self, shared_outputs: Tensor | None = None) -> None:
        """See Layer."""
        super().allocate(shared_outputs)
        if self.mask is None:
            self.mask = self._present.iobuf(self.out_shape)

    def fprop(self, inputs: Tensor, inference: bool = False, beta: float = 0.0) -> Tensor:
        """`outputs = y + beta * outputs`.

        inputs: (features, steps * batch) float.
        RuntimeError: there is no memory yet.  ValueError: another shape.  TypeError: no tensor.
        """
        self._check_allocated("fprop")
        self._check_size("fprop", "inputs", inputs, self.outputs.shape)
        self.inputs, self._was_inference = inputs, inference
        if not inference:
            self._present.make_binary_mask(self.mask, self.keep)
        factor = self._factor
        self._give("y", inputs, factor, beta)
        return self.outputs

    def bprop(self, error: Tensor, alpha: float = 1.0, beta: float = 0.0) -> Any:
        """`deltas = alpha * error * mask + beta * deltas`, scaled as the outputs were. Raises as `fprop`."""
        self._check_allocated("bprop")
        self._check_size("bprop", "errors", error, self.outputs.shape)
        if self.deltas is not None:
            self._give("d", error, alpha * self._factor, beta)
        return self.deltas

    @property
    def _factor(self) -> float:
        """What the last step multiplied by beside the mask."""
        if self._present.check_caffe_compat():
            return 1.0 if self._was_inference else 1.0 / self.keep
        return self.keep if self._was_inference else 1.0

    def _give(self, name: str, given: Tensor, factor: float, beta: float) -> None:
        """Write a tensor times mask and factor to the outputs, "y", or deltas, "d"."""
        target = self.outputs if name == "y" else self.deltas
        masked = not self._was_inference

        def tree(x: Tensor) -> Any:
            value = x * self.mask if masked else x
            value = value * factor if factor != 1 else value
            return value + target * beta if beta else value

        target[:] = self._seen(f"{name} {masked} {factor} {beta}", given, tree)
