"""Winograd's convolution against windows in NumPy in float64."""

import numpy as np
import pytest

from atled_cpu_numba.kernels.convolution import choice as convolution
from atled_cpu_numba.kernels.convolution import weight as convolution_weight
from atled_cpu_numba.kernels.shared.lanes import host_lanes
from atled_cpu_numba.kernels.winograd import forward as winograd

# x, maps, pad
CASES = [
    ((3, 16, 8, 8), 16, (1, 1)),
    ((3, 17, 9, 9), 33, (1, 1)),
    ((3, 16, 10, 10), 35, (0, 0)),
    ((1, 20, 16, 15), 16, (2, 2)),
    ((2, 16, 12, 37), 70, (1, 1)),
    ((13, 33, 4, 4), 16, (1, 1)),
    ((40, 16, 6, 6), 40, (0, 0)),
    ((2, 16, 13, 14), 18, (0, 2)),
    ((1, 16, 16, 70), 16, (1, 1)),
    ((3, 16, 8, 9), 200, (1, 1)),
    ((2, 9, 13, 12), 32, (1, 1)),
]
all_cases = pytest.mark.parametrize("x_shape, maps, pad", CASES)

# The same for kernels of 5 x 5.
WIDE_CASES = [
    ((3, 16, 14, 14), 16, (2, 2)),
    ((3, 17, 9, 9), 33, (2, 2)),
    ((2, 16, 12, 13), 35, (0, 1)),
    ((1, 20, 16, 15), 16, (4, 3)),
    ((1, 9, 8, 41), 70, (2, 0)),
    ((1, 16, 16, 70), 16, (2, 2)),
]
sides = pytest.mark.parametrize(
    "side, x_shape, maps, pad", [(3, *case) for case in CASES] + [(5, *case) for case in WIDE_CASES]
)


def draw(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape, "f")


def correlate(x, weight, pad):
    x = np.pad(x.astype("d"), [(0, 0), (0, 0), (pad[0], pad[0]), (pad[1], pad[1])])
    seen = np.lib.stride_tricks.sliding_window_view(x, weight.shape[2:], (2, 3))
    return np.einsum("nchwrs,kcrs->nkhw", seen, weight.astype("d"), optimize=True)


def geometry_of(pad, **changes):
    return {"base_axis": 1, "pad": pad, "stride": (1, 1), "dilation": (1, 1), "group": 1, **changes}


def note(make_call, x_shape, w_shape, pad, **changes):
    x, weight = np.zeros(x_shape, "f"), np.zeros(w_shape, "f")
    geometry = geometry_of(pad, **changes)
    sizes = [
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, p, d, k, s in zip(x_shape[2:], pad, geometry["dilation"], w_shape[2:], geometry["stride"], strict=True)
    ]
    y = np.zeros((x_shape[0], w_shape[0], *sizes), "f")
    return convolution.prepare(make_call("Convolution", [x, weight, None], [y], **geometry)).note


@sides
@pytest.mark.parametrize("with_bias", [True, False])
def test_forward(run, make_call, parts, side, x_shape, maps, pad, with_bias):
    weight = draw(1, maps, x_shape[1], side, side) / np.float32(side * x_shape[1] ** 0.5)  # y is of scale 1
    x, bias = draw(0, *x_shape), draw(2, maps) if with_bias else None
    expected = correlate(x, weight, pad)
    if bias is not None:
        expected += bias[:, None, None]
    y = np.full(expected.shape, np.nan, "f")
    assert note(make_call, x_shape, weight.shape, pad).startswith(f"winograd {7 - side}x{7 - side}")
    assert run(convolution, "Convolution", [x, weight, bias], [y], parts=parts, **geometry_of(pad)) == 0
    np.testing.assert_allclose(y, expected, atol=5e-5)


