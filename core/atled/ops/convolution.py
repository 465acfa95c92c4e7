"""Convolution with any number of spatial axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from atled.array_desc import ArrayDesc
from atled.ops.axes import from_front
from atled.ops.channel_axis import CHANNEL_LAST, Channelled, all_but_channels, either_layout, spatial_shape
from atled.ops.samples import Refused, Sample
from atled.ops.spec import Attribute, Input
from atled.ops.windows import per_axis, taps, window_counts

if TYPE_CHECKING:
    from atled.ops.rules import GradientCall, IRValue

_LEAST = {"pad": 0, "stride": 1, "dilation": 1, "shape": 0, "kernel": 1}
GEOMETRY = (
    Attribute("base_axis", "int", 1),
    Attribute("pad", "ints", None),
    Attribute("stride", "ints", None),
    Attribute("dilation", "ints", None),
    Attribute("group", "int", 1),
)


class Convolutional(Channelled, abstract=True):
    """What convolutions, their gradients and their transposed forms share: attributes and geometry.

    grouping: name of the attribute that says how the channels are split.
    """

    category = "layer"
    products = True
    grouping = "group"

    def normalize(self, attributes: dict[str, Any], *inputs: Any) -> dict[str, Any]:
        ndim = inputs[0].ndim
        axis = from_front(self, inputs, "base_axis", attributes["base_axis"], ndim, last=ndim - 2)
        spatial = ndim - axis - 1
        if not spatial:
            raise self.error(
                inputs, "there is no spatial axis behind the channel axis", "add one of size 1 or use affine"
            )
        if attributes[self.grouping] < 1:
            raise self.error(inputs, f"{self.grouping}={attributes[self.grouping]}", "use 1 or more")
        geometry = {
            name: per_axis(self, inputs, attributes, name, spatial, least=least, default=least)
            for name, least in _LEAST.items()
            if name in attributes
        }
        return {**attributes, "base_axis": axis, **geometry}

    def _check_weight(
        self,
        inputs: Sequence[ArrayDesc | None],
        weight: ArrayDesc,
        spatial: int,
        group: int,
        *,
        channels: int | None = None,
        maps: int | None = None,
    ) -> None:
        """Refuse a weight that is not (maps, channels / group, kernel...)."""
        if weight.ndim != spatial + 2:
            raise self.error(
                inputs, f"weight has {weight.ndim} axes", f"give it {spatial + 2}: out maps, channels / group, kernel"
            )
        if weight.shape[0] % group:
            raise self.error(
                inputs, f"group={group} does not divide {weight.shape[0]} output maps", "use a divisor as group"
            )
        if channels is not None and weight.shape[1] * group != channels:
            raise self.error(
                inputs,
                f"x has {channels} channels, weight takes {weight.shape[1] * group} in {group} groups",
                "make weight.shape[1] * group equal to the channels of x",
            )
        if maps is not None and weight.shape[0] != maps:
            raise self.error(
                inputs, f"gy has {maps} maps, weight makes {weight.shape[0]}", f"use a weight of shape ({maps}, ...)"
            )
        if 0 in weight.shape[2:]:
            raise self.error(inputs, "the kernel is empty", "give every kernel axis a size of at least 1")

    def check_bias(self, inputs: Sequence[ArrayDesc | None], bias: ArrayDesc | None, maps: int) -> None:
        """Refuse a bias that has not one entry per output map."""
        if bias is not None and bias.shape != (maps,):
            raise self.error(inputs, f"bias has shape {bias.shape}", f"use shape ({maps},)")

    def window_counts(
        self,
        inputs: Sequence[ArrayDesc | None],
        sizes: Sequence[int],
        kernel: Sequence[int],
        pad: Sequence[int],
        stride: Sequence[int],
        dilation: Sequence[int],
    ) -> tuple[int, ...]:
        """How many windows fit along each axis; refuses a kernel for which there is none."""
        counts = window_counts(sizes, kernel, pad, stride, dilation)
        if any(count < 1 for count in counts):
            raise self.error(
                inputs,
                f"kernel {list(kernel)} with dilation {list(dilation)} does not fit into "
                f"{list(sizes)} with pad {list(pad)}",
                "use a smaller kernel or more padding",
            )
        return counts

    def _check_gy(self, inputs: Sequence[ArrayDesc | None], given: Sequence[int], expected: Sequence[int]) -> None:
        if tuple(given) != tuple(expected):
            raise self.error(
                inputs, f"gy has spatial shape {list(given)}", f"use {list(expected)}, that of the convolution's output"
            )


class Convolution(Convolutional):
    """Convolution (as the field has it: cross-correlation) over any number of spatial axes, with zero padding.

    `y[n, o, i] = bias[o] + sum over c, r of weight[o, c, r] * x[n, c', i * stride - pad + r * dilation]`, where i and r
    run over the spatial axes and c' is channel c of the group to which output map o belongs.

    Args:
        x: (B..., C, S...) float; base_axis leading axes B are kept.
        weight: (O, C / group, K...) float.
        bias: (O,) float, optional.
        base_axis: the channel axis; negative counts from the end.
        pad: zeros on both sides of each spatial axis; default 0.
        stride: step between windows per spatial axis; default 1.
        dilation: distance between the taps of the kernel per spatial axis; default 1.
        group: number of groups into which channels and output maps are split; divides both.
        channel_last: whether the arrays are x (B..., S..., C), weight (O, K..., C / group) and y (B..., T..., O).

    Returns:
        y: (B..., O, T...) float; T = (S + 2 pad - (dilation (K - 1) + 1)) // stride + 1.

    Raises:
        ValueError: no spatial axis, shapes that do not match, a kernel larger than the padded input.
    """

    function = "convolution"
    inputs = (Input("x"), Input("weight"), Input("bias", optional=True))
    attributes = (*GEOMETRY, CHANNEL_LAST)
    channelled = ("x", "weight", "y")

    @either_layout
    def infer(
        self,
        x: ArrayDesc,
        weight: ArrayDesc,
        bias: ArrayDesc | None,
        *,
        base_axis: int,
        pad: tuple[int, ...],
        stride: tuple[int, ...],
        dilation: tuple[int, ...],
        group: int,
    ) -> ArrayDesc:
        inputs = (x, weight, bias)
        sizes = x.shape[base_axis + 1 :]
        self._check_weight(inputs, weight, len(sizes), group, channels=x.shape[base_axis])
        maps = weight.shape[0]
        self.check_bias(inputs, bias, maps)
        counts = self.window_counts(inputs, sizes, weight.shape[2:], pad, stride, dilation)
        return ArrayDesc((*x.shape[:base_axis], maps, *counts), x.dtype)

    @either_layout
    def reference(
        self,
        x: np.ndarray,
        weight: np.ndarray,
        bias: np.ndarray | None,
        *,
        base_axis: int,
        pad: tuple[int, ...],
        stride: tuple[int, ...],
        dilation: tuple[int, ...],
        group: int,
    ) -> np.ndarray:
        sizes, kernel = x.shape[base_axis + 1 :], weight.shape[2:]
        counts = window_counts(sizes, kernel, pad, stride, dilation)
        maps = weight.shape[0]
        images = _grouped(x, base_axis, group)
        filters = weight.reshape(group, maps // group, weight.shape[1], *kernel)
        y = np.zeros((len(images), group, maps // group, *counts), x.dtype)
        for tap, windows, elements in taps(sizes, counts, kernel, pad, stride, dilation):
            target = y[(..., *windows)]
            target += (filters[(..., *tap)] @ _flat(images[(..., *elements)])).reshape(target.shape)
        y = y.reshape(*x.shape[:base_axis], maps, *counts)
        if bias is not None:
            y += bias.reshape(maps, *(1 for _ in counts))
        return y

    def gradient(
        self,
        g: GradientCall,
        x: IRValue,
        weight: IRValue,
        bias: IRValue | None,
        *,
        pad: tuple[int, ...],
        channel_last: bool,
        **geometry: Any,
    ) -> Sequence[IRValue | None]:
        gx = gw = gb = None
        count = len(pad)
        geometry |= {"pad": pad, "channel_last": channel_last}
        if g.needs[0]:
            shape = spatial_shape(x.shape, count, channel_last)
            gx = g.op("ConvolutionDataGrad", g.gy, weight, shape=shape, **geometry)
        if g.needs[1]:
            kernel = spatial_shape(weight.shape, count, channel_last)
            gw = g.op("ConvolutionWeightGrad", x, g.gy, kernel=kernel, **geometry)
        if bias is not None and g.needs[2]:
            gb = g.op("Sum", g.gy, axes=all_but_channels(x.ndim, count, channel_last))
        return gx, gw, gb

    def samples(self) -> Sequence[Sample]:
        return (
            Sample((2, 3, 5, 6), (4, 3, 3, 2), (4,)),
            Sample((2, 3, 5, 6), (4, 3, 3, 2), None),
            Sample((2, 4, 7, 5), (6, 2, 3, 3), (6,), pad=(1, 0), stride=(2, 1), group=2),
            Sample((2, 2, 7, 8), (3, 2, 3, 2), None, pad=(0, 2), stride=(3, 2), dilation=(2, 3)),
            Sample((2, 3, 9), (4, 3, 3), (4,), pad=(1,), stride=(2,), dilation=(2,)),
            Sample((2, 2, 3, 4, 3), (2, 2, 2, 3, 2), (2,), pad=(1, 0, 1), stride=(1, 1, 2)),
            Sample(
                (2, 4, 5, 3, 4), (4, 2, 3, 2, 1), (4,), pad=(2, 1, 0), stride=(2, 1, 1), dilation=(2, 1, 1), group=2
            ),
            Sample((2, 16, 4, 8, 8), (17, 16, 3, 3, 3), (17,), pad=(1, 1, 1)).no_gradient(),
            Sample((2, 3, 4, 4, 4), (2, 4, 3, 3), (2,), base_axis=2, pad=(1, 1)),
            Sample((3, 4, 5), (2, 3, 2, 3), None, base_axis=-3),
            Sample((2, 3, 2, 2), (3, 1, 1, 1), (3,), group=3, pad=(2, 1), stride=(2, 2)),
            Sample((0, 3, 5, 5), (2, 3, 3, 3), (2,)),
            Sample((3, 16, 9, 9), (33, 16, 3, 3), (33,), pad=(1, 1)).no_gradient(),
            Sample((2, 5, 4, 4), (6, 3, 2, 2), (6,), pad=(1, 0), stride=(2, 1), group=2, channel_last=True),
            Sample((2, 1, 5, 3), (2, 2, 3), None, base_axis=2, dilation=(2,), channel_last=True),
        )

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "weight takes 2", (2, 3, 5, 5), (4, 2, 3, 3), None),
            Refused(ValueError, "weight has 3 axes", (2, 3, 5, 5), (4, 3, 3), None),
            Refused(ValueError, "does not divide 3", (2, 4, 5, 5), (3, 2, 3, 3), None, group=2),
            Refused(ValueError, "bias has shape", (2, 3, 5, 5), (4, 3, 3, 3), (3,)),
            Refused(ValueError, "does not fit", (2, 3, 5, 5), (4, 3, 3, 3), None, dilation=(3, 1)),
            Refused(ValueError, "pad=.* has 1 entries", (2, 3, 5, 5), (4, 3, 3, 3), None, pad=(1,)),
            Refused(ValueError, "stride=.* below 1", (2, 3, 5, 5), (4, 3, 3, 3), None, stride=(0, 1)),
            Refused(ValueError, "no spatial axis", (2, 3), (4, 3), None),
            Refused(ValueError, "base_axis=4 is out of range", (2, 3, 5, 5), (4, 3, 3, 3), None, base_axis=4),
            Refused(ValueError, "the kernel is empty", (2, 3, 5, 5), (4, 3, 0, 3), None),
            Refused(ValueError, "group=0", (2, 3, 5, 5), (4, 3, 3, 3), None, group=0),
            Refused(TypeError, "dilation", (2, 3, 5, 5), (4, 3, 3, 3), None, dilation=(1.5, 1)),
            Refused(ValueError, "x has 5 channels", (2, 3, 5, 5), (4, 3, 3, 3), None, channel_last=True),
        )


class ConvolutionDataGrad(Convolutional):
    """Gradient of a convolution with respect to its input: the adjoint of `Convolution` in x.

    `gx[n, c, j] = sum over o, r, i with i * stride - pad + r * dilation = j of weight[o, c, r] * gy[n, o, i]`.

    Args:
        gy: (B..., O, T...) float; gradient with respect to the convolution's output.
        weight: (O, C / group, K...) float.
        base_axis, pad, stride, dilation, group, channel_last: as `Convolution`.
        shape: the spatial shape S of x, which T alone does not tell.

    Returns:
        gx: (B..., C, S...) float.

    Raises:
        ValueError: gy has not the shape of the convolution's output.
    """

    inputs = (Input("gy"), Input("weight"))
    outputs = ("gx",)
    attributes = (*GEOMETRY, Attribute("shape", "ints"), CHANNEL_LAST)
    channelled = ("gy", "weight", "gx")

    @either_layout
    def infer(
        self,
        gy: ArrayDesc,
        weight: ArrayDesc,
        *,
        base_axis: int,
        pad: tuple[int, ...],
        stride: tuple[int, ...],
        dilation: tuple[int, ...],
        group: int,
        shape: tuple[int, ...],
    ) -> ArrayDesc:
        inputs = (gy, weight)
        self._check_weight(inputs, weight, len(shape), group, maps=gy.shape[base_axis])
        counts = self.window_counts(inputs, shape, weight.shape[2:], pad, stride, dilation)
        self._check_gy(inputs, gy.shape[base_axis + 1 :], counts)
        return ArrayDesc((*gy.shape[:base_axis], weight.shape[1] * group, *shape), gy.dtype)

    @either_layout
    def reference(
        self,
        gy: np.ndarray,
        weight: np.ndarray,
        *,
        base_axis: int,
        pad: tuple[int, ...],
        stride: tuple[int, ...],
        dilation: tuple[int, ...],
        group: int,
        shape: tuple[int, ...],
    ) -> np.ndarray:
        counts, kernel = gy.shape[base_axis + 1 :], weight.shape[2:]
        maps, depth = weight.shape[:2]
        grads = _grouped(gy, base_axis, group)
        filters = weight.reshape(group, maps // group, depth, *kernel).swapaxes(1, 2)
        gx = np.zeros((len(grads), group, depth, *shape), gy.dtype)
        for tap, windows, elements in taps(shape, counts, kernel, pad, stride, dilation):
            target = gx[(..., *elements)]
            target += (filters[(..., *tap)] @ _flat(grads[(..., *windows)])).reshape(target.shape)
        return gx.reshape(*gy.shape[:base_axis], group * depth, *shape)

    def gradient(
        self,
        g: GradientCall,
        gy: IRValue,
        weight: IRValue,
        *,
        shape: tuple[int, ...],
        **geometry: Any,
    ) -> Sequence[IRValue | None]:
        ggy = g.op("Convolution", g.gy, weight, None, **geometry) if g.needs[0] else None
        gw = None
        if g.needs[1]:
            kernel = spatial_shape(weight.shape, len(shape), geometry["channel_last"])
            gw = g.op("ConvolutionWeightGrad", g.gy, gy, kernel=kernel, **geometry)
        return ggy, gw

    def samples(self) -> Sequence[Sample]:
        return (
            Sample((2, 4, 3, 5), (4, 3, 3, 2), shape=(5, 6)),
            Sample((2, 6, 4, 3), (6, 2, 3, 3), pad=(1, 0), stride=(2, 1), group=2, shape=(7, 5)),
            Sample((2, 6, 4, 3), (6, 2, 3, 3), pad=(1, 0), stride=(2, 1), group=2, shape=(8, 5)),
            Sample((2, 3, 1, 5), (3, 2, 3, 2), pad=(0, 2), stride=(3, 2), dilation=(2, 3), shape=(7, 8)),
            Sample((2, 4, 4), (4, 3, 3), pad=(1,), stride=(2,), dilation=(2,), shape=(9,)),
            Sample((2, 3, 2, 4, 4), (2, 4, 3, 3), base_axis=2, pad=(1, 1), shape=(4, 4)),
            Sample((2, 2, 4, 2, 2), (2, 2, 2, 3, 2), pad=(1, 0, 1), stride=(1, 1, 2), shape=(3, 4, 3)),
            Sample(
                (2, 4, 3, 4, 4),
                (4, 2, 3, 2, 1),
                pad=(2, 1, 0),
                stride=(2, 1, 1),
                dilation=(2, 1, 1),
                group=2,
                shape=(5, 3, 4),
            ),
            Sample((2, 17, 4, 8, 8), (17, 16, 3, 3, 3), pad=(1, 1, 1), shape=(4, 8, 8)).no_gradient(),
            Sample((0, 2, 3, 3), (2, 3, 3, 3), shape=(5, 5)),
            Sample((3, 33, 9, 9), (33, 16, 3, 3), pad=(1, 1), shape=(9, 9)).no_gradient(),
            Sample((2, 3, 3, 6), (6, 3, 2, 2), pad=(1, 0), stride=(2, 1), group=2, shape=(5, 4), channel_last=True),
        )

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "gy has spatial shape", (2, 4, 3, 5), (4, 3, 3, 2), shape=(6, 6)),
            Refused(ValueError, "gy has 3 maps", (2, 3, 3, 5), (4, 3, 3, 2), shape=(5, 6)),
            Refused(ValueError, "shape=.* has 1 entries", (2, 4, 3, 5), (4, 3, 3, 2), shape=(5,)),
        )


class ConvolutionWeightGrad(Convolutional):
    """Gradient of a convolution with respect to its weight: the adjoint of `Convolution` in weight.

    `gw[o, c, r] = sum over n, i of x[n, c', i * stride - pad + r * dilation] * gy[n, o, i]`.

    Args:
        x: (B..., C, S...) float.
        gy: (B..., O, T...) float; gradient with respect to the convolution's output.
        base_axis, pad, stride, dilation, group, channel_last: as `Convolution`.
        kernel: the spatial shape K of the weight.

    Returns:
        gw: (O, C / group, K...) float.

    Raises:
        ValueError: gy has not the shape of the convolution's output, group does not divide the channels.
    """

    inputs = (Input("x"), Input("gy"))
    outputs = ("gw",)
    attributes = (*GEOMETRY, Attribute("kernel", "ints"), CHANNEL_LAST)
    channelled = ("x", "gy", "gw")

    @either_layout
    def infer(
        self,
        x: ArrayDesc,
        gy: ArrayDesc,
        *,
        base_axis: int,
        pad: tuple[int, ...],
        stride: tuple[int, ...],
        dilation: tuple[int, ...],
        group: int,
        kernel: tuple[int, ...],
    ) -> ArrayDesc:
        inputs = (x, gy)
        if gy.ndim != x.ndim or gy.shape[:base_axis] != x.shape[:base_axis]:
            raise self.error(inputs, "x and gy differ in their batch axes", "pass the gradient of this convolution")
        channels, maps = x.shape[base_axis], gy.shape[base_axis]
        if channels % group or maps % group:
            raise self.error(
                inputs, f"group={group} does not divide {channels} channels and {maps} maps", "use a common divisor"
            )
        counts = self.window_counts(inputs, x.shape[base_axis + 1 :], kernel, pad, stride, dilation)
        self._check_gy(inputs, gy.shape[base_axis + 1 :], counts)
        return ArrayDesc((maps, channels // group, *kernel), x.dtype)

    @either_layout
    def reference(
        self,
        x: np.ndarray,
        gy: np.ndarray,
        *,
        base_axis: int,
        pad: tuple[int, ...],
        stride: tuple[int, ...],
        dilation: tuple[int, ...],
        group: int,
        kernel: tuple[int, ...],
    ) -> np.ndarray:
        sizes, counts = x.shape[base_axis + 1 :], gy.shape[base_axis + 1 :]
        images, grads = _grouped(x, base_axis, group), _grouped(gy, base_axis, group)
        maps, depth = grads.shape[2], images.shape[2]
        gw = np.zeros((group, maps, depth, *kernel), x.dtype)
        for tap, windows, elements in taps(sizes, counts, kernel, pad, stride, dilation):
            per_image = _flat(grads[(..., *windows)]) @ _flat(images[(..., *elements)]).swapaxes(-1, -2)
            gw[(..., *tap)] = per_image.sum(axis=0)
        return gw.reshape(group * maps, depth, *kernel)

    def gradient(
        self,
        g: GradientCall,
        x: IRValue,
        gy: IRValue,
        *,
        kernel: tuple[int, ...],
        **geometry: Any,
    ) -> Sequence[IRValue | None]:
        gx = ggy = None
        if g.needs[0]:
            shape = spatial_shape(x.shape, len(kernel), geometry["channel_last"])
            gx = g.op("ConvolutionDataGrad", gy, g.gy, shape=shape, **geometry)
        if g.needs[1]:
            ggy = g.op("Convolution", x, g.gy, None, **geometry)
        return gx, ggy

    def samples(self) -> Sequence[Sample]:
        return (
            Sample((2, 3, 5, 6), (2, 4, 3, 5), kernel=(3, 2)),
            Sample((2, 4, 7, 5), (2, 6, 4, 3), pad=(1, 0), stride=(2, 1), group=2, kernel=(3, 3)),
            Sample((2, 2, 7, 8), (2, 3, 1, 5), pad=(0, 2), stride=(3, 2), dilation=(2, 3), kernel=(3, 2)),
            Sample((2, 3, 9), (2, 4, 4), pad=(1,), stride=(2,), dilation=(2,), kernel=(3,)),
            Sample((2, 3, 4, 4, 4), (2, 3, 2, 4, 4), base_axis=2, pad=(1, 1), kernel=(3, 3)),
            Sample((2, 2, 3, 4, 3), (2, 2, 4, 2, 2), pad=(1, 0, 1), stride=(1, 1, 2), kernel=(2, 3, 2)),
            Sample(
                (2, 4, 5, 3, 4),
                (2, 4, 3, 4, 4),
                pad=(2, 1, 0),
                stride=(2, 1, 1),
                dilation=(2, 1, 1),
                group=2,
                kernel=(3, 2, 1),
            ),
            Sample((2, 16, 4, 8, 8), (2, 17, 4, 8, 8), pad=(1, 1, 1), kernel=(3, 3, 3)).no_gradient(),
            Sample((0, 3, 5, 5), (0, 2, 3, 3), kernel=(3, 3)),
            Sample((3, 16, 9, 9), (3, 33, 9, 9), pad=(1, 1), kernel=(3, 3)).no_gradient(),
            Sample((2, 5, 4, 4), (2, 3, 3, 6), pad=(1, 0), stride=(2, 1), group=2, kernel=(3, 2), channel_last=True),
        )

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "gy has spatial shape", (2, 3, 5, 6), (2, 4, 3, 4), kernel=(3, 2)),
            Refused(ValueError, "batch axes", (2, 3, 5, 6), (3, 4, 3, 5), kernel=(3, 2)),
            Refused(ValueError, "group=2 does not divide", (2, 3, 5, 6), (2, 4, 3, 5), kernel=(3, 2), group=2),
            Refused(ValueError, "kernel=.* below 1", (2, 3, 5, 6), (2, 4, 3, 5), kernel=(0, 2)),
        )


def _grouped(x: np.ndarray, base_axis: int, group: int) -> np.ndarray:
    """(B..., C, S...) -> (prod B, group, C / group, S...)."""
    channels = x.shape[base_axis]
    return x.reshape(math.prod(x.shape[:base_axis]), group, channels // group, *x.shape[base_axis + 1 :])


def _flat(x: np.ndarray) -> np.ndarray:
    """(N, G, C, S...) -> (N, G, C, prod S)."""
    return x.reshape(*x.shape[:3], math.prod(x.shape[3:]))
