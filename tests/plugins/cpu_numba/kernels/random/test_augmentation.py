"""Altered images: the same places, tones and noise as the reference's."""

import numpy as np
import pytest

from atled.array_desc import ArrayDesc
from atled.ops.spec import SPECS
from atled_cpu_numba.kernels.random import augmentation

_GEOMETRY = {"min_scale": 0.5, "max_scale": 2.0, "aspect_ratio": 1.3, "angle": 0.7, "distortion": 0.2}
_TONES = {"brightness": 0.5, "contrast": 1.5, "contrast_center": 0.5}

CASES = [
    ((3, 2, 5, 6), {}),
    ((3, 2, 5, 6), {"shape": (4, 3)}),
    ((2, 3, 2, 5, 6), {"shape": (2, 8, 9), "pad": (1, 2), "flip_lr": True, "flip_ud": True}),
    ((5, 2, 17, 19), {**_GEOMETRY, "shape": (13, 11)}),
    ((7, 1, 1, 1), {**_GEOMETRY, "shape": (3, 3)}),
    ((2, 3, 9, 7), {**_GEOMETRY, "flip_lr": True, **_TONES}),
    ((2, 3, 9, 7), {**_TONES, "brightness_each": True, "contrast_each": True}),
    ((3, 3, 3, 5), {**_TONES, "noise": 0.3}),
    ((6, 5), {"shape": (1, 1), "noise": 0.1}),
]


def _run(run, x, random_state, parts, attributes):
    spec = SPECS["ImageAugmentation"]
    checked = spec.check_attributes(attributes, [ArrayDesc(x.shape, x.dtype)])
    found = np.full(checked["shape"], np.nan, x.dtype)
    floats = {name: checked[name] for name in augmentation._FLOATS}
    code = run(augmentation, spec.name, [x, random_state], [found], parts=parts, floats=floats, **checked)
    return code, found, checked


@pytest.mark.parametrize("shape, attributes", CASES)
@pytest.mark.parametrize("dtype, tolerance", [("float32", 2e-6), ("float64", 1e-14)])
def test_pixels(run, parts, shape, attributes, dtype, tolerance):
    x = np.random.default_rng(4).random(shape).astype(dtype)
    for random_state in (np.array([7, 3]), np.array([-2, 1 << 40])):
        code, found, checked = _run(run, x, random_state, parts, attributes)
        assert code == 0
        expected = SPECS["ImageAugmentation"].reference(x, random_state, **checked)
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance * 10)


def test_places_that_are_not_finite_are_an_error_and_not_an_address(run):
    x = np.ones((2, 3, 4, 4), np.float32)
    code, _, _ = _run(run, x, np.array([7, 3]), 1, {"angle": np.inf})
    assert code == 1
