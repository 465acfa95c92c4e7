"""Parts of arrays by index: slices, rows of a table, one-hot vectors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from atled.array_desc import ArrayDesc
from atled.ops.indices import check_range
from atled.ops.samples import Exact, Ints, Refused, Sample
from atled.ops.spec import Attribute, Input, OpSpec
from atled.strides import Window, index

if TYPE_CHECKING:
    from atled.ops.rules import GradientCall, IRValue


class _Slicing(OpSpec, abstract=True):
    """What slicing and its adjoint share: start, stop and step in canonical form."""

    category = "array"
    attributes: Sequence[Attribute] = (
        Attribute("start", "ints", None),
        Attribute("stop", "ints", None),
        Attribute("step", "ints", None),
    )

    def _canonical(
        self, attributes: dict[str, Any], inputs: Sequence[Any], shape: Sequence[int]
    ) -> dict[str, tuple[int, ...]]:
        """start, stop and step of every axis, clipped to it.

        A bound before the first element, where a negative step ends, becomes -size - 1: -1 would mean the last one.
        """
        bounds = {name: attributes[name] for name in ("start", "stop", "step")}
        counts = {None if values is None else len(values) for values in bounds.values()}
        count = counts.pop() if len(counts) == 1 else None
        # Three of fewer entries are those of the last axes: files of networks leave the axis of samples out.
        in_front = len(shape) - count if count is not None and 0 < count < len(shape) else 0
        for name, values in bounds.items():
            if values is not None and len(values) + in_front != len(shape):
                remedy = f"give {len(shape)}, one per axis, or as many for the last axes as the other two have"
                raise self.error(inputs, f"{name}={values} has {len(values)} entries", remedy)
        steps = (1,) * in_front + tuple(bounds["step"] or (1,) * len(shape))
        if 0 in steps:
            raise self.error(inputs, f"step={steps} has a 0", "use positive or negative steps")
        starts = (None,) * in_front + tuple(bounds["start"] or (None,) * len(shape))
        stops = (None,) * in_front + tuple(bounds["stop"] or (None,) * len(shape))
        canonical = []
        for size, *part in zip(shape, starts, stops, steps, strict=True):
            start, stop, step = slice(*part).indices(size)
            canonical.append((start if start >= 0 else -size - 1, stop if stop >= 0 else -size - 1, step))
        start, stop, step = zip(*canonical, strict=True) if canonical else ((), (), ())
        return {"start": start, "stop": stop, "step": step}


def _slices(start: Sequence[int], stop: Sequence[int], step: Sequence[int]) -> tuple[slice, ...]:
    return tuple(map(slice, start, stop, step))


def _sliced_shape(
    shape: Sequence[int], start: Sequence[int], stop: Sequence[int], step: Sequence[int]
) -> tuple[int, ...]:
    return tuple(len(range(size)[part]) for size, part in zip(shape, _slices(start, stop, step), strict=True))


class Slice(_Slicing):
    """`y = x[start:stop:step]` on every axis, by NumPy's rules: negative bounds count from the end, all are clipped.

    Args:
        x: (...) float.
        start: first element per axis; default 0, or the last one where step is negative.
        stop: end per axis, not included; default the size, or past the first element where step is negative. A negative
            step reaches the first element with stop=-size-1.
        step: per axis, not 0; default 1. If start, stop and step have equally many entries, which are fewer than x has
            axes, they are those of the last axes.

    Returns:
        y: (...) float; as many axes as x. A copy.

    Raises:
        ValueError: other counts of entries, a step of 0.
    """

    function = "slice"
    inputs = (Input("x"),)
    integers = "exact"

    def normalize(self, attributes: dict[str, Any], *inputs: Any) -> dict[str, Any]:
        return self._canonical(attributes, inputs, inputs[0].shape)

    def infer(self, x: ArrayDesc, *, start: tuple[int, ...], stop: tuple[int, ...], step: tuple[int, ...]) -> ArrayDesc:
        return ArrayDesc(_sliced_shape(x.shape, start, stop, step), x.dtype)

    def reference(
        self, x: np.ndarray, *, start: tuple[int, ...], stop: tuple[int, ...], step: tuple[int, ...]
    ) -> np.ndarray:
        return x[_slices(start, stop, step)].copy()

    def window(self, x: Window, attributes: Mapping[str, Any]) -> Window:
        return index(x, _slices(*(attributes[name] for name in ("start", "stop", "step"))))

    def gradient(self, g: GradientCall, x: IRValue, **bounds: Any) -> Sequence[IRValue | None]:
        return (g.op("SliceGrad", g.gy, shape=x.shape, **bounds),)

    def samples(self) -> Sequence[Sample]:
        return (
            Sample((4, 5), start=(1, 0), stop=(3, 5), step=(1, 2)),
            Sample((4, 5), start=(-3, 1), stop=(-1, 100)),
            Sample((4, 5), start=(3, -1), stop=(-5, 1), step=(-1, -2)),
            Sample((4, 5), step=(-1, 3)),
            Sample((2, 3, 4), stop=(1, 2, 3)),
            Sample((2, 3, 4), start=(1, -1), stop=(3, 0), step=(1, -2)),
            Sample((4, 5), start=(3, 0), stop=(1, 5)),
            Sample((0, 3), step=(-1, 1)),
            Sample(()),
            Sample((3,), start=(-9,), stop=(9,), step=(2,)),
        )

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "start=.* has 1 entries", (2, 3), start=(0,)),
            Refused(ValueError, "start=.* has 2 entries", (2, 3, 4), start=(0, 1), stop=(2,), step=(1,)),
            Refused(ValueError, "start=.* has 3 entries", (2, 3), start=(0, 1, 1), stop=(1, 1, 1), step=(1, 1, 1)),
            Refused(ValueError, "step=.* has a 0", (2, 3), step=(1, 0)),
            Refused(TypeError, "stop", (2, 3), stop=(1.0, 2.5)),
        )


class SliceGrad(_Slicing):
    """The adjoint of slicing: zeros of the given shape with `gx[start:stop:step] = gy`.

    Args:
        gy: (...) float; as many axes as shape has entries.
        start, stop, step: as `Slice`, with respect to shape.
        shape: (S...), of gx.

    Returns:
        gx: (S...) float.

    Raises:
        ValueError: gy has not the shape of the slice.
    """

    inputs = (Input("gy"),)
    integers = "exact"
    outputs = ("gx",)
    attributes = (*_Slicing.attributes, Attribute("shape", "ints"))

    def normalize(self, attributes: dict[str, Any], *inputs: Any) -> dict[str, Any]:
        shape = attributes["shape"]
        if any(size < 0 for size in shape):
            raise self.error(inputs, f"shape={shape} has a negative size", "use sizes from 0 on")
        return {**self._canonical(attributes, inputs, shape), "shape": shape}

    def infer(self, gy: ArrayDesc, *, shape: tuple[int, ...], **bounds: tuple[int, ...]) -> ArrayDesc:
        expected = _sliced_shape(shape, **bounds)
        if gy.shape != expected:
            raise self.error((gy,), f"gy has shape {list(gy.shape)}", f"use {list(expected)}, that of the slice")
        return ArrayDesc(shape, gy.dtype)

    def reference(self, gy: np.ndarray, *, shape: tuple[int, ...], **bounds: tuple[int, ...]) -> np.ndarray:
        gx = np.zeros(shape, gy.dtype)
        gx[_slices(**bounds)] = gy
        return gx

    def gradient(
        self, g: GradientCall, gy: IRValue, *, shape: tuple[int, ...], **bounds: Any
    ) -> Sequence[IRValue | None]:
        return (g.op("Slice", g.gy, **bounds),)

    def samples(self) -> Sequence[Sample]:
        return (
            Sample((2, 3), start=(1, 0), stop=(3, 5), step=(1, 2), shape=(4, 5)),
            Sample((4, 2), start=(3, -1), stop=(-5, 1), step=(-1, -2), shape=(4, 5)),
            Sample((0, 5), start=(3, 0), stop=(1, 5), shape=(4, 5)),
            Sample((), shape=()),
        )

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "gy has shape", (2, 2), stop=(2, 3), shape=(4, 5)),
            Refused(ValueError, "negative size", (2,), shape=(-2,)),
        )


class Embed(OpSpec):
    """Rows of a table by index: `y = w[x0]`.

    Args:
        x0: (I...) whole numbers in [0, N); gets no gradient.
        w: (N, D...) float; the table.

    Returns:
        y: (I..., D...) float.

    Raises:
        ValueError: w has no axes.
        IndexError: an index is out of range; negative ones are.
    """

    function = "embed"
    category = "layer"
    inputs = (Input("x0", kind="index", gradient="raises"), Input("w"))
    integers = "exact"

    def infer(self, x0: ArrayDesc, w: ArrayDesc) -> ArrayDesc:
        if not w.ndim:
            raise self.error((x0, w), "w has no axes", "give it at least one: the rows")
        return ArrayDesc(x0.shape + w.shape[1:], w.dtype)

    def reference(self, x0: np.ndarray, w: np.ndarray) -> np.ndarray:
        check_range(self.name, "x0", x0, len(w))
        return np.take(w, x0, axis=0)

    def gradient(self, g: GradientCall, x0: IRValue, w: IRValue) -> Sequence[IRValue | None]:
        return None, g.op("EmbedGrad", g.gy, x0, n=w.shape[0])

    def samples(self) -> Sequence[Sample]:
        return (
            Sample(Ints((2, 3), 5), (5, 4)),
            Sample(Ints((7,), 3), (3, 2, 2)),
            Sample(Ints((), 3), (3, 2)),
            Sample(Ints((4,), 3), (3,)),
            Sample(Ints((0, 2), 3), (3, 2)),
            Sample(Ints((2, 2), 3), (3, 0)),
            Sample(Ints((40, 3), 50), (50, 17)).no_gradient(),
        )

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "w has no axes", Ints((2,), 3), ()),
            Refused(IndexError, "out of range", Exact([0, 3]), (3, 2)),
            Refused(IndexError, "out of range", Exact([-1, 2]), (3, 2)),
        )


class EmbedGrad(OpSpec):
    """Gradient of `Embed` with respect to the table: row i is the sum of gy wherever x0 is i.

    Args:
        gy: (I..., D...) float.
        x0: (I...) whole numbers in [0, n).
        n: number of rows of the table.

    Returns:
        gw: (n, D...) float.

    Raises:
        ValueError: the leading axes of gy are not those of x0, n is negative.
        IndexError: an index is out of range.
    """

    category = "layer"
    inputs = (Input("gy"), Input("x0", kind="index", gradient="none"))
    attributes = (Attribute("n", "int"),)
    outputs = ("gw",)

    def infer(self, gy: ArrayDesc, x0: ArrayDesc, *, n: int) -> ArrayDesc:
        if gy.shape[: x0.ndim] != x0.shape:
            raise self.error((gy, x0), "the leading axes of gy are not those of x0", f"use {list(x0.shape)} + a row")
        if n < 0:
            raise self.error((gy, x0), f"n={n}", "use the number of rows of the table")
        return ArrayDesc((n, *gy.shape[x0.ndim :]), gy.dtype)

    def reference(self, gy: np.ndarray, x0: np.ndarray, *, n: int) -> np.ndarray:
        check_range(self.name, "x0", x0, n)
        gw = np.zeros((n, *gy.shape[x0.ndim :]), gy.dtype)
        np.add.at(gw, x0, gy)
        return gw

    def gradient(self, g: GradientCall, gy: IRValue, x0: IRValue, *, n: int) -> Sequence[IRValue | None]:
        return g.op("Embed", x0, g.gy), None

    def samples(self) -> Sequence[Sample]:
        return (
            Sample((2, 3, 4), Ints((2, 3), 5), n=5),
            Sample((7, 2, 2), Ints((7,), 3), n=3),
            Sample((2,), Ints((), 3), n=3),
            Sample((4,), Ints((4,), 2), n=3),
            Sample((0, 2), Ints((0,), 3), n=3),
            Sample((40, 3, 17), Ints((40, 3), 20), n=20).no_gradient(),
        )

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "leading axes", (2, 4), Ints((3,), 5), n=5),
            Refused(IndexError, "out of range", (2, 4), Exact([0, 5]), n=5),
        )


class OneHot(OpSpec):
    """One-hot arrays: `output[i..., j...] = 1` where `x[i...]` is the index tuple j, else 0.

    Args:
        x: (I..., n) whole numbers; the last axis holds one index per axis of shape. Gets no gradient.
        shape: (J...), n sizes.

    Returns:
        output: (I..., J...) float32, or the float type of the type config.

    Raises:
        ValueError: the last axis of x is not as long as shape, a negative size.
        IndexError: an index is outside shape.
    """

    function = "one_hot"
    category = "array"
    inputs = (Input("x", kind="index", gradient="raises"),)
    attributes = (
        Attribute("shape", "ints"),
        Attribute("dtype", "dtype", np.dtype(np.float32), hidden=True),
    )
    outputs = ("output",)

    def infer(self, x: ArrayDesc, *, shape: tuple[int, ...], dtype: np.dtype) -> ArrayDesc:
        if not shape or any(size < 0 for size in shape):
            raise self.error((x,), f"shape={shape}", "give at least one size, none of them negative")
        if not x.ndim or x.shape[-1] != len(shape):
            raise self.error(
                (x,), f"shape={shape} has {len(shape)} entries", f"make the last axis of x {len(shape)} long"
            )
        return ArrayDesc(x.shape[:-1] + shape, dtype)

    def reference(self, x: np.ndarray, *, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        for axis, size in enumerate(shape):
            check_range(self.name, "x", x[..., axis], size)
        rows = math.prod(x.shape[:-1])
        y = np.zeros((rows, *shape), dtype)
        y[(np.arange(rows), *x.reshape(rows, len(shape)).T)] = 1
        return y.reshape(x.shape[:-1] + shape)

    def gradient(self, g: GradientCall, x: IRValue, **_: Any) -> Sequence[IRValue | None]:
        return (None,)

    def samples(self) -> Sequence[Sample]:
        return (
            Sample(Ints((3, 1), 4), shape=(4,)),
            Sample(Ints((2, 3, 2), 4), shape=(4, 5)),
            Sample(Ints((1,), 4), shape=(4,)),
            Sample(Ints((0, 1), 4), shape=(4,)),
        )

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "has 2 entries", Ints((3, 1), 4), shape=(4, 4)),
            Refused(ValueError, "none of them negative", Ints((3, 1), 4), shape=(-4,)),
            Refused(IndexError, "out of range", Exact([[0], [4]]), shape=(4,)),
        )
