"""Sums, averages and norms of windows that are cut to the array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from atled.array_desc import ArrayDesc
from atled.ops.channel_axis import CHANNEL_LAST, either_layout, spatial_shape
from atled.ops.cut_windows import Cut, CutWindows, cut_counts
from atled.ops.samples import Refused, Sample
from atled.ops.spec import Attribute, Input

if TYPE_CHECKING:
    from atled.ops.rules import GradientCall, IRValue


_AVERAGE = Attribute("average", "bool", False)


class WindowSum(CutWindows):
    """Sum, or average, of the elements of each window over the trailing axes; padding counts in neither.

    Args:
        x: (B..., S...) float; as many axes S as kernel has entries.
        kernel, stride, pad, caffe, channel_last: as `WindowMax`.
        average: whether sums are divided by how many elements a window has.

    Returns:
        y: (B..., T...) float; T as `WindowMax`.

    Raises:
        ValueError: no window fits, or one would see no element.
    """

    inputs = (Input("x"),)
    attributes = (*CutWindows.attributes[:-1], _AVERAGE, CHANNEL_LAST)
    channelled = ("x", "y")

    @either_layout
    def infer(self, x: ArrayDesc, *, kernel: tuple[int, ...], average: bool, **geometry: Any) -> ArrayDesc:
        leading, sizes = x.shape[: -len(kernel)], x.shape[-len(kernel) :]
        return ArrayDesc(leading + self.counts((x,), sizes, kernel, **geometry), x.dtype)

    @either_layout
    def reference(
        self,
        x: np.ndarray,
        *,
        kernel: tuple[int, ...],
        stride: tuple[int, ...],
        pad: tuple[int, ...],
        caffe: bool,
        average: bool,
    ) -> np.ndarray:
        leading, sizes = x.shape[: -len(kernel)], x.shape[-len(kernel) :]
        counts = cut_counts(sizes, kernel, stride, pad, caffe)
        cut = Cut(sizes, counts, kernel, stride, pad)
        y = np.zeros(leading + counts, x.dtype)
        for _, windows, elements in cut.taps():
            y[(..., *windows)] += x[(..., *elements)]
        return y / cut.elements.astype(x.dtype) if average else y

    def gradient(
        self, g: GradientCall, x: IRValue, *, kernel: tuple[int, ...], **geometry: Any
    ) -> Sequence[IRValue | None]:
        shape = spatial_shape(x.shape, len(kernel), geometry["channel_last"])
        return (g.op("WindowSumGrad", g.gy, kernel=kernel, shape=shape, **geometry),)

    def samples(self) -> Sequence[Sample]:
        return (
            Sample((2, 4, 5, 6), kernel=(2, 2)),
            Sample((2, 5, 7), kernel=(3, 3), stride=(2, 2), pad=(1, 2), average=True),
            Sample((2, 6, 7), kernel=(3, 2), stride=(2, 3), pad=(1, 0), caffe=True, average=True),
            Sample((4, 1, 4, 5, 3), kernel=(2, 1, 3, 2), stride=(1, 1, 2, 2), channel_last=True, average=True),
            Sample((0, 4, 4), kernel=(2, 2)),
        )

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "no window", (2, 3, 4), kernel=(5, 2)),
            Refused(ValueError, "would see no element", (2, 3, 4), kernel=(2, 2), pad=(2, 0)),
            Refused(ValueError, "would see no element", (2, 3, 0), kernel=(2, 2), pad=(0, 1)),
            Refused(ValueError, "pad=.* below 0", (2, 3, 4), kernel=(2, 2), pad=(-1, 0)),
        )


class WindowSumGrad(CutWindows):
    """Gradient of `WindowSum`: each `gy`, divided likewise, is added to all elements of its window.

    Args:
        gy: (B..., T...) float.
        kernel, stride, pad, caffe, average, channel_last: as `WindowSum`.
        shape: S, the sizes of x along the axes of the windows.

    Returns:
        gx: (B..., S...) float.

    Raises:
        ValueError: gy is not the windows of S.
    """

    inputs = (Input("gy"),)
    outputs = ("gx",)
    attributes = (*CutWindows.attributes[:-1], _AVERAGE, Attribute("shape", "ints"), CHANNEL_LAST)
    channelled = ("gy", "gx")

    @either_layout
    def infer(
        self, gy: ArrayDesc, *, kernel: tuple[int, ...], average: bool, shape: tuple[int, ...], **geometry: Any
    ) -> ArrayDesc:
        counts = self.counts((gy,), shape, kernel, **geometry)
        if gy.shape[-len(kernel) :] != counts:
            raise self.error((gy,), f"gy has {list(gy.shape[-len(kernel) :])} windows", f"use {list(counts)}")
        return ArrayDesc(gy.shape[: -len(kernel)] + shape, gy.dtype)

    @either_layout
    def reference(
        self,
        gy: np.ndarray,
        *,
        kernel: tuple[int, ...],
        stride: tuple[int, ...],
        pad: tuple[int, ...],
        average: bool,
        shape: tuple[int, ...],
        **_: Any,
    ) -> np.ndarray:
        leading, counts = gy.shape[: -len(kernel)], gy.shape[-len(kernel) :]
        cut = Cut(shape, counts, kernel, stride, pad)
        share = gy / cut.elements.astype(gy.dtype) if average else gy
        gx = np.zeros(leading + shape, gy.dtype)
        for _, windows, elements in cut.taps():
            gx[(..., *elements)] += share[(..., *windows)]
        return gx

    def gradient(
        self, g: GradientCall, gy: IRValue, *, shape: tuple[int, ...], **geometry: Any
    ) -> Sequence[IRValue | None]:
        return (g.op("WindowSum", g.gy, **geometry),)

    def samples(self) -> Sequence[Sample]:
        return (
            Sample((2, 2, 3), kernel=(2, 2), shape=(5, 7)),
            Sample((2, 3, 3), kernel=(3, 3), stride=(2, 2), pad=(1, 1), shape=(5, 6), average=True),
            Sample((1, 3), kernel=(3,), stride=(2,), caffe=True, shape=(6,), average=True),
            Sample(
                (3, 1, 2, 2, 3),
                kernel=(2, 1, 2, 2),
                stride=(1, 1, 2, 2),
                shape=(4, 1, 4, 5),
                average=True,
                channel_last=True,
            ),
            Sample((0, 2, 2), kernel=(2, 2), shape=(4, 4)),
        )

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "gy has .2, 3. windows", (2, 2, 3), kernel=(2, 2), shape=(6, 6)),
            Refused(ValueError, "shape=.* has 3 entries", (2, 2), kernel=(2, 2), shape=(4, 4, 4)),
        )


class WindowNorm(CutWindows):
    """Euclidean norm of the elements of each window over the trailing axes: `y = sqrt(sum of x^2)`.

    The gradient of a window of zeros is 0.

    Args:
        x: (B..., S...) float; as many axes S as kernel has entries.
        kernel, stride, pad, caffe, channel_last: as `WindowMax`.

    Returns:
        y: (B..., T...) float; T as `WindowMax`.

    Raises:
        ValueError: no window fits, or one would see no element.
    """

    inputs = (Input("x"),)
    channelled = ("x", "y")
    saved = ("y",)

    @either_layout
    def infer(self, x: ArrayDesc, *, kernel: tuple[int, ...], **geometry: Any) -> ArrayDesc:
        leading, sizes = x.shape[: -len(kernel)], x.shape[-len(kernel) :]
        return ArrayDesc(leading + self.counts((x,), sizes, kernel, **geometry), x.dtype)

    @either_layout
    def reference(
        self, x: np.ndarray, *, kernel: tuple[int, ...], stride: tuple[int, ...], pad: tuple[int, ...], caffe: bool
    ) -> np.ndarray:
        leading, sizes = x.shape[: -len(kernel)], x.shape[-len(kernel) :]
        counts = cut_counts(sizes, kernel, stride, pad, caffe)
        squares = np.zeros(leading + counts, x.dtype)
        for _, windows, elements in Cut(sizes, counts, kernel, stride, pad).taps():
            squares[(..., *windows)] += x[(..., *elements)] ** 2
        return np.sqrt(squares)

    def gradient(
        self, g: GradientCall, x: IRValue, *, kernel: tuple[int, ...], **geometry: Any
    ) -> Sequence[IRValue | None]:
        shape = spatial_shape(x.shape, len(kernel), geometry["channel_last"])
        is_zero = g.op("EqualScalar", g.op("Unlink", g.y), val=0.0)
        share = g.gy / (g.y + is_zero)
        return (x * g.op("WindowSumGrad", share, kernel=kernel, shape=shape, **geometry),)

    def samples(self) -> Sequence[Sample]:
        return (
            Sample((2, 5, 7), kernel=(3, 3), stride=(2, 2), pad=(1, 2)),
            Sample((2, 6, 7), kernel=(3, 2), stride=(2, 3), pad=(1, 0), caffe=True),
            Sample((4, 1, 4, 5, 3), kernel=(2, 1, 3, 2), stride=(1, 1, 2, 2), channel_last=True),
            Sample((0, 4, 4), kernel=(2, 2)),
        )

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "no window", (2, 3, 4), kernel=(5, 2)),
            Refused(ValueError, "would see no element", (2, 3, 4), kernel=(2, 2), pad=(2, 0)),
            Refused(ValueError, "would see no element", (2, 3, 0), kernel=(2, 2), pad=(0, 1)),
        )
