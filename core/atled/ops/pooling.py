"""Pooling over the trailing axes: sums and averages of windows, and unpooling, which spreads each element over one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from atled.array_desc import ArrayDesc
from atled.ops.channel_axis import CHANNEL_LAST, Channelled, either_layout, spatial_shape
from atled.ops.samples import Refused, Sample
from atled.ops.spec import SPECS, Attribute, Input, OpSpec
from atled.ops.windows import per_axis, taps, window_counts

if TYPE_CHECKING:
    from atled.ops.rules import GradientCall, IRValue


class Pooling(Channelled, abstract=True):
    """What poolings share: kernel, stride, pad, the place of the channel axis, and how many windows there are."""

    category = "layer"
    inputs = (Input("x"),)
    attributes = (
        Attribute("kernel", "ints"),
        Attribute("stride", "ints", None),
        Attribute("ignore_border", "bool", True),
        Attribute("pad", "ints", None),
        CHANNEL_LAST,
    )
    channelled = ("x", "y")

    def normalize(self, attributes: dict[str, Any], *inputs: Any) -> dict[str, Any]:
        axes = len(attributes["kernel"])
        check_kernel_axes(self, attributes, inputs, "pool over")
        kernel = per_axis(self, inputs, attributes, "kernel", axes, least=1)
        stride = kernel
        if attributes["stride"] is not None:
            stride = per_axis(self, inputs, attributes, "stride", axes, least=1)
        pad = per_axis(self, inputs, attributes, "pad", axes, least=0)
        if "shape" in attributes:
            per_axis(self, inputs, attributes, "shape", axes, least=0)
        return {**attributes, "stride": stride, "pad": pad}

    def window_counts(
        self,
        inputs: Sequence[ArrayDesc | None],
        sizes: Sequence[int],
        kernel: Sequence[int],
        stride: Sequence[int],
        ignore_border: bool,
        pad: Sequence[int],
    ) -> tuple[int, ...]:
        """How many windows there are along each axis; refuses a kernel for which there is none."""
        counts = pooled_sizes(sizes, kernel, stride, ignore_border, pad)
        if any(count < 1 for count in counts):
            raise self.error(
                inputs,
                f"no window of kernel {list(kernel)} fits into {list(sizes)} with pad {list(pad)}",
                "use a smaller kernel, more padding or ignore_border=False",
            )
        return counts


def check_kernel_axes(spec: Channelled, attributes: dict[str, Any], inputs: Sequence[Any], what: str) -> None:
    """Refuse a kernel with more entries than there are axes to which they could belong."""
    axes = len(attributes["kernel"])
    most = inputs[0].ndim - attributes["channel_last"]
    if not 1 <= axes <= most:
        which = "those before the last" if attributes["channel_last"] else "the trailing ones"
        raise spec.error(
            inputs,
            f"kernel={attributes['kernel']} has {axes} entries",
            f"give one per axis to {what}, {which}: 1 to {most}",
        )


def pooled_sizes(
    sizes: Sequence[int], kernel: Sequence[int], stride: Sequence[int], ignore_border: bool, pad: Sequence[int]
) -> tuple[int, ...]:
    """Windows per axis: (n + 2p - k) // s + 1, or ceil((n + 2p) / s) where partial windows count."""
    if ignore_border:
        return window_counts(sizes, kernel, pad, stride, (1,) * len(kernel))
    return tuple(-(-(n + 2 * p) // s) for n, p, s in zip(sizes, pad, stride, strict=True))


class WindowSums(Pooling, abstract=True):
    """Sums of windows over the trailing axes, each divided by something; padding adds nothing."""

    gradient_name: ClassVar[str]

    def divisors(self, sizes: Sequence[int], counts: Sequence[int], **geometry: Any) -> np.ndarray:
        """By what the sums are divided, broadcasting with (T...) = counts, for spatial sizes (S...)."""
        return np.ones((), np.int64)

    @either_layout
    def infer(
        self,
        x: ArrayDesc,
        *,
        kernel: tuple[int, ...],
        stride: tuple[int, ...],
        ignore_border: bool,
        pad: tuple[int, ...],
        **_: Any,
    ) -> ArrayDesc:
        leading, sizes = x.shape[: -len(kernel)], x.shape[-len(kernel) :]
        return ArrayDesc(leading + self.window_counts((x,), sizes, kernel, stride, ignore_border, pad), x.dtype)

    @either_layout
    def reference(
        self,
        x: np.ndarray,
        *,
        kernel: tuple[int, ...],
        stride: tuple[int, ...],
        ignore_border: bool,
        pad: tuple[int, ...],
        **more: Any,
    ) -> np.ndarray:
        leading, sizes = x.shape[: -len(kernel)], x.shape[-len(kernel) :]
        counts = pooled_sizes(sizes, kernel, stride, ignore_border, pad)
        y = np.zeros(leading + counts, x.dtype)
        for _, windows, elements in taps(sizes, counts, kernel, pad, stride, (1,) * len(kernel)):
            y[(..., *windows)] += x[(..., *elements)]
        return y / self.divisors(sizes, counts, kernel=kernel, stride=stride, pad=pad, **more).astype(x.dtype)

    def gradient(
        self, g: GradientCall, x: IRValue, *, kernel: tuple[int, ...], **geometry: Any
    ) -> Sequence[IRValue | None]:
        shape = spatial_shape(x.shape, len(kernel), geometry["channel_last"])
        return (g.op(self.gradient_name, g.gy, kernel=kernel, shape=shape, **geometry),)

    def samples(self) -> Sequence[Sample]:
        return (
            Sample((2, 3, 4, 6), kernel=(2, 2)),
            Sample((2, 2, 5, 7), kernel=(3, 2), stride=(2, 1)),
            Sample((2, 2, 5, 7), kernel=(3, 3), stride=(2, 2), pad=(1, 2)),
            Sample((2, 5, 7), kernel=(2, 3), ignore_border=False),
            Sample((2, 5, 6), kernel=(3, 3), stride=(2, 2), ignore_border=False, pad=(1, 1)),
            Sample((2, 1, 9), kernel=(3,), stride=(2,), pad=(1,)),
            Sample((2, 4, 3, 4), kernel=(2, 2, 2), stride=(1, 1, 2)),
            Sample((0, 3, 4, 4), kernel=(2, 2)),
            Sample((3, 8, 17, 19), kernel=(3, 3), stride=(2, 2), pad=(1, 1)).no_gradient(),
            Sample((2, 5, 6, 3), kernel=(3, 2), stride=(2, 2), pad=(1, 0), channel_last=True),
        )


class WindowSumsGrad(Pooling, abstract=True):
    """Gradient of such sums: each `gy`, divided likewise, is added to all real elements of its window.

    sums: the op whose gradient it is.
    """

    inputs = (Input("gy"),)
    outputs = ("gx",)
    channelled = ("gy", "gx")
    sums: ClassVar[type[WindowSums]]

    @either_layout
    def infer(
        self,
        gy: ArrayDesc,
        *,
        kernel: tuple[int, ...],
        stride: tuple[int, ...],
        ignore_border: bool,
        pad: tuple[int, ...],
        shape: tuple[int, ...],
        **_: Any,
    ) -> ArrayDesc:
        counts = self.window_counts((gy,), shape, kernel, stride, ignore_border, pad)
        if gy.shape[-len(kernel) :] != counts:
            raise self.error((gy,), f"gy has spatial shape {list(gy.shape[-len(kernel) :])}", f"use {list(counts)}")
        return ArrayDesc(gy.shape[: -len(kernel)] + shape, gy.dtype)

    @either_layout
    def reference(
        self,
        gy: np.ndarray,
        *,
        kernel: tuple[int, ...],
        stride: tuple[int, ...],
        ignore_border: bool,
        pad: tuple[int, ...],
        shape: tuple[int, ...],
        **more: Any,
    ) -> np.ndarray:
        leading, counts = gy.shape[: -len(kernel)], gy.shape[-len(kernel) :]
        op = SPECS[self.sums.__name__]
        assert isinstance(op, WindowSums)
        share = gy / op.divisors(shape, counts, kernel=kernel, stride=stride, pad=pad, **more).astype(gy.dtype)
        gx = np.zeros(leading + shape, gy.dtype)
        for _, windows, elements in taps(shape, counts, kernel, pad, stride, (1,) * len(kernel)):
            gx[(..., *elements)] += share[(..., *windows)]
        return gx

    def gradient(
        self, g: GradientCall, gy: IRValue, *, shape: tuple[int, ...], **geometry: Any
    ) -> Sequence[IRValue | None]:
        return (g.op(self.sums.__name__, g.gy, **geometry),)

    def samples(self) -> Sequence[Sample]:
        return (
            Sample((2, 3, 2, 3), kernel=(2, 2), shape=(4, 6)),
            Sample((2, 3, 2, 3), kernel=(2, 2), shape=(5, 7)),
            Sample((2, 2, 3, 5), kernel=(3, 3), stride=(2, 2), pad=(1, 2), shape=(5, 7)),
            Sample((2, 4, 4), kernel=(3, 3), stride=(2, 2), ignore_border=False, pad=(1, 1), shape=(5, 6)),
            Sample((2, 5), kernel=(3,), stride=(2,), pad=(1,), shape=(9,)),
            Sample((0, 2, 2), kernel=(2, 2), shape=(4, 4)),
            Sample((3, 8, 9, 10), kernel=(3, 3), stride=(2, 2), pad=(1, 1), shape=(17, 19)).no_gradient(),
            Sample((2, 3, 3, 3), kernel=(3, 2), stride=(2, 2), pad=(1, 0), shape=(5, 6), channel_last=True),
        )

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "gy has spatial shape", (2, 3, 2, 3), kernel=(2, 2), shape=(6, 6)),
            Refused(ValueError, "shape=.* has 1 entries", (2, 3, 2, 3), kernel=(2, 2), shape=(6,)),
        )


