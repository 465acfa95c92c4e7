"""Non-maximum suppression: who suppresses whom."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

BOXES = [
    [0.5, 0.5, 0.4, 0.4, 0.9, 0.8, 0.3],
    [0.52, 0.5, 0.4, 0.4, 0.8, 0.6, 0.9],
    [0.9, 0.9, 0.1, 0.1, 0.7, 0.9, 0.95],
    [0.5, 0.5, 0.4, 0.4, 0.4, 0.9, 0.9],
    [0.5, 0.5, 0.38, 0.4, 0.95, 0.7, 0.5],
]


def scores(reference, boxes, **attributes):
    """Objectness and scores of one batch; coordinates must be left alone."""
    x = np.array([boxes])
    y = reference("NmsDetection2d", x, **attributes)
    assert (y[..., :4] == x[..., :4]).all()
    return y[0, :, 4:]


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({}, [[0.9, 0.72, 0], [0.8, 0, 0.72], [0.7, 0.63, 0.665], [0, 0, 0], [0.95, 0, 0]]),
        ({"nms_per_class": False}, [[0, 0, 0], [0, 0, 0], [0.7, 0.63, 0.665], [0, 0, 0], [0.95, 0.665, 0]]),
        ({"thresh": 0.1, "nms": 0.9}, [[0.9, 0.72, 0], [0.8, 0, 0.72], [0.7, 0.63, 0.665], [0.4, 0, 0], [0.95, 0, 0]]),
        (
            {"thresh": 0.0, "nms_per_class": False},
            [[0, 0, 0], [0, 0, 0], [0.7, 0.63, 0.665], [0, 0, 0], [0.95, 0.665, 0.475]],
        ),
    ],
)
def test_crowded_boxes_leave_the_best(reference, attributes, expected):
    assert_allclose(scores(reference, BOXES, **attributes), expected, atol=1e-12)


def test_what_is_suppressed_suppresses_nothing(reference):
    chain = [[0.5, 0.5, 1, 1, 0.9, 1], [0.7, 0.5, 1, 1, 0.8, 1], [0.9, 0.5, 1, 1, 0.7, 1]]
    assert scores(reference, chain, nms=0.5)[:, 1].tolist() == [0.9, 0, 0.7]


def test_overlaps_and_scores_at_the_thresholds_stay(reference):
    inside = [[0.5, 0.5, 1, 1, 0.9, 1], [0.25, 0.5, 0.5, 1, 0.5, 1]]
    assert scores(reference, inside, nms=0.5).tolist() == [[0.9, 0.9], [0.5, 0.5]]
    assert scores(reference, inside, nms=0.49).tolist() == [[0.9, 0.9], [0.5, 0]]


def test_of_equal_scores_the_first_stays(reference):
    equal = [[0.5, 0.5, 1, 1, 0.8, 1], [0.6, 0.5, 1, 1, 0.8, 1]]
    assert scores(reference, equal).tolist() == [[0.8, 0.8], [0.8, 0]]
    assert scores(reference, equal, nms_per_class=False).tolist() == [[0.8, 0.8], [0, 0]]


def test_batches_do_not_touch_each_other(reference):
    both = np.array([BOXES, BOXES[::-1]])
    y = reference("NmsDetection2d", both)
    assert_allclose(y[0], reference("NmsDetection2d", both[:1])[0])
    assert_allclose(y[1], reference("NmsDetection2d", both[1:])[0])


def test_boxes_without_area_overlap_nothing(reference):
    flat = [[0.5, 0.5, 0, 0, 0.9, 1], [0.5, 0.5, 0, 0, 0.8, 1]]
    assert scores(reference, flat).tolist() == [[0.9, 0.9], [0.8, 0.8]]
