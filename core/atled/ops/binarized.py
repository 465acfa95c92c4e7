"""Layers that compute with the signs of their weights, which they write into an array of their own."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from atled.array_desc import ArrayDesc
from atled.ops.convolution import GEOMETRY, Convolution
from atled.ops.linear import Affine
from atled.ops.samples import Away, Data, Exact, Refused, Sample
from atled.ops.spec import Input, OpSpec

if TYPE_CHECKING:
    from atled.ops.rules import GradientCall, IRValue


class ReplacedWeight(OpSpec, abstract=True):
    """A layer that computes a plain one with a weight made from the given one.

    Its inputs are those of the plain layer, x, weight and bias, with further arrays before the bias.

    layer: the plain one.
    """

    category = "quantized"
    products = True
    layer: ClassVar[type[OpSpec]]

    def __init__(self, name: str, doc: str | None = None) -> None:
        # Under the name of this op, so that messages name what the user called.
        self.plain = self.layer(name, "")
        super().__init__(name, doc)

    def plain_attributes(self, attributes: Mapping[str, Any]) -> dict[str, Any]:
        """Those of the attributes that are the plain layer's."""
        # These layers have no channel_last: the plain one computes what it is without.
        return {item.name: attributes.get(item.name, item.default) for item in self.plain.attributes}

    def normalize(self, attributes: dict[str, Any], *inputs: ArrayDesc | None) -> dict[str, Any]:
        x, weight, bias = inputs[0], inputs[1], inputs[len(self.user_inputs) - 1]
        plain = self.plain.normalize(self.plain_attributes(attributes), x, weight, bias)
        return {name: plain.get(name, value) for name, value in attributes.items()}

    def plain_gradient(
        self, g: GradientCall, x: IRValue, weight: IRValue, bias: IRValue | None, attributes: Mapping[str, Any]
    ) -> Sequence[IRValue | None]:
        """The gradients of the plain layer, called with these inputs, with respect to x, weight and bias."""
        inner = g.with_inputs((x, weight, bias), (*g.needs[:2], g.needs[len(self.user_inputs) - 1]))
        return self.plain.gradient(inner, x, weight, bias, **self.plain_attributes(attributes))


class _BinaryConnect(ReplacedWeight, abstract=True):
    """What both layers share: a weight that consists of signs."""

    inputs = (
        Input("x"),
        Input("weight"),
        Input("binary_weight", gradient="none"),
        Input("bias", optional=True),
    )
    mutates = ("binary_weight",)
    overwrites = mutates

    def infer(self, *inputs: Any, **attributes: Any) -> ArrayDesc | Sequence[ArrayDesc]:
        x, weight, binary_weight, bias = inputs
        _check_like_weight(self, inputs, weight, binary_weight)
        return self.plain.infer(x, weight, bias, **attributes)

    def reference(self, *inputs: Any, **attributes: Any) -> np.ndarray | Sequence[np.ndarray]:
        x, weight, binary_weight, bias = inputs
        binary_weight[...] = _signs(weight)
        return self.plain.reference(x, binary_weight, bias, **attributes)

    def gradient(self, g: GradientCall, *inputs: Any, **attributes: Any) -> Sequence[IRValue | None]:
        x, _, binary_weight, bias = inputs
        gx, gw, gb = self.plain_gradient(g, x, binary_weight, bias, attributes)
        return gx, gw, None, gb


class BinaryConnectAffine(_BinaryConnect):
    """Affine map with the signs of its weight: `y = x sign(weight) + b`, where sign(0) = -1.

    The signs are written into binary_weight. The gradient of the weight is straight-through: that of an affine map with
    binary_weight for a weight.

    Source: Courbariaux, Bengio, David, "BinaryConnect", NIPS 2015.

    Args:
        x: (B..., I...) float; base_axis leading axes are kept.
        weight: (D, L...) float; D = product of x.shape[base_axis:].
        binary_weight: shape of weight, float; overwritten with its signs. It gets no gradient.
        bias: (L...) float, optional.
        base_axis: how many leading axes of x count as the batch; negative counts from the end.

    Returns:
        y: (B..., L...) float.

    Raises:
        ValueError: shapes that do not match, base_axis is out of range.
    """

    function = "binary_connect_affine"
    layer = Affine
    attributes = Affine.attributes

    def samples(self) -> Sequence[Sample]:
        return _affine_samples(0)

    def refused(self) -> Sequence[Refused]:
        return _affine_refused(0)