@sides
def test_gradient_with_respect_to_the_input(run, parts, side, x_shape, maps, pad):
    weight = draw(1, maps, x_shape[1], side, side) / np.float32(side * maps**0.5)
    gy = draw(3, x_shape[0], maps, *(n + 2 * p - side + 1 for n, p in zip(x_shape[2:], pad, strict=True)))
    gx = np.full(x_shape, np.nan, "f")
    code = run(
        convolution, "ConvolutionDataGrad", [gy, weight], [gx], parts=parts, shape=x_shape[2:], **geometry_of(pad)
    )
    assert code == 0
    expected = correlate(gy, weight.swapaxes(0, 1)[:, :, ::-1, ::-1], tuple(side - 1 - p for p in pad))
    np.testing.assert_allclose(gx, expected, atol=5e-5)


@pytest.mark.parametrize(
    "x_shape, w_shape, changes",
    [
        ((4, 7, 8, 8), (16, 7, 3, 3), {}),
        ((4, 5, 8, 8), (64, 5, 3, 3), {}),
        ((4, 96, 8, 8), (2, 96, 3, 3), {}),  # lanes in vain
        ((1, 16, 8, 4), (16, 16, 3, 3), {}),  # 2 tiles
        ((1, 256, 8, 8), (128, 256, 3, 3), {}),  # 4 tiles, many weights
        ((9, 16, 6, 2), (16, 16, 3, 3), {}),  # 32 results for 12
        ((4, 16, 16, 16), (16, 16, 3, 3), {"stride": (2, 2)}),
        ((4, 16, 16, 16), (16, 16, 3, 3), {"dilation": (2, 2)}),
        ((4, 32, 8, 8), (32, 8, 3, 3), {"group": 4}),
        ((4, 16, 8, 8), (16, 16, 3, 1), {}),
        ((4, 16, 8, 8), (16, 16, 5, 3), {}),
        ((9, 16, 3, 3), (16, 16, 5, 5), {}),  # 4 results for one
        ((4, 16, 16, 16), (16, 16, 5, 5), {"stride": (2, 2)}),
    ],
)
def test_the_rest_is_computed_directly(make_call, x_shape, w_shape, changes):
    assert note(make_call, x_shape, w_shape, (1, 1), **changes).startswith("direct")


def test_groups_are_taken_one_by_one(make_call):
    found = note(make_call, (4, 64, 8, 8), (64, 32, 3, 3), (1, 1), group=2)
    assert found.startswith("group by group, ")
    assert "images at once: winograd 4x4" in found


def test_it_can_be_switched_off(make_call, monkeypatch):
    monkeypatch.setattr(winograd, "ENABLED", False)
    assert note(make_call, (4, 16, 8, 8), (16, 16, 3, 3), (1, 1)).startswith("direct")


def test_a_nan_reaches_every_result_that_sees_it(run):
    x, weight = draw(0, 3, 16, 8, 8), draw(1, 16, 16, 3, 3)
    x[1, 3, 4, 5] = np.nan
    y = np.zeros((3, 16, 8, 8), "f")
    assert run(convolution, "Convolution", [x, weight, None], [y], **geometry_of((1, 1))) == 0
    assert np.isnan(y[1, :, 3:6, 4:7]).all()
    assert not np.isnan(y[[0, 2]]).any()


@all_cases
def test_gradient_with_respect_to_the_weight(run, make_call, parts, x_shape, maps, pad):
    images = 3 * x_shape[0]
    x = draw(0, images, *x_shape[1:])
    gy = draw(3, images, maps, *(n + 2 * p - 2 for n, p in zip(x_shape[2:], pad, strict=True)))
    gy /= np.float32((gy.size / maps) ** 0.5)  # gw is of scale 1
    gw = np.full((maps, x_shape[1], 3, 3), np.nan, "f")
    geometry = geometry_of(pad, kernel=(3, 3))
    call = make_call("ConvolutionWeightGrad", [x, gy], [gw], **geometry)
    assert convolution_weight.prepare(call).note.startswith("winograd 4x4")
    assert run(convolution_weight, "ConvolutionWeightGrad", [x, gy], [gw], parts=parts, **geometry) == 0
    seen = np.pad(x.astype("d"), [(0, 0), (0, 0), (pad[0], pad[0]), (pad[1], pad[1])])
    seen = np.lib.stride_tricks.sliding_window_view(seen, (3, 3), (2, 3))
    expected = np.einsum("nchwrs,nkhw->kcrs", seen, gy.astype("d"), optimize=True)
    np.testing.assert_allclose(gw, expected, atol=5e-5)


