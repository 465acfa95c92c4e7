"""Pooling over the trailing axes: maxima and averages of windows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from atled.call import ArrayDesc
from atled.ops.indices import check_range
from atled.ops.samples import Distinct, Exact, Ints, Refused, Sample
from atled.ops.spec import SPECS, Attribute, Input, OpSpec
from atled.ops.windows import leading_rows, per_axis, taps, window_counts

if TYPE_CHECKING:
    from atled.graph.gradient import GradientCall
    from atled.graph.ir import IRValue


class Pooling(OpSpec, abstract=True):
    """What poolings share: kernel, stride, pad and how many windows there are."""

    category = "layer"
    inputs = (Input("x"),)
    attributes = (
        Attribute("kernel", "ints"),
        Attribute("stride", "ints", None),
        Attribute("ignore_border", "bool", True),
        Attribute("pad", "ints", None),
    )

    def normalize(self, attributes: dict[str, Any], *inputs: Any) -> dict[str, Any]:
        axes = len(attributes["kernel"])
        if not 1 <= axes <= inputs[0].ndim:
            raise self.error(
                inputs,
                f"kernel={attributes['kernel']} has {axes} entries",
                f"give one per axis to pool over, the trailing ones: 1 to {inputs[0].ndim}",
            )
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


def pooled_sizes(
    sizes: Sequence[int], kernel: Sequence[int], stride: Sequence[int], ignore_border: bool, pad: Sequence[int]
) -> tuple[int, ...]:
    """Windows per axis: (n + 2p - k) // s + 1, or ceil((n + 2p) / s) where partial windows count."""
    if ignore_border:
        return window_counts(sizes, kernel, pad, stride, (1,) * len(kernel))
    return tuple(-(-(n + 2 * p) // s) for n, p, s in zip(sizes, pad, stride, strict=True))


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

    Returns:
        y: (B..., T...) float.
        index: (B..., T...) int64, auxiliary; place of the maximum in the flattened S of x.

    Raises:
        ValueError: no window fits, or one would see no element of x.
    """

    function = "max_pooling"
    outputs = ("y", "index")
    auxiliary = ("index",)

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
        for n, count, k, s, p in zip(sizes, counts, kernel, stride, pad, strict=True):
            # The first window ends earliest and the last one starts latest, so they tell for all.
            if p >= k or (count - 1) * s - p >= n:
                raise self.error(
                    (x,),
                    f"a window of kernel {list(kernel)} with pad {list(pad)} would see padding only",
                    "use less padding or ignore_border=True",
                )
        shape = leading + counts
        return ArrayDesc(shape, x.dtype), ArrayDesc(shape, np.int64)

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
        places = np.arange(math.prod(sizes)).reshape(sizes)
        y = np.zeros(leading + counts, x.dtype)
        index = np.full(leading + counts, -1, np.int64)
        for _, windows, elements in taps(sizes, counts, kernel, pad, stride, (1,) * len(kernel)):
            best, place = y[(..., *windows)], index[(..., *windows)]
            candidate = x[(..., *elements)]
            wins = (place < 0) | (candidate > best) | (np.isnan(candidate) & ~np.isnan(best))
            best[...] = np.where(wins, candidate, best)
            place[...] = np.where(wins, places[elements], place)
        return y, index

    def gradient(
        self, g: GradientCall, x: IRValue, *, kernel: tuple[int, ...], **_geometry: Any
    ) -> Sequence[IRValue | None]:
        return (g.op("MaxPoolingGrad", g.gy, g.outputs[1], shape=x.shape[-len(kernel) :]),)

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
        )

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "no window", (2, 3, 4), kernel=(5, 2)),
            Refused(ValueError, "padding only", (2, 3, 4), kernel=(2, 2), pad=(2, 0)),
            Refused(
                ValueError, "padding only", (2, 4, 4), kernel=(2, 2), stride=(1, 1), pad=(1, 1), ignore_border=False
            ),
            Refused(ValueError, "kernel=.* has 3 entries", (3, 4), kernel=(2, 2, 2)),
            Refused(ValueError, "stride=.* has 1 entries", (3, 4), kernel=(2, 2), stride=(1,)),
            Refused(ValueError, "kernel=.* below 1", (3, 4), kernel=(0, 2)),
            Refused(TypeError, "kernel is missing", (3, 4)),
        )


class _Placed(OpSpec, abstract=True):
    """What the two adjoint ops share that move values between windows and the places named by an index."""

    category = "layer"
    attributes = (Attribute("shape", "ints"),)

    def normalize(self, attributes: dict[str, Any], *inputs: Any) -> dict[str, Any]:
        axes = len(attributes["shape"])
        if not 1 <= axes <= inputs[1].ndim:
            raise self.error(
                inputs, f"shape={attributes['shape']} has {axes} entries", f"give one per axis, 1 to {inputs[1].ndim}"
            )
        per_axis(self, inputs, attributes, "shape", axes, least=0)
        return attributes


class MaxPoolingGrad(_Placed):
    """Gradient of max pooling: each `gy` is added to the place of its window's maximum.

    Args:
        gy: (B..., T...) float.
        index: (B..., T...) int64; places in the flattened S, as `MaxPooling` gives them.
        shape: S, the spatial shape of x; as many axes as T has.

    Returns:
        gx: (B..., S...) float; 0 where no maximum was.

    Raises:
        ValueError: gy and index differ in shape.
        IndexError: an index outside S.
    """

    inputs = (Input("gy"), Input("index", kind="index", gradient="none"))
    outputs = ("gx",)

    def infer(self, gy: ArrayDesc, index: ArrayDesc, *, shape: tuple[int, ...]) -> ArrayDesc:
        if gy.shape != index.shape:
            raise self.error((gy, index), "gy and index differ in shape", "pass the index of the same pooling")
        return ArrayDesc(gy.shape[: -len(shape)] + shape, gy.dtype)

    def reference(self, gy: np.ndarray, index: np.ndarray, *, shape: tuple[int, ...]) -> np.ndarray:
        check_range(self.name, "index", index, math.prod(shape))
        rows, windows = leading_rows(gy.shape, len(shape)), math.prod(gy.shape[-len(shape) :])
        gx = np.zeros((rows, math.prod(shape)), gy.dtype)
        row = np.arange(rows)[:, np.newaxis]
        np.add.at(gx, (row, index.reshape(rows, windows)), gy.reshape(rows, windows))
        return gx.reshape(gy.shape[: -len(shape)] + shape)

    def gradient(
        self, g: GradientCall, gy: IRValue, index: IRValue, *, shape: tuple[int, ...]
    ) -> Sequence[IRValue | None]:
        return g.op("MaxPoolingGather", g.gy, index, shape=shape), None

    def samples(self) -> Sequence[Sample]:
        return (
            Sample((2, 3, 2, 2), Ints((2, 3, 2, 2), 20), shape=(4, 5)),
            Sample((2, 5), Ints((2, 5), 3), shape=(3,)),
            Sample((2, 2, 2), Ints((2, 2, 2), 12), shape=(2, 3, 2)),
            Sample((0, 2, 2), Ints((0, 2, 2), 9), shape=(3, 3)),
            Sample((4, 9, 7, 8), Ints((4, 9, 7, 8), 240), shape=(15, 16)).no_gradient(),
        )

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "differ in shape", (2, 2, 2), Ints((2, 2, 1), 9), shape=(3, 3)),
            Refused(ValueError, "shape=.* has 3 entries", (2, 2), Ints((2, 2), 9), shape=(3, 3, 3)),
            Refused(IndexError, "out of range", (1, 2), Exact([[0, 3]]), shape=(3,)),
        )


class MaxPoolingGather(_Placed):
    """The adjoint of `MaxPoolingGrad`: the elements of x at the places of an earlier pooling's maxima.

    Args:
        x: (B..., S...) float.
        index: (B..., T...) int64; places in the flattened S.
        shape: S; says how many of the axes are spatial.

    Returns:
        y: (B..., T...) float.

    Raises:
        ValueError: x is not (B..., S...).
        IndexError: an index outside S.
    """

    inputs = (Input("x"), Input("index", kind="index", gradient="none"))

    def infer(self, x: ArrayDesc, index: ArrayDesc, *, shape: tuple[int, ...]) -> ArrayDesc:
        expected = index.shape[: -len(shape)] + shape
        if x.shape != expected:
            raise self.error((x, index), f"x has shape {list(x.shape)}", f"use {list(expected)}, or another shape=")
        return ArrayDesc(index.shape, x.dtype)

    def reference(self, x: np.ndarray, index: np.ndarray, *, shape: tuple[int, ...]) -> np.ndarray:
        check_range(self.name, "index", index, math.prod(shape))
        rows, windows = leading_rows(index.shape, len(shape)), math.prod(index.shape[-len(shape) :])
        planes = x.reshape(rows, math.prod(shape))
        return np.take_along_axis(planes, index.reshape(rows, windows), axis=1).reshape(index.shape)

    def gradient(
        self, g: GradientCall, x: IRValue, index: IRValue, *, shape: tuple[int, ...]
    ) -> Sequence[IRValue | None]:
        return g.op("MaxPoolingGrad", g.gy, index, shape=shape), None

    def samples(self) -> Sequence[Sample]:
        return (
            Sample((2, 3, 4, 5), Ints((2, 3, 2, 2), 20), shape=(4, 5)),
            Sample((2, 3), Ints((2, 5), 3), shape=(3,)),
            Sample((2, 3, 2), Ints((1, 2, 2), 12), shape=(2, 3, 2)),
            Sample((0, 3, 3), Ints((0, 2, 2), 9), shape=(3, 3)),
        )

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "x has shape", (2, 3, 4), Ints((2, 2, 2), 9), shape=(3, 3)),
            Refused(IndexError, "out of range", (1, 3), Exact([[-1, 2]]), shape=(3,)),
        )


class WindowSums(Pooling, abstract=True):
    """Sums of windows over the trailing axes, each divided by something; padding adds nothing."""

    gradient_name: ClassVar[str]

    def divisors(self, sizes: Sequence[int], counts: Sequence[int], **geometry: Any) -> np.ndarray:
        """By what the sums are divided, broadcasting with (T...) = counts, for spatial sizes (S...)."""
        return np.ones((), np.int64)

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
        return (g.op(self.gradient_name, g.gy, kernel=kernel, shape=x.shape[-len(kernel) :], **geometry),)


class WindowSumsGrad(Pooling, abstract=True):
    """Gradient of such sums: each `gy`, divided likewise, is added to all real elements of its window.

    sums: the op whose gradient it is.
    """

    inputs = (Input("gy"),)
    outputs = ("gx",)
    sums: ClassVar[type[WindowSums]]

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


class AveragePooling(WindowSums):
    """Average of each window over the trailing axes.

    `y = sum of the real elements / n`, with n the size of the window clipped to the padded input (including_pad) or to
    the real input. A window that sees no real element gives 0.

    Args:
        x: (B..., S...) float; as many spatial axes S as kernel has entries.
        kernel, stride, ignore_border, pad: as `MaxPooling`.
        including_pad: whether the places of the padding count in n.

    Returns:
        y: (B..., T...) float; T as `MaxPooling`.

    Raises:
        ValueError: no window fits.
    """

    function = "average_pooling"
    attributes = (*Pooling.attributes, Attribute("including_pad", "bool", True))

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
            Sample((2, 3, 4, 6), kernel=(2, 2)),
            Sample((2, 2, 5, 7), kernel=(3, 2), stride=(2, 1)),
            Sample((2, 2, 5, 7), kernel=(3, 3), stride=(2, 2), pad=(1, 2)),
            Sample((2, 2, 5, 7), kernel=(3, 3), stride=(2, 2), pad=(1, 2), including_pad=False),
            Sample((2, 5, 7), kernel=(2, 3), ignore_border=False),
            Sample((2, 5, 6), kernel=(3, 3), stride=(2, 2), ignore_border=False, pad=(1, 1)),
            Sample((2, 5, 6), kernel=(3, 3), stride=(2, 2), ignore_border=False, pad=(1, 1), including_pad=False),
            Sample((2, 3, 3), kernel=(1, 2), pad=(2, 2), including_pad=False),
            Sample((2, 1, 9), kernel=(3,), stride=(2,), pad=(1,)),
            Sample((2, 4, 3, 4), kernel=(2, 2, 2), stride=(1, 1, 2)),
            Sample((0, 3, 4, 4), kernel=(2, 2)),
            Sample((3, 8, 17, 19), kernel=(3, 3), stride=(2, 2), pad=(1, 1)).no_gradient(),
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
        kernel, stride, ignore_border, pad, including_pad: as `AveragePooling`.
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
            Sample((2, 3, 2, 3), kernel=(2, 2), shape=(4, 6)),
            Sample((2, 3, 2, 3), kernel=(2, 2), shape=(5, 7)),
            Sample((2, 2, 3, 5), kernel=(3, 3), stride=(2, 2), pad=(1, 2), shape=(5, 7)),
            Sample((2, 2, 3, 5), kernel=(3, 3), stride=(2, 2), pad=(1, 2), including_pad=False, shape=(5, 7)),
            Sample((2, 4, 4), kernel=(3, 3), stride=(2, 2), ignore_border=False, pad=(1, 1), shape=(5, 6)),
            Sample((2, 5), kernel=(3,), stride=(2,), pad=(1,), shape=(9,)),
            Sample((0, 2, 2), kernel=(2, 2), shape=(4, 4)),
            Sample((3, 8, 9, 10), kernel=(3, 3), stride=(2, 2), pad=(1, 1), shape=(17, 19)).no_gradient(),
        )

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "gy has spatial shape", (2, 3, 2, 3), kernel=(2, 2), shape=(6, 6)),
            Refused(ValueError, "shape=.* has 1 entries", (2, 3, 2, 3), kernel=(2, 2), shape=(6,)),
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
