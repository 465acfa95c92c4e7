"""Convolutions and their gradients, each one program on the tensors as they lie."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from atled.errors import four_parts
from atled.keyed import Description
from atled.neon.calls.convolution_layers import ConvLayer
from atled.neon.calls.convolution_results import Result
from atled.neon.calls.described import Described, DescribedCalls, image_call
from atled.neon.calls.layer_objects import check_layer
from atled.neon.calls.operands import Operand, added, as_number, check_operands, give, scaled, taken
from atled.neon.trees.tensor import Tensor

if TYPE_CHECKING:
    from atled_contexts import Context

_IMAGES, _FILTERS, _OUTPUTS = "C D H W N", "C T R S K", "K M P Q N"


class ConvolutionCalls(DescribedCalls):
    """Computes convolutions and deconvolutions.

    What `fprop_conv` and `bprop_conv` do behind the convolution, in this order:

        result = alpha * convolution + bias
        relu:   result = maximum(result, 0) + slope * minimum(result, 0)
        brelu:  result = result * ((X > 0) + slope * (X < 0))
        output = result + beta * X
        bsum = sums of the output, one for each map

    X is the output as it was, where none is given. Tensors may have any shape, only their sizes count. Behind the
    tensors neon's documents have other arguments than its code: `alpha, relu, repeat` and `alpha, repeat`. A number in
    the place of X is taken for alpha, and what follows for these.
    """

    if TYPE_CHECKING:
        context: Context
        empty: Any

    @image_call
    def fprop_conv(
        self,
        layer: ConvLayer,
        I: Tensor,  # noqa: E741  the API's name
        F: Tensor,
        O: Tensor,  # noqa: E741  the API's name
        X: Any = None,
        bias: Any = None,
        bsum: Any = None,
        alpha: float = 1.0,
        beta: float = 0.0,
        relu: bool | None = None,
        brelu: bool = False,
        slope: float = 0.0,
        layer_op: Any = None,
        repeat: int = 1,
    ) -> Described:
        """Cross-correlation of images with filters.

            O[k,m,p,q,n] = sum of I[c, m*str_d - pad_d + t*dil_d, p*str_h - ..., q*str_w - ..., n] * F[c,t,r,s,k]

        Args:
            layer: of `conv_layer`; of `deconv_layer` for the gradient of a deconvolution.
            I: (C, D, H, W, N) float.  F: (C, T, R, S, K) float.
            O: (K, M, P, Q, N); is overwritten.
            X: as O, see the class.  bias, bsum: (K, 1).
            relu: None for what the layer was made with; so is bsum, for which True and False will do.
            layer_op, repeat: no effect.

        Raises:
            TypeError: layer or tensors that are none, factors that are no numbers.
            ValueError: a tensor of another size or backend.
        """
        check_layer("fprop_conv", layer, ConvLayer)
        if X is not None and not isinstance(X, Tensor):
            alpha, X = X, None
            if bias is not None and not isinstance(bias, Tensor):
                relu, bias = bias, None
            bsum = bsum if isinstance(bsum, Tensor) else None
        if bsum is True or (bsum is None and layer.bsum is not False):
            bsum = self._batch_sum(layer)
        bsum = None if bsum is False else bsum
        rectified = bool(layer.relu if relu is None else relu)
        target = Operand("O", O, _OUTPUTS, layer.dimO)
        result = Result("fprop_conv", target, X, bias, bsum, alpha, beta, rectified, bool(brelu), slope)
        operands = Operand("I", I, _IMAGES, layer.dimI), Operand("F", F, _FILTERS, layer.dimF)
        check_operands(self, "fprop_conv", *operands, *result.operands)
        d = Description(self.context)
        early_bias = result.early_bias(d)
        x, weight = taken(d, I, *layer.images), taken(d, F, *layer.filters)
        value = d.call("Convolution", x, weight, early_bias, **layer.geometry)
        result.write(d, value, *layer.outputs, biased=early_bias is not None)
        return Described(d)

    @image_call
    def bprop_conv(
        self,
        layer: ConvLayer,
        F: Tensor,
        E: Tensor,
        grad_I: Tensor,
        X: Any = None,
        bias: Any = None,
        bsum: Any = None,
        alpha: float = 1.0,
        beta: float = 0.0,
        relu: bool = False,
        brelu: bool = False,
        slope: float = 0.0,
        layer_op: Any = None,
        repeat: int = 1,
    ) -> Described:
        """Gradient of a convolution with respect to its images, which is a deconvolution.

            grad_I[c,d,h,w,n] = sum of F[c,t,r,s,k] * E[k,m,p,q,n] over m*str_d - pad_d + t*dil_d = d, ...

        Args:
            layer: of `conv_layer`; of `deconv_layer` for a deconvolution.
            F: (C, T, R, S, K) float.  E: (K, M, P, Q, N) float.
            grad_I: (C, D, H, W, N); is overwritten.
            X: as grad_I, see the class.  bias, bsum: (C, 1).
            layer_op, repeat: no effect.

        Raises as `fprop_conv`.
        """
        check_layer("bprop_conv", layer, ConvLayer)
        if X is not None and not isinstance(X, Tensor):
            alpha, X = X, None
            bias = bias if isinstance(bias, Tensor) else None
        target = Operand("grad_I", grad_I, _IMAGES, layer.dimI)
        result = Result("bprop_conv", target, X, bias, bsum, alpha, beta, bool(relu), bool(brelu), slope)
        operands = Operand("F", F, _FILTERS, layer.dimF), Operand("E", E, _OUTPUTS, layer.dimO)
        check_operands(self, "bprop_conv", *operands, *result.operands)
        d = Description(self.context)
        gy, weight = taken(d, E, *layer.outputs), taken(d, F, *layer.filters)
        value = d.call("ConvolutionDataGrad", gy, weight, shape=layer.along(layer.DHW), **layer.geometry)
        result.write(d, value, *layer.images)
        return Described(d)

    @image_call
    def update_conv(
        self,
        layer: ConvLayer,
        I: Tensor,  # noqa: E741  the API's name
        E: Tensor,
        U: Any = None,
        alpha: float = 1.0,
        beta: float = 0.0,
        grad_bias: Any = None,
        layer_op: Any = None,
        repeat: int = 1,
        *,
        grad_F: Any = None,
    ) -> Described:
        """Gradient of a convolution with respect to its filters.

            grad_F[c,t,r,s,k] = alpha * sum over m, p, q, n of I[c, m*str_d - pad_d + t*dil_d, ..., n] * E[k,m,p,q,n]

        Args:
            layer: of `conv_layer` or `deconv_layer`.
            I: (C, D, H, W, N) float.  E: (K, M, P, Q, N) float.
            U, or grad_F: (C, T, R, S, K); becomes the gradient + beta * itself.
            grad_bias: (K, 1); likewise of the sums of E. Of a deconvolution (C, 1), of the sums of I.
            layer_op, repeat: no effect.

        Raises as `fprop_conv`.
        """
        check_layer("update_conv", layer, ConvLayer)
        target = _once(U, grad_F)
        operands = [
            Operand("I", I, _IMAGES, layer.dimI),
            Operand("E", E, _OUTPUTS, layer.dimO),
            Operand("grad_F", target, _FILTERS, layer.dimF),
        ]
        maps, axis, position = layer.biased
        if grad_bias is not None:
            operands.append(Operand("grad_bias", grad_bias, axis, (maps,)))
        alpha, beta = as_number("update_conv", "alpha", alpha), as_number("update_conv", "beta", beta)
        check_operands(self, "update_conv", *operands)
        d = Description(self.context)
        x, gy = taken(d, I, *layer.images), taken(d, E, *layer.outputs)
        value = d.call("ConvolutionWeightGrad", x, gy, kernel=layer.along(layer.TRS), **layer.geometry)
        dims, axes = layer.filters
        give(d, target, dims, added(d, scaled(d, value, alpha), beta, target, dims, axes), axes)
        if grad_bias is not None:
            sums = d.call("Sum", (x, gy)[position], axes=(0, *range(2, len(dims))))
            give(d, grad_bias, (maps,), added(d, scaled(d, sums, alpha), beta, grad_bias, (maps,)))
        return Described(d)

    def _batch_sum(self, layer: ConvLayer) -> Tensor:
        """Where sums are written that a layer asks for, but no call has a place for: made once."""
        if layer.batch_sum is None:
            layer.batch_sum = layer.bsum if isinstance(layer.bsum, Tensor) else self.empty((layer.K, 1))
        return layer.batch_sum


def _once(U: Any, grad_F: Any) -> Any:
    """An argument that has two names; TypeError where none or both are given."""
    if (U is None) == (grad_F is None):
        wrong = "grad_F is missing" if U is None else "both U and grad_F are given, two names of one argument"
        raise TypeError(four_parts("update_conv", wrong, "", "give the tensor for the gradient once"))
    return grad_F if U is None else U
