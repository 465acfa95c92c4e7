"""roipooling_fprop, roipooling_bprop, nms."""

import numpy as np
import pytest
from tests.core.neon.calls import image_formulas as formulas

import atled as nn

C, H, W, N, CELLS, SCALE = 2, 5, 6, 3, (2, 3), 0.5
ROIS = np.array([[0, 0, 0, 11, 9], [2, 3, 3, 5, 9], [1, 1, 1, 1, 1], [1, 20, 1, 24, 5]], np.float32)


@pytest.fixture
def images():
    return np.random.default_rng(9).standard_normal((C, H, W, N)).astype(np.float32)


def call(be, forward, first, second, argmax, rois=ROIS):
    run = be.roipooling_fprop if forward else be.roipooling_bprop
    run(first, be.array(rois), second, argmax, len(rois), C, H, W, *CELLS, SCALE)


def test_values_are_those_of_the_definition(be, images):
    size = C * CELLS[0] * CELLS[1], len(ROIS)
    out, argmax = be.zeros(size), be.zeros(size, np.int32)
    call(be, True, be.array(images.reshape(-1, N)), out, argmax)
    expected, place = formulas.boxes(images, ROIS, CELLS, SCALE)
    np.testing.assert_array_equal(out.get(), expected.reshape(size).astype(np.float32))
    np.testing.assert_array_equal(argmax.get(), place.reshape(size))
    assert (place == -1).any()  # a cell beyond the image


@pytest.mark.parametrize("dtype", [np.int32, np.int8])
def test_errors_are_added_where_the_maxima_were(be, images, dtype):
    _, place = formulas.boxes(images, ROIS, CELLS, SCALE)
    error = np.random.default_rng(1).standard_normal(place.shape).astype(np.float32)
    delta = be.array(np.ones((C * H * W, N)))
    call(be, False, be.array(error), delta, be.array(place, dtype))
    expected = np.zeros((C, H * W, N))
    for at in np.ndindex(place.shape):
        if place[at] >= 0:
            expected[at[0], place[at], int(ROIS[at[-1], 0])] += error[at]
    np.testing.assert_allclose(delta.get(), expected.reshape(-1, N), rtol=1e-5)


def test_nothing_falls_back(cpu, images):
    nn.reset_fallback_counts()
    test_values_are_those_of_the_definition(cpu, images)
    test_errors_are_added_where_the_maxima_were(cpu, images, np.int32)
    assert nn.fallback_counts() == {}


def test_views_are_read_and_written(be, images):
    wide = np.repeat(images.reshape(-1, N), 2, axis=1)
    size = C * CELLS[0] * CELLS[1], len(ROIS)
    out, argmax = be.zeros((size[0], 2 * size[1])), be.zeros(size, np.int32)
    call(be, True, be.array(wide)[:, ::2], out[:, 1::2], argmax)
    expected, _ = formulas.boxes(images, ROIS, CELLS, SCALE)
    np.testing.assert_array_equal(out.get()[:, 1::2], expected.reshape(size).astype(np.float32))
    assert not out.get()[:, ::2].any()


def test_bad_calls_are_refused_and_nothing_is_written(be, images):
    size = C * CELLS[0] * CELLS[1], len(ROIS)
    given, out, argmax = be.array(images.reshape(-1, N)), be.array(np.full(size, 5.0)), be.zeros(size, np.int32)
    elsewhere = ROIS.copy()
    elsewhere[1, 0] = N
    with pytest.raises(IndexError, match="out of range"):
        call(be, True, given, out, argmax, elsewhere)
    with pytest.raises(ValueError, match="argmax is uint8, and holds -1 to 29"):
        call(be, True, given, out, be.zeros(size, np.uint8))
    with pytest.raises(ValueError, match="rois has shape"):
        call(be, True, given, out, argmax, ROIS[:3].T)
    with pytest.raises(ValueError, match=r"I has shape \[7, 3\]"):
        call(be, True, be.zeros((7, 3)), out, argmax)
    assert (out.get() == 5).all()


def overlap(a, b, ends):
    width = min(a[2], b[2]) - max(a[0], b[0]) + ends
    height = min(a[3], b[3]) - max(a[1], b[1]) + ends
    shared = max(width, 0) * max(height, 0)
    areas = [(box[2] - box[0] + ends) * (box[3] - box[1] + ends) for box in (a, b)]
    return shared / (sum(areas) - shared)


@pytest.mark.parametrize("normalized", [False, True])
def test_nms_keeps_boxes_without_a_better_one_over_them(cpu, normalized):
    rng = np.random.default_rng(2)
    corners = rng.uniform(0, 20, (40, 2))
    rows = np.hstack([corners, corners + rng.uniform(1, 12, (40, 2)), rng.uniform(0.1, 1, (40, 1))])
    rows[::7, 4] = 0
    left = [row for row in rows if row[4]]
    kept = []
    for i in sorted(range(len(left)), key=lambda i: -left[i][4]):
        if all(overlap(left[j], left[i], 0 if normalized else 1) <= 0.3 for j in kept):
            kept.append(i)
    assert cpu.nms(rows, 0.3, normalized) == kept
    assert cpu.nms(cpu.array(rows, np.float64), 0.3, normalized) == kept
    assert 1 < len(kept) < len(left)


def test_nms_of_equal_scores_keeps_the_first(cpu):
    assert cpu.nms(np.array([[0, 0, 4, 4, 0.5], [0, 0, 4, 4, 0.5], [9, 9, 9, 9, 0.5]]), 0.5) == [0, 2]


def test_nms_takes_rows_of_five(cpu):
    assert cpu.nms(np.zeros((3, 5)), 0.5) == []
    with pytest.raises(ValueError, match="no rows of five"):
        cpu.nms(np.zeros((3, 4)), 0.5)
    with pytest.raises(TypeError, match="threshold is of type NoneType"):
        cpu.nms(np.zeros((3, 5)), None)
