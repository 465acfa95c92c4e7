"""Deconvolution and its depthwise form: the definition, and what they have to do with convolution."""

import itertools

import numpy as np
import pytest

CASES = [
    ((2, 6, 4, 3), (6, 2, 3, 2), {"pad": (1, 0), "stride": (2, 1), "dilation": (1, 2), "group": 2}),
    ((2, 3, 4), (3, 4, 3), {"pad": (2,), "stride": (3,)}),
    ((1, 2, 3, 2, 3), (2, 2, 2, 3, 2), {"pad": (1, 0, 1)}),
]


def by_definition(x, weight, pad=None, stride=None, dilation=None, group=1):
    """Every element of x puts its multiple of the kernel into y; what lies in the padding is cut off."""
    axes = x.ndim - 2
    pad, stride, dilation = pad or (0,) * axes, stride or (1,) * axes, dilation or (1,) * axes
    channels, depth, *kernel = weight.shape
    sizes = [s * (n - 1) + d * (k - 1) + 1 for n, k, s, d in zip(x.shape[2:], kernel, stride, dilation, strict=True)]
    y = np.zeros((len(x), depth * group, *sizes))
    for n, c, *i in itertools.product(*map(range, x.shape)):
        first = c // (channels // group) * depth
        taps = tuple(
            slice(a * s, a * s + d * (k - 1) + 1, d) for a, s, d, k in zip(i, stride, dilation, kernel, strict=True)
        )
        y[(n, slice(first, first + depth), *taps)] += x[(n, c, *i)] * weight[c]
    return y[(..., *(slice(p, n - p) for p, n in zip(pad, sizes, strict=True)))]


@pytest.mark.parametrize(("x_shape", "w_shape", "attributes"), CASES)
def test_equals_its_definition(reference, x_shape, w_shape, attributes):
    rng = np.random.default_rng(0)
    x, weight = rng.standard_normal(x_shape), rng.standard_normal(w_shape)
    expected = by_definition(x, weight, **attributes)
    bias = rng.standard_normal(expected.shape[1])
    y = reference("Deconvolution", x, weight, bias, **attributes)
    np.testing.assert_allclose(y, expected + bias.reshape(-1, *(1 for _ in x_shape[2:])), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("x_shape", "w_shape", "attributes"), CASES)
def test_is_the_adjoint_of_convolution(reference, x_shape, w_shape, attributes):
    rng = np.random.default_rng(1)
    x, weight = rng.standard_normal(x_shape), rng.standard_normal(w_shape)
    y = reference("Deconvolution", x, weight, None, **attributes)
    other = rng.standard_normal(y.shape)
    np.testing.assert_allclose(
        np.vdot(y, other), np.vdot(x, reference("Convolution", other, weight, None, **attributes))
    )


@pytest.mark.parametrize("multiplier", [1, 2])
def test_depthwise_convolution_filters_each_channel_by_itself(reference, multiplier):
    rng = np.random.default_rng(2)
    x, weight = rng.standard_normal((2, 3, 6, 5)), rng.standard_normal((3 * multiplier, 3, 2))
    bias = rng.standard_normal(3 * multiplier)
    geometry = {"pad": (1, 2), "stride": (2, 1), "dilation": (1, 2)}
    y = reference("DepthwiseConvolution", x, weight, bias, multiplier=multiplier, **geometry)
    for o, kernel in enumerate(weight):
        channel = x[:, [o // multiplier]]
        one = reference("Convolution", channel, kernel[np.newaxis, np.newaxis], bias[[o]], **geometry)
        np.testing.assert_allclose(y[:, [o]], one, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("divisor", [1, 2, 6])
def test_depthwise_deconvolution_adds_neighbouring_channels(reference, divisor):
    rng = np.random.default_rng(3)
    x, weight = rng.standard_normal((2, 6, 4, 5)), rng.standard_normal((6, 3, 2))
    bias = rng.standard_normal(6 // divisor)
    geometry = {"pad": (1, 2), "stride": (2, 1), "dilation": (1, 2)}
    y = reference("DepthwiseDeconvolution", x, weight, bias, divisor=divisor, **geometry)
    for o in range(6 // divisor):
        channels = range(o * divisor, (o + 1) * divisor)
        one = sum(by_definition(x[:, [c]], weight[c][np.newaxis, np.newaxis], **geometry) for c in channels)
        np.testing.assert_allclose(y[:, [o]], one + bias[o], rtol=1e-12, atol=1e-12)


def test_base_axis_counts_batch_axes(reference):
    rng = np.random.default_rng(4)
    x, weight, bias = rng.standard_normal((2, 3, 4, 5, 5)), rng.standard_normal((4, 2, 3, 3)), rng.standard_normal(2)
    y = reference("Deconvolution", x, weight, bias, base_axis=2)
    flat = reference("Deconvolution", x.reshape(6, 4, 5, 5), weight, bias)
    np.testing.assert_array_equal(y, flat.reshape(2, 3, 2, 7, 7))
