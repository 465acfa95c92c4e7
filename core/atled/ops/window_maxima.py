"""Maxima of windows that are cut to the array, and the places where they stand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from atled.array_desc import ArrayDesc
from atled.dtypes import is_float
from atled.errors import four_parts
from atled.ops.channel_axis import CHANNEL_LAST, either_layout, spatial_shape
from atled.ops.cut_windows import Cut, CutWindows, cut_counts
from atled.ops.samples import Distinct, Exact, Ints, Refused, Sample
from atled.ops.spec import Attribute, Input

if TYPE_CHECKING:
    from atled.ops.rules import GradientCall, IRValue


_MOST_BYTE_PLACES = 256


def _place_dtype(kernel: Sequence[int]) -> np.dtype:
    return np.dtype(np.uint8 if math.prod(kernel) <= _MOST_BYTE_PLACES else np.int32)


class WindowMax(CutWindows):
    """Maximum of each window over the trailing axes, which may be feature maps and space.

    Window i covers elements i * stride - pad to i * stride - pad + kernel - 1 of its axis, those of them that exist. Of
    equal maxima the first in C order counts; the first NaN of a window is its maximum.

    Args:
        x: (B..., S...) float; as many axes S as kernel has entries.
        kernel: window size per axis.
        stride: step between windows; default kernel.
        pad: places on both sides of each axis; default 0.
        caffe: whether the number of windows is rounded up, T = ceil((S + 2 pad - kernel) / stride) + 1, without a last
            one that starts behind the elements; else down.
        channel_last: whether x is (B..., S..., C) and y and place (B..., T..., C); C may be the batch.

    Returns:
        y: (B..., T...) float.
        place: shape of y, uint8 for windows of up to 256 places, else int32; which element of its window, counted in C
            order over those that exist, is the maximum.

    Raises:
        ValueError: no window fits, or one would see no element.
    """

    inputs = (Input("x"),)
    outputs = ("y", "place")
    saved = ("place",)
    integers = "exact"
    channelled = ("x", "y", "place")

    @either_layout
    def infer(self, x: ArrayDesc, *, kernel: tuple[int, ...], **geometry: Any) -> Sequence[ArrayDesc]:
        leading, sizes = x.shape[: -len(kernel)], x.shape[-len(kernel) :]
        shape = leading + self.counts((x,), sizes, kernel, **geometry)
        return ArrayDesc(shape, x.dtype), ArrayDesc(shape, _place_dtype(kernel))

    @either_layout
    def reference(
        self, x: np.ndarray, *, kernel: tuple[int, ...], stride: tuple[int, ...], pad: tuple[int, ...], caffe: bool
    ) -> Sequence[np.ndarray]:
        leading, sizes = x.shape[: -len(kernel)], x.shape[-len(kernel) :]
        counts = cut_counts(sizes, kernel, stride, pad, caffe)
        y = np.zeros(leading + counts, x.dtype)
        place = np.full(leading + counts, -1)
        for number, windows, elements in Cut(sizes, counts, kernel, stride, pad).taps():
            best, found = y[(..., *windows)], place[(..., *windows)]
            candidate = x[(..., *elements)]
            wins = (found < 0) | (candidate > best) | (np.isnan(candidate) & ~np.isnan(best))
            best[...] = np.where(wins, candidate, best)
            found[...] = np.where(wins, number, found)
        return y, place.astype(_place_dtype(kernel))

    def gradient(
        self, g: GradientCall, x: IRValue, *, kernel: tuple[int, ...], **geometry: Any
    ) -> Sequence[IRValue | None]:
        shape = spatial_shape(x.shape, len(kernel), geometry["channel_last"])
        return (g.op("WindowMaxGrad", g.gy, g.outputs[1], kernel=kernel, shape=shape, **geometry),)

    def samples(self) -> Sequence[Sample]:
        return (
            Sample(Distinct((2, 4, 5, 6)), kernel=(2, 2)),
            Sample(Distinct((2, 5, 7)), kernel=(3, 3), stride=(2, 2), pad=(1, 2)),
            Sample(Distinct((2, 6, 7)), kernel=(3, 2), stride=(2, 3), pad=(1, 0), caffe=True),
            Sample(Distinct((4, 1, 4, 5, 3)), kernel=(2, 1, 3, 2), stride=(1, 1, 2, 2), channel_last=True),
            Sample(Distinct((2, 300)), kernel=(300,)),
            Sample(Distinct((0, 4, 4)), kernel=(2, 2)),
            Sample(Exact(np.zeros((1, 4, 4))), kernel=(2, 2)).no_gradient(),
        )

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "no window", (2, 3, 4), kernel=(5, 2)),
            Refused(ValueError, "would see no element", (2, 3, 4), kernel=(2, 2), pad=(2, 0)),
            Refused(ValueError, "would see no element", (2, 3, 0), kernel=(2, 2), pad=(0, 1)),
            Refused(ValueError, "would see no element", (5,), kernel=(1,), stride=(3,), caffe=True),
            Refused(ValueError, "kernel=.* has 3 entries", (3, 4), kernel=(2, 2, 2)),
            Refused(ValueError, "2\\^31 places", (3, 4), kernel=(2**16, 2**16)),
            Refused(TypeError, "kernel is missing", (3, 4)),
        )


class _Placed(CutWindows, abstract=True):
    """What the two adjoint ops share that move values between windows and elements."""

    attributes = (*CutWindows.attributes[:-1], Attribute("shape", "ints"), CHANNEL_LAST)

    def check_places(
        self,
        inputs: tuple[ArrayDesc, ArrayDesc],
        kernel: tuple[int, ...],
        shape: tuple[int, ...],
        **geometry: Any,
    ) -> None:
        """Refuse places that are not those of a pooling of `shape`."""
        place, wanted = inputs[1], _place_dtype(kernel)
        counts = self.counts(inputs, shape, kernel, **geometry)
        if place.shape[-len(kernel) :] != counts:
            wrong = f"place has {list(place.shape[-len(kernel) :])} windows"
            raise self.error(inputs, wrong, f"use {list(counts)}")
        # While a graph is built dtypes are unknown, and stand as floats.
        if place.dtype != wanted and not is_float(place.dtype):
            raise self.error(inputs, f"place is {place.dtype}", f"use {wanted}, as WindowMax gives it")

    def check_range(self, place: np.ndarray, cut: Cut) -> None:
        """Refuse places that their windows have not."""
        outside = (place < 0) | (place >= cut.elements)
        if outside.any():
            position = tuple(int(i) for i in np.argwhere(outside)[0])
            count = int(np.broadcast_to(cut.elements, place.shape)[position])
            raise IndexError(
                four_parts(
                    f"{self.name}(place: {list(place.shape)})",
                    f"place{list(position)} is {int(place[position])}, out of range",
                    "",
                    f"use 0 to {count - 1}, as many elements as the window has",
                )
            )


class WindowMaxGrad(_Placed):
    """Gradient of `WindowMax`: each `gy` is added to the element at its window's place.

    Args:
        gy: (B..., T...) float.
        place: (B..., T...) uint8 or int32, as `WindowMax` gives it.
        kernel, stride, pad, caffe, channel_last: as `WindowMax`.
        shape: S, the sizes of x along the axes of the windows.

    Returns:
        gx: (B..., S...) float; 0 where no maximum was.

    Raises:
        ValueError: gy and place differ in shape, or are not the windows of S; place has another dtype.
        IndexError: a place that a window does not have.
    """

    inputs = (Input("gy"), Input("place", kind="keep", gradient="none"))
    outputs = ("gx",)
    channelled = ("gy", "place", "gx")

    @either_layout
    def infer(
        self, gy: ArrayDesc, place: ArrayDesc, *, kernel: tuple[int, ...], shape: tuple[int, ...], **geometry: Any
    ) -> ArrayDesc:
        if gy.shape != place.shape:
            raise self.error((gy, place), "gy and place differ in shape", "pass the place of the same pooling")
        self.check_places((gy, place), kernel, shape, **geometry)
        return ArrayDesc(gy.shape[: -len(shape)] + shape, gy.dtype)

    @either_layout
    def reference(
        self,
        gy: np.ndarray,
        place: np.ndarray,
        *,
        kernel: tuple[int, ...],
        stride: tuple[int, ...],
        pad: tuple[int, ...],
        shape: tuple[int, ...],
        **_: Any,
    ) -> np.ndarray:
        leading, counts = gy.shape[: -len(kernel)], gy.shape[-len(kernel) :]
        cut = Cut(shape, counts, kernel, stride, pad)
        self.check_range(place, cut)
        gx = np.zeros(leading + shape, gy.dtype)
        for number, windows, elements in cut.taps():
            gx[(..., *elements)] += np.where(place[(..., *windows)] == number, gy[(..., *windows)], 0)
        return gx

    def gradient(self, g: GradientCall, gy: IRValue, place: IRValue, **attributes: Any) -> Sequence[IRValue | None]:
        return g.op("WindowMaxGather", g.gy, place, **attributes), None

    def samples(self) -> Sequence[Sample]:
        return (
            Sample((2, 2, 3), _Places((2, 2, 3), 4), kernel=(2, 2), shape=(5, 7)),
            Sample((2, 3, 3), _Places((2, 3, 3), 1), kernel=(3, 3), stride=(2, 2), pad=(1, 1), shape=(5, 6)),
            Sample((1, 3), Exact(np.array([[2, 1, 0]], np.uint8)), kernel=(3,), stride=(2,), caffe=True, shape=(6,)),
            Sample(
                (3, 1, 2, 2, 3),
                _Places((3, 1, 2, 2, 3), 8),
                kernel=(2, 1, 2, 2),
                stride=(1, 1, 2, 2),
                shape=(4, 1, 4, 5),
                channel_last=True,
            ),
            Sample((2, 1), Exact(np.array([[3], [299]], np.int32)), kernel=(300,), shape=(300,)),
            Sample((0, 2, 2), _Places((0, 2, 2), 4), kernel=(2, 2), shape=(4, 4)),
        )

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "differ in shape", (2, 2, 2), _Places((2, 2, 1), 4), kernel=(2, 2), shape=(4, 4)),
            Refused(ValueError, "place has .2. windows", (1, 2), _Places((1, 2), 2), kernel=(2,), shape=(9,)),
            Refused(ValueError, "place is int64", (1, 2), Ints((1, 2), 2), kernel=(2,), shape=(4,)),
            Refused(IndexError, "out of range", (1, 2), Exact(np.array([[0, 2]], np.uint8)), kernel=(2,), shape=(4,)),
        )


class _Places(Ints):
    """Places of windows, as `WindowMax` numbers them."""

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        return super().draw(rng).astype(np.uint8)


class WindowMaxGather(_Placed):
    """The adjoint of `WindowMaxGrad`: the elements at the places of the windows.

    Args:
        x: (B..., S...) float.
        place: (B..., T...) uint8 or int32, as `WindowMax` gives it.
        kernel, stride, pad, caffe, channel_last: as `WindowMax`.
        shape: S.

    Returns:
        y: (B..., T...) float.

    Raises:
        ValueError: x has not the shape of what was pooled, place has another dtype.
        IndexError: a place that a window does not have.
    """

    inputs = (Input("x"), Input("place", kind="keep", gradient="none"))
    channelled = ("x", "place", "y")

    @either_layout
    def infer(
        self, x: ArrayDesc, place: ArrayDesc, *, kernel: tuple[int, ...], shape: tuple[int, ...], **geometry: Any
    ) -> ArrayDesc:
        self.check_places((x, place), kernel, shape, **geometry)
        expected = place.shape[: -len(shape)] + shape
        if x.shape != expected:
            raise self.error((x, place), f"x has shape {list(x.shape)}", f"use {list(expected)}, or another shape=")
        return ArrayDesc(place.shape, x.dtype)

    @either_layout
    def reference(
        self,
        x: np.ndarray,
        place: np.ndarray,
        *,
        kernel: tuple[int, ...],
        stride: tuple[int, ...],
        pad: tuple[int, ...],
        shape: tuple[int, ...],
        **_: Any,
    ) -> np.ndarray:
        cut = Cut(shape, place.shape[-len(kernel) :], kernel, stride, pad)
        self.check_range(place, cut)
        y = np.zeros(place.shape, x.dtype)
        for number, windows, elements in cut.taps():
            y[(..., *windows)] += np.where(place[(..., *windows)] == number, x[(..., *elements)], 0)
        return y

    def gradient(self, g: GradientCall, x: IRValue, place: IRValue, **attributes: Any) -> Sequence[IRValue | None]:
        return g.op("WindowMaxGrad", g.gy, place, **attributes), None

    def samples(self) -> Sequence[Sample]:
        return (
            Sample((2, 5, 7), _Places((2, 2, 3), 4), kernel=(2, 2), shape=(5, 7)),
            Sample((1, 6), Exact(np.array([[2, 1, 0]], np.uint8)), kernel=(3,), stride=(2,), caffe=True, shape=(6,)),
            Sample(
                (4, 1, 4, 5, 3),
                _Places((3, 1, 2, 2, 3), 8),
                kernel=(2, 1, 2, 2),
                stride=(1, 1, 2, 2),
                shape=(4, 1, 4, 5),
                channel_last=True,
            ),
            Sample((0, 4, 4), _Places((0, 2, 2), 4), kernel=(2, 2), shape=(4, 4)),
        )

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "x has shape", (2, 3, 4), _Places((2, 2, 2), 4), kernel=(2, 2), shape=(4, 4)),
            Refused(IndexError, "out of range", (1, 4), Exact(np.array([[2, 0]], np.uint8)), kernel=(2,), shape=(4,)),
        )