@all_cases
def test_double(run, x_shape, maps, pad):
    x, weight = draw(0, *x_shape).astype("d"), draw(1, maps, x_shape[1], 3, 3).astype("d") / (3 * x_shape[1] ** 0.5)
    expected = correlate(x, weight, pad)
    y, gx, gw = np.full(expected.shape, np.nan), np.full(x_shape, np.nan), np.full(weight.shape, np.nan)
    gy = draw(3, *y.shape).astype("d") / x_shape[0] ** 0.5
    geometry = geometry_of(pad)
    assert run(convolution, "Convolution", [x, weight, None], [y], parts=2, **geometry) == 0
    assert run(convolution, "ConvolutionDataGrad", [gy, weight], [gx], parts=2, shape=x_shape[2:], **geometry) == 0
    assert run(convolution_weight, "ConvolutionWeightGrad", [x, gy], [gw], parts=2, kernel=(3, 3), **geometry) == 0
    # As those of float32, in units of the last place.
    np.testing.assert_allclose(y, expected, atol=1e-13)
    expected = correlate(gy, weight.swapaxes(0, 1)[:, :, ::-1, ::-1], tuple(2 - p for p in pad))
    np.testing.assert_allclose(gx, expected, atol=2e-13)
    seen = np.pad(x, [(0, 0), (0, 0), (pad[0], pad[0]), (pad[1], pad[1])])
    seen = np.lib.stride_tricks.sliding_window_view(seen, (3, 3), (2, 3))
    expected = np.einsum("nchwrs,nkhw->kcrs", seen, gy, optimize=True)
    np.testing.assert_allclose(gw, expected, atol=1e-13 * np.prod(gy.shape[2:]) ** 0.5)


@pytest.mark.parametrize(("x_shape", "maps", "pad"), WIDE_CASES)
def test_double_by_wide_kernels(run, x_shape, maps, pad):
    x, weight = draw(0, *x_shape).astype("d"), draw(1, maps, x_shape[1], 5, 5).astype("d") / (5 * x_shape[1] ** 0.5)
    expected = correlate(x, weight, pad)
    y = np.full(expected.shape, np.nan)
    assert run(convolution, "Convolution", [x, weight, None], [y], parts=2, **geometry_of(pad)) == 0
    np.testing.assert_allclose(y, expected, atol=1e-13)


@pytest.mark.skipif(host_lanes().has_short_tiles, reason="direct sums multiply all elements of the result")
def test_a_gradient_of_wide_kernels_whose_result_is_much_larger_is_computed_directly(make_call):
    gy, weight, gx = (np.zeros(shape, "f") for shape in ((4, 16, 8, 8), (16, 16, 5, 5), (4, 16, 12, 12)))
    call = make_call("ConvolutionDataGrad", [gy, weight], [gx], shape=(12, 12), **geometry_of((0, 0)))
    assert convolution.prepare(call).note.startswith("direct")


@pytest.mark.parametrize("flag", ["deterministic", "local_errors"])
@pytest.mark.parametrize("groups", [1, 2])
def test_contexts_may_have_direct_sums_only(make_call, flag, groups):
    x, weight, y = (np.zeros(shape, "f") for shape in ((8, 32, 8, 8), (32, 32 // groups, 3, 3), (8, 32, 8, 8)))
    geometry = {**geometry_of((1, 1)), "group": groups}
    call = make_call("Convolution", [x, weight, None], [y], **geometry)
    weight_call = make_call("ConvolutionWeightGrad", [x, y], [weight], kernel=(3, 3), **geometry)
    preparing = (convolution, call), (convolution_weight, weight_call)
    assert all("winograd" in module.prepare(each).note for module, each in preparing)
    setattr(call, flag, True)
    setattr(weight_call, flag, True)
    notes = [module.prepare(each).note for module, each in preparing]
    assert all("winograd" not in note and note.endswith(f", for {flag}") for note in notes)
