"""Depthwise convolution with 3 x 3 kernels and strides of 2, beside sums in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled_contexts import Context
from atled_cpu_numba.kernels.convolution import choice as convolution
from atled_cpu_numba.kernels.depthwise import planes

SHAPES = [(5, 3), (7, 7), (12, 12), (13, 9), (33, 65), (34, 66), (40, 100)]  # below, at and beyond whole vectors


def wanted(x, w, b, pad):
    count, channels, *_ = x.shape
    maps = w.shape[0] // channels
    padded = np.pad(np.repeat(x, maps, axis=1).astype(np.float64), ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    height, width = ((size - 3) // 2 + 1 for size in padded.shape[2:])
    y = np.zeros((count, w.shape[0], height, width)) + b[:, None, None]
    for r in range(3):
        for s in range(3):
            y += w[:, 0, r, s, None, None] * padded[:, :, r : r + 2 * height : 2, s : s + 2 * width : 2]
    return y


@pytest.fixture(params=[True, False], ids=["in the caches", "beyond"], autouse=True)
def in_caches(request, monkeypatch):
    """Results that stay in the caches are computed by `planes`, with little padding."""
    if not request.param:
        monkeypatch.setattr(planes, "STREAMED_BYTES", 0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("pad", [0, 1, 2])
@pytest.mark.parametrize("size", SHAPES)
def test_every_second_position_is_computed(run, size, pad, dtype):
    if min(size) + 2 * pad < 3:
        return
    rng = np.random.default_rng(3)
    x, w, b = (rng.standard_normal(shape).astype(dtype) for shape in ((2, 3, *size), (6, 1, 3, 3), (6,)))
    expected = wanted(x, w, b, pad)
    found = np.full(expected.shape, np.nan, dtype)
    geometry = {"base_axis": 1, "pad": (pad, pad), "stride": (2, 2), "dilation": (1, 1), "group": 3}
    assert run(convolution, "Convolution", [x, w, b], [found], **geometry) == 0
    tolerance = 16 * np.finfo(dtype).eps * np.abs(found).max()
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance)


def test_formulas_are_computed_on_the_way():
    x, w = nn.Variable((1, 4, 9, 9)), nn.Variable((4, 1, 3, 3))
    x.d, w.d = np.random.default_rng(1).standard_normal(x.shape), 0.1
    with nn.context_scope(Context(["cpu:float"])), nn.auto_forward(False):
        y = F.relu(F.convolution(x, w, pad=(1, 1), stride=(2, 2), group=4))
        y.forward()
    assert [step.name for step in y.plan.steps if step.carrier is not None] == ["ReLU"]
    np.testing.assert_allclose(y.d, np.maximum(wanted(x.d, w.d, np.zeros(4), 1), 0), atol=1e-5)


def test_infinities_of_the_next_plane_stay_outside(run):
    rng = np.random.default_rng(2)
    x, w = rng.standard_normal((1, 2, 4, 4), "f"), rng.standard_normal((2, 3, 3), "f")
    x[0, 1] = np.inf  # beside the last elements of the first plane
    y = np.full((1, 2, 2, 2), np.nan, "f")
    geometry = {"base_axis": 1, "pad": (1, 1), "stride": (2, 2), "dilation": (1, 1), "multiplier": 1}
    assert run(convolution, "DepthwiseConvolution", [x, w, None], [y], **geometry) == 0
    np.testing.assert_allclose(y[:, :1], wanted(x[:, :1], w[:1, None], np.zeros(1), 1), atol=1e-5)


@pytest.mark.parametrize("columns", [3, 7, 14, 40])
def test_narrow_planes_are_written_within_their_share(run, parts, columns):
    rng = np.random.default_rng(4)
    x, w = rng.standard_normal((2, 5, 9, columns), "f"), rng.standard_normal((5, 3, 3), "f")
    expected = wanted(x, w[:, None], np.zeros(5), 1)
    y = np.full(expected.shape, np.nan, "f")
    geometry = {"base_axis": 1, "pad": (1, 1), "stride": (2, 2), "dilation": (1, 1), "multiplier": 1}
    assert run(convolution, "DepthwiseConvolution", [x, w, None], [y], parts=parts, **geometry) == 0
    np.testing.assert_allclose(y, expected, atol=1e-5)
