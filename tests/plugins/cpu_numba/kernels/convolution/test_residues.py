"""Dilated convolutions by residues, against the reference."""

import numpy as np
import pytest

from atled.plugin import op_spec
from atled_cpu_numba.kernels.convolution import choice as convolution
from atled_cpu_numba.kernels.convolution.problem import Problem
from atled_cpu_numba.kernels.shared.lanes import host_lanes
from atled_cpu_numba.kernels.shared.leading_axes import Axis

GEOMETRIES = [
    # images, source, pad, dilation
    (2, (16, 24), (2, 2), (2, 2)),
    (3, (24, 36), (4, 4), (4, 4)),
    (1, (16, 30), (0, 3), (1, 3)),
    (5, (28, 28), (0, 0), (2, 2)),
    (2, (32, 32), (3, 3), (3, 3)),  # no multiples of the dilation: the last residues are smaller
    (1, (37, 22), (0, 2), (3, 2)),
    (3, (65, 65), (6, 6), (6, 6)),
    (2, (6, 16, 16), (2, 2, 2), (2, 2, 2)),
    (2, (4, 32, 16), (1, 4, 2), (1, 4, 2)),
]


def drawn(images, source, dtype):
    rng = np.random.default_rng(0)
    shapes = (images, 16, *source), (32, 16, *(3,) * len(source)), (32,)
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes]


def attributes(pad, dilation):
    return {"base_axis": 1, "pad": pad, "stride": (1,) * len(pad), "dilation": dilation, "group": 1}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("images", "source", "pad", "dilation"), GEOMETRIES)
def test_results_are_those_of_the_reference(run, images, source, pad, dilation, dtype):
    x, weight, bias = drawn(images, source, dtype)
    given = attributes(pad, dilation)
    wanted = op_spec("Convolution").reference(x, weight, bias, channel_last=False, **given)
    y = np.full(wanted.shape, np.nan, dtype)
    assert run(convolution, "Convolution", [x, weight, bias], [y], **given) == 0
    np.testing.assert_allclose(y, wanted, rtol=1e-3, atol=3e-3 if dtype == "float32" else 1e-11)


@pytest.mark.parametrize(("images", "source", "pad", "dilation"), GEOMETRIES)
def test_adjoints_are_those_of_the_reference(run, images, source, pad, dilation):
    x, weight, _ = drawn(images, source, "f")
    given = attributes(pad, dilation)
    y = op_spec("Convolution").reference(x, weight, None, channel_last=False, **given)
    wanted = op_spec("ConvolutionDataGrad").reference(y, weight, shape=source, channel_last=False, **given)
    gx = np.full(wanted.shape, np.nan, "f")
    assert run(convolution, "ConvolutionDataGrad", [y, weight], [gx], shape=source, **given) == 0
    np.testing.assert_allclose(gx, wanted, rtol=1e-3, atol=1e-4 * np.abs(wanted).max())


@pytest.mark.parametrize(("images", "source", "pad", "dilation"), GEOMETRIES[:7])
def test_shares_of_any_residues_give_the_same_bits(run, parts, images, source, pad, dilation):
    x, weight, bias = drawn(images, source, "f")
    given = attributes(pad, dilation)
    shape = op_spec("Convolution").reference(x, weight, bias, channel_last=False, **given).shape
    results = [np.full(shape, np.nan, "f") for _ in range(2)]
    for count, y in zip((1, parts), results, strict=True):
        assert run(convolution, "Convolution", [x, weight, bias], [y], parts=count, **given) == 0
    np.testing.assert_array_equal(*results)


@pytest.mark.skipif(not host_lanes().has_short_tiles, reason="elsewhere direct sums have no panels")
@pytest.mark.parametrize(("maps", "way"), [(32, "window panels"), (256, "residues")])
@pytest.mark.parametrize("images", [1, 8])
@pytest.mark.parametrize("forward", [True, False])
def test_few_channels_leave_residues_that_tiles_reach_far_beyond(forward, images, maps, way):
    axes = (Axis(56, 32, 3, 0 if forward else 24, 1, 12),) * 2  # no window sees padding
    ways = list(convolution.ways(Problem(forward, images, 1, maps, maps, axes, (), "", "float32")))
    assert "residues" in {each.name for each in ways}
    assert next(each.name for each in ways if each.pays) == way


@pytest.mark.skipif(not host_lanes().has_short_tiles, reason="elsewhere direct sums have no panels")
@pytest.mark.parametrize(("dilation", "way"), [(12, "window panels"), (4, "residues")])
def test_taps_in_the_padding_are_left_out_rather_than_computed_by_residues(dilation, way):
    axes = (Axis(32, 32, 3, dilation, 1, dilation),) * 2
    ways = list(convolution.ways(Problem(True, 1, 1, 256, 256, axes, (), "", "float32")))
    assert next(each.name for each in ways if each.pays) == way
