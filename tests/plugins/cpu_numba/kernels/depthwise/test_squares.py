"""Depthwise convolution, its gradients and the deconvolutions against windows in NumPy in float64."""

import numpy as np
import pytest

from atled_cpu_numba.kernels.convolution import choice as convolution
from atled_cpu_numba.kernels.convolution import weight as convolution_weight
from atled_cpu_numba.kernels.depthwise import planes as depthwise_planes
from atled_cpu_numba.kernels.depthwise import squares as depthwise
from atled_cpu_numba.kernels.depthwise import strided as depthwise_strided

# images, channels, sizes, multiplier, pad
CASES = [
    (2, 3, (8, 8), 1, (1, 1)),
    (2, 3, (9, 30), 1, (1, 1)),
    (3, 2, (5, 37), 3, (1, 1)),
    (1, 4, (3, 3), 2, (0, 0)),
    (2, 2, (1, 40), 1, (1, 0)),
    (2, 2, (7, 16), 2, (2, 2)),
    (2, 2, (6, 1), 1, (0, 2)),
    (1, 5, (20, 64), 1, (0, 1)),
    (2, 2, (6, 56), 1, (1, 1)),
    (1, 2, (5, 73), 2, (1, 2)),
]
all_cases = pytest.mark.parametrize("images, channels, sizes, multiplier, pad", CASES)


@pytest.fixture(params=[True, False], ids=["in the caches", "beyond"], autouse=True)
def in_caches(request, monkeypatch):
    """Results that stay in the caches are computed by `planes`, with little padding."""
    if not request.param:
        monkeypatch.setattr(depthwise_planes, "STREAMED_BYTES", 0)


def draw(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape, "f")


def windows_of(x, pad):
    """(N, C, H, W) -> (N, C, T..., 3, 3)."""
    x = np.pad(x.astype("d"), [(0, 0), (0, 0), *((p, p) for p in pad)])
    return np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))


def filtered(x, weight, multiplier, pad):
    """x: (N, C, H, W), weight: (C multiplier, 3, 3)."""
    return np.einsum("nkhwrs,krs->nkhw", windows_of(x, pad).repeat(multiplier, axis=1), weight.astype("d"))


def geometry_of(pad, **more):
    return {"base_axis": 1, "pad": pad, "stride": (1, 1), "dilation": (1, 1), **more}


@all_cases
@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize("op", ["Convolution", "DepthwiseConvolution"])
def test_forward(run, parts, op, images, channels, sizes, multiplier, pad, with_bias):
    x, weight = draw(0, images, channels, *sizes), draw(1, channels * multiplier, 3, 3)
    bias = draw(2, channels * multiplier) if with_bias else None
    expected = filtered(x, weight, multiplier, pad)
    if bias is not None:
        expected += bias[:, None, None]
    y = np.full(expected.shape, np.nan, "f")
    if op == "Convolution":
        weight, grouping = weight[:, None], {"group": channels}
    else:
        grouping = {"multiplier": multiplier}
    assert run(convolution, op, [x, weight, bias], [y], parts=parts, **geometry_of(pad, **grouping)) == 0
    np.testing.assert_allclose(y, expected, atol=1e-5)


@all_cases
@pytest.mark.parametrize("op", ["ConvolutionDataGrad", "Deconvolution", "DepthwiseDeconvolution"])
def test_adjoint(run, parts, op, images, channels, sizes, multiplier, pad):
    maps = channels * multiplier
    weight = draw(1, maps, 3, 3)
    gy = draw(3, images, maps, *(n + 2 * p - 2 for n, p in zip(sizes, pad, strict=True)))
    turned = weight[:, ::-1, ::-1]
    terms = filtered(gy, turned, 1, tuple(2 - p for p in pad))
    expected = terms.reshape(images, channels, multiplier, *sizes).sum(axis=2)
    gx = np.full(expected.shape, np.nan, "f")
    if op == "ConvolutionDataGrad":
        inputs, grouping = [gy, weight[:, None]], {"group": channels, "shape": sizes}
    else:
        bias = draw(2, channels)
        expected += bias[:, None, None]
        by_divisor = op == "DepthwiseDeconvolution"
        inputs = [gy, weight if by_divisor else weight[:, None], bias]
        grouping = {"divisor": multiplier} if by_divisor else {"group": channels}
    assert run(convolution, op, inputs, [gx], parts=parts, **geometry_of(pad, **grouping)) == 0
    np.testing.assert_allclose(gx, expected, atol=2e-5)


