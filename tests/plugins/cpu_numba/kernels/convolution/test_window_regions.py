"""Windows in panels that leave out taps in the padding, against the reference."""

import types

import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled.plugin import op_spec
from atled_cpu_numba.kernels.convolution import choice, window_panels
from atled_cpu_numba.kernels.convolution.problem import problem_of, task_of
from atled_cpu_numba.kernels.convolution.window_regions import regions
from atled_cpu_numba.kernels.shared.geometry import windows
from atled_cpu_numba.kernels.shared.lanes import lanes_of

GEOMETRIES = [
    # images, channels, maps, groups, source, kernel, pad, stride, dilation
    (1, 8, 13, 1, (32, 32), (3, 3), (12, 12), (1, 1), (12, 12)),
    (3, 5, 7, 1, (17, 19), (3, 3), (5, 6), (1, 1), (5, 6)),  # no multiple of the tile, rows and columns of two lengths
    (2, 12, 26, 2, (15, 14), (3, 3), (6, 6), (1, 1), (6, 6)),
    (2, 6, 5, 1, (17, 17), (7, 1), (3, 0), (1, 1), (1, 1)),
    (1, 6, 5, 1, (9, 48), (1, 7), (0, 21), (1, 1), (1, 7)),
    (1, 300, 3, 1, (20, 20), (3, 3), (7, 7), (2, 2), (7, 7)),  # phases; more channels than terms at once
    (1, 6, 14, 1, (6, 6), (3, 3), (8, 8), (1, 1), (8, 8)),  # most taps see nothing anywhere
    (1, 6, 14, 1, (5, 6), (2, 2), (9, 9), (1, 1), (1, 1)),  # some windows see nothing
    (2, 4, 6, 1, (14, 14), (5, 5), (4, 4), (1, 1), (2, 2)),
]


def attributes(pad, stride, dilation, groups):
    return {"base_axis": 1, "pad": pad, "stride": stride, "dilation": dilation, "group": groups}


def prepare(call):
    problem = problem_of(call)
    return window_panels.prepare(task_of(problem), problem)


WAY = types.SimpleNamespace(accepts=choice.accepts, prepare=prepare)


def drawn(images, channels, maps, groups, source, kernel, dtype):
    rng = np.random.default_rng(0)
    shapes = (images, channels, *source), (maps, channels // groups, *kernel), (maps,)
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("images", "channels", "maps", "groups", "source", "kernel", "pad", "stride", "dilation"), GEOMETRIES
)
def test_results_are_those_of_the_reference(
    run, parts, images, channels, maps, groups, source, kernel, pad, stride, dilation, dtype
):
    x, weight, bias = drawn(images, channels, maps, groups, source, kernel, dtype)
    given = attributes(pad, stride, dilation, groups)
    wanted = op_spec("Convolution").reference(x, weight, bias, channel_last=False, **given)
    y = np.full(wanted.shape, np.nan, dtype)
    assert run(WAY, "Convolution", [x, weight, bias], [y], parts=parts, **given) == 0
    np.testing.assert_allclose(y, wanted, atol=2e-4 if dtype == "float32" else 1e-12)


@pytest.mark.parametrize(
    ("images", "channels", "maps", "groups", "source", "kernel", "pad", "stride", "dilation"), GEOMETRIES
)
def test_adjoints_are_those_of_the_reference(
    run, parts, images, channels, maps, groups, source, kernel, pad, stride, dilation
):
    x, weight, _ = drawn(images, channels, maps, groups, source, kernel, "f")
    given = attributes(pad, stride, dilation, groups)
    gy = op_spec("Convolution").reference(x, weight, None, channel_last=False, **given)
    wanted = op_spec("ConvolutionDataGrad").reference(gy, weight, shape=source, channel_last=False, **given)
    gx = np.full(wanted.shape, np.nan, "f")
    assert run(WAY, "ConvolutionDataGrad", [gy, weight], [gx], parts=parts, shape=source, **given) == 0
    np.testing.assert_allclose(gx, wanted, atol=1e-5 * np.abs(wanted).max())


def test_weights_that_plans_keep_are_packed_in_the_order_of_the_sums():
    x, weight, bias = drawn(1, 40, 45, 1, (24, 24), (3, 3), "f")
    geometry = {"pad": (11, 11), "dilation": (11, 11)}
    wanted = op_spec("Convolution").reference(
        x, weight, bias, channel_last=False, **attributes((11, 11), (1, 1), (11, 11), 1)
    )
    given = nn.Variable(x.shape)
    y = F.convolution(given, *(nn.Variable.from_numpy_array(a) for a in (weight, bias)), **geometry)
    infer = nn.inference(y, given)
    for _ in range(2):
        np.testing.assert_allclose(infer(x), wanted, atol=2e-4)


@pytest.mark.parametrize(
    ("source", "kernel", "pad", "dilation", "found"),
    [
        ((32, 32), (3, 3), (12, 12), (12, 12), 3),
        ((32, 32), (1, 3), (0, 12), (1, 12), 3),
        ((32, 32), (3, 1), (12, 0), (12, 1), 1),  # rows need not be divided
        ((56, 56), (3, 3), (1, 1), (1, 1), None),
    ],
)
def test_columns_are_divided_where_enough_taps_lie_in_the_padding(source, kernel, pad, dilation, found):
    planes, results = windows(source, kernel, pad, (1, 1), dilation)
    lanes = lanes_of("float32")
    cut = regions(planes, results, 1, source, lanes.columns, lanes.vector)
    assert (None if cut is None else len(cut.results)) == found