class SumPooling(WindowSums):
    """Sum of each window over the trailing axes; padding adds nothing.

    Args:
        x: (B..., S...) float; as many spatial axes S as kernel has entries.
        kernel, stride, ignore_border, pad, channel_last: as `MaxPooling`.

    Returns:
        y: (B..., T...) float; T as `MaxPooling`.

    Raises:
        ValueError: no window fits.
    """

    function = "sum_pooling"
    gradient_name = "SumPoolingGrad"

    def samples(self) -> Sequence[Sample]:
        return (*super().samples(), Sample((2, 3, 3), kernel=(1, 2), pad=(2, 2)), Sample((7,), kernel=(7,)))

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "no window", (2, 3, 4), kernel=(5, 2)),
            Refused(ValueError, "pad=.* below 0", (2, 3, 4), kernel=(2, 2), pad=(-1, 0)),
            Refused(ValueError, "kernel=.* has 3 entries", (3, 4), kernel=(2, 2, 2)),
            Refused(TypeError, "kernel is missing", (3, 4)),
        )


class SumPoolingGrad(WindowSumsGrad):
    """Gradient of sum pooling: each `gy` is added to all real elements of its window.

    Args:
        gy: (B..., T...) float.
        kernel, stride, ignore_border, pad, channel_last: as `SumPooling`.
        shape: S, the spatial shape of x.

    Returns:
        gx: (B..., S...) float.

    Raises:
        ValueError: gy has not the shape of the pooling's output.
    """

    attributes = (*SumPooling.attributes, Attribute("shape", "ints"))
    sums = SumPooling


