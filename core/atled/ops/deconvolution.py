"""Deconvolution: the adjoint of convolution as a layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from atled.array_desc import ArrayDesc
from atled.ops.channel_axis import CHANNEL_LAST, all_but_channels, either_layout, spatial_shape
from atled.ops.convolution import GEOMETRY, Convolutional
from atled.ops.samples import Refused, Sample
from atled.ops.spec import SPECS, Input

if TYPE_CHECKING:
    from atled.ops.rules import GradientCall, IRValue


def deconvolved_sizes(
    sizes: Sequence[int], kernel: Sequence[int], pad: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> tuple[int, ...]:
    """Elements per axis of the smallest array in which `sizes` windows fit: `s(n-1) - 2p + d(k-1) + 1`."""
    return tuple(
        s * (n - 1) - 2 * p + d * (k - 1) + 1
        for n, k, p, s, d in zip(sizes, kernel, pad, stride, dilation, strict=True)
    )


class Transposed(Convolutional, abstract=True):
    """What the deconvolutions share: how large their outputs are, and the gradients, which are those of convolution."""

    inputs = (Input("x"), Input("weight"), Input("bias", optional=True))

    def output_sizes(
        self,
        inputs: Sequence[ArrayDesc | None],
        sizes: Sequence[int],
        kernel: Sequence[int],
        pad: Sequence[int],
        stride: Sequence[int],
        dilation: Sequence[int],
    ) -> tuple[int, ...]:
        """The spatial shape of the output; refuses one that would have no element."""
        if 0 in kernel:
            raise self.error(inputs, "the kernel is empty", "give every kernel axis a size of at least 1")
        if 0 in sizes:
            raise self.error(inputs, "a spatial axis of x is empty", "give every spatial axis a size of at least 1")
        counts = deconvolved_sizes(sizes, kernel, pad, stride, dilation)
        if any(count < 1 for count in counts):
            raise self.error(
                inputs,
                f"pad {list(pad)} leaves an output of spatial shape {list(counts)}",
                "use less padding or a larger kernel",
            )
        return counts

    def adjoint(
        self, x: np.ndarray, weight: np.ndarray, bias: np.ndarray | None, base_axis: int, **geometry: Any
    ) -> np.ndarray:
        """The adjoint of convolution with weight (C, O / group, K...), plus bias."""
        counts = deconvolved_sizes(
            x.shape[base_axis + 1 :],
            weight.shape[2:],
            geometry["pad"],
            geometry["stride"],
            geometry["dilation"],
        )
        y: Any = SPECS["ConvolutionDataGrad"].reference(x, weight, base_axis=base_axis, shape=counts, **geometry)
        return y if bias is None else y + bias.reshape(-1, *(1 for _ in counts))

    @staticmethod
    def gradients(
        g: GradientCall, x: IRValue, weight: IRValue, bias: IRValue | None, **geometry: Any
    ) -> Sequence[IRValue | None]:
        """Gradients of `adjoint` plus bias; weight is (C, O / group, K...), with channel_last (C, K..., O / group)."""
        gx = gw = gb = None
        count, channel_last = len(geometry["pad"]), geometry["channel_last"]
        if g.needs[0]:
            gx = g.op("Convolution", g.gy, weight, None, **geometry)
        if g.needs[1]:
            kernel = spatial_shape(weight.shape, count, channel_last)
            gw = g.op("ConvolutionWeightGrad", g.gy, x, kernel=kernel, **geometry)
        if bias is not None and g.needs[2]:
            gb = g.op("Sum", g.gy, axes=all_but_channels(x.ndim, count, channel_last))
        return gx, gw, gb


class Deconvolution(Transposed):
    """Deconvolution, also called transposed convolution: the adjoint of `Convolution` in its input, plus a bias.

    `y[n, o, j] = bias[o] + sum over c, r, i with i * stride - pad + r * dilation = j of weight[c, o', r] * x[n, c, i]`,
    where i, j and r run over the spatial axes, c over the channels of the group to which output map o belongs, and o'
    is the place of o in that group.

    Args:
        x: (B..., C, T...) float; base_axis leading axes B are kept.
        weight: (C, O / group, K...) float.
        bias: (O,) float, optional.
        base_axis: the channel axis; negative counts from the end.
        pad: elements cut off on both sides of each spatial axis of y; default 0.
        stride: distance in y between the places of neighbours in x, per spatial axis; default 1.
        dilation: distance between the taps of the kernel per spatial axis; default 1.
        group: number of groups into which channels and output maps are split; divides both.
        channel_last: whether the arrays are x (B..., T..., C), weight (C, K..., O / group) and y (B..., S..., O).

    Returns:
        y: (B..., O, S...) float; S = stride (T - 1) - 2 pad + dilation (K - 1) + 1.

    Raises:
        ValueError: no spatial axis or an empty one, shapes that do not match, padding that leaves nothing.
    """

    function = "deconvolution"
    attributes = (*GEOMETRY, CHANNEL_LAST)
    channelled = ("x", "weight", "y")

    @either_layout
    def infer(
        self, x: ArrayDesc, weight: ArrayDesc, bias: ArrayDesc | None, *, base_axis: int, group: int, **geometry: Any
    ) -> ArrayDesc:
        inputs = (x, weight, bias)
        channels, sizes = x.shape[base_axis], x.shape[base_axis + 1 :]
        if weight.ndim != len(sizes) + 2:
            raise self.error(
                inputs,
                f"weight has {weight.ndim} axes",
                f"give it {len(sizes) + 2}: channels, out maps / group, kernel",
            )
        if weight.shape[0] != channels:
            raise self.error(
                inputs,
                f"x has {channels} channels, weight takes {weight.shape[0]}",
                f"use a weight of shape ({channels}, ...)",
            )
        if channels % group:
            raise self.error(inputs, f"group={group} does not divide {channels} channels", "use a divisor as group")
        maps = weight.shape[1] * group
        self.check_bias(inputs, bias, maps)
        counts = self.output_sizes(inputs, sizes, weight.shape[2:], **geometry)
        return ArrayDesc((*x.shape[:base_axis], maps, *counts), x.dtype)

    @either_layout
    def reference(self, x: np.ndarray, weight: np.ndarray, bias: np.ndarray | None, **geometry: Any) -> np.ndarray:
        return self.adjoint(x, weight, bias, **geometry)

    def gradient(
        self, g: GradientCall, x: IRValue, weight: IRValue, bias: IRValue | None, **geometry: Any
    ) -> Sequence[IRValue | None]:
        return self.gradients(g, x, weight, bias, **geometry)

    def samples(self) -> Sequence[Sample]:
        return (
            Sample((2, 4, 3, 5), (4, 3, 3, 2), (3,)),
            Sample((2, 4, 3, 5), (4, 3, 3, 2), None),
            Sample((2, 6, 4, 3), (6, 2, 3, 3), (4,), pad=(1, 0), stride=(2, 1), group=2),
            Sample((2, 3, 2, 3), (3, 2, 3, 2), None, pad=(0, 2), stride=(3, 2), dilation=(2, 3)),
            Sample((2, 4, 4), (4, 3, 3), (3,), pad=(1,), stride=(2,), dilation=(2,)),
            Sample((2, 2, 3, 2, 2), (2, 2, 2, 3, 2), (2,), pad=(1, 0, 1), stride=(1, 1, 2)),
            Sample((2, 3, 2, 4, 4), (2, 4, 3, 3), (4,), base_axis=2, pad=(1, 1)),
            Sample((3, 4, 5), (3, 2, 2, 3), None, base_axis=-3),
            Sample((2, 3, 2, 2), (3, 1, 1, 1), (3,), group=3, stride=(2, 2)),
            Sample((0, 2, 3, 3), (2, 3, 3, 3), (3,)),
            Sample((3, 33, 9, 9), (33, 16, 3, 3), (16,), pad=(1, 1)).no_gradient(),
            Sample((2, 3, 3, 6), (6, 3, 2, 2), (4,), pad=(1, 0), stride=(2, 1), group=2, channel_last=True),
        )

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "weight takes 3", (2, 4, 5, 5), (3, 4, 3, 3), None),
            Refused(ValueError, "weight has 3 axes", (2, 4, 5, 5), (4, 3, 3), None),
            Refused(ValueError, "does not divide 4", (2, 4, 5, 5), (4, 2, 3, 3), None, group=3),
            Refused(ValueError, "bias has shape", (2, 4, 5, 5), (4, 3, 3, 3), (4,)),
            Refused(ValueError, r"spatial shape \[-1, 3\]", (2, 4, 1, 1), (4, 3, 3, 3), None, pad=(2, 0)),
            Refused(ValueError, "spatial axis of x is empty", (2, 4, 0, 5), (4, 3, 3, 3), None),
            Refused(ValueError, "the kernel is empty", (2, 4, 5, 5), (4, 3, 0, 3), None),
            Refused(ValueError, "no spatial axis", (2, 4), (4, 3), None),
            Refused(ValueError, "stride=.* has 1 entries", (2, 4, 5, 5), (4, 3, 3, 3), None, stride=(1,)),
            Refused(TypeError, "group", (2, 4, 5, 5), (4, 3, 3, 3), None, group=0.5),
        )
