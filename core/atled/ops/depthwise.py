"""Depthwise convolution and deconvolution: every channel is filtered by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from atled.array_desc import ArrayDesc
from atled.ops.channel_axis import CHANNEL_LAST, all_but_channels, either_layout, spatial_shape
from atled.ops.convolution import GEOMETRY, Convolutional
from atled.ops.deconvolution import Transposed
from atled.ops.samples import Refused, Sample
from atled.ops.spec import SPECS, Attribute, Input

if TYPE_CHECKING:
    from atled.ops.rules import GradientCall, IRValue

_WINDOWS = GEOMETRY[:-1]  # without group, which the channels decide


def _check_filters(
    spec: Convolutional, inputs: Sequence[ArrayDesc | None], weight: ArrayDesc, spatial: int, filters: int
) -> None:
    """Refuse a weight that is not (filters, kernel...)."""
    if weight.ndim != spatial + 1:
        raise spec.error(inputs, f"weight has {weight.ndim} axes", f"give it {spatial + 1}: filters, kernel")
    if not filters:
        raise spec.error(inputs, "x has no channels", "give the channel axis a size of at least 1")
    if weight.shape[0] != filters:
        raise spec.error(
            inputs,
            f"weight holds {weight.shape[0]} filters, {filters} are needed",
            f"use a weight of shape ({filters}, ...)",
        )
    if 0 in weight.shape[1:]:
        raise spec.error(inputs, "the kernel is empty", "give every kernel axis a size of at least 1")


def _grouped(shape: Sequence[int], channel_last: bool = False) -> tuple[int, ...]:
    """The shape (filters, K...) as that of a grouped convolution's weight: (filters, 1, K...) or (filters, K..., 1)."""
    return (*shape, 1) if channel_last else (shape[0], 1, *shape[1:])


