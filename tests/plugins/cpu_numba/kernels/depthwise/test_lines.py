"""Filters of rows of planes against sums of shifted rows in NumPy, and their gradients."""

import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled.plugin import ArrayDesc, Call, op_spec
from atled_contexts import Context
from atled_cpu_numba import pool
from atled_cpu_numba.kernels.convolution import choice
from atled_cpu_numba.kernels.depthwise import narrow_planes
from atled_cpu_numba.kernels.shared.launch import narrow_dtypes
from narrow_numbers import DTYPES, any_numbers, check_rounded

# channels, maps per channel, height, width, taps, pad, dilation
CASES = [
    (5, 1, 1, 49, 9, 4, 1),
    (3, 2, 1, 98, 9, 4, 1),
    (4, 1, 1, 31, 2, 0, 1),
    (4, 1, 1, 3, 5, 2, 1),
    (3, 1, 4, 33, 3, 3, 1),
    (2, 3, 3, 17, 4, 2, 3),
    (2, 1, 1, 1000, 15, 7, 2),
    (3, 2, 2, 200, 7, 3, 1),
    (2, 1, 1, 121, 6, 9, 1),  # padded by more than taps reach
    (5, 1, 3, 5, 3, 1, 1),  # all of a share is shorter than a vector
    (2, 1, 1, 64, 31, 15, 1),
]


