"""Convolution: the definition, and gradients that are adjoints of it."""

import itertools

import numpy as np
import pytest

CASES = [
    ((2, 4, 6, 5), (6, 2, 3, 2), {"pad": (1, 2), "stride": (2, 1), "dilation": (1, 2), "group": 2}),
    ((2, 3, 7), (4, 3, 3), {"pad": (2,), "stride": (3,)}),
    ((1, 2, 3, 4, 3), (2, 2, 2, 3, 2), {"pad": (1, 0, 1)}),
]


def by_definition(x, weight, pad, stride, dilation, group):
    """The sum of the docstring, one output element at a time."""
    axes = x.ndim - 2
    pad, stride, dilation = pad or (0,) * axes, stride or (1,) * axes, dilation or (1,) * axes
    padded = np.pad(x, [(0, 0), (0, 0), *((p, p) for p in pad)])
    kernel = weight.shape[2:]
    counts = [
        (n - (d * (k - 1) + 1)) // s + 1 for n, k, s, d in zip(padded.shape[2:], kernel, stride, dilation, strict=True)
    ]
    maps, depth = weight.shape[:2]
    y = np.zeros((len(x), maps, *counts))
    for n, o, *i in itertools.product(*map(range, y.shape)):
        first = o // (maps // group) * depth
        taps = tuple(
            slice(a * s, a * s + d * (k - 1) + 1, d) for a, s, d, k in zip(i, stride, dilation, kernel, strict=True)
        )
        y[(n, o, *i)] = np.sum(padded[(n, slice(first, first + depth), *taps)] * weight[o])
    return y


@pytest.mark.parametrize(("x_shape", "w_shape", "attributes"), CASES)
def test_equals_its_definition(reference, x_shape, w_shape, attributes):
    rng = np.random.default_rng(0)
    x, weight = rng.standard_normal(x_shape), rng.standard_normal(w_shape)
    full = {"pad": None, "stride": None, "dilation": None, "group": 1} | attributes
    y = reference("Convolution", x, weight, None, **attributes)
    np.testing.assert_allclose(y, by_definition(x, weight, **full), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("x_shape", "w_shape", "attributes"), CASES)
def test_gradients_are_adjoints(reference, x_shape, w_shape, attributes):
    rng = np.random.default_rng(1)
    x, weight = rng.standard_normal(x_shape), rng.standard_normal(w_shape)
    y = reference("Convolution", x, weight, None, **attributes)
    gy = rng.standard_normal(y.shape)
    gx = reference("ConvolutionDataGrad", gy, weight, shape=x_shape[2:], **attributes)
    gw = reference("ConvolutionWeightGrad", x, gy, kernel=w_shape[2:], **attributes)
    np.testing.assert_allclose(np.vdot(gx, x), np.vdot(gy, y))
    np.testing.assert_allclose(np.vdot(gw, weight), np.vdot(gy, y))


def test_base_axis_counts_batch_axes(reference):
    rng = np.random.default_rng(2)
    x, weight, bias = rng.standard_normal((2, 3, 4, 5, 5)), rng.standard_normal((2, 4, 3, 3)), rng.standard_normal(2)
    y = reference("Convolution", x, weight, bias, base_axis=2)
    flat = reference("Convolution", x.reshape(6, 4, 5, 5), weight, bias)
    np.testing.assert_array_equal(y, flat.reshape(y.shape))