class DepthwiseConvolution(Convolutional):
    """Convolution of each channel by itself, with `multiplier` filters per channel.

    `y[n, o, i] = bias[o] + sum over r of weight[o, r] * x[n, o // multiplier, i * stride - pad + r * dilation]`, where
    i and r run over the spatial axes: a `Convolution` with as many groups as there are channels.

    Source: Chollet 2017, "Xception: Deep Learning with Depthwise Separable Convolutions".

    Args:
        x: (B..., C, S...) float; base_axis leading axes B are kept.
        weight: (C multiplier, K...) float.
        bias: (C multiplier,) float, optional.
        base_axis, pad, stride, dilation: as `Convolution`.
        multiplier: output maps per channel.
        channel_last: whether the images are x (B..., S..., C) and y (B..., T..., C multiplier); weight stays as it is.

    Returns:
        y: (B..., C multiplier, T...) float; T as `Convolution`.

    Raises:
        ValueError: no spatial axis, no channels, shapes that do not match, a kernel larger than the padded input.
    """

    function = "depthwise_convolution"
    grouping = "multiplier"
    inputs = (Input("x"), Input("weight"), Input("bias", optional=True))
    attributes = (*_WINDOWS, Attribute("multiplier", "int", 1), CHANNEL_LAST)
    channelled = ("x", "y")

    @either_layout
    def infer(
        self,
        x: ArrayDesc,
        weight: ArrayDesc,
        bias: ArrayDesc | None,
        *,
        base_axis: int,
        multiplier: int,
        **geometry: Any,
    ) -> ArrayDesc:
        inputs = (x, weight, bias)
        sizes = x.shape[base_axis + 1 :]
        maps = x.shape[base_axis] * multiplier
        _check_filters(self, inputs, weight, len(sizes), maps)
        self.check_bias(inputs, bias, maps)
        counts = self.window_counts(inputs, sizes, weight.shape[1:], **geometry)
        return ArrayDesc((*x.shape[:base_axis], maps, *counts), x.dtype)

    @either_layout
    def reference(
        self,
        x: np.ndarray,
        weight: np.ndarray,
        bias: np.ndarray | None,
        *,
        base_axis: int,
        multiplier: int,
        **geometry: Any,
    ) -> np.ndarray:
        filters = weight.reshape(_grouped(weight.shape))
        group = x.shape[base_axis]
        y: Any = SPECS["Convolution"].reference(x, filters, bias, base_axis=base_axis, group=group, **geometry)
        return y

    def gradient(
        self,
        g: GradientCall,
        x: IRValue,
        weight: IRValue,
        bias: IRValue | None,
        *,
        multiplier: int,
        **geometry: Any,
    ) -> Sequence[IRValue | None]:
        gx = gw = gb = None
        count, channel_last = len(geometry["pad"]), geometry["channel_last"]
        geometry["group"] = weight.shape[0] // multiplier
        if g.needs[0]:
            filters = g.reshape(weight, _grouped(weight.shape, channel_last))
            shape = spatial_shape(x.shape, count, channel_last)
            gx = g.op("ConvolutionDataGrad", g.gy, filters, shape=shape, **geometry)
        if g.needs[1]:
            gw = g.op("ConvolutionWeightGrad", x, g.gy, kernel=weight.shape[1:], **geometry)
            gw = g.reshape(gw, weight.shape)
        if bias is not None and g.needs[2]:
            gb = g.op("Sum", g.gy, axes=all_but_channels(x.ndim, count, channel_last))
        return gx, gw, gb

    def samples(self) -> Sequence[Sample]:
        return (
            Sample((2, 3, 5, 6), (3, 3, 2), (3,)),
            Sample((2, 3, 5, 6), (6, 3, 2), None, multiplier=2),
            Sample((2, 2, 7, 5), (6, 3, 3), (6,), pad=(1, 0), stride=(2, 1), multiplier=3),
            Sample((2, 2, 7, 8), (2, 3, 2), None, pad=(0, 2), stride=(3, 2), dilation=(2, 3)),
            Sample((2, 3, 9), (6, 3), (6,), pad=(1,), stride=(2,), dilation=(2,), multiplier=2),
            Sample((2, 3, 4, 4, 4), (4, 3, 3), (4,), base_axis=2, pad=(1, 1)),
            Sample((2, 2, 3, 4, 3), (2, 2, 3, 2), (2,), pad=(1, 0, 1), stride=(1, 1, 2)),
            Sample((3, 4, 5), (6, 2, 3), None, base_axis=-3, multiplier=2),
            Sample((0, 3, 5, 5), (3, 3, 3), (3,)),
            Sample((3, 17, 9, 9), (34, 3, 3), (34,), pad=(1, 1), multiplier=2).no_gradient(),
            Sample((2, 5, 4, 2), (4, 3, 2), (4,), pad=(1, 0), stride=(2, 1), multiplier=2, channel_last=True),
        )

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "holds 3 filters, 6 are needed", (2, 3, 5, 5), (3, 3, 3), None, multiplier=2),
            Refused(ValueError, "weight has 4 axes", (2, 3, 5, 5), (3, 1, 3, 3), None),
            Refused(ValueError, "bias has shape", (2, 3, 5, 5), (6, 3, 3), (3,), multiplier=2),
            Refused(ValueError, "does not fit", (2, 3, 5, 5), (3, 3, 3), None, dilation=(3, 1)),
            Refused(ValueError, "multiplier=0", (2, 3, 5, 5), (3, 3, 3), None, multiplier=0),
            Refused(ValueError, "no channels", (2, 0, 5, 5), (0, 3, 3), None),
            Refused(ValueError, "the kernel is empty", (2, 3, 5, 5), (3, 0, 3), None),
            Refused(ValueError, "no spatial axis", (2, 3), (3,), None),
        )


