"""1 x 1 convolutions of one position against products in NumPy in float64."""

from types import SimpleNamespace

import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled_cpu_numba.kernels.convolution import choice as convolution
from atled_cpu_numba.kernels.convolution.problem import problem_of

GEOMETRY = {"base_axis": 1, "pad": (0, 0), "stride": (1, 1), "dilation": (1, 1), "group": 1}


def draw(seed, *shape, dtype="f"):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def ways(make_call, images, channels, maps, *, size=(1, 1), **geometry):
    group = geometry.get("group", 1)
    x, weight = draw(0, images, channels, *size), draw(1, maps, channels // group, 1, 1)
    strides = geometry.get("stride", (1, 1))
    y = np.empty((images, maps, *(-(-length // stride) for length, stride in zip(size, strides, strict=True))), "f")
    call = make_call("Convolution", [x, weight, None], [y], **GEOMETRY | geometry)
    found = list(convolution.ways(problem_of(call)))
    return {way.name for way in found}, next(way.name for way in found if way.pays)


@pytest.mark.parametrize("dtype", ["f", "d"])
@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize(
    "images, channels, maps",
    [(1, 1, 1), (1, 7, 3), (2, 16, 8), (1, 33, 17), (3, 15, 64), (4, 40, 9), (1, 480, 20), (2, 20, 481), (9, 5, 35)],
)
def test_values(run, parts, make_call, images, channels, maps, with_bias, dtype):
    x, weight = draw(0, images, channels, 1, 1, dtype=dtype), draw(1, maps, channels, 1, 1, dtype=dtype)
    bias = draw(2, maps, dtype=dtype) if with_bias else None
    expected = x[:, :, 0, 0].astype("d") @ weight[:, :, 0, 0].astype("d").T + (0 if bias is None else bias)
    y = np.full((images, maps, 1, 1), np.nan, dtype)
    call = make_call("Convolution", [x, weight, bias], [y], **GEOMETRY)
    way = next(way for way in convolution.ways(problem_of(call)) if way.name == "one position")
    module = SimpleNamespace(accepts=convolution.accepts, prepare=lambda _: way.prepare())
    assert run(module, "Convolution", [x, weight, bias], [y], parts=parts, **GEOMETRY) == 0
    np.testing.assert_allclose(y[:, :, 0, 0], expected, rtol=0, atol=64 * np.finfo(dtype).eps * np.abs(expected).max())


def test_what_is_not_finite_stays_in_its_map_and_image(run):
    x, weight = draw(0, 2, 19, 1, 1), draw(1, 21, 19, 1, 1)
    weight[20, 18], weight[3, 0], x[1, 18] = np.inf, np.nan, np.inf
    y = np.empty((2, 21, 1, 1), "f")
    assert run(convolution, "Convolution", [x, weight, None], [y], parts=1, **GEOMETRY) == 0
    assert [number for number in range(21) if not np.isfinite(y[0, number])] == [3, 20]
    assert not np.isfinite(y[1]).any()


def test_it_is_taken_for_few_images_of_one_position_and_one_group(make_call):
    assert ways(make_call, 1, 48, 1152)[1] == "one position"
    assert ways(make_call, 4, 1152, 48)[1] == "one position"
    assert ways(make_call, 5, 1152, 48)[1] != "one position"
    assert "one position" not in ways(make_call, 1, 64, 64, size=(1, 2))[0]
    assert "one position" not in ways(make_call, 1, 64, 64, size=(2, 2), stride=(2, 2))[0]
    assert "one position" not in ways(make_call, 1, 64, 64, group=2)[0]


@pytest.mark.parametrize("images", [1, 3])
def test_formulas_are_computed_on_the_way(images):
    context = nn.Context(["cpu"], fallback="raise")
    with nn.auto_forward(False), nn.context_scope(context):
        x, weight, bias = nn.Variable((images, 37, 1, 1)), draw(1, 45, 37, 1, 1), draw(2, 45)
        leaves = [nn.Variable.from_numpy_array(array) for array in (weight, bias)]
        infer = nn.inference(F.sigmoid(F.convolution(x, *leaves)), x)
    values = draw(0, images, 37, 1, 1)
    expected = 1 / (1 + np.exp(-(values[:, :, 0, 0].astype("d") @ weight[:, :, 0, 0].T + bias)))
    np.testing.assert_allclose(infer(values)[:, :, 0, 0], expected, rtol=1e-5)
    assert "computed within Convolution+Sigmoid" in str(infer.plan) and "1x1, dot products" in str(infer.plan)
