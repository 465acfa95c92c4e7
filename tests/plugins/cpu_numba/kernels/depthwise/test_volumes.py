"""Depthwise convolution over three axes, 3 x 3 along the last two, against the reference."""

import itertools

import numpy as np
import pytest

from atled.plugin import op_spec
from atled_cpu_numba.kernels.convolution import choice as convolution

WIDTHS = (1, 2, 3, 4, 5, 7, 8, 9, 14, 15, 16, 17, 28, 33)
OP = "DepthwiseConvolution"
DEPTHS = [
    {"kernel": 3, "pad": 1, "stride": 1, "dilation": 1},
    {"kernel": 2, "pad": 0, "stride": 2, "dilation": 1},
    {"kernel": 3, "pad": 2, "stride": 3, "dilation": 2},
    {"kernel": 1, "pad": 1, "stride": 1, "dilation": 1},  # slices that see padding alone
]


def _geometry(depth, stride, pad_w, multiplier=1):
    return {
        "base_axis": 1,
        "pad": (depth["pad"], 1, pad_w),
        "stride": (depth["stride"], stride, stride),
        "dilation": (depth["dilation"], 1, 1),
        "multiplier": multiplier,
    }


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("pad_w", [0, 1])
@pytest.mark.parametrize("depth", DEPTHS)
def test_every_width_gives_what_the_reference_gives(run, depth, pad_w, stride, dtype):
    rng, spec = np.random.default_rng(0), op_spec(OP)
    geometry = _geometry(depth, stride, pad_w, multiplier=2)
    for rows, width in itertools.product((1, 2, 3, 6), WIDTHS):
        if width + 2 * pad_w < 3:
            continue
        shapes = (2, 2, 4, rows, width), (4, depth["kernel"], 3, 3), (4,)
        x, weight, bias = (rng.standard_normal(shape).astype(dtype) for shape in shapes)
        wanted = spec.reference(x, weight, bias, channel_last=False, **geometry)
        y = np.full(wanted.shape, np.nan, dtype)
        assert run(convolution, OP, [x, weight, bias], [y], **geometry) == 0
        np.testing.assert_allclose(y, wanted, rtol=1e-5, atol=1e-5, err_msg=f"{rows}, {width}")


@pytest.mark.parametrize("depth", DEPTHS)
def test_the_adjoint_gives_what_the_reference_gives(run, depth):
    rng, spec = np.random.default_rng(1), op_spec("DepthwiseDeconvolution")
    geometry = {**_geometry(depth, 1, 1), "divisor": 1}
    del geometry["multiplier"]
    y, weight = rng.standard_normal((2, 3, 4, 5, 13), "f"), rng.standard_normal((3, depth["kernel"], 3, 3), "f")
    wanted = spec.reference(y, weight, None, **geometry)
    x = np.full(wanted.shape, np.nan, "f")
    assert run(convolution, "DepthwiseDeconvolution", [y, weight, None], [x], **geometry) == 0
    np.testing.assert_allclose(x, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("width", [3, 7, 20])
def test_shares_of_any_volumes_give_the_same_bits(run, parts, width, stride):
    rng = np.random.default_rng(2)
    x, weight = rng.standard_normal((3, 5, 4, 4, width), "f"), rng.standard_normal((5, 3, 3, 3), "f")
    geometry = _geometry(DEPTHS[0], stride, 1)
    results = [np.full((3, 5, 4, 4 // stride, -(-width // stride)), np.nan, "f") for _ in range(2)]
    for count, y in zip((1, parts), results, strict=True):
        assert run(convolution, OP, [x, weight, None], [y], parts=count, **geometry) == 0
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("width", [3, 7, 14])
def test_what_is_beside_a_volume_stays_outside(run, width):
    rng = np.random.default_rng(3)
    x, weight = rng.standard_normal((1, 3, 2, 5, width), "f"), rng.standard_normal((3, 3, 3, 3), "f")
    geometry = _geometry(DEPTHS[0], 1, 1)
    y, beside = np.empty_like(x), np.empty_like(x)
    assert run(convolution, OP, [x, weight, None], [y], **geometry) == 0
    x[:, ::2] = np.inf
    assert run(convolution, OP, [x, weight, None], [beside], **geometry) == 0
    np.testing.assert_array_equal(beside[:, 1], y[:, 1])


def test_more_axes_are_leading_ones(run):
    rng, spec = np.random.default_rng(4), op_spec(OP)
    x, weight = rng.standard_normal((2, 3, 2, 3, 4, 9), "f"), rng.standard_normal((3, 2, 2, 3, 3), "f")
    geometry = {"base_axis": 1, "pad": (1, 0, 1, 1), "stride": (1, 1, 1, 1), "dilation": (1,) * 4, "multiplier": 1}
    wanted = spec.reference(x, weight, None, channel_last=False, **geometry)
    y = np.full(wanted.shape, np.nan, "f")
    assert run(convolution, OP, [x, weight, None], [y], **geometry) == 0
    np.testing.assert_allclose(y, wanted, rtol=1e-5, atol=1e-5)
