"""Local response normalization."""

from __future__ import annotations

from typing import Any

from atled.neon.backends.backend import Tensor
from atled.neon.layers.base import Layer
from atled.neon.layers.windows import image_sizes


class LRN(Layer):
    """Elements of images, divided by a power of what is around them in neighbouring maps.

        denom = 1 + ascale / depth * sum of x^2 over the depth maps around
        y = alpha * x * denom^-bpower + beta * y

    depth: how many maps, odd.  alpha, beta, ascale, bpower: numbers.
    It takes (C, H, W) or (C, D, H, W).  denom: of the last step.  nglayer: the backend's parameter object.
    """

    owns_delta = True

    def __init__(
        self,
        depth: int,
        alpha: float = 1.0,
        beta: float = 0.0,
        ascale: float = 1.0,
        bpower: float = 1.0,
        name: str | None = None,
    ) -> None:
        super().__init__(name)
        self.depth = depth
        self.alpha = alpha
        self.beta = beta
        self.ascale = ascale
        self.bpower = bpower
        self.nglayer: Any = None
        self.denom: Any = None
        self._normal: Any = None

    def configure(self, in_obj: Any) -> LRN:
        """Take sizes of images, which do not change; see Layer.  ValueError: no images, or an even depth."""
        super().configure(in_obj)
        sizes = image_sizes(self._told, self.in_shape)
        self.nglayer = self._parameter_object(self._present.lrn_layer, **sizes, J=self.depth)
        self.out_shape = self.in_shape
        return self

    def allocate(self, shared_outputs: Tensor | None = None) -> None:
        """See Layer."""
        super().allocate(shared_outputs)
        if self.denom is None:
            self.denom = self._present.iobuf(self.out_shape)
            self._normal = self._present.iobuf(self.out_shape) if self._is_scaled else self.outputs

    @property
    def _is_scaled(self) -> bool:
        """Whether the outputs are not what the gradient is in terms of."""
        return self.alpha != 1 or self.beta != 0

    def fprop(self, inputs: Tensor, inference: bool = False) -> Tensor:
        """The outputs.

        inputs: (C * D * H * W, batch) float.  inference: no effect.
        RuntimeError: there is no memory yet.  ValueError: another shape.  TypeError: no tensor.
        """
        self._check_allocated("fprop")
        self._check_size("fprop", "inputs", inputs, self.outputs.shape)
        self.inputs = inputs
        self._present.fprop_lrn(self.nglayer, inputs, self._normal, self.denom, 1.0, 0.0, self.ascale, self.bpower)
        if self._is_scaled:
            self.outputs[:] = self._normal * self.alpha + (self.outputs * self.beta if self.beta else 0)
        return self.outputs

    def bprop(self, error: Tensor, alpha: float = 1.0, beta: float = 0.0) -> Any:
        """`deltas = alpha * gradient + beta * deltas`, where deltas are asked for. Raises as `fprop`."""
        self._check_allocated("bprop")
        self._check_size("bprop", "errors", error, self.outputs.shape)
        if self.deltas is not None:
            self._present.bprop_lrn(
                self.nglayer,
                self.inputs,
                self._normal,
                error,
                self.deltas,
                self.denom,
                alpha * self.alpha,
                beta,
                self.ascale,
                self.bpower,
            )
        return self.deltas