class BinaryConnectConvolution(_BinaryConnect):
    """Convolution with the signs of its weight, where sign(0) = -1.

    The signs are written into binary_weight. The gradient of the weight is straight-through: that of a convolution with
    binary_weight for a weight.

    Source: Courbariaux, Bengio, David, "BinaryConnect", NIPS 2015.

    Args:
        x: (B..., C, S...) float; base_axis leading axes B are kept.
        weight: (O, C / group, K...) float.
        binary_weight: shape of weight, float; overwritten with its signs. It gets no gradient.
        bias: (O,) float, optional.
        base_axis, pad, stride, dilation, group: as `Convolution`.

    Returns:
        y: (B..., O, T...) float; T as `Convolution`.

    Raises:
        ValueError: shapes that do not match.
    """

    function = "binary_connect_convolution"
    layer = Convolution
    attributes = GEOMETRY

    def samples(self) -> Sequence[Sample]:
        return _convolution_samples(0)

    def refused(self) -> Sequence[Refused]:
        return _convolution_refused(0)


class _BinaryWeight(ReplacedWeight, abstract=True):
    """What both layers share: a weight that consists of scaled signs."""

    inputs = (
        Input("x"),
        Input("weight"),
        Input("binary_weight", gradient="none"),
        Input("alpha", gradient="none"),
        Input("bias", optional=True),
    )
    mutates = ("binary_weight", "alpha")
    overwrites = mutates

    def output_shape(self, weight: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of a weight with 1 on the axes that do not tell outputs apart."""
        raise NotImplementedError

    def infer(self, *inputs: Any, **attributes: Any) -> ArrayDesc | Sequence[ArrayDesc]:
        x, weight, binary_weight, alpha, bias = inputs
        _check_like_weight(self, inputs, weight, binary_weight)
        y = self.plain.infer(x, weight, bias, **attributes)
        expected = math.prod(self.output_shape(weight.shape))
        if alpha.size != expected:
            raise self.error(inputs, f"alpha has {alpha.size} elements", f"give it {expected}, one per output")
        return y

    def reference(self, *inputs: Any, **attributes: Any) -> np.ndarray | Sequence[np.ndarray]:
        x, weight, binary_weight, alpha, bias = inputs
        shape = self.output_shape(weight.shape)
        averaged = tuple(axis for axis, size in enumerate(shape) if size == 1)
        count = max(1, math.prod(weight.shape[axis] for axis in averaged))
        mean = (np.abs(weight).sum(axis=averaged, keepdims=True, dtype=np.float64) / count).astype(weight.dtype)
        binary_weight[...] = _signs(weight)
        alpha[...] = mean.reshape(alpha.shape)
        return self.plain.reference(x, binary_weight * mean, bias, **attributes)

    def gradient(self, g: GradientCall, *inputs: Any, **attributes: Any) -> Sequence[IRValue | None]:
        x, _, binary_weight, alpha, bias = inputs
        scaled = binary_weight * g.reshape(alpha, self.output_shape(binary_weight.shape))
        gx, gw, gb = self.plain_gradient(g, x, scaled, bias, attributes)
        return gx, gw, None, None, gb


class BinaryWeightAffine(_BinaryWeight):
    """Affine map with the scaled signs of its weight: `y = x (alpha sign(weight)) + b`, where sign(0) = -1.

    alpha is the mean of |weight| over its first axis, one number per output; it and the signs are written into the
    arrays given for them. The gradient of the weight is straight-through: that of an affine map with
    `alpha binary_weight` for a weight.

    Source: Rastegari, Ordonez, Redmon, Farhadi, "XNOR-Net", ECCV 2016.

    Args:
        x: (B..., I...) float; base_axis leading axes are kept.
        weight: (D, L...) float; D = product of x.shape[base_axis:].
        binary_weight: shape of weight, float; overwritten with its signs. It gets no gradient.
        alpha: (L...) float, or another shape of that size; overwritten. It gets no gradient.
        bias: (L...) float, optional.
        base_axis: how many leading axes of x count as the batch; negative counts from the end.

    Returns:
        y: (B..., L...) float.

    Raises:
        ValueError: shapes that do not match, base_axis is out of range.
    """

    function = "binary_weight_affine"
    layer = Affine
    attributes = Affine.attributes

    def output_shape(self, weight: tuple[int, ...]) -> tuple[int, ...]:
        return (1, *weight[1:])

    def samples(self) -> Sequence[Sample]:
        return _affine_samples(1)

    def refused(self) -> Sequence[Refused]:
        wrong = Refused(ValueError, "alpha has 4 elements", (3, 4), (4, 5), (4, 5), (4,), None)
        return (*_affine_refused(1), wrong)


class BinaryWeightConvolution(_BinaryWeight):
    """Convolution with the scaled signs of its weight: `alpha sign(weight)` for a weight, where sign(0) = -1.

    alpha is the mean of |weight| over all axes but the first, one number per output map; it and the signs are written
    into the arrays given for them. The gradient of the weight is straight-through: that of a convolution with
    `alpha binary_weight` for a weight.

    Source: Rastegari, Ordonez, Redmon, Farhadi, "XNOR-Net", ECCV 2016.

    Args:
        x: (B..., C, S...) float; base_axis leading axes B are kept.
        weight: (O, C / group, K...) float.
        binary_weight: shape of weight, float; overwritten with its signs. It gets no gradient.
        alpha: (O,) float, or another shape of that size; overwritten. It gets no gradient.
        bias: (O,) float, optional.
        base_axis, pad, stride, dilation, group: as `Convolution`.

    Returns:
        y: (B..., O, T...) float; T as `Convolution`.

    Raises:
        ValueError: shapes that do not match.
    """

    function = "binary_weight_convolution"
    layer = Convolution
    attributes = GEOMETRY

    def output_shape(self, weight: tuple[int, ...]) -> tuple[int, ...]:
        return (weight[0], *(1 for _ in weight[1:]))

    def samples(self) -> Sequence[Sample]:
        return _convolution_samples(1)

    def refused(self) -> Sequence[Refused]:
        wrong = Refused(ValueError, "alpha has 3 elements", (2, 3, 5, 5), (4, 3, 3, 3), (4, 3, 3, 3), (3,), None)
        return (*_convolution_refused(1), wrong)


def _signs(weight: np.ndarray) -> np.ndarray:
    return np.where(weight > 0, 1, -1).astype(weight.dtype)


def _check_like_weight(spec: OpSpec, inputs: Sequence[Any], weight: ArrayDesc, binary_weight: ArrayDesc) -> None:
    if binary_weight.shape != weight.shape:
        raise spec.error(
            inputs, f"binary_weight has shape {list(binary_weight.shape)}", f"use {list(weight.shape)}, that of weight"
        )


def _affine_samples(alphas: int) -> tuple[Sample, ...]:
    """Calls of an affine layer; alphas: 1 where it takes an alpha."""

    def sample(x: Sequence[int], weight: Data, bias: Sequence[int] | None, **attributes: Any) -> Sample:
        outputs = [weight.shape[1:]] * alphas
        return Sample(x, weight, weight.shape, *outputs, bias, **attributes).no_gradient()

    return (
        sample((3, 4), Away((4, 5), 0.0), (5,)),
        sample((3, 4), Away((4, 5), 0.0), None),
        sample((2, 3, 4, 5), Away((20, 2, 3), 0.0), (2, 3), base_axis=2),
        sample((2, 3), Exact([[0.0, 1.0], [-2.0, 0.0], [0.5, -0.0]]), None),
        sample((2, 3, 4), Away((4, 2), 0.0), (2,), base_axis=-1),
        sample((0, 4), Away((4, 5), 0.0), (5,)),
    )


def _affine_refused(alphas: int) -> tuple[Refused, ...]:
    alpha = [(5,)] * alphas
    return (
        Refused(ValueError, "weight takes 5", (3, 4), (5, 5), (5, 5), *alpha, None),
        Refused(ValueError, "binary_weight has shape", (3, 4), (4, 5), (5, 4), *alpha, None),
        Refused(ValueError, "bias: \\[4\\].*bias has shape", (3, 4), (4, 5), (4, 5), *alpha, (4,)),
    )


def _convolution_samples(alphas: int) -> tuple[Sample, ...]:
    """Calls of a convolution; alphas: 1 where it takes an alpha."""

    def sample(x: Sequence[int], weight: Sequence[int], bias: Sequence[int] | None, **attributes: Any) -> Sample:
        outputs = [tuple(weight[:1])] * alphas
        return Sample(x, Away(weight, 0.0), weight, *outputs, bias, **attributes).no_gradient()

    return (
        sample((2, 3, 5, 6), (4, 3, 3, 2), (4,)),
        sample((2, 4, 7, 5), (6, 2, 3, 3), None, pad=(1, 0), stride=(2, 1), group=2),
        sample((2, 3, 9), (4, 3, 3), (4,), pad=(1,), stride=(2,), dilation=(2,)),
        sample((2, 3, 4, 4, 4), (2, 4, 3, 3), (2,), base_axis=2, pad=(1, 1)),
        sample((0, 3, 5, 5), (2, 3, 3, 3), (2,)),
    )


def _convolution_refused(alphas: int) -> tuple[Refused, ...]:
    alpha = [(4,)] * alphas
    good, other = (4, 3, 3, 3), (4, 2, 3, 3)
    return (
        Refused(ValueError, "weight takes 2", (2, 3, 5, 5), other, other, *alpha, None),
        Refused(ValueError, "binary_weight has shape", (2, 3, 5, 5), good, other, *alpha, None),
        Refused(ValueError, "pad=.* has 1 entries", (2, 3, 5, 5), good, good, *alpha, None, pad=(1,)),
    )