@all_cases
def test_gradient_with_respect_to_the_weight(run, parts, images, channels, sizes, multiplier, pad):
    maps = channels * multiplier
    x = draw(0, images, channels, *sizes)
    gy = draw(3, images, maps, *(n + 2 * p - 2 for n, p in zip(sizes, pad, strict=True)))
    gw = np.full((maps, 1, 3, 3), np.nan, "f")
    geometry = geometry_of(pad, group=channels, kernel=(3, 3))
    assert run(convolution_weight, "ConvolutionWeightGrad", [x, gy], [gw], parts=parts, **geometry) == 0
    expected = np.einsum("nkhwrs,nkhw->krs", windows_of(x, pad).repeat(multiplier, axis=1), gy.astype("d"))
    np.testing.assert_allclose(gw[:, 0], expected, atol=2e-4)


def test_windows_may_lie_wholly_in_the_padding(run):
    x, weight = draw(0, 1, 2, 5, 40), draw(1, 2, 3, 3)
    pad = (4, 37)
    expected = filtered(x, weight, 1, pad)
    y, gw = np.full(expected.shape, np.nan, "f"), np.full((2, 1, 3, 3), np.nan, "f")
    assert run(convolution, "DepthwiseConvolution", [x, weight, None], [y], **geometry_of(pad, multiplier=1)) == 0
    np.testing.assert_allclose(y, expected, atol=1e-5)
    gy = draw(3, *expected.shape)
    geometry = geometry_of(pad, group=2, kernel=(3, 3))
    assert run(convolution_weight, "ConvolutionWeightGrad", [x, gy], [gw], **geometry) == 0
    np.testing.assert_allclose(gw[:, 0], np.einsum("nkhwrs,nkhw->krs", windows_of(x, pad), gy.astype("d")), atol=2e-4)


@all_cases
@pytest.mark.parametrize("past", [False, True])
def test_double(run, monkeypatch, images, channels, sizes, multiplier, pad, past):
    if past:
        monkeypatch.setattr(depthwise, "STREAMED_BYTES", 0)
        monkeypatch.setattr(depthwise, "_BAND_BYTES", 8 * 5 * sizes[1])
    x, weight = draw(0, images, channels, *sizes).astype("d"), draw(1, channels * multiplier, 3, 3).astype("d")
    expected = filtered(x, weight, multiplier, pad)
    y, gw = np.full(expected.shape, np.nan), np.full(weight[:, None].shape, np.nan)
    geometry = geometry_of(pad, multiplier=multiplier)
    assert run(convolution, "DepthwiseConvolution", [x, weight, None], [y], parts=2, **geometry) == 0
    np.testing.assert_allclose(y, expected, atol=2e-14)
    gy, geometry = draw(3, *y.shape).astype("d"), geometry_of(pad, group=channels, kernel=(3, 3))
    assert run(convolution_weight, "ConvolutionWeightGrad", [x, gy], [gw], parts=2, **geometry) == 0
    seen = windows_of(x, pad).repeat(multiplier, axis=1)
    np.testing.assert_allclose(gw[:, 0], np.einsum("nkhwrs,nkhw->krs", seen, gy), atol=4e-13)


@all_cases
def test_past_the_caches(run, parts, monkeypatch, images, channels, sizes, multiplier, pad):
    monkeypatch.setattr(depthwise, "STREAMED_BYTES", 0)
    monkeypatch.setattr(depthwise, "_BAND_BYTES", 4 * 5 * sizes[1])
    x, weight = draw(0, images, channels, *sizes), draw(1, channels * multiplier, 3, 3)
    expected = filtered(x, weight, multiplier, pad)
    y = np.full(expected.shape, np.nan, "f")
    grouping = {"multiplier": multiplier}
    assert (
        run(convolution, "DepthwiseConvolution", [x, weight, None], [y], parts=parts, **geometry_of(pad, **grouping))
        == 0
    )
    np.testing.assert_allclose(y, expected, atol=1e-5)


def test_a_nan_reaches_the_results_that_see_it_and_no_others(run):
    x, weight = draw(0, 1, 2, 9, 20), draw(1, 2, 3, 3)
    x[0, 1, 4, 17] = np.nan
    y = np.zeros((1, 2, 9, 20), "f")
    assert run(convolution, "DepthwiseConvolution", [x, weight, None], [y], **geometry_of((1, 1), multiplier=1)) == 0
    expected = np.zeros((1, 2, 9, 20), bool)
    expected[0, 1, 3:6, 16:19] = True
    np.testing.assert_array_equal(np.isnan(y), expected)


# images, channels, sizes, multiplier, kernel, pad
STRIDED = [
    (2, 3, (8, 8), 1, 3, (1, 1)),
    (3, 2, (9, 31), 1, 3, (0, 1)),
    (2, 2, (5, 70), 3, 3, (1, 0)),
    (1, 4, (3, 3), 2, 3, (0, 0)),
    (2, 2, (1, 40), 1, 3, (2, 2)),
    (2, 2, (17, 1), 1, 3, (5, 4)),
    (2, 3, (8, 33), 1, 5, (2, 2)),
    (1, 5, (11, 64), 1, 5, (1, 3)),
    (2, 2, (6, 5), 2, 5, (0, 0)),
    (2, 2, (2, 98), 1, 5, (3, 4)),
]
strided_cases = pytest.mark.parametrize("images, channels, sizes, multiplier, kernel, pad", STRIDED)


