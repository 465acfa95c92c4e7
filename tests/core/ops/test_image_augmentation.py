"""Image augmentation: that each of its parts alters what it says, within its range."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from atled.array_desc import ArrayDesc
from atled.ops.spec import SPECS

COUNT = 300
SPEC = SPECS["ImageAugmentation"]


def augment(x, **attributes):
    checked = SPEC.check_attributes(attributes, [ArrayDesc(x.shape, x.dtype)])
    SPEC.check_values(checked)
    return SPEC.reference(x, np.array([7, 0]), **checked)


def ramps(height=64, width=64):
    """(COUNT, 2, height, width): each pixel's column in the first channel, its row in the second."""
    rows, columns = np.meshgrid(np.arange(float(height)), np.arange(float(width)), indexing="ij")
    return np.broadcast_to(np.stack((columns, rows)), (COUNT, 2, height, width)).copy()


def steps(y):
    """Per image how far in the source one goes with one step right (columns, rows), and with one step down."""
    return y[:, :, 2, 3] - y[:, :, 2, 2], y[:, :, 3, 2] - y[:, :, 2, 2]


def constants(value, channels=2):
    return np.full((COUNT, channels, 2, 2), float(value))


def test_by_default_nothing_changes():
    x = np.random.default_rng(0).standard_normal((3, 2, 5, 7))
    assert_array_equal(augment(x), x)


def test_crops_are_at_any_place_fractions_included():
    y = augment(ramps(), shape=(10, 12))
    assert y.shape == (COUNT, 2, 10, 12)
    assert_allclose(steps(y), np.broadcast_to([[[1, 0]], [[0, 1]]], (2, COUNT, 2)), atol=1e-9)
    left, top = y[:, 0, 0, 0], y[:, 1, 0, 0]
    assert 0 <= left.min() < 3 < 49 < left.max() <= 52
    assert 0 <= top.min() < 3 < 51 < top.max() <= 54


def test_padding_is_made_of_the_nearest_pixels():
    x = ramps(4, 4)
    y = augment(x, shape=(6, 8), pad=(1, 2))
    assert_allclose(y, np.pad(x, ((0, 0), (0, 0), (1, 1), (2, 2)), mode="edge"), atol=1e-9)


def test_scales_are_drawn_evenly_by_their_logarithm():
    (right, _), (_, down) = (each.T for each in steps(augment(ramps(), shape=(6, 6), min_scale=0.5, max_scale=4)))
    assert_allclose(right, down, rtol=1e-9)
    assert 0.25 <= right.min() < 0.26
    assert 1.9 < right.max() <= 2
    assert abs(np.log(right).mean() + math.log(2) / 2) < 0.15


def test_aspect_ratio_stretches_one_axis_as_it_shrinks_the_other():
    (right, _), (_, down) = (each.T for each in steps(augment(ramps(), shape=(6, 6), aspect_ratio=2)))
    assert_allclose(right * down, 1, rtol=1e-9)
    assert 0.5**0.5 <= right.min() < 0.75
    assert 1.35 < right.max() <= 2**0.5


def test_angles_turn_about_the_centre():
    y = augment(ramps(), angle=0.5)
    right, down = y[:, :, 31, 32] - y[:, :, 31, 31], y[:, :, 32, 31] - y[:, :, 31, 31]
    angle = np.arctan2(right[:, 1], right[:, 0])
    assert -0.5 <= angle.min() < -0.45
    assert 0.45 < angle.max() <= 0.5
    assert_allclose(-down[:, 0], np.sin(angle), atol=1e-6)
    assert_allclose(down[:, 1], np.cos(angle), atol=1e-6)
    assert_allclose(y[:, :, 31:33, 31:33].mean(axis=(2, 3)), 31.5, atol=1e-6)


def test_distortion_bends_but_keeps_centre_and_corners():
    y = augment(ramps(), distortion=0.4)
    assert_allclose(y[:, 0, [0, 0, -1, -1], [0, -1, 0, -1]], np.broadcast_to([0, 63, 0, 63], (COUNT, 4)), atol=1e-9)
    assert_allclose(y[:, 0, 31:33, 31:33].mean(axis=(1, 2)), 31.5, atol=1e-9)
    assert np.ptp(y[:, 0, 31, 16]) > 5


@pytest.mark.parametrize(("name", "axis"), [("flip_lr", 3), ("flip_ud", 2)])
def test_half_of_the_images_are_flipped(name, axis):
    x = ramps(4, 5)
    y = augment(x, **{name: True})
    flipped = (y != x).any(axis=(1, 2, 3))
    assert abs(flipped.mean() - 0.5) < 0.12
    assert_allclose(y[flipped], np.flip(x, axis)[flipped], atol=1e-9)


@pytest.mark.parametrize("each", [False, True])
def test_brightness_adds_up_to_its_value_either_way(each):
    y = augment(constants(3), brightness=0.5, brightness_each=each)
    added = y[:, :, 0, 0] - 3
    assert_allclose(y - 3, added[:, :, np.newaxis, np.newaxis] + np.zeros((1, 1, 2, 2)))
    assert -0.5 <= added.min() < -0.48
    assert 0.48 < added.max() <= 0.5
    assert np.any(added[:, 0] != added[:, 1]) == each


@pytest.mark.parametrize("each", [False, True])
def test_contrast_multiplies_the_distance_from_its_center(each):
    y = augment(constants(3), contrast=2, contrast_center=1, contrast_each=each)
    factor = (y[:, :, 0, 0] - 1) / 2
    assert 0.5 <= factor.min() < 0.53
    assert 1.9 < factor.max() <= 2
    assert abs(np.log(factor[:, 0]).mean()) < 0.12
    assert np.any(factor[:, 0] != factor[:, 1]) == each


def test_brightness_is_not_multiplied_by_contrast():
    assert np.abs(augment(constants(0), brightness=1, contrast=100)).max() <= 1


def test_noise_has_a_standard_deviation_up_to_its_value():
    y = augment(np.zeros((COUNT, 1, 20, 20)), noise=2)
    sigma = y.std(axis=(1, 2, 3))
    assert 0 <= sigma.min() < 0.05
    assert 1.9 < sigma.max() < 2.2
    normal = (y / sigma[:, np.newaxis, np.newaxis, np.newaxis]).ravel()
    assert abs((normal**4).mean() - 3) < 0.1
    assert abs(np.corrcoef(normal[:-1], normal[1:])[0, 1]) < 0.02


@pytest.mark.parametrize(
    "attributes", [{"contrast": 0.0}, {"max_scale": -1.0}, {"distortion": -1.0}, {"aspect_ratio": math.nan}]
)
def test_values_that_make_no_sense_are_refused(attributes):
    with pytest.raises(ValueError, match="out of range"):
        augment(constants(0), **attributes)