class AveragePooling(WindowSums):
    """Average of each window over the trailing axes.

    `y = sum of the real elements / n`, with n the size of the window clipped to the padded input (including_pad) or to
    the real input. A window that sees no real element gives 0.

    Args:
        x: (B..., S...) float; as many spatial axes S as kernel has entries.
        kernel, stride, ignore_border, pad, channel_last: as `MaxPooling`.
        including_pad: whether the places of the padding count in n.

    Returns:
        y: (B..., T...) float; T as `MaxPooling`.

    Raises:
        ValueError: no window fits.
    """

    function = "average_pooling"
    # NNabla 1.0 had no channel_last; where it has one by now, it stands before including_pad.
    attributes = (*Pooling.attributes[:-1], Attribute("including_pad", "bool", True), CHANNEL_LAST)

    gradient_name = "AveragePoolingGrad"

    def divisors(
        self,
        sizes: Sequence[int],
        counts: Sequence[int],
        *,
        kernel: Sequence[int],
        stride: Sequence[int],
        pad: Sequence[int],
        including_pad: bool,
    ) -> np.ndarray:
        # 1 for a window of nothing, whose sum is 0.
        result = np.ones((), np.int64)
        for n, count, k, s, p in zip(sizes, counts, kernel, stride, pad, strict=True):
            start = np.arange(count) * s - p
            stop = start + k
            margin = p if including_pad else 0
            covered = np.minimum(stop, n + margin) - np.maximum(start, -margin)
            result = np.multiply.outer(result, np.maximum(covered, 0))
        return np.maximum(result, 1)

    def samples(self) -> Sequence[Sample]:
        return (
            *super().samples(),
            Sample((2, 2, 5, 7), kernel=(3, 3), stride=(2, 2), pad=(1, 2), including_pad=False),
            Sample((2, 5, 6), kernel=(3, 3), stride=(2, 2), ignore_border=False, pad=(1, 1), including_pad=False),
            Sample((2, 3, 3), kernel=(1, 2), pad=(2, 2), including_pad=False),
        )

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "no window", (2, 3, 4), kernel=(5, 2)),
            Refused(ValueError, "pad=.* below 0", (2, 3, 4), kernel=(2, 2), pad=(-1, 0)),
            Refused(TypeError, "including_pad", (2, 3, 4), kernel=(2, 2), including_pad="yes"),
        )