def reference(x, w, b, pad, dilation):
    """The sums in float64; x: (N, C, H, W), w: (maps, 1, 1, taps), b: (maps,)."""
    maps, taps = w.shape[0], w.shape[3]
    x = np.repeat(np.pad(x.astype(np.float64), [(0, 0)] * 3 + [(pad, pad)]), maps // x.shape[1], axis=1)
    columns = x.shape[3] - (taps - 1) * dilation
    return b[None, :, None, None] + sum(
        x[..., s * dilation : s * dilation + columns] * w[None, :, 0, :, s, None] for s in range(taps)
    )


def drawn(case, dtype):
    channels, times, height, width, taps, _pad, _dilation = case
    rng, maps = np.random.default_rng(7), channels * times
    shapes = (3, channels, height, width), (maps, 1, 1, taps), (maps,)
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("config, dtype", [("float", "f"), ("double", "d")])
def test_values_with_what_is_computed_on_the_way(case, config, dtype):
    arrays, (*_, pad, dilation), before = drawn(case, dtype), case, pool.thread_count()
    expected = np.maximum(reference(*arrays, pad, dilation), 0)
    geometry = {"pad": (0, pad), "dilation": (1, dilation), "group": case[0]}
    try:
        for count in (1, 3):
            pool.set_thread_count(count)
            with nn.context_scope(Context([f"cpu:{config}"], fallback="raise")):
                y = F.relu(F.convolution(*map(nn.NdArray.from_numpy_array, arrays), **geometry)).data
            np.testing.assert_allclose(y, expected, rtol=0, atol=1e-5 if dtype == "f" else 1e-13)
    finally:
        pool.set_thread_count(before)


@pytest.mark.parametrize("case", [case for case in CASES if case[1] == 1 and (case[4] - 1) * case[6] >= case[5]])
def test_the_gradient_of_x_is_a_filter_by_the_turned_kernel(case):
    (x, w, b), (*_, taps, pad, dilation) = drawn(case, "f"), case
    reach = (taps - 1) * dilation
    value = nn.Variable.from_numpy_array(x, need_grad=True)
    with nn.context_scope(Context(["cpu:float"], fallback="raise")):
        y = F.convolution(value, nn.Variable.from_numpy_array(w), pad=(0, pad), dilation=(1, dilation), group=case[0])
        gy = np.random.default_rng(8).standard_normal(y.shape).astype("f")
        y.forward()
        value.grad.zero()
        y.backward(nn.NdArray.from_numpy_array(gy))
    expected = reference(gy, w[..., ::-1], np.zeros_like(b), reach - pad, dilation)
    np.testing.assert_allclose(value.g, expected, rtol=0, atol=1e-5)


def test_rows_that_a_cache_does_not_hold_are_read_where_they_are():
    def note(width):
        x, w, y = (ArrayDesc(shape) for shape in ((1, 2, width), (2, 1, 9), (1, 2, width)))
        geometry = {"base_axis": 1, "pad": (4,), "stride": (1,), "dilation": (1,), "group": 2}
        return choice.prepare(Call(op_spec("Convolution"), (x, w, None), (y,), geometry)).note

    assert (note(98), note(1 << 16)) == ("depthwise, rows padded", "depthwise, windows in vectors")


def computed(config, function, *arrays):
    with nn.context_scope(Context([f"cpu:{config}"], fallback="raise")):
        return function(*map(nn.NdArray.from_numpy_array, arrays)).data


@pytest.mark.parametrize("config", list(DTYPES))
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("has_bias", [False, True])
def test_half_and_bf16_give_what_float32_does_rounded_once(config, case, has_bias):
    x, w, b = (array.astype(DTYPES[config]) for array in drawn(case, "f"))
    (channels, *_, pad, dilation), before = case, pool.thread_count()

    def function(*arrays):
        return F.relu(F.convolution(*arrays, pad=(0, pad), dilation=(1, dilation), group=channels))

    arrays = (x, w, b) if has_bias else (x, w)
    expected = computed("float", function, *(array.astype("f") for array in arrays))
    try:
        for count in (1, 3):
            pool.set_thread_count(count)
            check_rounded(computed(config, function, *arrays), expected)
    finally:
        pool.set_thread_count(before)


@pytest.mark.parametrize("config", list(DTYPES))
@pytest.mark.parametrize("case", [case for case in CASES if case[1] == 1])
def test_adjoints_of_half_and_bf16_are_those_of_float32_rounded_once(config, case):
    x, w, _b = (array.astype(DTYPES[config]) for array in drawn(case, "f"))
    channels, *_, pad, dilation = case

    def function(*arrays):
        return F.deconvolution(*arrays, pad=(0, pad), dilation=(1, dilation), group=channels)

    if x.shape[3] + (w.shape[3] - 1) * dilation > 2 * pad:
        check_rounded(computed(config, function, x, w), computed("float", function, x.astype("f"), w.astype("f")))


@pytest.mark.parametrize("config", list(DTYPES))
@pytest.mark.parametrize("taps", [6, 7])
def test_infinities_and_nan_are_seen_by_their_windows_alone(config, taps):
    x = any_numbers(np.random.default_rng(4), (2, 3, 90), DTYPES[config])
    w = np.ones((3, 1, taps), DTYPES[config])

    def function(*arrays):
        return F.convolution(*arrays, pad=(3,), group=3)

    with np.errstate(invalid="ignore", over="ignore"):
        check_rounded(computed(config, function, x, w), computed("float", function, x.astype("f"), w.astype("f")))


@pytest.mark.parametrize("taps", [6, 7])
def test_a_nan_is_in_no_window_beside_it(taps):
    x, w = np.zeros((1, 2, 90), "f"), np.ones((2, 1, taps), "f")
    x[0, 0, 40] = np.nan
    y = computed("float", lambda *arrays: F.convolution(*arrays, group=2), x, w)
    np.testing.assert_array_equal(np.flatnonzero(np.isnan(y)), np.arange(41 - taps, 41))


@pytest.mark.parametrize("dtype", narrow_dtypes())
@pytest.mark.parametrize("taps, is_taken", [(9, True), (1, False)])
def test_rows_of_half_and_bf16_are_taken_as_they_are(dtype, taps, is_taken):
    x, w, y = (ArrayDesc(shape, np.dtype(dtype)) for shape in ((3, 4, 98), (4, 1, taps), (3, 4, 98)))
    geometry = {"base_axis": 1, "pad": (taps // 2,), "stride": (1,), "dilation": (1,), "group": 4}
    prepared = narrow_planes.prepare(Call(op_spec("Convolution"), (x, w, None), (y,), geometry))
    assert (prepared is not None) is is_taken