def strided_windows(x, kernel, pad):
    """(N, C, H, W) -> (N, C, T..., K, K), every second window."""
    x = np.pad(x.astype("d"), [(0, 0), (0, 0), *((p, p) for p in pad)])
    return np.lib.stride_tricks.sliding_window_view(x, (kernel, kernel), (2, 3))[:, :, ::2, ::2]


def strided_adjoint(gy, weight, multiplier, sizes, pad):
    kernel = weight.shape[-1]
    padded = np.zeros((*gy.shape[:2], *(n + 2 * p for n, p in zip(sizes, pad, strict=True))))
    rows, columns = gy.shape[2:]
    for r, s in np.ndindex(kernel, kernel):
        seen = padded[:, :, r : r + 2 * rows - 1 : 2, s : s + 2 * columns - 1 : 2]
        seen += gy * weight[:, r, s, None, None].astype("d")
    inside = padded[:, :, pad[0] : pad[0] + sizes[0], pad[1] : pad[1] + sizes[1]]
    return inside.reshape(gy.shape[0], -1, multiplier, *sizes).sum(axis=2)


def outputs_of(x, kernel, pad, multiplier):
    images, channels, rows, columns = strided_windows(x, kernel, pad).shape[:4]
    return images, channels * multiplier, rows, columns


@strided_cases
@pytest.mark.parametrize("op", ["ConvolutionDataGrad", "Deconvolution", "DepthwiseDeconvolution"])
def test_adjoint_with_strides_of_2(run, parts, op, images, channels, sizes, multiplier, kernel, pad):
    maps = channels * multiplier
    weight = draw(1, maps, kernel, kernel)
    gy = draw(3, *outputs_of(draw(0, images, channels, *sizes), kernel, pad, multiplier))
    if op != "ConvolutionDataGrad":  # whose sizes are the smallest that have so many windows
        sizes = tuple(2 * (n - 1) + kernel - 2 * p for n, p in zip(gy.shape[2:], pad, strict=True))
        if min(sizes) < 1:
            pytest.skip("nothing but padding")
    expected = strided_adjoint(gy, weight, multiplier, sizes, pad)
    gx = np.full(expected.shape, np.nan, "f")
    geometry = geometry_of(pad) | {"stride": (2, 2)}
    if op == "ConvolutionDataGrad":
        inputs, grouping = [gy, weight[:, None]], {"group": channels, "shape": sizes}
    else:
        bias = draw(2, channels)
        expected += bias[:, None, None]
        by_divisor = op == "DepthwiseDeconvolution"
        inputs = [gy, weight if by_divisor else weight[:, None], bias]
        grouping = {"divisor": multiplier} if by_divisor else {"group": channels}
    assert run(convolution, op, inputs, [gx], parts=parts, **geometry, **grouping) == 0
    np.testing.assert_allclose(gx, expected, atol=2e-5)


@strided_cases
@pytest.mark.parametrize("past", [False, True])
def test_gradients_with_strides_of_2_in_double(
    run, monkeypatch, images, channels, sizes, multiplier, kernel, pad, past
):
    if past:
        monkeypatch.setattr(depthwise_strided, "STREAMED_BYTES", 0)
    x = draw(0, images, channels, *sizes).astype("d")
    weight = draw(1, channels * multiplier, 1, kernel, kernel).astype("d")
    gy = draw(3, *outputs_of(x, kernel, pad, multiplier)).astype("d")
    gx, gw = np.full(x.shape, np.nan), np.full(weight.shape, np.nan)
    geometry = geometry_of(pad, group=channels) | {"stride": (2, 2)}
    assert run(convolution, "ConvolutionDataGrad", [gy, weight], [gx], parts=2, shape=sizes, **geometry) == 0
    np.testing.assert_allclose(gx, strided_adjoint(gy, weight[:, 0], multiplier, sizes, pad), atol=4e-14)
    kernel_sizes = {"kernel": (kernel, kernel), **geometry}
    assert run(convolution_weight, "ConvolutionWeightGrad", [x, gy], [gw], parts=2, **kernel_sizes) == 0
    seen = strided_windows(x, kernel, pad).repeat(multiplier, axis=1)
    np.testing.assert_allclose(gw[:, 0], np.einsum("nkhwrs,nkhw->krs", seen, gy), atol=4e-13)