class AveragePoolingGrad(WindowSumsGrad):
    """Gradient of average pooling: each `gy / n` is added to all real elements of its window.

    Args:
        gy: (B..., T...) float.
        kernel, stride, ignore_border, pad, including_pad, channel_last: as `AveragePooling`.
        shape: S, the spatial shape of x.

    Returns:
        gx: (B..., S...) float.

    Raises:
        ValueError: gy has not the shape of the pooling's output.
    """

    attributes = (*AveragePooling.attributes, Attribute("shape", "ints"))
    sums = AveragePooling

    def samples(self) -> Sequence[Sample]:
        return (
            *super().samples(),
            Sample((2, 2, 3, 5), kernel=(3, 3), stride=(2, 2), pad=(1, 2), including_pad=False, shape=(5, 7)),
        )


class GlobalAveragePooling(OpSpec):
    """Mean over all spatial axes: (N, C, S...) -> (N, C, 1...).

    Args:
        x: (N, C, S...) float; at least one spatial axis, none of size 0.

    Returns:
        y: (N, C, 1...) float.

    Raises:
        ValueError: fewer than three axes, an empty spatial axis.
    """

    function = "global_average_pooling"
    category = "layer"
    inputs = (Input("x"),)

    def infer(self, x: ArrayDesc) -> ArrayDesc:
        if x.ndim < 3:
            raise self.error((x,), f"x has {x.ndim} axes", "give it at least three: (N, C, S...)")
        if 0 in x.shape[2:]:
            raise self.error((x,), "there is nothing to average", "give every spatial axis a size of at least 1")
        return ArrayDesc(x.shape[:2] + (1,) * (x.ndim - 2), x.dtype)

    def reference(self, x: np.ndarray) -> np.ndarray:
        # Summed in float64: the order of the sum must not show in float32.
        return x.mean(axis=tuple(range(2, x.ndim)), keepdims=True, dtype=np.float64).astype(x.dtype)

    def gradient(self, g: GradientCall, x: IRValue) -> Sequence[IRValue | None]:
        return (g.op("Broadcast", g.gy * (1.0 / math.prod(x.shape[2:])), shape=x.shape),)

    def samples(self) -> Sequence[Sample]:
        return Sample((2, 3, 4, 5)), Sample((2, 3, 7)), Sample((1, 2, 3, 1, 2)), Sample((0, 3, 4, 4))

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "x has 2 axes", (2, 3)),
            Refused(ValueError, "nothing to average", (2, 3, 0, 4)),
        )


