"""Slices of an array by indices along an axis, and the adjoint, which adds slices up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from atled.array_desc import ArrayDesc
from atled.ops.indices import check_range
from atled.ops.samples import Exact, Ints, Refused, Sample
from atled.ops.spec import Attribute, Input, OpSpec

if TYPE_CHECKING:
    from atled.ops.rules import GradientCall, IRValue


class Take(OpSpec):
    """Slices by index along an axis, as `numpy.take`: `y[a..., i..., b...] = x[a..., index[i...], b...]`.

    Args:
        x: (A..., N, B...) float.
        index: (I...) whole numbers from -N to N - 1, negative ones counted from the end; gets no gradient.
        axis: that of N; negative ones count from the end.

    Returns:
        y: (A..., I..., B...) float; a copy.

    Raises:
        ValueError: axis is out of range.
        IndexError: an index is out of range; nothing is written then.
    """

    category = "array"
    integers = "exact"
    inputs = (Input("x"), Input("index", kind="index", gradient="none"))
    attributes = (Attribute("axis", "int", 0),)

    def normalize(self, attributes: dict[str, Any], *inputs: Any) -> dict[str, Any]:
        x, axis = inputs[0], attributes["axis"]
        if not -x.ndim <= axis < x.ndim:
            remedy = f"use {-x.ndim} to {x.ndim - 1}" if x.ndim else "add an axis by reshape"
            raise self.error(inputs, f"axis={axis} is out of range", remedy)
        return {"axis": axis % x.ndim}

    def infer(self, x: ArrayDesc, index: ArrayDesc, *, axis: int) -> ArrayDesc:
        return ArrayDesc(x.shape[:axis] + index.shape + x.shape[axis + 1 :], x.dtype)

    def reference(self, x: np.ndarray, index: np.ndarray, *, axis: int) -> np.ndarray:
        size = x.shape[axis]
        check_range(self.name, "index", index, size, start=-size)
        return np.asarray(np.take(x, index, axis=axis))

    def gradient(self, g: GradientCall, x: IRValue, index: IRValue, *, axis: int) -> Sequence[IRValue | None]:
        return g.op("TakeGrad", g.gy, index, axis=axis, size=x.shape[axis]), None

    def samples(self) -> Sequence[Sample]:
        return (
            Sample((5, 4), Ints((3,), 5)),
            Sample((2, 5, 3), Ints((2, 2), 5, low=-5), axis=1),
            Sample((2, 5), Ints((), 5), axis=-1),
            Sample((0, 4), Ints((0,), 3)),
            Sample((6, 50, 9), Ints((40,), 50), axis=1).no_gradient(),
        )

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "axis=2 is out of range", (3, 4), Ints((2,), 3), axis=2),
            Refused(ValueError, "add an axis", (), Ints((2,), 3)),
            Refused(IndexError, "out of range", (3, 4), Exact([0, 3])),
            Refused(IndexError, "out of range", (3, 4), Exact([[0], [-5]]), axis=1),
            Refused(IndexError, "out of range", (0, 4), Exact([0])),
        )


class TakeGrad(OpSpec):
    """Gradient of `Take`: slice n of gx is the sum of the slices of gy whose index is n.

    Args:
        gy: (A..., I..., B...) float.
        index: (I...) whole numbers from -N to N - 1; gets no gradient.
        axis: where I begins in gy, and the axis of N in gx.
        size: N.

    Returns:
        gx: (A..., N, B...) float; 0 where no index points to.

    Raises:
        ValueError: the axes of gy from axis on are not those of index, a negative size.
        IndexError: an index is out of range.
    """

    category = "array"
    inputs = (Input("gy"), Input("index", kind="index", gradient="none"))
    outputs = ("gx",)
    attributes = (Attribute("axis", "int"), Attribute("size", "int"))

    def infer(self, gy: ArrayDesc, index: ArrayDesc, *, axis: int, size: int) -> ArrayDesc:
        if axis < 0 or gy.shape[axis : axis + index.ndim] != index.shape or axis + index.ndim > gy.ndim:
            wrong = f"the axes of gy from axis {axis} on are not those of index"
            raise self.error((gy, index), wrong, f"use {list(index.shape)} there")
        if size < 0:
            raise self.error((gy, index), f"size={size}", "use the size of the axis that was taken from")
        return ArrayDesc((*gy.shape[:axis], size, *gy.shape[axis + index.ndim :]), gy.dtype)

    def reference(self, gy: np.ndarray, index: np.ndarray, *, axis: int, size: int) -> np.ndarray:
        check_range(self.name, "index", index, size, start=-size)
        gx = np.zeros((*gy.shape[:axis], size, *gy.shape[axis + index.ndim :]), gy.dtype)
        np.add.at(gx, (*(slice(None),) * axis, index), gy)
        return gx

    def gradient(
        self, g: GradientCall, gy: IRValue, index: IRValue, *, axis: int, size: int
    ) -> Sequence[IRValue | None]:
        return g.op("Take", g.gy, index, axis=axis), None

    def samples(self) -> Sequence[Sample]:
        return (
            Sample((3, 4), Ints((3,), 5), axis=0, size=5),
            Sample((2, 2, 2, 3), Ints((2, 2), 5, low=-5), axis=1, size=5),
            Sample((2, 3), Ints((2, 3), 2, low=-2), axis=0, size=2),
            Sample((0, 2), Ints((0,), 3), axis=0, size=3),
            Sample((6, 40, 9), Ints((40,), 20), axis=1, size=20).no_gradient(),
        )

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "not those of index", (2, 4), Ints((3,), 5), axis=0, size=5),
            Refused(ValueError, "not those of index", (2, 4), Ints((), 5), axis=3, size=5),
            Refused(ValueError, "size=-1", (2, 4), Ints((2,), 5), axis=0, size=-1),
            Refused(IndexError, "out of range", (2, 4), Exact([0, 5]), axis=0, size=5),
        )
