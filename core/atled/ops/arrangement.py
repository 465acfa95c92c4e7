"""The elements of one array in another arrangement: permuted, repeated, padded, mirrored, on a diagonal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from atled.array_desc import ArrayDesc
from atled.ops.samples import Refused, Sample
from atled.ops.spec import Attribute, Input, OpSpec
from atled.strides import Window, diagonal, index, transpose

if TYPE_CHECKING:
    from atled.ops.rules import GradientCall, IRValue


class Transpose(OpSpec):
    """The axes in another order: axis i of y is axis axes[i] of x.

    Args:
        x: (...) float.
        axes: every axis once; negative ones count from the end.

    Returns:
        y: (...) float; axis i has size x.shape[axes[i]]. A copy.

    Raises:
        ValueError: axes is not a permutation.
    """

    function = "transpose"
    category = "array"
    inputs = (Input("x"),)
    integers = "exact"
    attributes = (Attribute("axes", "ints"),)

    def normalize(self, attributes: dict[str, Any], *inputs: Any) -> dict[str, Any]:
        axes, ndim = attributes["axes"], inputs[0].ndim
        counted = tuple(axis + ndim if axis < 0 else axis for axis in axes)
        if sorted(counted) != list(range(ndim)):
            raise self.error(inputs, f"axes={axes} is not a permutation", f"use each of 0 to {ndim - 1} once")
        return {"axes": counted}

    def infer(self, x: ArrayDesc, *, axes: tuple[int, ...]) -> ArrayDesc:
        return ArrayDesc(tuple(x.shape[axis] for axis in axes), x.dtype)

    def reference(self, x: np.ndarray, *, axes: tuple[int, ...]) -> np.ndarray:
        return x.transpose(axes).copy()

    def window(self, x: Window, attributes: Mapping[str, Any]) -> Window:
        return transpose(x, attributes["axes"])

    def gradient(self, g: GradientCall, x: IRValue, *, axes: tuple[int, ...]) -> Sequence[IRValue | None]:
        return (g.op("Transpose", g.gy, axes=tuple(axes.index(axis) for axis in range(len(axes)))),)

    def samples(self) -> Sequence[Sample]:
        return (
            Sample((2, 3), axes=(1, 0)),
            Sample((2, 3, 4), axes=(2, 0, 1)),
            Sample((2, 3, 4), axes=(0, -1, 1)),
            Sample((2, 3, 1, 4), axes=[3, 2, 1, 0]),
            Sample((), axes=()),
            Sample((0, 3), axes=(1, 0)),
            Sample((37, 41), axes=(1, 0)).no_gradient(),
        )

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "not a permutation", (2, 3), axes=(0, 0)),
            Refused(ValueError, "not a permutation", (2, 3), axes=(0,)),
            Refused(ValueError, "not a permutation", (2, 3), axes=(0, -3)),
            Refused(TypeError, "axes is missing", (2, 3)),
        )


class Flip(OpSpec):
    """The order of the elements reversed along some axes.

    Args:
        x: (...) float.
        axes: one or several; default the last one.

    Returns:
        y: shape of x, float.

    Raises:
        ValueError: an axis is out of range or named twice.
    """

    function = "flip"
    category = "array"
    inputs = (Input("x"),)
    moves = True
    integers = "exact"
    attributes = (Attribute("axes", "axes", None),)

    def normalize(self, attributes: dict[str, Any], *inputs: Any) -> dict[str, Any]:
        ndim = inputs[0].ndim
        axes = attributes["axes"]
        if axes is None:
            axes = (ndim - 1,)
        counted = sorted(axis + ndim if axis < 0 else axis for axis in axes)
        if len(set(counted)) != len(counted) or any(not 0 <= axis < ndim for axis in counted):
            raise self.error(inputs, f"axes={axes} does not name axes of x", f"use some of 0 to {ndim - 1}, each once")
        return {"axes": tuple(counted)}

    def infer(self, x: ArrayDesc, *, axes: tuple[int, ...]) -> ArrayDesc:
        return x

    def reference(self, x: np.ndarray, *, axes: tuple[int, ...]) -> np.ndarray:
        return np.flip(x, axes).copy()

    def window(self, x: Window, attributes: Mapping[str, Any]) -> Window:
        back = slice(None, None, -1)
        return index(x, tuple(back if axis in attributes["axes"] else slice(None) for axis in range(len(x.shape))))

    def gradient(self, g: GradientCall, x: IRValue, *, axes: tuple[int, ...]) -> Sequence[IRValue | None]:
        return (g.op("Flip", g.gy, axes=axes),)

    def samples(self) -> Sequence[Sample]:
        return (
            Sample((2, 3)),
            Sample((2, 3), axes=0),
            Sample((2, 3, 4), axes=(-1, 0)),
            Sample((2, 3), axes=()),
            Sample((0, 3)),
        )

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "does not name axes", (2, 3), axes=2),
            Refused(ValueError, "does not name axes", (2, 3), axes=(1, -1)),
        )


class Broadcast(OpSpec):
    """Axes of size 1 repeated to a larger shape.

    Args:
        x: (...) float.
        shape: (S...), of y; as many axes as x, different only where x has size 1.

    Returns:
        y: (S...) float.

    Raises:
        ValueError: the number of axes differs, or an axis that is not 1 would change.
    """

    function = "broadcast"
    category = "array"
    copies = True
    inputs = (Input("x"),)
    integers = "exact"
    attributes = (Attribute("shape", "ints"),)

    def infer(self, x: ArrayDesc, *, shape: tuple[int, ...]) -> ArrayDesc:
        if len(shape) != x.ndim:
            raise self.error((x,), f"shape={shape} has {len(shape)} entries", f"give {x.ndim}, one per axis of x")
        if any(new < 0 or size not in (1, new) for size, new in zip(x.shape, shape, strict=True)):
            raise self.error((x,), f"shape={shape} does not fit", "change only axes of size 1")
        return ArrayDesc(shape, x.dtype)

    def reference(self, x: np.ndarray, *, shape: tuple[int, ...]) -> np.ndarray:
        return np.broadcast_to(x, shape).copy()

    def gradient(self, g: GradientCall, x: IRValue, *, shape: tuple[int, ...]) -> Sequence[IRValue | None]:
        return (g.sum_to(g.gy, x.shape),)

    def samples(self) -> Sequence[Sample]:
        return (
            Sample((2, 1), shape=(2, 3)),
            Sample((1, 3, 1), shape=(2, 3, 4)),
            Sample((2, 3), shape=(2, 3)),
            Sample((), shape=()),
            Sample((1, 3), shape=(0, 3)),
        )

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "does not fit", (2, 3), shape=(4, 3)),
            Refused(ValueError, "has 3 entries", (2, 1), shape=(2, 2, 3)),
            Refused(TypeError, "shape is missing", (2, 1)),
        )


class BroadcastTo(OpSpec):
    """`y` repeated to the shape of `x`.

    Args:
        x: (A..., S..., B...) float; only its shape matters, so it gets no gradient.
        y: (S...) float; its axes equal consecutive ones of x.
        axis: the axis of x at which S starts; -1 aligns the last axes.

    Returns:
        z: shape of x, float.

    Raises:
        ValueError: the axes of y are not those of x there.
    """

    function = "broadcast_to"
    category = "array"
    inputs = (Input("x", gradient="none"), Input("y"))
    integers = "exact"
    attributes = (Attribute("axis", "int", -1),)
    outputs = ("z",)

    def normalize(self, attributes: dict[str, Any], *inputs: Any) -> dict[str, Any]:
        x, y = inputs
        axis = attributes["axis"]
        start = x.ndim - y.ndim if axis == -1 else axis
        if not 0 <= start <= x.ndim - y.ndim or x.shape[start : start + y.ndim] != y.shape:
            raise self.error(
                inputs, f"the axes of y are not those of x from axis {start} on", "reshape y or use another axis"
            )
        # -1 stays the canonical form of aligned last axes: the number could be that of y.ndim == 0 as well.
        return {"axis": -1 if start + y.ndim == x.ndim else start}

    def infer(self, x: ArrayDesc, y: ArrayDesc, *, axis: int) -> ArrayDesc:
        return ArrayDesc(x.shape, y.dtype)

    def reference(self, x: np.ndarray, y: np.ndarray, *, axis: int) -> np.ndarray:
        return np.broadcast_to(y.reshape(_aligned(x.shape, y.shape, axis)), x.shape).copy()

    def gradient(self, g: GradientCall, x: IRValue, y: IRValue, *, axis: int) -> Sequence[IRValue | None]:
        return None, g.reshape(g.sum_to(g.gy, _aligned(x.shape, y.shape, axis)), y.shape)

    def samples(self) -> Sequence[Sample]:
        return (
            Sample((2, 3, 4), (3, 4)),
            Sample((2, 3, 4), (3,), axis=1),
            Sample((2, 3, 4), (2, 3), axis=0),
            Sample((2, 3), (2, 3)),
            Sample((2, 3), ()),
            Sample((0, 3), (3,)),
        )

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "not those of x", (2, 3, 4), (3,)),
            Refused(ValueError, "not those of x", (2, 3, 4), (3, 5), axis=1),
            Refused(ValueError, "not those of x", (2, 3), (1, 2, 3)),
            Refused(ValueError, "not those of x from axis 63", (2, 3), (), axis=63),
        )


def _aligned(shape: Sequence[int], part: Sequence[int], axis: int) -> tuple[int, ...]:
    """The shape of y with ones around it, as many axes as x."""
    start = len(shape) - len(part) if axis == -1 else axis
    return (1,) * start + tuple(part) + (1,) * (len(shape) - start - len(part))


class Pad(OpSpec):
    """Elements added before and after along each axis.

    Args:
        x: (...) float.
        pad_width: pairs (before, after) for the trailing axes, flattened: two entries per axis; default nothing.
        mode: "constant": filled with constant_value; "reflect": mirrored at the first and last element, which are not
            repeated, so the widths must be smaller than the axis.
        constant_value: only for mode "constant".

    Returns:
        y: (...) float; each axis is longer by before + after.

    Raises:
        ValueError: an odd number of widths, too many, a negative one, or one too wide to reflect.
    """

    function = "pad"
    category = "array"
    inputs = (Input("x"),)
    moves = True
    integers = "exact"
    attributes = (
        Attribute("pad_width", "ints", None),
        Attribute("mode", "str", "constant", choices=("constant", "reflect")),
        Attribute("constant_value", "float", 0.0),
    )

    def normalize(self, attributes: dict[str, Any], *inputs: Any) -> dict[str, Any]:
        (x,) = inputs
        widths = attributes["pad_width"] or ()
        if len(widths) % 2 or len(widths) > 2 * x.ndim:
            raise self.error(
                inputs,
                f"pad_width={widths} has {len(widths)} entries",
                f"give pairs for at most {x.ndim} trailing axes",
            )
        if any(width < 0 for width in widths):
            raise self.error(inputs, f"pad_width={widths} has a negative entry", "use slice to cut elements off")
        widths = (0,) * (2 * x.ndim - len(widths)) + widths
        if attributes["mode"] == "reflect" and any(
            width and width >= size for size, pair in zip(x.shape, _pairs(widths), strict=True) for width in pair
        ):
            raise self.error(inputs, f"pad_width={widths} is too wide to reflect", "use widths smaller than the axis")
        return {**attributes, "pad_width": widths}

    def infer(self, x: ArrayDesc, *, pad_width: tuple[int, ...], **_: Any) -> ArrayDesc:
        widths = _pairs(pad_width)
        return ArrayDesc(
            tuple(size + before + after for size, (before, after) in zip(x.shape, widths, strict=True)), x.dtype
        )

    def reference(self, x: np.ndarray, *, pad_width: tuple[int, ...], mode: str, constant_value: float) -> np.ndarray:
        if not x.ndim:
            return x.copy()
        if mode == "reflect":
            return np.pad(x, _pairs(pad_width), mode="reflect")
        with np.errstate(over="ignore"):  # a large number is infinity in a narrow dtype
            return np.pad(x, _pairs(pad_width), constant_values=constant_value)

    def gradient(
        self, g: GradientCall, x: IRValue, *, pad_width: tuple[int, ...], mode: str, **_: Any
    ) -> Sequence[IRValue | None]:
        gx = g.gy
        for axis, (before, after) in enumerate(_pairs(pad_width)):
            if before or after:
                gx = _unpad(g, gx, axis, before, after, fold=mode == "reflect")
        return (gx,)

    def samples(self) -> Sequence[Sample]:
        return (
            Sample((2, 3), pad_width=(1, 2)),
            Sample((2, 3), pad_width=(0, 1, 2, 0), constant_value=1.5),
            Sample((2, 3, 4), pad_width=(1, 0, 0, 2)),
            Sample((2, 3)),
            Sample((), pad_width=()),
            Sample((0, 3), pad_width=(1, 1, 0, 0)),
            Sample((5,), pad_width=(4, 3), mode="reflect"),
            Sample((3, 4), pad_width=(2, 1, 0, 3), mode="reflect"),
            Sample((2, 3, 1), pad_width=(1, 1, 2, 2, 0, 0), mode="reflect"),
        )

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "has 3 entries", (2, 3), pad_width=(1, 1, 1)),
            Refused(ValueError, "has 6 entries", (2, 3), pad_width=(1,) * 6),
            Refused(ValueError, "negative entry", (2, 3), pad_width=(-1, 0)),
            Refused(ValueError, "too wide to reflect", (2, 3), pad_width=(3, 0), mode="reflect"),
            Refused(ValueError, "unknown value", (2, 3), mode="replicate"),
        )


def _pairs(widths: Sequence[int]) -> tuple[tuple[int, int], ...]:
    return tuple(zip(widths[::2], widths[1::2], strict=True))


def _unpad(g: GradientCall, gy: IRValue, axis: int, before: int, after: int, *, fold: bool) -> IRValue:
    """The cotangent without the padding of one axis; folded back onto what it mirrored, or dropped."""
    size = gy.shape[axis] - before - after
    shape = (*gy.shape[:axis], size, *gy.shape[axis + 1 :])

    def part(start: int, stop: int) -> IRValue:
        starts = tuple(start if i == axis else 0 for i in range(gy.ndim))
        stops = tuple(stop if i == axis else n for i, n in enumerate(gy.shape))
        return g.op("Slice", gy, start=starts, stop=stops)

    def folded(values: IRValue, start: int) -> IRValue:
        """Values on the elements from `start` down."""
        starts = tuple(start if i == axis else 0 for i in range(gy.ndim))
        end = start - values.shape[axis]
        stops = tuple((end if end >= 0 else -size - 1) if i == axis else n for i, n in enumerate(shape))
        steps = tuple(-1 if i == axis else 1 for i in range(gy.ndim))
        return g.op("SliceGrad", values, start=starts, stop=stops, step=steps, shape=shape)

    gx = part(before, before + size)
    if fold and before:
        gx = gx + folded(part(0, before), before)
    if fold and after:
        gx = gx + folded(part(before + size, before + size + after), size - 2)
    return gx


class MatrixDiag(OpSpec):
    """Vectors on the diagonals of matrices: `y[..., i, i] = x[..., i]`, 0 elsewhere.

    Args:
        x: (..., N) float.

    Returns:
        y: (..., N, N) float.

    Raises:
        ValueError: x has no axes.
    """

    function = "matrix_diag"
    category = "math"
    inputs = (Input("x"),)
    integers = "exact"

    def infer(self, x: ArrayDesc) -> ArrayDesc:
        if not x.ndim:
            raise self.error((x,), "x has no axes", "give it at least one")
        return ArrayDesc((*x.shape, x.shape[-1]), x.dtype)

    def reference(self, x: np.ndarray) -> np.ndarray:
        y = np.zeros((*x.shape, x.shape[-1]), x.dtype)  # a product with ones and zeros would spread NaN and inf
        along = np.arange(x.shape[-1])
        y[..., along, along] = x
        return y

    def gradient(self, g: GradientCall, x: IRValue) -> Sequence[IRValue | None]:
        return (g.op("MatrixDiagPart", g.gy),)

    def samples(self) -> Sequence[Sample]:
        return Sample((3,)), Sample((2, 3)), Sample((2, 2, 1)), Sample((0, 3)), Sample((2, 0))

    def refused(self) -> Sequence[Refused]:
        return (Refused(ValueError, "x has no axes", ()),)


class MatrixDiagPart(OpSpec):
    """The diagonals of matrices: `y[..., i] = x[..., i, i]`.

    Args:
        x: (..., N, N) float.

    Returns:
        y: (..., N) float.

    Raises:
        ValueError: the last two axes are not equal.
    """

    function = "matrix_diag_part"
    category = "math"
    inputs = (Input("x"),)
    moves = True
    integers = "exact"

    def infer(self, x: ArrayDesc) -> ArrayDesc:
        if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
            raise self.error((x,), "x does not hold square matrices", "make its last two axes equal")
        return ArrayDesc(x.shape[:-1], x.dtype)

    def reference(self, x: np.ndarray) -> np.ndarray:
        return np.diagonal(x, axis1=-2, axis2=-1).copy()

    def window(self, x: Window, attributes: Mapping[str, Any]) -> Window:
        return diagonal(x, 0, -2, -1)

    def gradient(self, g: GradientCall, x: IRValue) -> Sequence[IRValue | None]:
        return (g.op("MatrixDiag", g.gy),)

    def samples(self) -> Sequence[Sample]:
        return Sample((3, 3)), Sample((2, 3, 3)), Sample((2, 1, 1)), Sample((0, 3, 3)), Sample((2, 0, 0))

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "square matrices", (3,)),
            Refused(ValueError, "square matrices", (2, 3, 4)),
        )