class Unpooling(Channelled):
    """Every element repeated over a window: nearest-neighbour enlargement of the trailing axes.

    `y[..., i] = x[..., i // kernel]` on each of the axes.

    Args:
        x: (B..., S...) float; as many spatial axes S as kernel has entries.
        kernel: how often each element is repeated, per spatial axis.
        channel_last: whether x is (B..., S..., C) and y (B..., S kernel..., C).

    Returns:
        y: (B..., S kernel...) float.

    Raises:
        ValueError: more entries in kernel than axes in x, or one below 1.
    """

    function = "unpooling"
    category = "layer"
    inputs = (Input("x"),)
    moves = True
    attributes = (Attribute("kernel", "ints"), CHANNEL_LAST)
    channelled = ("x", "y")
    spatial = "kernel"

    def normalize(self, attributes: dict[str, Any], *inputs: Any) -> dict[str, Any]:
        check_kernel_axes(self, attributes, inputs, "enlarge")
        per_axis(self, inputs, attributes, "kernel", len(attributes["kernel"]), least=1)
        return attributes

    @either_layout
    def infer(self, x: ArrayDesc, *, kernel: tuple[int, ...]) -> ArrayDesc:
        leading, sizes = x.shape[: -len(kernel)], x.shape[-len(kernel) :]
        return ArrayDesc(leading + tuple(n * k for n, k in zip(sizes, kernel, strict=True)), x.dtype)

    @either_layout
    def reference(self, x: np.ndarray, *, kernel: tuple[int, ...]) -> np.ndarray:
        y = x
        for axis, repeats in enumerate(kernel, start=x.ndim - len(kernel)):
            y = y.repeat(repeats, axis=axis)
        return y

    def gradient(
        self, g: GradientCall, x: IRValue, *, kernel: tuple[int, ...], channel_last: bool
    ) -> Sequence[IRValue | None]:
        if not x.size:
            return (g.op("Constant", val=0.0, shape=x.shape, dtype=x.dtype),)  # windows of nothing have no sums
        return (g.op("SumPooling", g.gy, kernel=kernel, channel_last=channel_last),)

    def samples(self) -> Sequence[Sample]:
        return (
            Sample((2, 3, 2, 4), kernel=(2, 3)),
            Sample((2, 3, 4), kernel=(2,)),
            Sample((2, 3, 2), kernel=(1, 2, 3)),
            Sample((3,), kernel=(4,)),
            Sample((2, 3), kernel=(1,)),
            Sample((0, 3, 2), kernel=(2, 2)),
            Sample((2, 0, 2), kernel=(2, 2)),
            Sample((2, 2, 4, 3), kernel=(2, 3), channel_last=True),
        )

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "kernel=.* has 3 entries", (3, 4), kernel=(2, 2, 2)),
            Refused(ValueError, "those before the last: 1 to 1", (3, 4), kernel=(2, 2), channel_last=True),
            Refused(ValueError, "kernel=.* has 0 entries", (3, 4), kernel=()),
            Refused(ValueError, "kernel=.* below 1", (3, 4), kernel=(0, 2)),
            Refused(TypeError, "kernel", (3, 4), kernel=(1.5, 2)),
        )
