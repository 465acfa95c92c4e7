"""NmsDetection2d against its reference."""

import numpy as np
import pytest

from atled.ops.spec import SPECS
from atled_cpu_numba.kernels import suppression


@pytest.mark.parametrize("per_class", [True, False])
@pytest.mark.parametrize("limits", [{"thresh": 0.5, "nms": 0.45}, {"thresh": 0.05, "nms": 0.1}])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_same_boxes_stay(run, parts, per_class, limits, dtype):
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(0, 1, (3, 60, 2)), rng.uniform(0.05, 0.4, (3, 60, 2))], axis=2)
    # Tenths, so that scores are equal here and there.
    x = np.concatenate([x, rng.integers(0, 11, (3, 60, 4)) / 10], axis=2).astype(dtype)
    x[1, 5, 2] = -0.1  # a box without area
    y = np.full_like(x, 7)
    assert run(suppression, "NmsDetection2d", [x], [y], parts=parts, floats=limits, nms_per_class=per_class) == 0
    expected = SPECS["NmsDetection2d"].reference(x, **limits, nms_per_class=per_class)
    np.testing.assert_array_equal(y, expected)
    assert (expected[..., 4:] == 0).mean() > 0.3


def test_nan_scores_neither_suppress_nor_stay(run):
    x = np.array([[[0.5, 0.5, 0.4, 0.4, np.nan, 0.9], [0.5, 0.5, 0.4, 0.4, 0.9, 0.9]]], "f")
    for per_class in (True, False):
        y = np.empty_like(x)
        floats = {"thresh": 0.5, "nms": 0.45}
        assert run(suppression, "NmsDetection2d", [x], [y], floats=floats, nms_per_class=per_class) == 0
        np.testing.assert_array_equal(y, SPECS["NmsDetection2d"].reference(x, **floats, nms_per_class=per_class))
