"""Deconvolution: the adjoint of a convolution."""

from __future__ import annotations

from typing import Any

from atled.neon.backends.backend import Tensor
from atled.neon.layers.parameter_layer import ParameterLayer
from atled.neon.layers.windows import filter_sizes, geometry, image_sizes, output_shape


class Deconvolution(ParameterLayer):
    """What a convolution does with errors: it spreads each element over a filter.

    fshape: (R, S, C), or (T, R, S, C): a filter's height and width, with depth before them; maps that come out.
    strides, padding, dilation: those of the convolution, as for Convolution.
    init: of W (C * T * R * S, K).  bsum: whether `batch_sum` (C, 1) gets the sums of the outputs per map.

    It takes (K, P, Q) or (K, M, P, Q), and gives (C, H, W), or (C, D, H, W) where D is not 1.
    deconvparams: what the backend's parameter object is made of.  nglayer: that object, once it is configured.
    """

    def __init__(
        self,
        fshape: Any,
        strides: Any = None,
        padding: Any = None,
        dilation: Any = None,
        init: Any = None,
        bsum: bool = False,
        name: str | None = None,
        parallelism: str = "Data",
    ) -> None:
        super().__init__(init, name, parallelism)
        self.fshape = fshape
        self.strides = strides
        self.padding = padding
        self.dilation = dilation
        self.bsum = bsum
        self.nglayer: Any = None
        self.deconvparams: dict[str, Any] = {
            **filter_sizes(self._told, fshape, "C"),
            **geometry(self._told, "strides", "str", strides),
            **geometry(self._told, "padding", "pad", padding),
            **geometry(self._told, "dilation", "dil", dilation),
        }

    def configure(self, in_obj: Any) -> Deconvolution:
        """Take sizes of images; see Layer.  ValueError: they are no images, or padding leaves nothing."""
        super().configure(in_obj)
        sizes = image_sizes(self._told, self.in_shape)
        self.deconvparams.update(zip("KMPQ", sizes.values(), strict=True))
        self.nglayer = self._parameter_object(self._backend.deconv_layer, **self.deconvparams)
        self.out_shape = output_shape(self.nglayer.dimI[:4])
        self.weight_shape = self.nglayer.dimF2
        return self

    def fprop(self, inputs: Tensor, inference: bool = False, beta: float = 0.0) -> Tensor:
        """`outputs = deconvolution + beta * outputs`.

        inputs: (K * M * P * Q, batch) float.  inference: no effect.
        RuntimeError: there is no memory yet.  ValueError: another shape.  TypeError: no tensor.
        """
        self._check_allocated("fprop")
        self._check_size("fprop", "inputs", inputs, self.nglayer.dimO2)
        self.inputs = inputs
        self._backend.bprop_conv(self.nglayer, self.W, inputs, self.outputs, bsum=self.batch_sum, beta=beta)
        return self.outputs

    @ParameterLayer.accumulates
    def bprop(self, error: Tensor, alpha: float = 1.0, beta: float = 0.0) -> Any:
        """The gradient of W, and `deltas = alpha * gradient + beta * deltas`, where deltas are asked for.

        error: (C * D * H * W, batch) float. Raises as `fprop`.
        """
        self._check_allocated("bprop")
        self._check_size("bprop", "errors", error, self.outputs.shape)
        if self.deltas is not None:
            self._backend.fprop_conv(self.nglayer, error, self.W, self.deltas, alpha=alpha, beta=beta)
        self._backend.update_conv(self.nglayer, error, self.inputs, self.dW)
        return self.deltas
