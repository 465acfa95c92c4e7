"""Convolution and its gradients against windows in NumPy in float64, and against finite identities."""

from types import SimpleNamespace

import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled_contexts import Context
from atled_cpu_numba import pool
from atled_cpu_numba.kernels.convolution import choice as convolution
from atled_cpu_numba.kernels.convolution import pointwise, rows, weight_dots
from atled_cpu_numba.kernels.convolution import slices as convolution_slices
from atled_cpu_numba.kernels.convolution import weight as convolution_weight
from atled_cpu_numba.kernels.convolution import weight_slices as slices_weight
from atled_cpu_numba.kernels.convolution.problem import problem_of
from atled_cpu_numba.kernels.shared import launch as launching
from atled_cpu_numba.kernels.shared.lanes import host_lanes
from atled_cpu_numba.kernels.winograd import forward as winograd

# x, weight, pad, stride, dilation, group
CASES = [
    ((2, 3, 5, 6), (4, 3, 3, 2), (0, 0), (1, 1), (1, 1), 1),
    ((2, 3, 5, 6), (4, 3, 3, 2), (2, 1), (1, 1), (1, 1), 1),
    ((2, 4, 7, 5), (6, 2, 3, 3), (1, 0), (2, 1), (1, 1), 2),
    ((2, 2, 7, 8), (3, 2, 3, 2), (0, 2), (3, 2), (2, 3), 1),
    ((2, 3, 9), (4, 3, 3), (1,), (2,), (2,), 1),
    ((3, 4, 17), (5, 4, 3), (3,), (1,), (1,), 1),
    ((2, 3, 2, 2), (3, 1, 1, 1), (2, 1), (2, 2), (1, 1), 3),
    ((5, 3, 8, 8), (17, 3, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    ((2, 39, 8, 1), (14, 39, 5, 5), (2, 2), (1, 2), (1, 1), 1),  # planes of one column, strided
    ((2, 36, 8, 1, 8), (32, 36, 1, 2, 3), (0, 1, 2), (2, 2, 2), (2, 2, 2), 1),  # a slice that no tap reaches
    ((5, 1, 8, 8), (16, 1, 3, 3), (1, 1), (2, 2), (1, 1), 1),
    ((9, 16, 9, 9), (33, 16, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    ((2, 8, 9, 30), (8, 1, 3, 3), (1, 1), (1, 1), (1, 1), 8),
    ((2, 4, 5, 6), (8, 1, 3, 3), (1, 1), (1, 1), (1, 1), 4),
    ((2, 8, 9, 30), (16, 2, 3, 3), (1, 1), (1, 1), (1, 1), 4),
    ((3, 20, 7, 7), (30, 20, 1, 1), (0, 0), (1, 1), (1, 1), 1),
    ((3, 20, 7, 7), (30, 20, 1, 1), (0, 0), (2, 2), (1, 1), 1),
    ((3, 20, 7, 7), (70, 20, 1, 1), (0, 0), (1, 1), (1, 1), 1),
    ((2, 35, 9, 48), (17, 35, 1, 1), (0, 0), (1, 1), (1, 1), 1),
    ((2, 3, 40), (300, 3, 1), (0,), (1,), (1,), 1),
    # products that read images in place: groups, several axes and panels, positions left over from several images
    ((9, 20, 6, 6), (24, 20, 1, 1), (0, 0), (1, 1), (1, 1), 1),
    ((2, 20, 1, 64), (24, 20, 1, 1), (0, 0), (1, 1), (1, 1), 1),
    ((4, 40, 7, 9), (36, 20, 1, 1), (0, 0), (1, 1), (1, 1), 2),
    ((6, 18, 5), (21, 18, 1), (0,), (1,), (1,), 1),
    ((2, 17, 8, 16), (19, 17, 1, 1), (0, 0), (1, 1), (1, 1), 1),
    ((2, 130, 13, 9), (14, 130, 1, 1), (0, 0), (2, 1), (1, 1), 1),
    ((6, 18, 5, 8), (10, 9, 1, 1), (0, 0), (2, 3), (1, 1), 2),
    # short rows and wide kernels, whose columns are unfolded
    ((5, 3, 12, 12), (17, 3, 5, 5), (0, 0), (1, 1), (1, 1), 1),
    ((3, 2, 14, 13), (5, 2, 3, 7), (1, 2), (1, 1), (1, 1), 1),
    ((3, 2, 19, 21), (5, 2, 5, 5), (1, 3), (2, 2), (1, 1), 1),
    ((3, 2, 19, 24), (5, 2, 5, 4), (1, 4), (2, 3), (1, 3), 1),
    ((3, 4, 14, 3), (6, 2, 3, 9), (1, 8), (1, 1), (1, 1), 2),
    ((3, 2, 12), (5, 2, 5), (0,), (1,), (1,), 1),
    ((1, 2, 11, 70), (5, 2, 5, 5), (2, 2), (1, 1), (1, 1), 1),
    ((1, 2, 3, 3), (2, 2, 1, 1), (3, 3), (1, 1), (1, 1), 1),
    ((1, 2, 5, 5), (2, 2, 2, 2), (0, 0), (4, 4), (1, 1), 1),
    ((1, 1, 1, 1), (1, 1, 1, 1), (0, 0), (1, 1), (1, 1), 1),
    # rows of quartets and enough maps: maps in the lanes
    ((2, 3, 8, 12), (16, 3, 5, 5), (0, 0), (1, 1), (1, 1), 1),
    ((3, 1, 9, 20), (16, 1, 5, 5), (2, 2), (1, 1), (1, 1), 1),
    ((2, 16, 16, 16), (32, 16, 3, 3), (1, 1), (2, 2), (1, 1), 1),
    ((2, 16, 16, 16), (28, 16, 1, 1), (0, 0), (2, 2), (1, 1), 1),
    ((2, 32, 9, 8), (48, 16, 3, 3), (1, 1), (1, 1), (1, 1), 2),
    ((2, 12, 40), (13, 12, 3), (1,), (1,), (1,), 1),
    ((2, 16, 15, 32), (16, 16, 3, 4), (1, 1), (3, 2), (1, 1), 1),
    ((2, 12, 8, 24), (16, 12, 3, 3), (1, 1), (2, 3), (1, 1), 1),
    ((2, 24, 17, 16), (40, 24, 3, 3), (2, 2), (2, 2), (2, 2), 1),
    # rows of whole vectors: an odd number of them, overlapping ones, groups, dilation, one axis, the source in place
    ((3, 3, 5, 16), (20, 3, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    ((3, 3, 6, 14), (9, 3, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    ((2, 3, 6, 32), (7, 3, 3, 5), (2, 3), (1, 1), (1, 1), 1),
    ((2, 8, 4, 30), (32, 4, 5, 3), (2, 1), (1, 1), (1, 1), 2),
    ((2, 5, 9, 31), (17, 5, 3, 3), (2, 2), (1, 1), (2, 2), 1),
    ((3, 4, 48), (12, 4, 5), (2,), (1,), (1,), 1),
    ((2, 6, 7, 34), (13, 6, 3, 3), (0, 0), (1, 1), (1, 1), 1),
    ((2, 10, 3, 16), (12, 10, 1, 1), (0, 0), (1, 1), (1, 1), 1),
    # with strides: several phases, odd sizes, rows that are skipped, groups, gaps between taps
    ((2, 3, 9, 32), (24, 3, 3, 3), (1, 1), (2, 2), (1, 1), 1),
    ((2, 3, 10, 63), (31, 3, 7, 7), (3, 3), (2, 2), (1, 1), 1),
    ((1, 6, 9, 40), (16, 3, 3, 5), (0, 2), (1, 2), (1, 1), 2),
    ((2, 4, 11, 34), (24, 4, 3, 3), (2, 1), (2, 2), (2, 1), 1),
    ((2, 4, 7, 65), (16, 4, 1, 1), (0, 0), (3, 2), (1, 1), 1),
    # as many channels as lanes, in images of fewer positions
    ((3, 16, 3, 1), (16, 16, 1, 1), (0, 0), (1, 1), (1, 1), 1),
    ((2, 16, 2, 3), (16, 16, 2, 2), (1, 0), (1, 1), (1, 1), 1),
    # filters of single planes
    ((2, 3, 9, 20), (3, 1, 5, 5), (2, 2), (1, 1), (1, 1), 3),
    ((2, 3, 12, 40), (3, 1, 3, 3), (1, 1), (2, 2), (1, 1), 3),
    ((2, 3, 11, 13), (6, 1, 3, 3), (1, 1), (2, 2), (1, 1), 3),
    ((2, 2, 13, 22), (2, 1, 4, 3), (1, 2), (3, 3), (1, 1), 2),
    ((2, 2, 9, 21), (2, 1, 3, 3), (2, 2), (1, 1), (2, 2), 2),
    ((2, 2, 10, 21), (2, 1, 3, 3), (3, 2), (2, 2), (2, 2), 2),
    ((2, 2, 5, 5), (2, 1, 2, 1), (0, 0), (4, 4), (1, 1), 2),
    ((2, 4, 33), (4, 1, 7), (3,), (2,), (1,), 4),
    ((2, 3, 197), (3, 1, 7), (3,), (1,), (1,), 3),
    ((2, 3, 160), (6, 1, 5), (1,), (1,), (3,), 3),
    ((2, 2, 3, 131), (2, 1, 5, 3), (2, 1), (1, 1), (1, 1), 2),
    # filters of five and seven rows on padded planes: narrow ones, one row, strides, several results of a plane
    ((2, 3, 9, 5), (3, 1, 5, 4), (2, 1), (1, 1), (1, 1), 3),
    ((2, 3, 11, 30), (6, 1, 7, 7), (3, 3), (2, 2), (1, 1), 3),
    ((2, 2, 20, 17), (2, 1, 5, 3), (0, 4), (2, 1), (1, 1), 2),
    ((2, 2, 7, 45), (4, 1, 7, 2), (5, 0), (1, 2), (1, 1), 2),
    ((1, 2, 5, 40), (2, 1, 5, 5), (0, 0), (1, 1), (1, 1), 2),
    ((1, 2, 3, 2), (2, 1, 7, 5), (6, 6), (2, 2), (1, 1), 2),
    # long sums of many maps both ways, windows collected in panels: strides with dilation, groups, rows of one window,
    # more windows, terms and maps than at once, one axis and three
    ((3, 35, 13, 11), (38, 35, 3, 3), (1, 2), (2, 3), (2, 1), 1),
    ((3, 70, 9, 10), (66, 35, 3, 2), (2, 1), (1, 1), (2, 3), 2),
    ((5, 64, 3, 1), (33, 64, 3, 3), (2, 2), (1, 1), (2, 2), 1),
    ((2, 32, 28, 31), (250, 32, 3, 3), (1, 1), (2, 2), (1, 1), 1),
    ((2, 32, 19, 22), (40, 32, 3, 3), (1, 1), (2, 2), (1, 1), 1),
    ((2, 32, 5, 6), (40, 32, 3, 3), (1, 1), (1, 2), (1, 1), 1),
    ((3, 33, 50), (41, 33, 7), (3,), (2,), (3,), 1),
    ((2, 32, 4, 7, 9), (40, 32, 3, 3, 3), (1, 1, 1), (2, 2, 2), (1, 1, 1), 1),
    # gradients of many maps, as products of panels: a few images at once, groups, one axis and three
    ((3, 20, 9, 11), (70, 20, 3, 3), (1, 1), (2, 2), (1, 1), 1),
    ((2, 34, 30, 17), (134, 17, 3, 2), (1, 0), (1, 1), (2, 1), 2),
    ((5, 18, 140), (64, 18, 5), (2,), (3,), (1,), 1),
    ((3, 17, 4, 7, 9), (64, 17, 3, 3, 3), (1, 1, 1), (2, 2, 2), (1, 1, 1), 1),
    # channels in the lanes, windows of 5 x 5
    ((2, 16, 12, 12), (16, 16, 5, 5), (0, 0), (1, 1), (1, 1), 1),
    ((2, 28, 11, 9), (10, 14, 5, 5), (2, 1), (1, 2), (1, 1), 2),
    ((1, 40, 9, 40), (5, 40, 5, 5), (3, 2), (2, 1), (1, 1), 1),
    # channels fill a vector, images do not
    ((4, 16, 3), (16, 16, 3), (0,), (1,), (1,), 1),
    ((2, 16, 2, 5), (16, 16, 2, 3), (1, 1), (1, 1), (1, 1), 1),
    # three axes and more, slice by slice
    ((2, 3, 4, 5, 6), (4, 3, 2, 3, 2), (0, 0, 0), (1, 1, 1), (1, 1, 1), 1),
    ((2, 16, 5, 9, 9), (17, 16, 3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1), 1),
    ((3, 32, 4, 8, 8), (16, 32, 3, 3, 3), (1, 1, 1), (2, 2, 2), (1, 1, 1), 1),
    ((2, 4, 9, 7, 8), (6, 2, 3, 3, 2), (2, 1, 0), (2, 3, 1), (2, 1, 3), 2),
    ((2, 3, 7, 4, 5), (2, 3, 2, 2, 1), (0, 1, 0), (3, 1, 2), (1, 2, 1), 1),
    ((2, 4, 5, 4, 6), (8, 1, 3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1), 4),
    ((2, 6, 4, 9, 20), (6, 1, 3, 3, 3), (1, 1, 1), (1, 2, 2), (1, 1, 1), 6),
    ((2, 3, 2, 2, 2), (2, 3, 1, 1, 1), (3, 0, 1), (1, 1, 1), (1, 1, 1), 1),
    ((2, 20, 3, 4, 6), (17, 20, 1, 1, 1), (0, 0, 0), (1, 1, 1), (1, 1, 1), 1),
    ((2, 20, 5, 4, 6), (17, 20, 1, 1, 1), (0, 0, 0), (3, 2, 1), (1, 1, 1), 1),
    ((2, 8, 3, 9, 8), (16, 8, 1, 3, 3), (0, 1, 1), (1, 1, 1), (1, 1, 1), 1),
    ((2, 8, 6, 5, 4), (16, 8, 3, 1, 1), (1, 0, 0), (1, 1, 1), (1, 1, 1), 1),
    ((2, 8, 1, 9, 8), (16, 8, 1, 3, 3), (0, 1, 1), (2, 1, 1), (1, 1, 1), 1),
    ((1, 2, 3, 4, 3, 4), (3, 2, 2, 3, 1, 2), (1, 1, 0, 0), (2, 1, 1, 1), (1, 1, 1, 2), 1),
]

all_cases = pytest.mark.parametrize("x_shape, w_shape, pad, stride, dilation, group", CASES)


@pytest.fixture(autouse=True)
def direct_sums(monkeypatch):
    """What is tested here; Winograd has tests of its own. Small problems have phases of slices like large ones."""
    monkeypatch.setattr(winograd, "ENABLED", False)
    monkeypatch.setattr(convolution_slices, "_LEAST_POSITIONS", 1)
    monkeypatch.setattr(slices_weight, "_LEAST_POSITIONS", 1)


def unfold(x, kernel, pad, stride, dilation):
    """(N, C, S...) -> (N, C, T..., K...) in float64."""
    axes = len(kernel)
    x = np.pad(x.astype("d"), [(0, 0), (0, 0), *((p, p) for p in pad)])
    extents = tuple(d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True))
    seen = np.lib.stride_tricks.sliding_window_view(x, extents, tuple(range(2, 2 + axes)))
    every = [slice(None, None, s) for s in stride] + [slice(None, None, d) for d in dilation]
    return seen[(slice(None), slice(None), *every)]


def flat_windows(x, w_shape, pad, stride, dilation, group):
    """(N, group, C / group * K, T) and the shape T."""
    seen = unfold(x, w_shape[2:], pad, stride, dilation)
    axes = len(pad)
    counts = seen.shape[2 : 2 + axes]
    seen = np.moveaxis(seen, range(2 + axes, 2 + 2 * axes), range(2, 2 + axes))
    return seen.reshape(len(x), group, int(np.prod(w_shape[1:])), int(np.prod(counts))), counts


def forward(x, weight, bias, pad, stride, dilation, group):
    seen, counts = flat_windows(x, weight.shape, pad, stride, dilation, group)
    filters = weight.astype("d").reshape(group, weight.shape[0] // group, -1)
    y = (filters @ seen).reshape(len(x), weight.shape[0], *counts)
    return y if bias is None else y + bias.reshape(-1, *(1 for _ in counts))


def adjoint(gy, weight, x_shape, pad, stride, dilation, group):
    """What each element of gy adds to the elements of x that its windows see, one place of the kernel at a time."""
    gx = np.zeros((*x_shape[:2], *(n + 2 * p for n, p in zip(x_shape[2:], pad, strict=True))))
    grouped = gy.astype("d").reshape(len(gy), group, -1, np.prod(gy.shape[2:]))
    filters = weight.astype("d").reshape(group, -1, *weight.shape[1:])
    for place in np.ndindex(*weight.shape[2:]):
        added = np.einsum("ngmt,gmc->ngct", grouped, filters[(..., *place)])
        seen = tuple(
            slice(i * d, i * d + (count - 1) * s + 1, s)
            for i, d, s, count in zip(place, dilation, stride, gy.shape[2:], strict=True)
        )
        gx[(slice(None), slice(None), *seen)] += added.reshape(*x_shape[:2], *gy.shape[2:])
    inside = tuple(slice(p, p + n) for n, p in zip(x_shape[2:], pad, strict=True))
    return gx[(slice(None), slice(None), *inside)]


def draw(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape, "f")


def geometry_of(pad, stride, dilation, group):
    return {"base_axis": 1, "pad": pad, "stride": stride, "dilation": dilation, "group": group}


@all_cases
@pytest.mark.parametrize("with_bias", [True, False])
def test_forward(run, parts, x_shape, w_shape, pad, stride, dilation, group, with_bias):
    x, weight = draw(0, *x_shape), draw(1, *w_shape)
    bias = draw(2, w_shape[0]) if with_bias else None
    expected = forward(x, weight, bias, pad, stride, dilation, group)
    y = np.full(expected.shape, np.nan, "f")
    geometry = geometry_of(pad, stride, dilation, group)
    assert run(convolution, "Convolution", [x, weight, bias], [y], parts=parts, **geometry) == 0
    np.testing.assert_allclose(y, expected, atol=1e-6 * np.prod(w_shape[1:]) + 1e-6)


@all_cases
def test_gradient_with_respect_to_the_input(run, parts, x_shape, w_shape, pad, stride, dilation, group):
    x, weight = draw(0, *x_shape), draw(1, *w_shape)
    gy = draw(3, *forward(x, weight, None, pad, stride, dilation, group).shape)
    gx = np.full(x_shape, np.nan, "f")
    shape = x_shape[2:]
    geometry = geometry_of(pad, stride, dilation, group)
    assert run(convolution, "ConvolutionDataGrad", [gy, weight], [gx], parts=parts, shape=shape, **geometry) == 0
    expected = adjoint(gy, weight, x_shape, pad, stride, dilation, group)
    np.testing.assert_allclose(gx, expected, atol=1e-6 * w_shape[0] * np.prod(w_shape[2:]) + 1e-6)


@all_cases
def test_gradient_with_respect_to_the_weight(run, parts, x_shape, w_shape, pad, stride, dilation, group):
    x, weight = draw(0, *x_shape), draw(1, *w_shape)
    gy = draw(3, *forward(x, weight, None, pad, stride, dilation, group).shape)
    gw = np.full(w_shape, np.nan, "f")
    geometry = geometry_of(pad, stride, dilation, group)
    code = run(convolution_weight, "ConvolutionWeightGrad", [x, gy], [gw], parts=parts, kernel=w_shape[2:], **geometry)
    assert code == 0
    seen, counts = flat_windows(x, w_shape, pad, stride, dilation, group)
    grads = gy.astype("d").reshape(len(x), group, w_shape[0] // group, int(np.prod(counts)))
    expected = (grads @ seen.swapaxes(2, 3)).sum(axis=0).reshape(w_shape)
    np.testing.assert_allclose(gw, expected, atol=1e-6 * len(x) * np.prod(counts) + 1e-6)


@all_cases
def test_double(run, x_shape, w_shape, pad, stride, dilation, group):
    x, weight, bias = (draw(seed, *shape).astype("d") for seed, shape in enumerate((x_shape, w_shape, w_shape[:1])))
    seen, counts = flat_windows(x, w_shape, pad, stride, dilation, group)
    expected = forward(x, weight, bias, pad, stride, dilation, group)
    geometry = geometry_of(pad, stride, dilation, group)
    y, gx, gw = (np.full(shape, np.nan) for shape in (expected.shape, x_shape, w_shape))
    gy = draw(3, *y.shape).astype("d")
    assert run(convolution, "Convolution", [x, weight, bias], [y], parts=2, **geometry) == 0
    assert run(convolution, "ConvolutionDataGrad", [gy, weight], [gx], parts=2, shape=x_shape[2:], **geometry) == 0
    kernel = {"kernel": w_shape[2:], **geometry}
    assert run(convolution_weight, "ConvolutionWeightGrad", [x, gy], [gw], parts=2, **kernel) == 0
    grads = gy.reshape(len(x), group, w_shape[0] // group, int(np.prod(counts)))
    # As those of float32, in units of the last place.
    np.testing.assert_allclose(y, expected, atol=2e-15 * np.prod(w_shape[1:]) + 2e-15)
    expected = adjoint(gy, weight, x_shape, pad, stride, dilation, group)
    np.testing.assert_allclose(gx, expected, atol=2e-15 * w_shape[0] * np.prod(w_shape[2:]) + 2e-15)
    expected = (grads @ seen.swapaxes(2, 3)).sum(axis=0).reshape(w_shape)
    np.testing.assert_allclose(gw, expected, atol=2e-15 * len(x) * np.prod(counts) + 2e-15)


def test_several_batch_axes_count_as_images(run):
    x, weight = draw(0, 2, 3, 4, 5, 5), draw(1, 6, 4, 3, 3)
    y = np.empty((2, 3, 6, 3, 3), "f")
    geometry = {**geometry_of((0, 0), (1, 1), (1, 1), 1), "base_axis": 2}
    assert run(convolution, "Convolution", [x, weight, None], [y], **geometry) == 0
    expected = forward(x.reshape(6, 4, 5, 5), weight, None, (0, 0), (1, 1), (1, 1), 1)
    np.testing.assert_allclose(y.reshape(expected.shape), expected, atol=1e-4)


def test_columns_are_unfolded_where_most_positions_would_be_in_vain(make_call):
    def note(size):
        x, weight = np.zeros((4, 3, size, size), "f"), np.zeros((3, 3, 5, 5), "f")
        y = np.zeros((4, 3, size - 4, size - 4), "f")
        call = make_call("Convolution", [x, weight, None], [y], **geometry_of((0, 0), (1, 1), (1, 1), 1))
        ways = convolution.ways(problem_of(call))
        return next(way.prepare().note for way in ways if way.name == "direct")

    assert note(11).endswith("5 unfolded phases")
    assert "1 phases" in note(60)


@pytest.mark.parametrize(
    ("height", "note"), [(4, "depthwise, windows in vectors"), (5, "depthwise, 5 rows of windows in registers")]
)
def test_deconvolution_of_single_planes_adds_the_bias(run, make_call, height, note):
    x, weight, bias = draw(0, 2, 3, 12, 18), draw(1, 3, 1, height, 3), draw(2, 3)
    y = np.full((2, 3, 9 + height, 18), np.nan, "f")
    geometry = geometry_of((1, 1), (1, 1), (1, 1), 3)
    assert convolution.prepare(make_call("Deconvolution", [x, weight, bias], [y], **geometry)).note == note
    assert run(convolution, "Deconvolution", [x, weight, bias], [y], **geometry) == 0
    expected = adjoint(x, weight, y.shape, (1, 1), (1, 1), (1, 1), 3) + bias[:, None, None]
    np.testing.assert_allclose(y, expected, atol=1e-5)


@pytest.mark.skipif(host_lanes().vector < 16, reason="too few registers or lanes")
def test_deconvolution_adds_the_bias_to_windows_in_registers(run, make_call):
    x, weight, bias = draw(0, 2, 6, 8, 7), draw(1, 6, 16, 5, 5), draw(2, 16)
    y = np.full((2, 16, 10, 9), np.nan, "f")
    geometry = geometry_of((1, 1), (1, 1), (1, 1), 1)
    note = convolution.prepare(make_call("Deconvolution", [x, weight, bias], [y], **geometry)).note
    assert note == "direct, channels in lanes, windows of gx in registers"
    assert run(convolution, "Deconvolution", [x, weight, bias], [y], **geometry) == 0
    expected = adjoint(x, weight, y.shape, (1, 1), (1, 1), (1, 1), 1) + bias[:, None, None]
    np.testing.assert_allclose(y, expected, atol=1e-4)


@pytest.mark.parametrize("forward_pass", [True, False])
def test_large_weights_of_1x1_convolutions_are_multiplied_in_pieces(run, parts, monkeypatch, make_call, forward_pass):
    monkeypatch.setattr(pointwise, "_WEIGHT_BYTES", 0)
    x, weight, bias = draw(0, 5, 20, 5, 7), draw(1, 110, 20, 1, 1), draw(2, 110)
    geometry = geometry_of((0, 0), (1, 1), (1, 1), 1)
    name, inputs = "Convolution", [x, weight, bias]
    if not forward_pass:
        name, inputs = "Deconvolution", [x, np.ascontiguousarray(weight.transpose(1, 0, 2, 3)), bias]
    y = np.full((5, 110, 5, 7), np.nan, "f")
    note = convolution.prepare(make_call(name, inputs, [y], **geometry)).note
    # Its 35 positions fill vectors of four lanes: along rows, then.
    assert note.startswith("1x1, images in place") or host_lanes().vector == 4
    assert run(convolution, name, inputs, [y], parts=parts, **geometry) == 0
    np.testing.assert_allclose(y, forward(x, weight, bias, (0, 0), (1, 1), (1, 1), 1), atol=1e-4)


@pytest.mark.parametrize("maps, images, is_packed", [(110, 6, True), (110, 5, False), (7, 6, True)])
@pytest.mark.parametrize("stride", [1, 2])
def test_weights_whose_rows_evict_each_other_are_packed(run, parts, monkeypatch, stride, maps, images, is_packed):
    monkeypatch.setattr(pointwise, "do_rows_conflict", lambda pitch, dtype: pitch == 20)
    monkeypatch.setattr(pointwise, "_LEAST_PACKED_POSITIONS", 6 * 35)
    monkeypatch.setattr(pointwise, "_WEIGHT_BYTES", 0)  # in pieces

    def by_products(call):
        prepared = next(way.prepare() for way in convolution.ways(problem_of(call)) if way.name == "products")
        assert prepared.note.endswith(", weight packed") == is_packed
        return prepared

    x, weight, bias = draw(0, images, 40, 5 * stride, 7 * stride), draw(1, 2 * maps, 20, 1, 1), draw(2, 2 * maps)
    geometry = geometry_of((0, 0), (stride, stride), (1, 1), 2)
    y = np.full((images, 2 * maps, 5, 7), np.nan, "f")
    module = SimpleNamespace(accepts=convolution.accepts, prepare=by_products)
    assert run(module, "Convolution", [x, weight, bias], [y], parts=parts, **geometry) == 0
    np.testing.assert_allclose(y, forward(x, weight, bias, (0, 0), (stride, stride), (1, 1), 2), atol=1e-4)


@pytest.mark.parametrize("images", [1, 2])
@pytest.mark.parametrize("positions", [(40, 41), (16, 64)])
def test_images_of_few_maps_are_shared_by_positions(run, parts, images, positions):
    x, weight, bias = draw(0, images, 40, *positions), draw(1, 20, 40, 1, 1), draw(2, 20)
    geometry = geometry_of((0, 0), (1, 1), (1, 1), 1)
    expected = forward(x, weight, bias, (0, 0), (1, 1), (1, 1), 1)
    y = np.full(expected.shape, np.nan, "f")
    assert run(convolution, "Convolution", [x, weight, bias], [y], parts=parts, **geometry) == 0
    np.testing.assert_allclose(y, expected, atol=1e-4)


def test_runs_of_positions_have_formulas_computed_on_the_way(monkeypatch):
    monkeypatch.setattr(launching, "SHARE_US", 1e-9)
    monkeypatch.setattr(pool, "_chosen_count", 3)
    x, w = nn.Variable((1, 40, 40, 41)), nn.Variable((20, 40, 1, 1))
    x.d, w.d = draw(0, *x.shape), draw(1, *w.shape)
    with nn.context_scope(Context(["cpu:float"])), nn.auto_forward(False):
        y = F.relu(F.convolution(x, w))
        y.forward()
    (step,) = [step for step in y.plan.steps if step.carrier is None]
    assert "1x1" in step.note
    assert step.native.parts > 1
    expected = forward(x.d, w.d, None, (0, 0), (1, 1), (1, 1), 1)
    np.testing.assert_allclose(y.d, np.maximum(expected, 0), atol=1e-4)


@pytest.mark.parametrize("width", [32, 22, 16])
def test_rows_of_whole_vectors_are_computed_along_them(make_call, width):
    x, weight, y = np.zeros((2, 3, 8, width), "f"), np.zeros((20, 3, 3, 3), "f"), np.zeros((2, 20, 8, width), "f")
    geometry = geometry_of((1, 1), (1, 1), (1, 1), 1)
    note = convolution.prepare(make_call("Convolution", [x, weight, None], [y], **geometry)).note
    vectors = -(-width // host_lanes().vector) * host_lanes().vector
    assert note.startswith("direct, rows in vectors") == (vectors <= 1.1 * width)


@pytest.mark.parametrize(("maps", "width", "taken"), [(32, 16, True), (3, 16, False), (32, 14, False)])
def test_strided_windows_of_many_maps_and_whole_quartets_have_the_maps_in_the_lanes(make_call, maps, width, taken):
    x, weight = np.zeros((3, 16, 8, width), "f"), np.zeros((maps, 16, 3, 3), "f")
    y = np.zeros((3, maps, 4, width // 2), "f")
    call = make_call("Convolution", [x, weight, None], [y], **geometry_of((1, 1), (2, 2), (1, 1), 1))
    wide_enough = host_lanes().vector >= 8
    assert ("maps in lanes" in convolution.prepare(call).note) == (taken and wide_enough)


@pytest.mark.parametrize(("channels", "maps", "taken"), [(16, 64, True), (16, 63, False), (15, 64, False)])
def test_gradients_of_many_maps_are_products_of_panels_where_tiles_have_few_rows(make_call, channels, maps, taken):
    x, gw = np.zeros((3, channels, 9, 15), "f"), np.zeros((maps, channels, 3, 3), "f")
    gy = np.zeros((3, maps, 5, 8), "f")
    geometry = geometry_of((1, 1), (2, 2), (1, 1), 1)
    call = make_call("ConvolutionWeightGrad", [x, gy], [gw], kernel=(3, 3), **geometry)
    note = convolution_weight.prepare(call).note
    assert note.startswith("products of panels") == (taken and host_lanes().rows < 12)


@pytest.mark.parametrize("width", [13, 14])
def test_deconvolution_with_strides_adds_the_bias_to_long_sums(run, parts, make_call, width):
    x, weight, bias = draw(0, 2, 40, 6, 7), draw(1, 40, 32, 3, 3), draw(2, 32)
    y = np.full((2, 32, 11, width), np.nan, "f")
    geometry = geometry_of((1, 1), (2, 2), (1, 1), 1)
    call = make_call("Deconvolution", [x, weight, bias], [y], **geometry)
    assert ("windows in panels" in convolution.prepare(call).note) == (host_lanes().rows < 12)
    assert run(convolution, "Deconvolution", [x, weight, bias], [y], parts=parts, **geometry) == 0
    expected = adjoint(x, weight, y.shape, (1, 1), (2, 2), (1, 1), 1) + bias[:, None, None]
    np.testing.assert_allclose(y, expected, atol=1e-4)


@pytest.mark.parametrize(("channels", "maps", "taken"), [(32, 32, True), (32, 31, False), (17, 32, False)])
def test_windows_of_long_sums_and_many_maps_are_collected(make_call, channels, maps, taken):
    x, weight = np.zeros((3, channels, 17, 17), "f"), np.zeros((maps, channels, 3, 3), "f")
    y = np.zeros((3, maps, 9, 9), "f")
    call = make_call("Convolution", [x, weight, None], [y], **geometry_of((1, 1), (2, 2), (1, 1), 1))
    assert ("windows in panels" in convolution.prepare(call).note) == (taken and host_lanes().rows < 12)


@pytest.mark.parametrize("group", [1, 2])
def test_slices_of_three_axes_with_what_networks_use(run, parts, monkeypatch, group):
    """Winograd within slices, and few slices computed with others; results have a standard deviation of 30."""
    monkeypatch.undo()
    monkeypatch.setattr(launching, "SHARE_US", 1e-9)
    monkeypatch.setattr(convolution_slices, "_CHUNK_BYTES", 1 << 17)
    monkeypatch.setattr(slices_weight, "_CHUNK_BYTES", 1 << 17)
    x, weight, bias = draw(0, 3, 32, 5, 8, 8), draw(1, 32, 32 // group, 3, 3, 3), draw(2, 32)
    pad = stride = dilation = (1, 1, 1)
    geometry = geometry_of(pad, stride, dilation, group)
    expected = forward(x, weight, bias, pad, stride, dilation, group)
    y, gx, gw = np.full(expected.shape, np.nan, "f"), np.full(x.shape, np.nan, "f"), np.full(weight.shape, np.nan, "f")
    assert run(convolution, "Convolution", [x, weight, bias], [y], parts=parts, **geometry) == 0
    np.testing.assert_allclose(y, expected, atol=2e-3)
    gy = draw(3, *y.shape)
    assert run(convolution, "Deconvolution", [gy, weight, None], [gx], parts=parts, **geometry) == 0
    np.testing.assert_allclose(gx, adjoint(gy, weight, x.shape, pad, stride, dilation, group), atol=2e-3)
    kernel = weight.shape[2:]
    assert run(convolution_weight, "ConvolutionWeightGrad", [x, gy], [gw], parts=parts, kernel=kernel, **geometry) == 0
    seen, counts = flat_windows(x, weight.shape, pad, stride, dilation, group)
    grads = gy.astype("d").reshape(len(x), group, 32 // group, int(np.prod(counts)))
    np.testing.assert_allclose(gw, (grads @ seen.swapaxes(2, 3)).sum(axis=0).reshape(gw.shape), atol=2e-3)


@pytest.mark.parametrize("parts", [5], indirect=True)  # then `run` compares the bits for several counts of threads
@pytest.mark.parametrize("with_winograd", [False, True])
@pytest.mark.parametrize(
    "x_shape, w_shape, group",
    [
        ((3, 64, 6, 8, 8), (16, 64, 3, 3, 3), 1),
        ((3, 64, 6, 8, 8), (16, 8, 3, 3, 3), 8),
        ((7, 32, 8, 8), (20, 32, 5, 5), 1),
        # pieces of single groups: of planes, of what Winograd suits
        ((2, 6, 4, 9, 20), (6, 1, 3, 3, 3), 6),
        ((3, 32, 5, 8, 8), (32, 16, 1, 3, 3), 2),
        # pieces of fewer channels: too few for Winograd, more images of them at once
        ((6, 32, 4, 8, 8), (16, 32, 2, 3, 3), 1),
        ((4, 64, 6, 7, 7), (5, 64, 3, 3, 3), 1),
    ],
)
def test_the_gradient_of_the_weight_has_the_same_bits_for_any_count_of_threads(
    run, parts, monkeypatch, x_shape, w_shape, group, with_winograd
):
    monkeypatch.setattr(winograd, "ENABLED", with_winograd)
    monkeypatch.setattr(slices_weight, "_CHUNK_BYTES", 1 << 17)
    monkeypatch.setattr(weight_dots, "_CHUNK_BYTES", 1 << 15)
    kernel = w_shape[2:]
    ones = (1,) * len(kernel)
    pad = tuple(k // 2 for k in kernel)
    counts = [size + 2 * p - k + 1 for size, p, k in zip(x_shape[2:], pad, kernel, strict=True)]
    x, gy, gw = draw(0, *x_shape), draw(1, x_shape[0], w_shape[0], *counts), np.full(w_shape, np.nan, "f")
    geometry = geometry_of(pad, ones, ones, group)
    assert run(convolution_weight, "ConvolutionWeightGrad", [x, gy], [gw], parts=parts, kernel=kernel, **geometry) == 0


def test_what_three_axes_are_computed_by_is_said(make_call):
    def note(kernel, pad):
        x, weight = np.zeros((2, 32, 4, 16, 16), "f"), np.zeros((32, 32, *kernel), "f")
        geometry = geometry_of(pad, (1, 1, 1), (1, 1, 1), 1)
        return convolution.prepare(make_call("Convolution", [x, weight, None], [x], **geometry)).note

    assert "slices at once of 3 leading taps: direct" in note((3, 3, 3), (1, 1, 1))
    assert "slices at once of 1 leading taps: direct" in note((1, 3, 3), (0, 1, 1))
    assert "slices" not in note((1, 1, 1), (0, 0, 0))


def test_what_does_not_fit_is_refused_with_the_reason(make_call):
    x, weight, y = np.zeros((1, 1, 3, 3), "e"), np.zeros((1, 1, 1, 1), "e"), np.zeros((1, 1, 3, 3), "e")
    geometry = geometry_of((0, 0), (1, 1), (1, 1), 1)
    half = make_call("Convolution", [x, weight, None], [y], **geometry)
    assert convolution.accepts(half) == "takes float32 or float64, not float16"
    turned = np.moveaxis(np.zeros((1, 3, 3, 16)), 3, 0)
    strided = make_call("Convolution", [turned, weight.astype("d"), None], [turned], **geometry)
    assert convolution.accepts(strided) == "float32 only with images innermost"
    x, y = np.zeros((0, 1, 3, 3), "f"), np.zeros((0, 1, 3, 3), "f")
    empty = make_call("Convolution", [x, weight.astype("f"), None], [y], **geometry)
    assert "no empty arrays" in convolution.accepts(empty)


@pytest.mark.skipif(host_lanes().vector < 8, reason="maps have no lanes")
@pytest.mark.parametrize("maps", [64, 40])
@pytest.mark.parametrize("images", [1, 3])
def test_threads_share_the_maps_of_a_single_picture(run, parts, make_call, maps, images):
    x, weight, bias = draw(0, images, 3, 140, 24), draw(1, maps, 3, 3, 3), draw(2, maps)
    y = np.full((images, maps, 70, 12), np.nan, "f")
    geometry = geometry_of((1, 1), (2, 2), (1, 1), 1)
    assert "maps in lanes" in convolution.prepare(make_call("Convolution", [x, weight, bias], [y], **geometry)).note
    assert run(convolution, "Convolution", [x, weight, bias], [y], parts=parts, **geometry) == 0
    np.testing.assert_allclose(y, forward(x, weight, bias, (1, 1), (2, 2), (1, 1), 1), atol=1e-4)


@pytest.mark.parametrize(("size", "kernel"), [((5, 22), 1), ((6, 47), 5), ((4, 32), 5)])
def test_a_formula_behind_rows_is_computed_once_for_each_element(monkeypatch, size, kernel):
    monkeypatch.setattr(rows, "_AFTER_BYTES", 0)
    x = nn.Variable((2, 6, *size))
    weight = nn.Variable.from_numpy_array(draw(1, 17, 6, kernel, kernel) / kernel)
    with nn.auto_forward(False):
        sums = F.convolution(x, weight, pad=(kernel // 2,) * 2)
        results = F.tanh(sums) + 1
    given = draw(0, 2, 6, *size)
    wanted = np.tanh(nn.inference(sums, x)(given)) + 1
    infer = nn.inference(results, x)
    np.testing.assert_allclose(infer(given), wanted, atol=1e-6)
    if host_lanes().vector >= 8:
        assert "direct, rows in vectors" in str(infer.plan)
        assert "computed within Convolution+Tanh+AddScalar" in str(infer.plan)


@pytest.mark.parametrize("kernel", [1, 5])
def test_strips_of_positions_have_all_maps_one_after_the_other(run, parts, monkeypatch, make_call, kernel):
    monkeypatch.setattr(rows, "_STRIP_BYTES", 1024)
    monkeypatch.setattr(rows, "_LEAST_STRIP_BYTES", 0)
    for width in (32, 30):
        x, weight, bias = draw(0, 2, 3, 7, width), draw(1, 17, 3, kernel, kernel), draw(2, 17)
        pad = (kernel // 2, kernel // 2)
        geometry = geometry_of(pad, (1, 1), (1, 1), 1)
        inputs, y = [x, weight, bias], np.full((2, 17, 7, width), np.nan, "f")
        assert run(convolution, "Convolution", inputs, [y], parts=parts, **geometry) == 0
        np.testing.assert_allclose(y, forward(x, weight, bias, pad, (1, 1), (1, 1), 1), atol=1e-4)


@pytest.mark.skipif(host_lanes().rows != 6, reason="elsewhere maps are in the lanes")
@pytest.mark.parametrize("width", [32, 30, 24])
def test_strided_rows_of_several_vectors_are_computed_along_them(make_call, width):
    x, weight, y = np.zeros((2, 3, 8, width), "f"), np.zeros((16, 3, 3, 3), "f"), np.zeros((2, 16, 4, width // 2), "f")
    call = make_call("Convolution", [x, weight, None], [y], **geometry_of((1, 1), (2, 2), (1, 1), 1))
    assert convolution.prepare(call).note.startswith("direct, rows in vectors") == (width > 24)


@pytest.mark.parametrize("kernel", [1, 5])
def test_maps_or_positions_of_few_images_are_divided_among_shares_in_rows(run, parts, monkeypatch, make_call, kernel):
    monkeypatch.setattr(rows, "share_count", lambda work_us, units: min(6, units))
    x, weight, bias = draw(0, 2, 3, 6, 32), draw(1, 41, 3, kernel, kernel), draw(2, 41)
    pad = (kernel // 2, kernel // 2)
    geometry = geometry_of(pad, (1, 1), (1, 1), 1)
    inputs, y = [x, weight, bias], np.full((2, 41, 6, 32), np.nan, "f")
    note = convolution.prepare(make_call("Convolution", inputs, [y], **geometry)).note
    assert note.startswith("direct, rows in vectors")
    assert run(convolution, "Convolution", inputs, [y], parts=parts, **geometry) == 0
    np.testing.assert_allclose(y, forward(x, weight, bias, pad, (1, 1), (1, 1), 1), atol=1e-4)
