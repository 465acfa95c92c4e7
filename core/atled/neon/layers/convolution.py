"""Convolutions, with and without a bias."""

from __future__ import annotations

from typing import Any

from atled.neon.backends.backend import Tensor
from atled.neon.layers.filters import FilterLayer
from atled.neon.layers.windows import image_sizes, output_shape


class Convolution(FilterLayer):
    """Cross-correlation of images with filters.

    fshape: (R, S, K), or (T, R, S, K): a filter's height and width, with depth before them; maps that come out.
    strides, padding, dilation: a number for height and width, or a dictionary with names such as str_h, pad_w, dil_d.
    init: of W (C * T * R * S, K).  bsum: whether `batch_sum` (K, 1) gets the sums of the outputs per map.

    It takes (C, H, W) or (C, D, H, W), and gives (K, P, Q), or (K, M, P, Q) where M is not 1.
    nglayer: the backend's parameter object, once it is configured.
    """

    @property
    def convparams(self) -> dict[str, Any]:
        """What the parameter object is made of: those of its arguments that are not their defaults."""
        return self._sizes

    def configure(self, in_obj: Any) -> Convolution:
        """Take sizes of images; see Layer.  ValueError: they are no images, or filters do not fit."""
        super().configure(in_obj)
        self._sizes.update(image_sizes(self._told, self.in_shape))
        self.nglayer = self._parameter_object(self._present.conv_layer, **self._sizes)
        self.out_shape = output_shape(self.nglayer.dimO[:4])
        self.weight_shape = self.nglayer.dimF2
        return self

    @property
    def _taken(self) -> tuple[int, ...]:
        shape: tuple[int, ...] = self.nglayer.dimI2
        return shape

    def _forward(self, inputs: Tensor, beta: float) -> None:
        self._present.fprop_conv(self.nglayer, inputs, self.W, self.outputs, bsum=self.batch_sum, beta=beta)

    def _backward(self, error: Tensor, alpha: float, beta: float) -> None:
        self._present.bprop_conv(self.nglayer, self.W, error, self.deltas, alpha=alpha, beta=beta)

    def _update(self, error: Tensor) -> None:
        self._present.update_conv(self.nglayer, self.inputs, error, self.dW)


class Convolution_bias(Convolution):
    """A Convolution, to whose maps a bias is added in the same program.

    bias: an initializer; None for no bias.  Others: as for Convolution.
    weight_bias, grad_bias: (K, 1).  states: a list for W and one for the bias, where there is one.
    """

    def __init__(
        self,
        fshape: Any,
        strides: Any = None,
        padding: Any = None,
        dilation: Any = None,
        init: Any = None,
        bias: Any = None,
        bsum: bool = False,
        name: str | None = None,
        parallelism: str = "Data",
    ) -> None:
        super().__init__(fshape, strides, padding, dilation, init, bsum, name, parallelism)
        self.bias = bias
        self.weight_bias: Any = None
        self.grad_bias: Any = None
        if bias is not None:
            self.saved = ("W", "weight_bias")
            self.states = [[], []]

    def init_params(self, shape: Any) -> None:
        """See ParameterLayer."""
        super().init_params(shape)
        if self.bias is None:
            return
        if self.weight_bias is None:
            bias = self._present.empty((shape[1], 1))
            self._fill(bias, self.bias, "bias")
            self.weight_bias = bias
        self.grad_bias = self._present.zeros_like(self.weight_bias)

    def get_params(self) -> Any:
        """[((W, dW), states), ((weight_bias, grad_bias), states)]; ((W, dW), states) without a bias."""
        if self.bias is None:
            return super().get_params()
        of_weights, of_bias = self.states
        return [((self.W, self.dW), of_weights), ((self.weight_bias, self.grad_bias), of_bias)]

    def _gradients(self) -> list[Tensor]:
        return [self.dW] if self.bias is None else [self.dW, self.grad_bias]

    def _forward(self, inputs: Tensor, beta: float) -> None:
        self._present.fprop_conv(
            self.nglayer, inputs, self.W, self.outputs, bias=self.weight_bias, bsum=self.batch_sum, beta=beta
        )

    def _update(self, error: Tensor) -> None:
        self._present.update_conv(self.nglayer, self.inputs, error, self.dW, grad_bias=self.grad_bias)
