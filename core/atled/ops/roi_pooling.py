"""Pooling of regions of interest: maxima over the cells of a grid on each of some boxes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from atled.array_desc import ArrayDesc
from atled.dtypes import is_float
from atled.ops.indices import check_range
from atled.ops.samples import Distinct, Exact, Ints, Refused, Sample
from atled.ops.spec import Attribute, Input, OpSpec

if TYPE_CHECKING:
    from atled.ops.rules import GradientCall, IRValue

_ROIS = Input("rois", kind="precise", gradient="none")
_PLACE = Input("place", kind="keep", gradient="none")


class RoiPooling(OpSpec):
    """Maximum over each cell of a grid on boxes in images.

    Corners are multiplied by scale and rounded, half to even; both ends belong to the box, which is one element high
    and wide at least. Of a box of h rows, cell i covers those from floor(i h / PH) to ceil((i + 1) h / PH), the end not
    included, of which those count that the image has; the same for columns. Of equal maxima the first in C order
    counts; the first NaN of a cell is its maximum. Source: Girshick, Fast R-CNN, 2015.

    Args:
        x: (N, C, H, W) float.
        rois: (R, 5) float; image, x of the first and y of the first corner, x and y of the last one. Gets no gradient.
        shape: (PH, PW), the cells of a box.
        scale: factor from coordinates of boxes to those of x.

    Returns:
        y: (R, C, PH, PW) float; 0 where a cell has no element.
        place: (R, C, PH, PW) int32; of the maximum as h * W + w, -1 where a cell has no element.

    Raises:
        ValueError: x has not four axes, rois not five columns, shape not two sizes from 1 on; an image has 2^31
            elements or more.
        IndexError: a box of an image that is not there, or with a coordinate that is not finite.
    """

    category = "layer"
    inputs = (Input("x"), _ROIS)
    attributes = (Attribute("shape", "ints"), Attribute("scale", "float", 1.0))
    outputs = ("y", "place")
    saved = ("place",)

    def infer(self, x: ArrayDesc, rois: ArrayDesc, *, shape: tuple[int, ...], **_: Any) -> Sequence[ArrayDesc]:
        if x.ndim != 4:
            raise self.error((x, rois), f"x has {x.ndim} axes", "give it four: (N, C, H, W)")
        if x.shape[2] * x.shape[3] >= 2**31:
            raise self.error((x, rois), "an image has 2^31 elements or more", "cut it into parts")
        check_rois(self, (x, rois), rois)
        if len(shape) != 2 or min(shape) < 1:
            raise self.error((x, rois), f"shape={shape}", "use two sizes from 1 on")
        made = (rois.shape[0], x.shape[1], *shape)
        return ArrayDesc(made, x.dtype), ArrayDesc(made, np.int32)

    def reference(
        self, x: np.ndarray, rois: np.ndarray, *, shape: tuple[int, ...], scale: float
    ) -> Sequence[np.ndarray]:
        images, channels, height, width = x.shape
        check_images(self.name, rois, images)
        y = np.zeros((len(rois), channels, *shape), x.dtype)
        place = np.full(y.shape, -1, np.int32)
        # In the dtype of the boxes, as kernels do: where a product lies half between two numbers is in its rounding.
        corners = np.rint(rois[:, 1:] * scale).clip(-(2**30), 2**30).astype(np.int64)
        for r, (left, top, right, bottom) in enumerate(corners):
            rows = _cells(int(top), int(bottom), shape[0], height)
            columns = _cells(int(left), int(right), shape[1], width)
            for i, (first_row, end_row) in enumerate(rows):
                for j, (first_column, end_column) in enumerate(columns):
                    cell = x[int(rois[r, 0]), :, first_row:end_row, first_column:end_column]
                    if not cell.size:
                        continue
                    at = cell.reshape(channels, -1).argmax(axis=1)  # a NaN is the greatest, as wanted
                    row, column = np.divmod(at, end_column - first_column)
                    y[r, :, i, j] = cell[np.arange(channels), row, column]
                    place[r, :, i, j] = (first_row + row) * width + first_column + column
        return y, place

    def gradient(self, g: GradientCall, x: IRValue, rois: IRValue, **_: Any) -> Sequence[IRValue | None]:
        return g.op("RoiPoolingGrad", g.gy, rois, g.outputs[1], shape=x.shape), None

    def samples(self) -> Sequence[Sample]:
        return (
            Sample(Distinct((2, 2, 5, 6)), Exact([[0, 0, 0, 5, 4], [1, 1, 2, 4, 3], [1, 3, 1, 3, 1]]), shape=(2, 2)),
            Sample(Distinct((1, 3, 6, 5)), Exact([[0, 3, 5, 9, 11], [0, 8, 8, 20, 9]]), shape=(3, 2), scale=0.5),
            Sample(Distinct((1, 1, 4, 4)), Exact([[0, -3, -2, 1, 1], [0, 3, 3, 1, 1], [0, 7, 7, 9, 9]]), shape=(2, 3)),
            Sample(Distinct((2, 1, 3, 3)), Exact(np.zeros((0, 5), np.int64)), shape=(1, 1)),
            Sample(Exact(np.zeros((1, 1, 3, 3))), Exact([[0, 0, 0, 2, 2]]), shape=(2, 2)).no_gradient(),
        )

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "x has 3 axes", (2, 3, 4), (1, 5), shape=(1, 1)),
            Refused(ValueError, "rois has shape", (1, 2, 3, 4), (1, 4), shape=(1, 1)),
            Refused(ValueError, "two sizes", (1, 2, 3, 4), (1, 5), shape=(1, 0)),
            Refused(IndexError, "out of range", (1, 2, 3, 4), Exact([[1, 0, 0, 1, 1]]), shape=(1, 1)),
        )


def check_rois(spec: OpSpec, inputs: Sequence[ArrayDesc | None], rois: ArrayDesc) -> None:
    """Refuse boxes that are not rows of five numbers."""
    if rois.ndim != 2 or rois.shape[1] != 5:
        raise spec.error(inputs, f"rois has shape {list(rois.shape)}", "use (R, 5): image, x, y, x, y")


def check_images(op: str, rois: np.ndarray, images: int) -> None:
    """Refuse boxes of images that are not there, or anywhere that is no place."""
    with np.errstate(invalid="ignore"):  # what is not finite becomes a number that is out of range
        numbers = np.where(np.isfinite(rois).all(axis=1), rois[:, 0], -1).astype(np.int64)
    check_range(op, "rois", numbers, images)


def _cells(first: int, last: int, count: int, size: int) -> list[tuple[int, int]]:
    """Begin and end of the cells along an axis, cut to the image."""
    length = max(last - first + 1, 1)
    bounds = ((first + i * length // count, first - (-(i + 1) * length // count)) for i in range(count))
    return [(min(max(begin, 0), size), min(max(end, 0), size)) for begin, end in bounds]


class _Placed(OpSpec, abstract=True):
    """What the two adjoint ops share that move values between boxes and images."""

    category = "layer"
    attributes = (Attribute("shape", "ints"),)

    def check_places(self, inputs: tuple[ArrayDesc, ArrayDesc, ArrayDesc], shape: tuple[int, ...]) -> None:
        """Refuse boxes and places that are not those of images of that shape."""
        _, rois, place = inputs
        check_rois(self, inputs, rois)
        if len(shape) != 4 or min(shape) < 0:
            raise self.error(inputs, f"shape={shape}", "use the shape of the images: (N, C, H, W)")
        if place.ndim != 4 or place.shape[:2] != (rois.shape[0], shape[1]):
            wrong = f"place has shape {list(place.shape)}"
            raise self.error(inputs, wrong, f"use ({rois.shape[0]}, {shape[1]}, PH, PW), as RoiPooling gives it")
        # While a graph is built dtypes are unknown, and stand as floats.
        if place.dtype != np.int32 and not is_float(place.dtype):
            raise self.error(inputs, f"place is {place.dtype}", "use int32, as RoiPooling gives it")

    def elements(self, rois: np.ndarray, place: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        """Where the places are in the flat images; -1 for a cell without one. IndexError for what is out of range."""
        images, channels, height, width = shape
        check_images(self.name, rois, images)
        check_range(self.name, "place", place, height * width, start=-1)
        maps = rois[:, 0].astype(np.int64)[:, np.newaxis] * channels + np.arange(channels)
        return np.where(place < 0, -1, maps[:, :, np.newaxis, np.newaxis] * (height * width) + place)


class RoiPoolingGrad(_Placed):
    """Gradient of `RoiPooling`: each `gy` is added to the element at the place of its cell's maximum.

    Args:
        gy: (R, C, PH, PW) float.
        rois: (R, 5) float; of which the image counts. Gets no gradient.
        place: (R, C, PH, PW) int32, as `RoiPooling` gives it.
        shape: (N, C, H, W), of x.

    Returns:
        gx: (N, C, H, W) float; 0 where no maximum was.

    Raises:
        ValueError: gy and place differ in shape, or are not boxes of images of that shape; place has another dtype.
        IndexError: a place, or an image, that is not there.
    """

    inputs = (Input("gy"), _ROIS, _PLACE)
    outputs = ("gx",)

    def infer(self, gy: ArrayDesc, rois: ArrayDesc, place: ArrayDesc, *, shape: tuple[int, ...]) -> ArrayDesc:
        if gy.shape != place.shape:
            raise self.error((gy, rois, place), "gy and place differ in shape", "pass the place of the same pooling")
        self.check_places((gy, rois, place), shape)
        return ArrayDesc(shape, gy.dtype)

    def reference(self, gy: np.ndarray, rois: np.ndarray, place: np.ndarray, *, shape: tuple[int, ...]) -> np.ndarray:
        at = self.elements(rois, place, shape)
        gx = np.zeros(shape, gy.dtype)
        np.add.at(gx.reshape(-1), at[at >= 0], gy[at >= 0])
        return gx

    def gradient(
        self, g: GradientCall, gy: IRValue, rois: IRValue, place: IRValue, **attributes: Any
    ) -> Sequence[IRValue | None]:
        return g.op("RoiPoolingGather", g.gy, rois, place, **attributes), None, None

    def samples(self) -> Sequence[Sample]:
        rois = Exact([[0, 0, 0, 5, 4], [1, 1, 2, 4, 3], [1, 3, 1, 3, 1]])
        return (
            Sample((3, 2, 2, 2), rois, _Cells((3, 2, 2, 2), 30, low=-1), shape=(2, 2, 5, 6)),
            Sample((3, 1, 2, 2), rois, _Cells((3, 1, 2, 2), 2, low=-1), shape=(2, 1, 1, 2)),
            Sample((0, 1, 1, 1), Exact(np.zeros((0, 5), np.int64)), _Cells((0, 1, 1, 1), 2), shape=(2, 1, 3, 3)),
        )

    def refused(self) -> Sequence[Refused]:
        rois, place = Exact([[0, 0, 0, 1, 1]]), _Cells((1, 1, 1, 1), 2)
        return (
            Refused(ValueError, "differ in shape", (1, 1, 1, 2), rois, place, shape=(1, 1, 2, 2)),
            Refused(ValueError, "shape=", (1, 1, 1, 1), rois, place, shape=(1, 1, 2)),
            Refused(ValueError, "place has shape", (1, 1, 1, 1), rois, place, shape=(1, 2, 2, 2)),
            Refused(ValueError, "place is int64", (1, 1, 1, 1), rois, Ints((1, 1, 1, 1), 2), shape=(1, 1, 2, 2)),
            Refused(
                IndexError,
                "out of range",
                (1, 1, 1, 1),
                rois,
                Exact(np.full((1, 1, 1, 1), 4, np.int32)),
                shape=(1, 1, 2, 2),
            ),
            Refused(IndexError, "out of range", (1, 1, 1, 1), Exact([[-1, 0, 0, 1, 1]]), place, shape=(1, 1, 2, 2)),
        )


class _Cells(Ints):
    """Places in images, as `RoiPooling` numbers them."""

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        return super().draw(rng).astype(np.int32)


class RoiPoolingGather(_Placed):
    """The adjoint of `RoiPoolingGrad`: the elements at the places of the cells.

    Args:
        x: (N, C, H, W) float.
        rois: (R, 5) float; of which the image counts. Gets no gradient.
        place: (R, C, PH, PW) int32, as `RoiPooling` gives it.
        shape: (N, C, H, W), of x.

    Returns:
        y: (R, C, PH, PW) float; 0 where a cell has no place.

    Raises:
        ValueError: x has another shape, place is not that of boxes of it, or has another dtype.
        IndexError: a place, or an image, that is not there.
    """

    inputs = (Input("x"), _ROIS, _PLACE)

    def infer(self, x: ArrayDesc, rois: ArrayDesc, place: ArrayDesc, *, shape: tuple[int, ...]) -> ArrayDesc:
        self.check_places((x, rois, place), shape)
        if x.shape != shape:
            raise self.error((x, rois, place), f"x has shape {list(x.shape)}", f"use {list(shape)}, or another shape=")
        return ArrayDesc(place.shape, x.dtype)

    def reference(self, x: np.ndarray, rois: np.ndarray, place: np.ndarray, *, shape: tuple[int, ...]) -> np.ndarray:
        at = self.elements(rois, place, shape)
        y = np.zeros(place.shape, x.dtype)
        y[at >= 0] = x.reshape(-1)[at[at >= 0]]
        return y

    def gradient(
        self, g: GradientCall, x: IRValue, rois: IRValue, place: IRValue, **attributes: Any
    ) -> Sequence[IRValue | None]:
        return g.op("RoiPoolingGrad", g.gy, rois, place, **attributes), None, None

    def samples(self) -> Sequence[Sample]:
        rois = Exact([[0, 0, 0, 5, 4], [1, 1, 2, 4, 3], [1, 3, 1, 3, 1]])
        return (
            Sample((2, 2, 5, 6), rois, _Cells((3, 2, 2, 2), 30, low=-1), shape=(2, 2, 5, 6)),
            Sample((2, 1, 3, 3), Exact(np.zeros((0, 5), np.int64)), _Cells((0, 1, 1, 1), 2), shape=(2, 1, 3, 3)),
        )

    def refused(self) -> Sequence[Refused]:
        rois, place = Exact([[0, 0, 0, 1, 1]]), _Cells((1, 1, 1, 1), 2)
        return (
            Refused(ValueError, "x has shape", (1, 1, 2, 3), rois, place, shape=(1, 1, 2, 2)),
            Refused(IndexError, "out of range", (1, 1, 2, 2), Exact([[1, 0, 0, 1, 1]]), place, shape=(1, 1, 2, 2)),
        )