@strided_cases
def test_adjoint_with_strides_of_2_past_the_caches(
    run, make_call, parts, monkeypatch, images, channels, sizes, multiplier, kernel, pad
):
    monkeypatch.setattr(depthwise_strided, "STREAMED_BYTES", 0)
    weight = draw(1, channels * multiplier, kernel, kernel)
    gy = draw(3, *outputs_of(draw(0, images, channels, *sizes), kernel, pad, multiplier))
    expected = strided_adjoint(gy, weight, multiplier, sizes, pad)
    gx = np.full(expected.shape, np.nan, "f")
    geometry = geometry_of(pad, group=channels, shape=sizes) | {"stride": (2, 2)}
    call = make_call("ConvolutionDataGrad", [gy, weight[:, None]], [gx], **geometry)
    assert convolution.prepare(call).note.endswith("past the caches")
    assert run(convolution, "ConvolutionDataGrad", [gy, weight[:, None]], [gx], parts=parts, **geometry) == 0
    np.testing.assert_allclose(gx, expected, atol=2e-5)


@strided_cases
def test_gradient_with_respect_to_the_weight_with_strides_of_2(
    run, parts, images, channels, sizes, multiplier, kernel, pad
):
    x = draw(0, images, channels, *sizes)
    gy = draw(3, *outputs_of(x, kernel, pad, multiplier))
    gw = np.full((channels * multiplier, 1, kernel, kernel), np.nan, "f")
    geometry = geometry_of(pad, group=channels, kernel=(kernel, kernel)) | {"stride": (2, 2)}
    assert run(convolution_weight, "ConvolutionWeightGrad", [x, gy], [gw], parts=parts, **geometry) == 0
    seen = strided_windows(x, kernel, pad).repeat(multiplier, axis=1)
    np.testing.assert_allclose(gw[:, 0], np.einsum("nkhwrs,nkhw->krs", seen, gy.astype("d")), atol=2e-4)


def test_strides_of_2_have_kernels_of_their_own_unless_the_planes_are_large(make_call):
    def notes(size):
        x, gy, weight = (
            np.empty(shape, "f") for shape in ((1, 2, size, size), (1, 2, size // 2, size // 2), (2, 1, 3, 3))
        )
        geometry = geometry_of((1, 1), group=2) | {"stride": (2, 2)}
        adjoint = make_call("ConvolutionDataGrad", [gy, weight], [x], shape=(size, size), **geometry)
        gradient = make_call("ConvolutionWeightGrad", [x, gy], [weight], kernel=(3, 3), **geometry)
        return convolution.prepare(adjoint).note, convolution_weight.prepare(gradient).note

    assert notes(64) == ("depthwise, phases of strides in vectors",) * 2
    assert "depthwise, phases of strides in vectors" not in notes(1024)


def test_with_strides_of_2_a_nan_reaches_the_gradients_that_see_it_and_no_others(run):
    gy, weight = draw(0, 1, 2, 9, 20), draw(1, 2, 1, 3, 3)
    gy[0, 1, 4, 19] = np.nan
    gx = np.zeros((1, 2, 18, 40), "f")
    geometry = geometry_of((1, 1), group=2, shape=(18, 40)) | {"stride": (2, 2)}
    assert run(convolution, "ConvolutionDataGrad", [gy, weight], [gx], **geometry) == 0
    expected = np.zeros(gx.shape, bool)
    expected[0, 1, 7:10, 37:40] = True
    np.testing.assert_array_equal(np.isnan(gx), expected)


@pytest.mark.parametrize("stride, dilation", [((2, 3), (1, 1)), ((1, 2), (2, 1)), ((3, 2), (1, 2))])
def test_deconvolution_with_strides_adds_the_bias_everywhere(run, parts, stride, dilation):
    x, weight, bias = draw(0, 2, 4, 3, 5), draw(1, 4, 3, 2, 2), draw(2, 6)
    sizes = [s * (n - 1) + d + 1 for n, s, d in zip((3, 5), stride, dilation, strict=True)]
    expected = np.zeros((2, 6, *sizes)) + bias[:, None, None]
    for r, s in np.ndindex(2, 2):
        rows = slice(r * dilation[0], r * dilation[0] + 3 * stride[0], stride[0])
        columns = slice(s * dilation[1], s * dilation[1] + 5 * stride[1], stride[1])
        for group in (0, 1):
            own = slice(2 * group, 2 * group + 2)
            terms = np.einsum("nchw,co->nohw", x[:, own].astype("d"), weight[own, :, r, s])
            # Slices may begin inside and end outside: the windows fit exactly.
            expected[:, 3 * group : 3 * group + 3, rows, columns][..., :3, :5] += terms
    y = np.full(expected.shape, np.nan, "f")
    geometry = {"base_axis": 1, "pad": (0, 0), "stride": stride, "dilation": dilation, "group": 2}
    assert run(convolution, "Deconvolution", [x, weight, bias], [y], parts=parts, **geometry) == 0
    np.testing.assert_allclose(y, expected, atol=1e-5)
