"""Filters of five and seven rows on padded planes against sums of shifted planes in NumPy, and their gradients."""

import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled.plugin import ArrayDesc, Call, op_spec
from atled_contexts import Context
from atled_cpu_numba.kernels.convolution import choice
from atled_cpu_numba.kernels.depthwise import padded
from atled_cpu_numba.kernels.shared.lanes import lanes_of

# channels, maps per channel, size, kernel, pad, stride
CASES = [
    (3, 1, (14, 14), (5, 5), (2, 2), (1, 1)),  # a tall tile, of columns that fill no vector
    (2, 1, (28, 33), (5, 5), (2, 2), (1, 1)),
    (2, 2, (15, 17), (5, 3), (2, 1), (1, 1)),  # tiles that overlap
    (3, 1, (13, 16), (5, 5), (2, 2), (1, 1)),
    (3, 1, (7, 9), (5, 5), (2, 2), (1, 1)),
    (2, 1, (4, 20), (5, 5), (2, 2), (1, 1)),
    (2, 1, (5, 40), (5, 4), (0, 0), (1, 1)),  # one row
    (3, 1, (28, 20), (7, 7), (3, 3), (1, 1)),
    (2, 1, (16, 3), (7, 2), (3, 0), (1, 1)),
    (2, 1, (28, 30), (5, 5), (2, 2), (2, 2)),
    (2, 2, (29, 31), (7, 7), (3, 3), (2, 2)),
    (2, 1, (56, 9), (7, 3), (3, 1), (2, 1)),
]


def drawn(case, dtype):
    channels, times, size, kernel, _pad, _stride = case
    rng, maps = np.random.default_rng(3), channels * times
    shapes = (2, channels, *size), (maps, 1, *kernel), (maps,)
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes]


def reference(x, w, b, pad, stride):
    """The sums in float64; x: (N, C, H, W), w: (maps, 1, R, S), b: (maps,)."""
    x = np.pad(x.astype("d"), [(0, 0), (0, 0), *((p, p) for p in pad)])
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], (2, 3))[:, :, :: stride[0], :: stride[1]]
    windows = np.repeat(windows, w.shape[0] // x.shape[1], axis=1)
    return np.einsum("nkhwrs,krs->nkhw", windows, w[:, 0].astype("d")) + b[:, None, None]


def way_of(case):
    channels, times, size, kernel, pad, stride = case
    maps = channels * times
    y = reference(*drawn(case, "f"), pad, stride)
    descs = [ArrayDesc(shape) for shape in ((2, channels, *size), (maps, 1, *kernel), (maps,))]
    geometry = {"base_axis": 1, "pad": pad, "stride": stride, "dilation": (1, 1), "group": channels}
    call = Call(op_spec("Convolution"), tuple(descs), (ArrayDesc(y.shape),), geometry)
    return choice.prepare(call).note


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("config, dtype", [("float", "f"), ("double", "d")])
def test_values_with_what_is_computed_on_the_way(case, config, dtype):
    assert way_of(case) == f"depthwise, {case[3][0]} rows of windows in registers"
    arrays, (channels, _, _, _, pad, stride) = drawn(case, dtype), case
    expected = np.maximum(reference(*arrays, pad, stride), 0)
    with nn.context_scope(Context([f"cpu:{config}"], fallback="raise")):
        y = F.relu(F.convolution(*map(nn.NdArray.from_numpy_array, arrays), pad=pad, stride=stride, group=channels))
    np.testing.assert_allclose(y.data, expected, rtol=0, atol=1e-4 if dtype == "f" else 1e-12)


@pytest.mark.parametrize("case", [case for case in CASES if case[1] == 1 and case[5] == (1, 1)])
def test_the_gradient_of_x_is_a_filter_by_the_turned_kernel(case):
    (x, w, b), (channels, _, _, _, pad, stride) = drawn(case, "f"), case
    value = nn.Variable.from_numpy_array(x, need_grad=True)
    with nn.context_scope(Context(["cpu:float"], fallback="raise")):
        y = F.convolution(value, *map(nn.Variable.from_numpy_array, (w, b)), pad=pad, stride=stride, group=channels)
        y.forward()
        gy = np.random.default_rng(4).standard_normal(y.shape).astype("f")
        y.backward(gy)
    reach = [n - 1 - p for n, p in zip(w.shape[2:], pad, strict=True)]
    expected = reference(gy, w[:, :, ::-1, ::-1], np.zeros_like(b), reach, (1, 1))
    np.testing.assert_allclose(value.g, expected, rtol=0, atol=1e-4)


def test_nan_and_infinity_reach_the_windows_that_see_them_alone():
    x, w = np.ones((1, 2, 28, 18), "f"), np.ones((2, 1, 5, 5), "f")
    x[0, 0, 13, 4], x[0, 1, 14, 17] = np.nan, np.inf
    with nn.context_scope(Context(["cpu:float"], fallback="raise")):
        y = F.convolution(nn.NdArray.from_numpy_array(x), nn.NdArray.from_numpy_array(w), pad=(2, 2), group=2).data
    assert np.isnan(y[0, 0, 11:16, 2:7]).all()
    assert np.isnan(y[0, 0]).sum() == 25
    assert np.isposinf(y[0, 1, 12:17, 15:]).all()
    assert np.isfinite(y[0, 1]).sum() == 28 * 18 - 15


@pytest.mark.parametrize(
    ("rows", "low", "tall"), [(1, 1, 1), (6, 4, 4), (7, 7, 7), (13, 7, 7), (14, 7, 14), (15, 4, 4), (28, 7, 14)]
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_tiles_are_as_tall_as_registers_allow(rows, low, tall, dtype):
    has_many_registers = lanes_of("float32").vector == 16
    assert padded._tile_rows(rows, dtype) == (tall if has_many_registers else low)
