"""Deconvolution: the adjoint of a convolution."""

from __future__ import annotations

from typing import Any

from atled.neon.backends.backend import Tensor
from atled.neon.layers.filters import FilterLayer
from atled.neon.layers.windows import image_sizes, output_shape


class Deconvolution(FilterLayer):
    """What a convolution does with errors: it spreads each element over a filter.

    fshape: (R, S, C), or (T, R, S, C): a filter's height and width, with depth before them; maps that come out.
    strides, padding, dilation: those of the convolution, as for Convolution.
    init: of W (C * T * R * S, K).  bsum: whether `batch_sum` (C, 1) gets the sums of the outputs per map.

    It takes (K, P, Q) or (K, M, P, Q), and gives (C, H, W), or (C, D, H, W) where D is not 1.
    nglayer: the backend's parameter object, once it is configured.
    """

    maps = "C"

    @property
    def deconvparams(self) -> dict[str, Any]:
        """What the parameter object is made of: those of its arguments that are not their defaults."""
        return self._sizes

    def configure(self, in_obj: Any) -> Deconvolution:
        """Take sizes of images; see Layer.  ValueError: they are no images, or padding leaves nothing."""
        super().configure(in_obj)
        sizes = image_sizes(self._told, self.in_shape)
        self._sizes.update(zip("KMPQ", sizes.values(), strict=True))
        self.nglayer = self._parameter_object(self._present.deconv_layer, **self._sizes)
        self.out_shape = output_shape(self.nglayer.dimI[:4])
        self.weight_shape = self.nglayer.dimF2
        return self

    @property
    def _taken(self) -> tuple[int, ...]:
        shape: tuple[int, ...] = self.nglayer.dimO2
        return shape

    def _forward(self, inputs: Tensor, beta: float) -> None:
        self._present.bprop_conv(self.nglayer, self.W, inputs, self.outputs, bsum=self.batch_sum, beta=beta)

    def _backward(self, error: Tensor, alpha: float, beta: float) -> None:
        self._present.fprop_conv(self.nglayer, error, self.W, self.deltas, alpha=alpha, beta=beta)

    def _update(self, error: Tensor) -> None:
        self._present.update_conv(self.nglayer, error, self.inputs, self.dW)
