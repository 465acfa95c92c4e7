"""Non-maximum suppression: of boxes detected in images, those without a better one over them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from atled.array_desc import ArrayDesc
from atled.ops.samples import Exact, Refused, Sample, Uniform
from atled.ops.spec import Attribute, Input, OpSpec


class NmsDetection2d(OpSpec):
    """Non-maximum suppression of boxes in two dimensions.

    First, objectness below thresh becomes 0, each class probability is multiplied with the objectness, and what is
    below thresh of these products, the scores of the classes, becomes 0. Then boxes are suppressed: with
    nms_per_class for each class by its scores, else for all classes at once by objectness. Going from the highest
    score down, of equal ones the first first, each box that is not suppressed itself suppresses all later ones that
    overlap it by an intersection over union above nms. With nms_per_class the score of a suppressed box becomes 0,
    else its objectness and all its scores. What has score 0 suppresses nothing.

    Source: Redmon and Farhadi, "YOLO9000", CVPR 2017.

    Args:
        x: (B, N, 5 + C) float; batches of N boxes: centre x, centre y, width, height, objectness, and C class
            probabilities, C at least 1.
        thresh: the least objectness and score.
        nms: the largest overlap.
        nms_per_class: whether classes are looked at one by one.

    Returns:
        y: shape of x, float. No gradient flows.

    Raises:
        ValueError: x has not three axes, or less than 6 numbers per box.
    """

    function = "nms_detection2d"
    category = "detection"
    inputs = (Input("x"),)
    attributes = (
        Attribute("thresh", "float", 0.5),
        Attribute("nms", "float", 0.45),
        Attribute("nms_per_class", "bool", True),
    )
    no_gradient = "stops"

    def infer(self, x: ArrayDesc, **_: Any) -> ArrayDesc:
        if x.ndim != 3 or x.shape[2] < 6:
            raise self.error((x,), "x does not hold boxes", "give it the shape (B, N, 5 + C) with C at least 1")
        return x

    def reference(self, x: np.ndarray, *, thresh: float, nms: float, nms_per_class: bool) -> np.ndarray:
        y = x.copy()
        objectness, scores = y[..., 4], y[..., 5:]
        objectness[objectness < thresh] = 0
        scores *= objectness[..., np.newaxis]
        scores[scores < thresh] = 0
        for boxes in y:
            overlaps = _overlaps(boxes[:, :4]) > nms
            if nms_per_class:
                for number in range(5, y.shape[2]):
                    boxes[_suppressed(boxes[:, number], overlaps), number] = 0
            else:
                boxes[_suppressed(boxes[:, 4], overlaps), 4:] = 0
        return y

    def samples(self) -> Sequence[Sample]:
        crowded = Exact(
            [
                [
                    [0.5, 0.5, 0.4, 0.4, 0.9, 0.8, 0.3],
                    [0.52, 0.5, 0.4, 0.4, 0.8, 0.65, 0.9],
                    [0.9, 0.9, 0.1, 0.1, 0.7, 0.9, 0.95],
                    [0.5, 0.5, 0.4, 0.4, 0.4, 0.9, 0.9],
                    [0.5, 0.5, 0.38, 0.4, 0.95, 0.7, 0.5],
                ]
            ]
        )
        return (
            Sample(crowded),
            Sample(crowded, nms_per_class=False),
            Sample(crowded, thresh=0.1, nms=0.8),
            Sample(crowded, thresh=0.0, nms=0.1, nms_per_class=False),
            Sample(Uniform((2, 7, 6), 0.1, 1.0), thresh=0.25),
            Sample(Uniform((2, 1, 8), 0.1, 1.0)),
            Sample(Uniform((2, 0, 6), 0.1, 1.0)),
            Sample(Uniform((0, 3, 6), 0.1, 1.0), nms_per_class=False),
        )

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "does not hold boxes", (5, 7)),
            Refused(ValueError, "does not hold boxes", (1, 5, 5)),
            Refused(TypeError, "thresh", (1, 5, 7), thresh="low"),
        )


def _overlaps(boxes: np.ndarray) -> np.ndarray:
    """(N, N) intersection over union of each box (N, 4) with each; 0 for boxes without area."""
    centre, size = boxes[:, :2], boxes[:, 2:]
    low, high = centre - size / 2, centre + size / 2
    sides = np.minimum(high[:, np.newaxis], high) - np.maximum(low[:, np.newaxis], low)
    both = sides.clip(0).prod(axis=2)
    area = size.clip(0).prod(axis=1)
    either = area[:, np.newaxis] + area - both
    return np.divide(both, either, out=np.zeros_like(both), where=either > 0)


def _suppressed(scores: np.ndarray, overlaps: np.ndarray) -> np.ndarray:
    """(N,) bool: boxes that a box with a higher score, not suppressed itself, overlaps too much."""
    suppressed = np.zeros(len(scores), bool)
    order = np.argsort(-scores, kind="stable")
    for place, box in enumerate(order):
        if scores[box] > 0 and not suppressed[box]:
            later = order[place + 1 :]
            suppressed[later] |= overlaps[box, later]
    return suppressed