class DepthwiseDeconvolution(Transposed):
    """Deconvolution of each channel by itself; every `divisor` neighbouring channels are added into one output map.

    `y[n, o, j] = bias[o] + sum over c, r, i with i * stride - pad + r * dilation = j of weight[c, r] * x[n, c, i]`,
    where c runs over the channels o * divisor to o * divisor + divisor - 1: a `Deconvolution` with as many groups as
    there are output maps, and the adjoint of `DepthwiseConvolution` with divisor as multiplier.

    Args:
        x: (B..., C, T...) float; base_axis leading axes B are kept.
        weight: (C, K...) float.
        bias: (C / divisor,) float, optional.
        base_axis, pad, stride, dilation: as `Deconvolution`.
        divisor: channels per output map; divides C.
        channel_last: whether the images are x (B..., T..., C) and y (B..., S..., C / divisor); weight stays as it is.

    Returns:
        y: (B..., C / divisor, S...) float; S as `Deconvolution`.

    Raises:
        ValueError: no spatial axis or an empty one, no channels, shapes that do not match, padding that leaves nothing.
    """

    function = "depthwise_deconvolution"
    grouping = "divisor"
    attributes = (*_WINDOWS, Attribute("divisor", "int", 1), CHANNEL_LAST)
    channelled = ("x", "y")

    @either_layout
    def infer(
        self,
        x: ArrayDesc,
        weight: ArrayDesc,
        bias: ArrayDesc | None,
        *,
        base_axis: int,
        divisor: int,
        **geometry: Any,
    ) -> ArrayDesc:
        inputs = (x, weight, bias)
        channels, sizes = x.shape[base_axis], x.shape[base_axis + 1 :]
        _check_filters(self, inputs, weight, len(sizes), channels)
        if channels % divisor:
            raise self.error(inputs, f"divisor={divisor} does not divide {channels} channels", "use a divisor of them")
        maps = channels // divisor
        self.check_bias(inputs, bias, maps)
        counts = self.output_sizes(inputs, sizes, weight.shape[1:], **geometry)
        return ArrayDesc((*x.shape[:base_axis], maps, *counts), x.dtype)

    @either_layout
    def reference(
        self,
        x: np.ndarray,
        weight: np.ndarray,
        bias: np.ndarray | None,
        *,
        base_axis: int,
        divisor: int,
        **geometry: Any,
    ) -> np.ndarray:
        filters = weight.reshape(_grouped(weight.shape))
        return self.adjoint(x, filters, bias, base_axis, group=x.shape[base_axis] // divisor, **geometry)

    def gradient(
        self,
        g: GradientCall,
        x: IRValue,
        weight: IRValue,
        bias: IRValue | None,
        *,
        divisor: int,
        **geometry: Any,
    ) -> Sequence[IRValue | None]:
        filters = g.reshape(weight, _grouped(weight.shape, geometry["channel_last"]))
        gx, gw, gb = self.gradients(g, x, filters, bias, group=weight.shape[0] // divisor, **geometry)
        return gx, None if gw is None else g.reshape(gw, weight.shape), gb

    def samples(self) -> Sequence[Sample]:
        return (
            Sample((2, 3, 3, 5), (3, 3, 2), (3,)),
            Sample((2, 6, 3, 5), (6, 3, 2), None, divisor=2),
            Sample((2, 6, 4, 3), (6, 3, 3), (2,), pad=(1, 0), stride=(2, 1), divisor=3),
            Sample((2, 2, 2, 3), (2, 3, 2), None, pad=(0, 2), stride=(3, 2), dilation=(2, 3)),
            Sample((2, 6, 4), (6, 3), (3,), pad=(1,), stride=(2,), dilation=(2,), divisor=2),
            Sample((2, 3, 4, 4, 4), (4, 3, 3), (1,), base_axis=2, pad=(1, 1), divisor=4),
            Sample((2, 2, 3, 2, 2), (2, 2, 3, 2), (2,), pad=(1, 0, 1), stride=(1, 1, 2)),
            Sample((4, 4, 5), (4, 2, 3), None, base_axis=-3, divisor=2),
            Sample((0, 3, 3, 3), (3, 3, 3), (3,)),
            Sample((3, 34, 9, 9), (34, 3, 3), (17,), pad=(1, 1), divisor=2).no_gradient(),
            Sample((2, 3, 3, 4), (4, 3, 2), (2,), pad=(1, 0), stride=(2, 1), divisor=2, channel_last=True),
        )

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "holds 3 filters, 4 are needed", (2, 4, 5, 5), (3, 3, 3), None),
            Refused(ValueError, "does not divide 4", (2, 4, 5, 5), (4, 3, 3), None, divisor=3),
            Refused(ValueError, "bias has shape", (2, 4, 5, 5), (4, 3, 3), (4,), divisor=2),
            Refused(ValueError, "weight has 4 axes", (2, 4, 5, 5), (4, 1, 3, 3), None),
            Refused(ValueError, "divisor=0", (2, 4, 5, 5), (4, 3, 3), None, divisor=0),
            Refused(ValueError, "spatial axis of x is empty", (2, 4, 5, 0), (4, 3, 3), None),
            Refused(ValueError, "leaves an output", (2, 4, 1, 1), (4, 3, 3), None, pad=(2, 0)),
        )
