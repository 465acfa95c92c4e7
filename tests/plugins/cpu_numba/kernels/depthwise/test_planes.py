"""Depthwise convolution with 3 x 3 kernels of planes of every width, against the reference."""

import itertools

import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled.plugin import op_spec
from atled_contexts import Context
from atled_cpu_numba import pool
from atled_cpu_numba.kernels.convolution import choice as convolution
from atled_cpu_numba.kernels.depthwise import planes

WIDTHS = (*range(1, 21), 31, 32, 33, 34, 35, 64, 65, 66, 67, 130)
OP = "DepthwiseConvolution"


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("pad", list(itertools.product((0, 1), (0, 1))))
@pytest.mark.parametrize("multiplier", [1, 2])
def test_every_width_gives_what_the_reference_gives(run, stride, pad, multiplier, dtype):
    rng, spec = np.random.default_rng(0), op_spec(OP)
    geometry = {"base_axis": 1, "pad": pad, "stride": (stride, stride), "dilation": (1, 1), "multiplier": multiplier}
    for sizes in itertools.product((1, 2, 3, 4, 7, 10), WIDTHS):
        if any(n + 2 * p < 3 for n, p in zip(sizes, pad, strict=True)):
            continue
        shapes = (2, 2, *sizes), (2 * multiplier, 3, 3), (2 * multiplier,)
        x, weight, bias = (rng.standard_normal(shape).astype(dtype) for shape in shapes)
        wanted = spec.reference(x, weight, bias, channel_last=False, **geometry)
        y = np.full(wanted.shape, np.nan, dtype)
        assert run(convolution, OP, [x, weight, bias], [y], **geometry) == 0
        np.testing.assert_allclose(y, wanted, rtol=1e-5, atol=1e-5, err_msg=f"{sizes}")


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("width", [1, 2, 3, 5, 7, 13, 14, 15, 40])
def test_shares_of_any_planes_give_the_same_bits(run, parts, width, stride):
    rng = np.random.default_rng(1)
    x, weight = rng.standard_normal((3, 5, 4, width), "f"), rng.standard_normal((5, 3, 3), "f")
    geometry = {"base_axis": 1, "pad": (1, 1), "stride": (stride, stride), "dilation": (1, 1), "multiplier": 1}
    results = [np.full((3, 5, 4 // stride, -(-width // stride)), np.nan, "f") for _ in range(2)]
    for count, y in zip((1, parts), results, strict=True):
        assert run(convolution, OP, [x, weight, None], [y], parts=count, **geometry) == 0
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("width", [3, 7, 14, 20, 67])
def test_bits_are_those_of_larger_planes_rows(run, monkeypatch, stride, width):
    """The kernels for what no cache holds take products and sums in the same order."""
    rng = np.random.default_rng(2)
    x, weight, bias = (rng.standard_normal(shape, "f") for shape in ((1, 4, 9, width), (4, 3, 3), (4,)))
    geometry = {"base_axis": 1, "pad": (1, 1), "stride": (stride, stride), "dilation": (1, 1), "multiplier": 1}
    results = [np.full((1, 4, -(-9 // stride), -(-width // stride)), np.nan, "f") for _ in range(2)]
    for bound, y in zip((planes.STREAMED_BYTES, 0), results, strict=True):
        monkeypatch.setattr(planes, "STREAMED_BYTES", bound)
        assert run(convolution, OP, [x, weight, bias], [y], **geometry) == 0
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("width", [3, 7, 14])
def test_what_is_beside_a_plane_stays_outside(run, width):
    rng = np.random.default_rng(3)
    x, weight = rng.standard_normal((1, 3, 5, width), "f"), rng.standard_normal((3, 3, 3), "f")
    geometry = {"base_axis": 1, "pad": (1, 1), "stride": (1, 1), "dilation": (1, 1), "multiplier": 1}
    y, beside = np.empty_like(x), np.empty_like(x)
    assert run(convolution, OP, [x, weight, None], [y], **geometry) == 0
    x[:, ::2] = np.inf
    assert run(convolution, OP, [x, weight, None], [beside], **geometry) == 0
    np.testing.assert_array_equal(beside[:, 1], y[:, 1])


def test_small_planes_of_many_channels_are_shared_and_carry_a_formula(monkeypatch):
    """As a formula of two shares is only carried by what has two: rows of 7 results take a vector each."""
    monkeypatch.setattr(pool, "_chosen_count", 2)
    rng = np.random.default_rng(4)
    x, w = nn.Variable((1, 960, 7, 7)), nn.Variable((960, 1, 3, 3))
    for each in (x, w):
        each.d = rng.standard_normal(each.shape)
    with nn.context_scope(Context(["cpu:float"])), nn.auto_forward(False):
        y = F.minimum_scalar(F.relu(F.convolution(x, w, pad=(1, 1), group=960)), 6)
        y.forward()
    (step,) = (step for step in y.plan.steps if step.carrier is None)
    assert step.parts == 2
    wanted = op_spec("Convolution").reference(
        x.d, w.d, None, channel_last=False, base_axis=1, pad=(1, 1), stride=(1, 1), dilation=(1, 1), group=960
    )
    np.testing.assert_allclose(y.d, np.clip(wanted, 0, 6), atol=1e-4)
