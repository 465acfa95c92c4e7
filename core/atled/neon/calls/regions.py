"""Regions of images: pooling of boxes, and which boxes are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from atled.errors import four_parts, shortened
from atled.keyed import Description
from atled.neon.calls.described import Described, DescribedCalls, layer_call
from atled.neon.calls.layer_objects import checked_sizes
from atled.neon.calls.operands import Operand, as_number, asked_of, check_operands, give, taken
from atled.neon.trees.tensor import Tensor

if TYPE_CHECKING:
    from atled_contexts import Context

_BATCH_FIRST = (3, 0, 1, 2)


class RegionCalls(DescribedCalls):
    """Computes with boxes."""

    if TYPE_CHECKING:
        context: Context

    @layer_call
    def roipooling_fprop(
        self,
        I: Tensor,  # noqa: E741  the API's name
        rois: Tensor,
        O: Tensor,  # noqa: E741  the API's name
        argmax: Tensor,
        roi_count: int,
        C: int,
        H: int,
        W: int,
        pooled_height: int,
        pooled_width: int,
        spatial_scale: float,
    ) -> Described:
        """Maximum over each cell of a grid on boxes in images.

        Corners are multiplied by spatial_scale and rounded, half to even; both belong to the box. Of a box of h rows,
        cell i has those from floor(i h / pooled_height) to ceil((i + 1) h / pooled_height), the end not included, as
        far as the image has them; the same for columns.

        Args:
            I: (C, H, W, N) float.
            rois: (roi_count, 5); image, x and y of the first corner, x and y of the last one.
            O: (C, pooled_height, pooled_width, roi_count); the maxima, 0 where a cell has no element.
            argmax: the same of whole numbers; h * W + w of the maximum, -1 where a cell has no element.

        Raises:
            TypeError, ValueError: tensors or sizes that do not fit, a dtype of argmax that does not hold its numbers.
            IndexError: a box of an image that is not there.
        """
        boxes = _Boxes(self, "roipooling_fprop", I, rois, O, argmax, (roi_count, C, H, W, pooled_height, pooled_width))
        scale = as_number("roipooling_fprop", "spatial_scale", spatial_scale)
        d = Description(self.context)
        x, corners = taken(d, I, boxes.images, _BATCH_FIRST), d.leaf(rois.view)
        value = d.call("RoiPooling", x, corners, shape=boxes.cells[1:3], scale=scale)
        give(d, argmax, boxes.cells, d.output(value, 1), _BATCH_FIRST)
        give(d, O, boxes.cells, value, _BATCH_FIRST)
        return Described(d)

    @layer_call
    def roipooling_bprop(
        self,
        I: Tensor,  # noqa: E741  the API's name
        rois: Tensor,
        O: Tensor,  # noqa: E741  the API's name
        argmax: Tensor,
        roi_count: int,
        C: int,
        H: int,
        W: int,
        pooled_height: int,
        pooled_width: int,
        spatial_scale: float,
    ) -> Described:
        """Gradient of `roipooling_fprop` with respect to the images: errors are added up where the maxima were.

        Args:
            I: (C, pooled_height, pooled_width, roi_count) float; the errors.
            rois, argmax: as in that call.
            O: (C, H, W, N); is overwritten.

        Raises as `roipooling_fprop`, and IndexError for a place that an image does not have.
        """
        boxes = _Boxes(self, "roipooling_bprop", O, rois, I, argmax, (roi_count, C, H, W, pooled_height, pooled_width))
        as_number("roipooling_bprop", "spatial_scale", spatial_scale)
        d = Description(self.context)
        error, place = (taken(d, each, boxes.cells, _BATCH_FIRST) for each in (I, argmax))
        if argmax.dtype != np.int32:
            place = d.call("Cast", place, dtype=np.dtype(np.int32))
        shape = tuple(boxes.images[axis] for axis in _BATCH_FIRST)
        give(d, O, boxes.images, d.call("RoiPoolingGrad", error, d.leaf(rois.view), place, shape=shape), _BATCH_FIRST)
        return Described(d)

    def nms(self, detections: Any, threshold: float, normalized: bool = False) -> list[int]:
        """Non-maximum suppression: which boxes have no better one over them.

        From the highest score down, of equal ones the first first, each box that is kept drops those after it whose
        overlap with it, area of the intersection over that of the union, is above threshold. It runs on the host:
        whether a box is dropped depends on the one before.

        Args:
            detections: (n, 5), a tensor or an array; x and y of the first corner, of the last one, score. Rows of score
                0 count as not there.
            threshold: the largest overlap that is kept.
            normalized: whether coordinates are shares of the image; else pixels, of which both corners belong to the
                box.

        Returns:
            Positions of those that are kept, best first, counted in the rows whose score is not 0.

        Raises:
            ValueError: detections of another shape.
        """
        rows = np.asarray(detections.get() if isinstance(detections, Tensor) else detections)
        if rows.ndim != 2 or rows.shape[1] != 5 or rows.dtype.kind not in "fiu":
            given = f"nms({shortened(list(rows.shape))} {rows.dtype})"
            raise ValueError(
                four_parts(given, "these are no rows of five numbers", "", "use (n, 5): x, y, x, y, score")
            )
        threshold = as_number("nms", "threshold", threshold)
        return _kept(rows[rows[:, 4] != 0], threshold, 0 if normalized else 1)


class _Boxes:
    """What both directions take: shapes, checked.

    images: (C, H, W, N).  cells: (C, PH, PW, roi_count).
    """

    def __init__(
        self, backend: Any, call: str, images: Any, rois: Any, pooled: Any, argmax: Any, sizes: tuple[Any, ...]
    ) -> None:
        names = "roi_count", "C", "H", "W", "pooled_height", "pooled_width"
        count, *rest = checked_sizes(call, 0, dict(zip(names, sizes, strict=True)))
        C, H, W, PH, PW = checked_sizes(call, 1, dict(zip(names[1:], rest, strict=True)))
        size = images.view.size if isinstance(images, Tensor) else 0
        self.images = C, H, W, max(size // (C * H * W), 1)
        self.cells = C, PH, PW, count
        forward = call == "roipooling_fprop"
        operands = (
            Operand("I" if forward else "O", images, "C H W N", self.images),
            Operand("rois", rois, "roi_count 5", (count, 5)),
            Operand("O" if forward else "I", pooled, "C pooled_height pooled_width roi_count", self.cells),
            Operand("argmax", argmax, "C pooled_height pooled_width roi_count", self.cells),
        )
        check_operands(backend, call, *operands)
        wrong, remedy = "", f"give one of {np.min_scalar_type(-H * W)}"
        if argmax.dtype.kind != "i" or np.iinfo(argmax.dtype).max < H * W - 1:
            wrong = f"argmax is {argmax.dtype}, and holds -1 to {H * W - 1}"
        elif rois.shape != (count, 5):
            wrong, remedy = f"rois has shape {list(rois.shape)}", f"give it a row for each box: {[count, 5]}"
        if wrong:
            raise ValueError(four_parts(asked_of(call, operands), wrong, "", remedy))


def _kept(rows: np.ndarray, threshold: float, ends: int) -> list[int]:
    """Positions of the rows that are kept; ends: 1 where both corners belong to a box."""
    left, top, right, bottom, scores = rows.T
    areas = (right - left + ends) * (bottom - top + ends)
    waiting = np.argsort(-scores, kind="stable")
    kept = []
    while waiting.size:
        best, waiting = waiting[0], waiting[1:]
        kept.append(int(best))
        wide = np.minimum(right[best], right[waiting]) - np.maximum(left[best], left[waiting]) + ends
        high = np.minimum(bottom[best], bottom[waiting]) - np.maximum(top[best], top[waiting]) + ends
        shared = np.maximum(wide, 0) * np.maximum(high, 0)
        # As a product: boxes without area have no quotient.
        waiting = waiting[shared <= threshold * (areas[best] + areas[waiting] - shared)]
    return kept
