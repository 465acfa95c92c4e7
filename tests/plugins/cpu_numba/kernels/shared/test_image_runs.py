"""Gradients of weights that are added up over runs of images, against float64 and for any count of shares."""

import numpy as np
import pytest

from atled_cpu_numba.kernels.convolution import weight as convolution_weight
from atled_cpu_numba.kernels.shared.lanes import host_lanes
from atled_cpu_numba.kernels.shared.launch import undivided

CASES = [((37, 16, 16, 16), (16, 16, 3, 3), (1, 1)), ((40, 1, 28, 28), (16, 1, 5, 5), (0, 0))]


def attributes_of(w_shape, pad):
    steps = {"stride": (1, 1), "dilation": (1, 1)}
    return {"base_axis": 1, "kernel": w_shape[2:], "pad": pad, "group": 1, **steps}


@pytest.fixture(name="gradient")
def gradient_fixture(run, make_call):
    def gradient(x, gy, w_shape, pad, parts):
        gw, attributes = np.full(w_shape, np.nan, "f"), attributes_of(w_shape, pad)
        note = convolution_weight.prepare(make_call("ConvolutionWeightGrad", [x, gy], [gw], **attributes)).note
        # With shorter vectors another kernel, or all images at once, may be quicker: the sums must be right then, too.
        assert host_lanes().vector < 16 or "runs of images" in note
        assert run(convolution_weight, "ConvolutionWeightGrad", [x, gy], [gw], parts=parts, **attributes) == 0
        return gw

    return gradient


def problem(x_shape, w_shape, pad):
    rng = np.random.default_rng(0)
    size = [n + 2 * p - k + 1 for n, p, k in zip(x_shape[2:], pad, w_shape[2:], strict=True)]
    x, gy = rng.standard_normal(x_shape).astype("f"), rng.standard_normal((x_shape[0], w_shape[0], *size)).astype("f")
    return x, gy


@pytest.mark.parametrize("x_shape, w_shape, pad", CASES)
def test_the_runs_add_up_to_the_gradient(gradient, parts, x_shape, w_shape, pad):
    x, gy = problem(x_shape, w_shape, pad)
    padded = np.pad(x.astype("d"), [(0, 0), (0, 0), (pad[0],) * 2, (pad[1],) * 2])
    windows = np.lib.stride_tricks.sliding_window_view(padded, w_shape[2:], (2, 3))
    expected = np.einsum("nmij,ncijkl->mckl", gy, windows, optimize=True)
    found = gradient(x, gy, w_shape, pad, parts)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("x_shape, w_shape, pad", CASES)
def test_a_sum_has_the_same_bits_for_any_count_of_shares(gradient, x_shape, w_shape, pad):
    x, gy = problem(x_shape, w_shape, pad)
    first, *others = (gradient(x, gy, w_shape, pad, parts) for parts in (1, 2, 4))
    assert all((other == first).all() for other in others)


@pytest.mark.parametrize("x_shape, w_shape, pad", CASES)
def test_within_the_shares_of_another_kernel_there_are_no_runs(make_call, x_shape, w_shape, pad):
    """That one's shares decide how large the call is, and the bits must not follow from them."""
    arrays = list(problem(x_shape, w_shape, pad)), [np.empty(w_shape, "f")]
    with undivided():
        call = make_call("ConvolutionWeightGrad", *arrays, **attributes_of(w_shape, pad))
        assert "runs of images" not in convolution_weight.prepare(call).note
