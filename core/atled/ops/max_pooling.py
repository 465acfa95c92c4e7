"""Max pooling over the trailing axes: maxima of windows and the places where they stand."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from atled.array_desc import ArrayDesc
from atled.dtypes import is_float
from atled.ops.channel_axis import CHANNEL_LAST, either_layout, spatial_shape
from atled.ops.indices import check_range
from atled.ops.pooling import Pooling, pooled_sizes
from atled.ops.samples import Distinct, Exact, Ints, Refused, Sample
from atled.ops.spec import SPECS, Attribute, Input
from atled.ops.windows import taps

if TYPE_CHECKING:
    from atled.ops.rules import GradientCall, IRValue


class _Places(Ints):
    """Places of windows, as max pooling numbers them."""

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        return super().draw(rng).astype(np.uint8)


class MaxPooling(Pooling):
    """Maximum of each window over the trailing axes.

    Window i covers elements i * stride - pad to i * stride - pad + kernel - 1 of its axis, those of them that exist:
    padding never wins. Of equal maxima the first in C order counts; the first NaN of a window is its maximum.

    Args:
        x: (B..., S...) float; as many spatial axes S as kernel has entries.
        kernel: window size per spatial axis.
        stride: step between windows; default kernel.
        ignore_border: True: only windows that lie within the padded input, T = (S + 2 pad - kernel) // stride + 1;
            False: all windows that start within it, T = ceil((S + 2 pad) / stride).
        pad: places on both sides of each axis; default 0.
        channel_last: whether x is (B..., S..., C) and y (B..., T..., C); place is (B..., C, T...) all the same.

    Returns:
        y: (B..., T...) float.
        place: (B..., T...) uint8 for windows of up to 256 places, else int32; auxiliary: which place of its window,
            counted in C order, holds the maximum.

    Raises:
        ValueError: no window fits, or one would see no element of x.
    """

    function = "max_pooling"
    outputs = ("y", "place")
    auxiliary = ("place",)

    @either_layout
    def infer(
        self,
        x: ArrayDesc,
        *,
        kernel: tuple[int, ...],
        stride: tuple[int, ...],
        ignore_border: bool,
        pad: tuple[int, ...],
    ) -> Sequence[ArrayDesc]:
        leading, sizes = x.shape[: -len(kernel)], x.shape[-len(kernel) :]
        counts = self.window_counts((x,), sizes, kernel, stride, ignore_border, pad)
        if math.prod(kernel) >= 2**31:
            raise self.error(
                (x,), f"kernel={kernel} has 2^31 places or more, more than are numbered", "use a smaller kernel"
            )
        for n, count, k, s, p in zip(sizes, counts, kernel, stride, pad, strict=True):
            # The first window ends earliest and the last one starts latest: where there are elements they tell for all.
            if not n or p >= k or (count - 1) * s - p >= n:
                raise self.error(
                    (x,),
                    f"a window of kernel {list(kernel)} with pad {list(pad)} would see padding only",
                    "use less padding or ignore_border=True",
                )
        shape = leading + counts
        return ArrayDesc(shape, x.dtype), ArrayDesc(shape, _place_dtype(kernel))

    @either_layout
    def reference(
        self,
        x: np.ndarray,
        *,
        kernel: tuple[int, ...],
        stride: tuple[int, ...],
        ignore_border: bool,
        pad: tuple[int, ...],
    ) -> Sequence[np.ndarray]:
        leading, sizes = x.shape[: -len(kernel)], x.shape[-len(kernel) :]
        counts = pooled_sizes(sizes, kernel, stride, ignore_border, pad)
        y = np.zeros(leading + counts, x.dtype)
        place = np.full(leading + counts, -1)
        for position, windows, elements in taps(sizes, counts, kernel, pad, stride, (1,) * len(kernel)):
            best, found = y[(..., *windows)], place[(..., *windows)]
            candidate = x[(..., *elements)]
            wins = (found < 0) | (candidate > best) | (np.isnan(candidate) & ~np.isnan(best))
            best[...] = np.where(wins, candidate, best)
            found[...] = np.where(wins, np.ravel_multi_index(position, kernel), found)
        return y, place.astype(_place_dtype(kernel))

    def gradient(
        self, g: GradientCall, x: IRValue, *, kernel: tuple[int, ...], **geometry: Any
    ) -> Sequence[IRValue | None]:
        if g.is_sparing:
            return (g.op("MaxPoolingGradByValue", g.gy, x, g.y, kernel=kernel, **geometry),)
        shape = spatial_shape(x.shape, len(kernel), geometry["channel_last"])
        return (g.op("MaxPoolingGrad", g.gy, g.outputs[1], kernel=kernel, shape=shape, **geometry),)

    def sparing_gradient(
        self, inputs: Sequence[ArrayDesc | None], outputs: Sequence[ArrayDesc], attributes: Mapping[str, Any]
    ) -> tuple[str, Sequence[ArrayDesc | None], Mapping[str, Any]]:
        return "MaxPoolingGradByValue", (outputs[0], inputs[0], outputs[0]), attributes

    def samples(self) -> Sequence[Sample]:
        return (
            Sample(Distinct((2, 3, 4, 6)), kernel=(2, 2)),
            Sample(Distinct((2, 2, 5, 7)), kernel=(3, 2), stride=(2, 1)),
            Sample(Distinct((2, 2, 5, 7)), kernel=(3, 3), stride=(2, 2), pad=(1, 2)),
            Sample(Distinct((2, 5, 7)), kernel=(2, 3), ignore_border=False),
            Sample(Distinct((2, 6, 4)), kernel=(3, 3), stride=(2, 2), ignore_border=False, pad=(1, 1)),
            Sample(Distinct((2, 1, 9)), kernel=(3,), stride=(2,), pad=(1,)),
            Sample(Distinct((2, 4, 3, 4)), kernel=(2, 2, 2), stride=(1, 1, 2)),
            Sample(Distinct((7,)), kernel=(7,)),
            Sample(Distinct((0, 3, 4, 4)), kernel=(2, 2)),
            Sample(Exact(np.zeros((1, 2, 4, 4))), kernel=(2, 2)).no_gradient(),
            Sample(Exact(np.full((2, 3, 3), -np.inf)), kernel=(2, 2), pad=(1, 1)).no_gradient(),
            Sample((3, 8, 17, 19), kernel=(3, 3), stride=(2, 2), pad=(1, 1)).no_gradient(),
            Sample(Distinct((2, 5, 6, 3)), kernel=(3, 2), stride=(2, 2), pad=(1, 0), channel_last=True),
        )

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "no window", (2, 3, 4), kernel=(5, 2)),
            Refused(ValueError, "padding only", (2, 3, 4), kernel=(2, 2), pad=(2, 0)),
            Refused(ValueError, "padding only", (2, 0, 4), kernel=(3, 3), pad=(2, 1)),
            Refused(
                ValueError, "padding only", (2, 4, 4), kernel=(2, 2), stride=(1, 1), pad=(1, 1), ignore_border=False
            ),
            Refused(ValueError, "kernel=.* has 3 entries", (3, 4), kernel=(2, 2, 2)),
            Refused(ValueError, "stride=.* has 1 entries", (3, 4), kernel=(2, 2), stride=(1,)),
            Refused(ValueError, "kernel=.* below 1", (3, 4), kernel=(0, 2)),
            Refused(ValueError, "more than are numbered", (3, 4), kernel=(2**16, 2**16), pad=(2**15, 2**15)),
            Refused(ValueError, "pad=.* above 2147483647", (3, 4), kernel=(2, 2), pad=(2**31, 0)),
            Refused(TypeError, "kernel is missing", (3, 4)),
        )


def _place_dtype(kernel: Sequence[int]) -> np.dtype:
    """The dtype that numbers the places of a window: as little memory as will do, since it is kept for the gradient."""
    return np.dtype(np.uint8 if math.prod(kernel) <= 256 else np.int32)


class _Placed(Pooling, abstract=True):
    """What the two adjoint ops share that move values between windows and their places."""

    attributes = (*Pooling.attributes[:-1], Attribute("shape", "ints"), CHANNEL_LAST)

    def check_places(
        self,
        inputs: tuple[ArrayDesc, ArrayDesc],
        kernel: tuple[int, ...],
        stride: tuple[int, ...],
        ignore_border: bool,
        pad: tuple[int, ...],
        shape: tuple[int, ...],
    ) -> None:
        """Refuse places that are not those of a pooling of `shape`."""
        place = inputs[1]
        counts = self.window_counts(inputs, shape, kernel, stride, ignore_border, pad)
        if place.shape[-len(kernel) :] != counts:
            raise self.error(
                inputs, f"place has spatial shape {list(place.shape[-len(kernel) :])}", f"use {list(counts)}"
            )
        wanted = _place_dtype(kernel)
        # While a graph is built dtypes are unknown, and stand as floats.
        if place.dtype != wanted and not is_float(place.dtype):
            raise self.error(inputs, f"place is {place.dtype}", f"use {wanted}, as MaxPooling gives it")


class MaxPoolingGrad(_Placed):
    """Gradient of max pooling: each `gy` is added to the element at its window's place.

    Args:
        gy: (B..., T...) float.
        place: (B..., T...) uint8 or int32, as `MaxPooling` gives it; a place outside x gets nothing.
        kernel, stride, ignore_border, pad, channel_last: as `MaxPooling`; place has one order in both cases.
        shape: S, the spatial shape of x.

    Returns:
        gx: (B..., S...) float; 0 where no maximum was.

    Raises:
        ValueError: gy and place differ in shape, or are not the windows of S; place has another dtype.
        IndexError: a place that a window does not have.
    """

    inputs = (Input("gy"), Input("place", kind="keep", gradient="none"))
    outputs = ("gx",)
    channelled = ("gy", "gx")

    @either_layout
    def infer(
        self, gy: ArrayDesc, place: ArrayDesc, *, kernel: tuple[int, ...], shape: tuple[int, ...], **geometry: Any
    ) -> ArrayDesc:
        if gy.shape != place.shape:
            raise self.error((gy, place), "gy and place differ in shape", "pass the place of the same pooling")
        self.check_places((gy, place), kernel, shape=shape, **geometry)
        return ArrayDesc(gy.shape[: -len(shape)] + shape, gy.dtype)

    @either_layout
    def reference(
        self,
        gy: np.ndarray,
        place: np.ndarray,
        *,
        kernel: tuple[int, ...],
        stride: tuple[int, ...],
        ignore_border: bool,
        pad: tuple[int, ...],
        shape: tuple[int, ...],
    ) -> np.ndarray:
        check_range(self.name, "place", place, math.prod(kernel))
        leading, counts = gy.shape[: -len(kernel)], gy.shape[-len(kernel) :]
        gx = np.zeros(leading + shape, gy.dtype)
        for position, windows, elements in taps(shape, counts, kernel, pad, stride, (1,) * len(kernel)):
            here = place[(..., *windows)] == np.ravel_multi_index(position, kernel)
            gx[(..., *elements)] += np.where(here, gy[(..., *windows)], 0)
        return gx

    def gradient(self, g: GradientCall, gy: IRValue, place: IRValue, **attributes: Any) -> Sequence[IRValue | None]:
        return g.op("MaxPoolingGather", g.gy, place, **attributes), None

    def samples(self) -> Sequence[Sample]:
        return (
            Sample((2, 3, 2, 3), _Places((2, 3, 2, 3), 4), kernel=(2, 2), shape=(4, 6)),
            Sample((2, 3, 2, 3), _Places((2, 3, 2, 3), 4), kernel=(2, 2), shape=(5, 7)),
            Sample((2, 5), _Places((2, 5), 3), kernel=(3,), stride=(1,), shape=(7,)),
            Sample((2, 3, 5), _Places((2, 3, 5), 9), kernel=(3, 3), stride=(2, 2), pad=(1, 2), shape=(5, 7)),
            Sample((2, 2, 2), _Places((2, 2, 2), 4), kernel=(2, 2), ignore_border=False, shape=(3, 4)),
            Sample((2, 2, 1, 2), _Places((2, 2, 1, 2), 8), kernel=(2, 2, 2), shape=(4, 2, 4)),
            Sample((2, 1), Exact(np.array([[3], [299]], np.int32)), kernel=(300,), shape=(300,)),
            Sample((0, 2, 2), _Places((0, 2, 2), 4), kernel=(2, 2), shape=(4, 4)),
            Sample((4, 9, 8, 8), _Places((4, 9, 8, 8), 4), kernel=(2, 2), shape=(16, 16)).no_gradient(),
            Sample((2, 2, 3, 4), _Places((2, 4, 2, 3), 4), kernel=(2, 2), shape=(4, 6), channel_last=True),
        )

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "differ in shape", (2, 2, 2), _Places((2, 2, 1), 4), kernel=(2, 2), shape=(4, 4)),
            Refused(ValueError, "place has spatial shape", (1, 2), _Places((1, 2), 2), kernel=(2,), shape=(9,)),
            Refused(ValueError, "place is int64", (1, 2), Ints((1, 2), 2), kernel=(2,), shape=(4,)),
            Refused(ValueError, "shape=.* has 3 entries", (2, 2), _Places((2, 2), 4), kernel=(2, 2), shape=(4, 4, 4)),
            Refused(IndexError, "out of range", (1, 2), Exact(np.array([[0, 2]], np.uint8)), kernel=(2,), shape=(4,)),
        )


class MaxPoolingGradByValue(Pooling):
    """Gradient of max pooling without its places: each `gy` is added to the element that was its window's maximum.

    For devices whose pooling gives no places. It is used instead of `MaxPoolingGrad` where one backend computes both
    this and a `MaxPooling` that omits its places, and does not rank this lower (`Implementation.prefers`).

    Args:
        gy: (B..., T...) float.
        x: (B..., S...) float; what was pooled.
        y: (B..., T...) float; its maxima. An implementation may use them, or find them again.
        kernel, stride, ignore_border, pad, channel_last: as `MaxPooling`.

    Returns:
        gx: (B..., S...) float; 0 where no maximum was. Of equal maxima the first in C order counts.

    Raises:
        ValueError: gy and y are not the windows of x.
    """

    inputs = (Input("gy"), Input("x", gradient="none"), Input("y", gradient="none"))
    outputs = ("gx",)
    channelled = ("gy", "x", "y", "gx")

    @either_layout
    def infer(
        self, gy: ArrayDesc, x: ArrayDesc, y: ArrayDesc, *, kernel: tuple[int, ...], **geometry: Any
    ) -> ArrayDesc:
        sizes = x.shape[-len(kernel) :]
        shape = x.shape[: -len(kernel)] + self.window_counts((gy, x, y), sizes, kernel, **geometry)
        if gy.shape != shape or y.shape != shape:
            raise self.error((gy, x, y), "gy and y are not the windows of x", f"use {list(shape)} for both")
        return ArrayDesc(x.shape, gy.dtype)

    @either_layout
    def reference(
        self, gy: np.ndarray, x: np.ndarray, y: np.ndarray, *, kernel: tuple[int, ...], **geometry: Any
    ) -> np.ndarray:
        _, place = SPECS["MaxPooling"].reference(x, kernel=kernel, **geometry)
        shape = x.shape[-len(kernel) :]
        gx = SPECS["MaxPoolingGrad"].reference(gy, place, kernel=kernel, shape=shape, **geometry)
        return np.asarray(gx)

    def gradient(
        self, g: GradientCall, gy: IRValue, x: IRValue, y: IRValue, *, kernel: tuple[int, ...], **geometry: Any
    ) -> Sequence[IRValue | None]:
        place = g.op("MaxPoolingPlaces", x, kernel=kernel, **geometry)
        shape = spatial_shape(x.shape, len(kernel), geometry["channel_last"])
        return g.op("MaxPoolingGather", g.gy, place, kernel=kernel, shape=shape, **geometry), None, None

    def samples(self) -> Sequence[Sample]:
        return (
            _valued((2, 3, 4, 6), kernel=(2, 2)),
            _valued((2, 2, 5, 7), kernel=(3, 2), stride=(2, 1)),
            _valued((2, 2, 5, 7), kernel=(3, 3), stride=(2, 2), pad=(1, 2)),
            _valued((2, 3, 4), kernel=(2, 2), ignore_border=False),
            _valued((2, 4, 2, 4), kernel=(2, 2, 2)),
            _valued((0, 4, 4), kernel=(2, 2)),
            _valued((4, 9, 16, 16), kernel=(2, 2)).no_gradient(),
            _valued((2, 5, 6, 3), kernel=(3, 2), stride=(2, 2), pad=(1, 0), channel_last=True),
        )

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "not the windows", (2, 2, 1), (2, 4, 4), (2, 2, 2), kernel=(2, 2)),
            Refused(ValueError, "not the windows", (2, 2, 2), (2, 4, 4), (2, 2, 1), kernel=(2, 2)),
            Refused(ValueError, "no window", (2, 1), (2, 2), (2, 1), kernel=(3,)),
        )


def _valued(shape: tuple[int, ...], **attributes: Any) -> Sample:
    """A sample of the gradient by value: an array, and the maxima of its windows."""
    spec = SPECS["MaxPooling"]
    x = Distinct(shape).draw(np.random.default_rng(0))
    y, _ = spec.reference(x, **spec.check_attributes(attributes, [ArrayDesc(shape, x.dtype)]))
    return Sample(y.shape, Exact(x), Exact(y), **attributes)


class MaxPoolingPlaces(Pooling):
    """The places of the maxima alone, as `MaxPooling` counts them; for second gradients where it omits them.

    Args:
        x: (B..., S...) float; as many spatial axes S as kernel has entries.
        kernel, stride, ignore_border, pad, channel_last: as `MaxPooling`; place has one order in both cases.

    Returns:
        place: (B..., T...) uint8 for windows of up to 256 places, else int32.

    Raises:
        ValueError: as `MaxPooling`.
    """

    outputs = ("place",)
    channelled = ("x",)
    no_gradient = "stops"

    def infer(self, x: ArrayDesc, **attributes: Any) -> ArrayDesc:
        place: ArrayDesc = SPECS["MaxPooling"].infer(x, **attributes)[1]
        return place

    def reference(self, x: np.ndarray, **attributes: Any) -> np.ndarray:
        return np.asarray(SPECS["MaxPooling"].reference(x, **attributes)[1])

    def samples(self) -> Sequence[Sample]:
        return (
            Sample(Distinct((2, 3, 4, 6)), kernel=(2, 2)),
            Sample(Distinct((2, 2, 5, 7)), kernel=(3, 3), stride=(2, 2), pad=(1, 2)),
            Sample(Distinct((300,)), kernel=(300,)),
            Sample(Distinct((2, 5, 6, 3)), kernel=(3, 2), channel_last=True),
        )

    def refused(self) -> Sequence[Refused]:
        return (Refused(ValueError, "no window", (2, 3, 4), kernel=(5, 2)),)


class MaxPoolingGather(_Placed):
    """The adjoint of `MaxPoolingGrad`: the elements of x at the places of an earlier pooling's maxima.

    Args:
        x: (B..., S...) float.
        place: (B..., T...) uint8 or int32, as `MaxPooling` gives it; a place outside x gives 0.
        kernel, stride, ignore_border, pad, channel_last: as `MaxPooling`; place has one order in both cases.
        shape: S; says how many of the axes are spatial.

    Returns:
        y: (B..., T...) float.

    Raises:
        ValueError: x is not (B..., S...), or place not that of a pooling of S.
        IndexError: a place that a window does not have.
    """

    inputs = (Input("x"), Input("place", kind="keep", gradient="none"))

    @either_layout
    def infer(
        self, x: ArrayDesc, place: ArrayDesc, *, kernel: tuple[int, ...], shape: tuple[int, ...], **geometry: Any
    ) -> ArrayDesc:
        self.check_places((x, place), kernel, shape=shape, **geometry)
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
        ignore_border: bool,
        pad: tuple[int, ...],
        shape: tuple[int, ...],
    ) -> np.ndarray:
        check_range(self.name, "place", place, math.prod(kernel))
        y = np.zeros(place.shape, x.dtype)
        for position, windows, elements in taps(
            shape, place.shape[-len(kernel) :], kernel, pad, stride, (1,) * len(kernel)
        ):
            here = place[(..., *windows)] == np.ravel_multi_index(position, kernel)
            y[(..., *windows)] += np.where(here, x[(..., *elements)], 0)
        return y

    def gradient(self, g: GradientCall, x: IRValue, place: IRValue, **attributes: Any) -> Sequence[IRValue | None]:
        return g.op("MaxPoolingGrad", g.gy, place, **attributes), None

    def samples(self) -> Sequence[Sample]:
        return (
            Sample((2, 3, 4, 6), _Places((2, 3, 2, 3), 4), kernel=(2, 2), shape=(4, 6)),
            Sample((2, 5), _Places((2, 3), 3), kernel=(3,), stride=(1,), shape=(5,)),
            Sample((2, 5, 7), _Places((2, 3, 5), 9), kernel=(3, 3), stride=(2, 2), pad=(1, 2), shape=(5, 7)),
            Sample((2, 300), Exact(np.array([[3], [299]], np.int32)), kernel=(300,), shape=(300,)),
            Sample((2, 4, 2, 4), _Places((2, 2, 1, 2), 8), kernel=(2, 2, 2), shape=(4, 2, 4)),
            Sample((0, 4, 4), _Places((0, 2, 2), 4), kernel=(2, 2), shape=(4, 4)),
            Sample((2, 4, 6, 4), _Places((2, 4, 2, 3), 4), kernel=(2, 2), shape=(4, 6), channel_last=True),
        )

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "x has shape", (2, 3, 4), _Places((2, 2, 2), 4), kernel=(2, 2), shape=(4, 4)),
            Refused(IndexError, "out of range", (1, 4), Exact(np.array([[2, 0]], np.uint8)), kernel=(2,), shape=(4,)),
        )
