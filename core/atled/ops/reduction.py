"""Reductions: sums, means, products and extrema over some or all axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from atled.array_desc import ArrayDesc
from atled.errors import four_parts
from atled.ops.axes import dropped_shape as _dropped
from atled.ops.axes import kept_shape as _kept
from atled.ops.promotion import accumulated
from atled.ops.samples import Data, Distinct, Ints, Normal, Refused, Sample, Uniform
from atled.ops.spec import Attribute, Input, OpSpec

if TYPE_CHECKING:
    from atled.ops.rules import GradientCall, IRValue


def _reduced_count(shape: Sequence[int], axes: Sequence[int]) -> int:
    """How many elements one result comes from."""
    return math.prod(shape[axis] for axis in axes)


def canonical_axes(spec: OpSpec, axes: tuple[int, ...] | None, x: ArrayDesc) -> tuple[int, ...]:
    """Axes sorted and counted from the front, all axes for None; ValueError if one does not fit."""
    if axes is None:
        return tuple(range(x.ndim))
    for axis in axes:
        if not -x.ndim <= axis < x.ndim:
            remedy = f"use {-x.ndim} to {x.ndim - 1}" if x.ndim else "leave axis out: the array has no axes"
            raise spec.error((x,), f"axis {axis} is out of range", remedy)
    counted = sorted(axis % x.ndim for axis in axes)
    if len(set(counted)) != len(counted):
        raise spec.error((x,), f"axis={tuple(axes)} names an axis twice", "name each axis once")
    return tuple(counted)


class Reduction(OpSpec, abstract=True):
    """What the reductions share: `axes`, `keep_dims` and the output shape."""

    category = "reduction"
    inputs = (Input("x"),)
    attributes = (
        Attribute("axes", "axes", None, argument="axis"),
        Attribute("keep_dims", "bool", False, argument="keepdims"),
    )

    def normalize(self, attributes: dict[str, Any], *inputs: Any) -> dict[str, Any]:
        return {**attributes, "axes": canonical_axes(self, attributes["axes"], inputs[0])}

    def infer(self, x: ArrayDesc, *, axes: tuple[int, ...], keep_dims: bool) -> ArrayDesc | Sequence[ArrayDesc]:
        return ArrayDesc((_kept if keep_dims else _dropped)(x.shape, axes), x.dtype)

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "axis 2 is out of range", (3, 4), axes=2),
            Refused(ValueError, "axis -3 is out of range", (3, 4), axes=(0, -3)),
            Refused(ValueError, "names an axis twice", (3, 4), axes=(1, -1)),
            Refused(ValueError, "out of range", (), axes=0),
            Refused(TypeError, "axis", (3, 4), axes=0.5),
        )


def _reduction_samples(data: Callable[[tuple[int, ...]], Data], *, empty: bool) -> tuple[Sample, ...]:
    """Calls over every pattern of axes; `empty` adds those that reduce over nothing."""
    samples = [
        Sample(data((3, 4))),
        Sample(data((2, 3, 4)), axes=1),
        Sample(data((2, 3, 4)), axes=(-1, 0), keep_dims=True),
        Sample(data((2, 3, 4, 5)), axes=(0, 2, 3), keep_dims=True),
        Sample(data((2, 3, 4, 5)), axes=(1, 3)),
        Sample(data((5, 7)), axes=0),
        Sample(data((5, 7)), axes=-1),
        Sample(data((3, 4)), axes=()),
        Sample(data((1, 1)), axes=(0,)),
        Sample(data(())),
        Sample(data((0, 3)), axes=1),
        Sample(data((13, 67)), axes=1),
    ]
    if empty:
        samples += [Sample(data((0, 3))), Sample(data((3, 0, 2)), axes=1, keep_dims=True)]
    return tuple(samples)


def _factors(shape: tuple[int, ...]) -> Data:
    """Numbers around 1, so that products neither vanish nor overflow."""
    return Uniform(shape, 0.6, 1.5)


def _spread(g: GradientCall, gy: IRValue, x: IRValue, axes: tuple[int, ...]) -> IRValue:
    """The cotangent of a reduction, repeated over the reduced axes."""
    kept = _kept(x.shape, axes)
    gy = g.reshape(gy, kept)
    return gy if kept == x.shape else g.op("Broadcast", gy, shape=x.shape)


class Sum(Reduction):
    """Sum over axes: `y = sum(x)`. The sum of nothing is 0.

    Args:
        x: (...) float.
        axes: the axis or axes to sum over, negative ones counted from the end; None: all of them, (): none.
        keep_dims: whether the reduced axes stay, with size 1.

    Returns:
        y: (...) float; shape of x without the reduced axes, or with 1 in their place; () for a full reduction.

    Raises:
        ValueError: an axis is out of range or named twice.
    """

    function = "sum"
    integers = "exact"
    accumulates = True

    def reference(self, x: np.ndarray, *, axes: tuple[int, ...], keep_dims: bool) -> np.ndarray:
        if x.dtype.kind in "iub":
            return np.asarray(np.sum(x, axis=axes, keepdims=keep_dims, dtype=accumulated(x.dtype)))
        # Accumulated in float64: over a leading axis NumPy adds one by one, which loses digits in float32.
        return np.asarray(np.sum(x, axis=axes, keepdims=keep_dims, dtype=np.float64)).astype(x.dtype)

    def gradient(self, g: GradientCall, x: IRValue, *, axes: tuple[int, ...], keep_dims: bool) -> Sequence[IRValue]:
        return (_spread(g, g.gy, x, axes),)

    def samples(self) -> Sequence[Sample]:
        return _reduction_samples(Normal, empty=True)


class Mean(Reduction):
    """Mean over axes: `y = sum(x) / count`. The mean of nothing is NaN.

    Args:
        x: (...) float.
        axes: the axis or axes to average over, negative ones counted from the end; None: all of them, (): none.
        keep_dims: whether the reduced axes stay, with size 1.

    Returns:
        y: (...) float; shape of x without the reduced axes, or with 1 in their place; () for a full reduction.

    Raises:
        ValueError: an axis is out of range or named twice.
    """

    function = "mean"

    def reference(self, x: np.ndarray, *, axes: tuple[int, ...], keep_dims: bool) -> np.ndarray:
        total = np.asarray(np.sum(x, axis=axes, keepdims=keep_dims, dtype=np.float64))
        with np.errstate(invalid="ignore"):  # 0 / 0 where nothing was averaged
            return np.asarray(total / np.float64(_reduced_count(x.shape, axes))).astype(x.dtype)

    def gradient(self, g: GradientCall, x: IRValue, *, axes: tuple[int, ...], keep_dims: bool) -> Sequence[IRValue]:
        count = max(1, _reduced_count(x.shape, axes))  # for a count of 0 there is no element to give a gradient to
        gy = g.gy if count == 1 else g.op("MulScalar", g.gy, val=1.0 / count)
        return (_spread(g, gy, x, axes),)

    def samples(self) -> Sequence[Sample]:
        return _reduction_samples(Normal, empty=True)


class Prod(Reduction):
    """Product over axes: `y = prod(x)`. The product of nothing is 1.

    The gradient is `gy * y / x`, as NNabla has it, so it is NaN where x is 0.

    Args:
        x: (...) float.
        axes: the axis or axes to multiply over, negative ones counted from the end; None: all of them, (): none.
        keep_dims: whether the reduced axes stay, with size 1.

    Returns:
        y: (...) float; shape of x without the reduced axes, or with 1 in their place; () for a full reduction.

    Raises:
        ValueError: an axis is out of range or named twice.
    """

    function = "prod"
    integers = "exact"
    accumulates = True

    def reference(self, x: np.ndarray, *, axes: tuple[int, ...], keep_dims: bool) -> np.ndarray:
        if x.dtype.kind in "iub":
            return np.asarray(np.prod(x, axis=axes, keepdims=keep_dims, dtype=accumulated(x.dtype)))
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):  # inf, NaN and 0 are the results meant
            return np.asarray(np.prod(x, axis=axes, keepdims=keep_dims, dtype=np.float64)).astype(x.dtype)

    def gradient(self, g: GradientCall, x: IRValue, *, axes: tuple[int, ...], keep_dims: bool) -> Sequence[IRValue]:
        return (g.reshape(g.gy * g.y, _kept(x.shape, axes)) / x,)

    def samples(self) -> Sequence[Sample]:
        return _reduction_samples(_factors, empty=True)


class Product(Prod):
    """Product over axes, as `Prod`, with a gradient that is right where elements are 0: the product of the others.

    Gradients of the gradient are NaN there.

    Args:
        x: (...) float.
        axes: the axis or axes to multiply over, negative ones counted from the end; None: all of them, (): none.
        keep_dims: whether the reduced axes stay, with size 1.

    Returns:
        y: (...) float; shape of x without the reduced axes, or with 1 in their place; () for a full reduction.

    Raises:
        ValueError: an axis is out of range or named twice.
    """

    function = ""

    def gradient(self, g: GradientCall, x: IRValue, *, axes: tuple[int, ...], keep_dims: bool) -> Sequence[IRValue]:
        if not x.size:
            return (x,)
        order = [*(axis for axis in range(x.ndim) if axis not in axes), *axes]
        shape = tuple(x.shape[axis] for axis in order)
        last = len(_dropped(x.shape, axes))
        rows = g.reshape(g.op("Transpose", x, axes=order), (*shape[:last], _reduced_count(x.shape, axes)))
        before = g.op("CumProd", rows, axis=last, exclusive=True)
        behind = g.op("CumProd", rows, axis=last, exclusive=True, reverse=True)
        others = before * behind * g.reshape(g.gy, (*shape[:last], 1))
        return (g.op("Transpose", g.reshape(others, shape), axes=tuple(np.argsort(order))),)

    def samples(self) -> Sequence[Sample]:
        return (
            Sample(_factors((2, 3, 4)), axes=1),
            Sample(_factors((2, 3, 4, 5)), axes=(0, 2), keep_dims=True),
            Sample(_factors((3, 4))),
            Sample(_factors(())),
            Sample(_factors((0, 3)), axes=0),
            Sample(_factors((3, 4)), axes=()),
        )


class Extremum(Reduction, abstract=True):
    """What Max and Min share: the place of the extremum as an auxiliary output, and a gradient that goes there."""

    outputs = ("y", "index")
    auxiliary = ("index",)
    integers = "exact"

    def infer(self, x: ArrayDesc, *, axes: tuple[int, ...], keep_dims: bool) -> Sequence[ArrayDesc]:
        if _reduced_count(x.shape, axes) == 0:
            raise self.error((x,), "there is no element to choose from", "reduce over axes that are not empty")
        shape = (_kept if keep_dims else _dropped)(x.shape, axes)
        return ArrayDesc(shape, x.dtype), ArrayDesc(shape, np.int64)

    def find(self, rows: np.ndarray) -> np.ndarray:
        """The index of the extremum in each row of a 2-d array, the first one of equals."""
        raise NotImplementedError

    def reference(self, x: np.ndarray, *, axes: tuple[int, ...], keep_dims: bool) -> Sequence[np.ndarray]:
        shape = (_kept if keep_dims else _dropped)(x.shape, axes)
        rows = _rows(x, axes)
        index = self.find(rows) if rows.size else np.zeros(len(rows), np.int64)
        y = rows[np.arange(len(rows)), index]
        return y.reshape(shape), index.astype(np.int64).reshape(shape)

    def gradient(self, g: GradientCall, x: IRValue, *, axes: tuple[int, ...], keep_dims: bool) -> Sequence[IRValue]:
        return (g.op("MaxMinGrad", g.gy, g.outputs[1], axes=axes, shape=x.shape),)

    def samples(self) -> Sequence[Sample]:
        return _reduction_samples(Distinct, empty=False)

    def refused(self) -> Sequence[Refused]:
        return (
            *super().refused(),
            Refused(ValueError, "no element to choose from", (0, 3)),
            Refused(ValueError, "no element to choose from", (3, 0, 2), axes=1),
        )


def _rows(x: np.ndarray, axes: Sequence[int]) -> np.ndarray:
    """(kept, reduced) copy of x: one row per result, the reduced axes in C order within it."""
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    count = _reduced_count(x.shape, axes)
    return x.transpose([*kept, *axes]).reshape(math.prod(_dropped(x.shape, axes)), count)


class Max(Extremum):
    """Maximum over axes. NaN if there is one among the elements; the gradient goes to the first maximum only.

    Args:
        x: (...) float.
        axes: the axis or axes to look along, negative ones counted from the end; None: all of them, (): none.
        keep_dims: whether the reduced axes stay, with size 1.

    Returns:
        y: (...) float; shape of x without the reduced axes, or with 1 in their place; () for a full reduction.
        index (auxiliary): shape of y, int64; where the first maximum is: the flat index in C order within
            the reduced axes.

    Raises:
        ValueError: an axis is out of range or named twice; the reduced axes hold no element.
    """

    function = "max"

    def find(self, rows: np.ndarray) -> np.ndarray:
        return np.argmax(rows, axis=1)


class Min(Extremum):
    """Minimum over axes. NaN if there is one among the elements; the gradient goes to the first minimum only.

    Args:
        x: (...) float.
        axes: the axis or axes to look along, negative ones counted from the end; None: all of them, (): none.
        keep_dims: whether the reduced axes stay, with size 1.

    Returns:
        y: (...) float; shape of x without the reduced axes, or with 1 in their place; () for a full reduction.
        index (auxiliary): shape of y, int64; where the first minimum is: the flat index in C order within
            the reduced axes.

    Raises:
        ValueError: an axis is out of range or named twice; the reduced axes hold no element.
    """

    function = "min"

    def find(self, rows: np.ndarray) -> np.ndarray:
        return np.argmin(rows, axis=1)


def _check_index(spec: OpSpec, index: np.ndarray, count: int) -> None:
    """IndexError unless every index is in [0, count)."""
    wrong = (index < 0) | (index >= count)
    if wrong.any():
        raise IndexError(
            four_parts(
                f"{spec.name}(index: {list(index.shape)})",
                f"index {index[wrong][0]} is out of range",
                f"the reduced axes hold {count} elements",
                f"use indices from 0 to {count - 1}",
            )
        )


class MaxMinGrad(OpSpec):
    """Gradient of Max and Min: zeros of the given shape with `gy` put where `index` says.

    Args:
        gy: (...) float; as many elements as there are outside the reduced axes, in C order.
        index: shape of gy, int64; flat index in C order within the reduced axes.
        axes: the reduced axes, sorted.
        shape: (S...), of gx.

    Returns:
        gx: (S...) float.

    Raises:
        ValueError: shapes do not fit, an axis is out of range or named twice.
        IndexError: an index is out of range.
    """

    category = "reduction"
    inputs = (Input("gy"), Input("index", kind="index", gradient="none"))
    attributes = (Attribute("axes", "axes"), Attribute("shape", "ints"))
    outputs = ("gx",)

    def normalize(self, attributes: dict[str, Any], *inputs: ArrayDesc | None) -> dict[str, Any]:
        return {**attributes, "axes": canonical_axes(self, attributes["axes"], ArrayDesc(attributes["shape"]))}

    def infer(self, gy: ArrayDesc, index: ArrayDesc, *, axes: tuple[int, ...], shape: tuple[int, ...]) -> ArrayDesc:
        if gy.shape != index.shape:
            raise self.error((gy, index), "gy and index differ in shape", "give them the same shape")
        _check_result_shape(self, (gy, index), shape, axes)
        return ArrayDesc(shape, gy.dtype)

    def reference(
        self, gy: np.ndarray, index: np.ndarray, *, axes: tuple[int, ...], shape: tuple[int, ...]
    ) -> np.ndarray:
        count = _reduced_count(shape, axes)
        _check_index(self, index, count)
        rows = np.zeros((gy.size, count), gy.dtype)
        rows[np.arange(gy.size), index.reshape(-1)] = gy.reshape(-1)
        kept = [axis for axis in range(len(shape)) if axis not in axes]
        moved = rows.reshape([*_dropped(shape, axes), *(shape[axis] for axis in axes)])
        return np.ascontiguousarray(moved.transpose(np.argsort([*kept, *axes]))).reshape(shape)

    def gradient(
        self, g: GradientCall, gy: IRValue, index: IRValue, *, axes: tuple[int, ...], shape: tuple[int, ...]
    ) -> Sequence[IRValue | None]:
        return g.op("MaxMinGather", g.gy, index, axes=axes), None

    def samples(self) -> Sequence[Sample]:
        return (
            Sample((2, 5), Ints((2, 5), 12), axes=(1, 2), shape=(2, 3, 4, 5)),
            Sample((1, 3, 1), Ints((1, 3, 1), 8), axes=(0, 2), shape=(2, 3, 4)),
            Sample((), Ints((), 6), axes=(0, 1), shape=(2, 3)),
            Sample((0,), Ints((0,), 3), axes=(1,), shape=(0, 3)),
        )

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "differ in shape", (2, 5), Ints((5, 2), 3), axes=(1,), shape=(2, 3, 5)),
            Refused(ValueError, "does not fit", (2, 4), Ints((2, 4), 3), axes=(1,), shape=(2, 3, 5)),
            Refused(IndexError, "out of range", (2,), Ints((2,), 4, 3), axes=(1,), shape=(2, 3)),
        )


class MaxMinGather(OpSpec):
    """The elements of `x` that `index` names: the adjoint of `MaxMinGrad`.

    Args:
        x: (...) float.
        index: (...) int64; shape of x without the reduced axes, or with 1 in their place; flat index in C order within
            the reduced axes.
        axes: the reduced axes, sorted.

    Returns:
        y: shape of index, float.

    Raises:
        ValueError: shapes do not fit, an axis is out of range or named twice.
        IndexError: an index is out of range.
    """

    category = "reduction"
    inputs = (Input("x"), Input("index", kind="index", gradient="none"))
    attributes = (Attribute("axes", "axes"),)

    def normalize(self, attributes: dict[str, Any], *inputs: Any) -> dict[str, Any]:
        return {"axes": canonical_axes(self, attributes["axes"], inputs[0])}

    def infer(self, x: ArrayDesc, index: ArrayDesc, *, axes: tuple[int, ...]) -> ArrayDesc:
        _check_result_shape(self, (x, index), x.shape, axes)
        return ArrayDesc(index.shape, x.dtype)

    def reference(self, x: np.ndarray, index: np.ndarray, *, axes: tuple[int, ...]) -> np.ndarray:
        _check_index(self, index, _reduced_count(x.shape, axes))
        return _rows(x, axes)[np.arange(index.size), index.reshape(-1)].reshape(index.shape)

    def gradient(
        self, g: GradientCall, x: IRValue, index: IRValue, *, axes: tuple[int, ...]
    ) -> Sequence[IRValue | None]:
        return g.op("MaxMinGrad", g.gy, index, axes=axes, shape=x.shape), None

    def samples(self) -> Sequence[Sample]:
        return (
            Sample((2, 3, 4, 5), Ints((2, 5), 12), axes=(1, 2)),
            Sample((2, 3, 4), Ints((1, 3, 1), 8), axes=(0, 2)),
            Sample((2, 3), Ints((), 6), axes=(0, 1)),
            Sample((0, 3), Ints((0,), 3), axes=(1,)),
        )

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "does not fit", (2, 3, 5), Ints((2, 4), 3), axes=(1,)),
            Refused(ValueError, "out of range", (2, 3, 5), Ints((2, 5), 3), axes=(3,)),
            Refused(IndexError, "out of range", (2, 3), Ints((2,), 4, 3), axes=(1,)),
        )


def _check_result_shape(
    spec: OpSpec, inputs: Sequence[ArrayDesc], shape: tuple[int, ...], axes: tuple[int, ...]
) -> None:
    """ValueError unless the last input, index, has the shape of a reduction of `shape` over `axes`."""
    fitting = (_dropped(shape, axes), _kept(shape, axes))
    if inputs[-1].shape not in fitting:
        raise spec.error(
            inputs,
            f"index does not fit the shape {shape} reduced over the axes {axes}",
            f"give index the shape {fitting[0]} or {fitting[1]}",
        )
