"""Short windows, of which nobody asks for places: every length of a row, and numbers of all kinds."""

from functools import partial

import numpy as np
import pytest

import atled.functions as F
from atled.plugin import op_spec
from atled_cpu_numba.kernels.pooling import planes as pooling
from atled_cpu_numba.kernels.shared.launch import narrow_dtypes
from narrow_numbers import DTYPES as NARROW
from narrow_numbers import any_numbers, check_rounded, computed

KINDS = pytest.mark.parametrize("kernel, stride", [(2, 2), (3, 2), (3, 1)])
DTYPES = pytest.mark.parametrize("dtype", ["float32", "float64"])
WIDTHS = (*range(1, 12), *range(14, 20), 31, 32, 33, 34, 35, 36, 66, 67)


def geometries(kernel, stride, sizes):
    """All with a window, none of which sees padding alone."""
    for pad in (0, 1):
        for ignore_border in (True, False):
            geometry = {"kernel": (kernel, kernel), "stride": (stride, stride), "pad": (pad, pad)}
            geometry["ignore_border"] = ignore_border
            counts = [
                (n + 2 * pad - kernel) // stride + 1 if ignore_border else -(-(n + 2 * pad) // stride) for n in sizes
            ]
            seen = all((count - 1) * stride - pad < n for count, n in zip(counts, sizes, strict=True))
            if min(counts) > 0 and seen:
                yield geometry, counts


def numbers(rng, shape):
    """Few kinds of numbers, so that windows have equal maxima of either sign, NaN and nothing but -inf."""
    kinds = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan]
    return rng.choice(kinds, shape, p=[0.2, 0.2, 0.1, 0.1, 0.1, 0.25, 0.05])


@KINDS
@DTYPES
def test_maxima_are_the_references_to_the_sign_of_zero(run, kernel, stride, dtype):
    rng, spec = np.random.default_rng(0), op_spec("MaxPooling")
    for sizes in ((height, width) for width in WIDTHS for height in (1, 2, 5)):
        for geometry, counts in geometries(kernel, stride, sizes):
            x = numbers(rng, (3, *sizes)).astype(dtype)
            wanted, places = spec.reference(x, channel_last=False, **geometry)
            y = np.full((3, *counts), 77, dtype)
            assert run(pooling, "MaxPooling", [x], [y, places], unread=(1,), **geometry) == 0
            np.testing.assert_array_equal(y, wanted, f"{sizes} {geometry}")
            real = ~np.isnan(wanted)
            np.testing.assert_array_equal(np.signbit(y[real]), np.signbit(wanted[real]), f"{sizes} {geometry}")


@KINDS
@DTYPES
@pytest.mark.parametrize("including_pad", [True, False])
def test_averages_are_the_references(run, kernel, stride, dtype, including_pad):
    rng, spec = np.random.default_rng(0), op_spec("AveragePooling")
    for sizes in ((height, width) for width in WIDTHS for height in (1, 4)):
        for geometry, counts in geometries(kernel, stride, sizes):
            x = rng.standard_normal((2, *sizes)).astype(dtype)
            wanted = spec.reference(x, channel_last=False, including_pad=including_pad, **geometry)
            y = np.full((2, *counts), np.nan, dtype)
            assert run(pooling, "AveragePooling", [x], [y], including_pad=including_pad, **geometry) == 0
            np.testing.assert_allclose(y, wanted, rtol=1e-5, atol=1e-6, err_msg=f"{sizes} {geometry}")


@KINDS
@DTYPES
def test_sums_are_the_references(run, kernel, stride, dtype):
    rng, spec = np.random.default_rng(0), op_spec("SumPooling")
    for sizes in ((height, width) for width in WIDTHS for height in (2, 5)):
        for geometry, counts in geometries(kernel, stride, sizes):
            x = rng.standard_normal((2, *sizes)).astype(dtype)
            wanted = spec.reference(x, channel_last=False, **geometry)
            y = np.full((2, *counts), np.nan, dtype)
            assert run(pooling, "SumPooling", [x], [y], **geometry) == 0
            np.testing.assert_allclose(y, wanted, rtol=1e-5, atol=1e-5, err_msg=f"{sizes} {geometry}")


@KINDS
@pytest.mark.parametrize("op", ["MaxPooling", "AveragePooling", "SumPooling"])
def test_shares_give_the_same_bits(run, parts, kernel, stride, op):
    x = np.random.default_rng(0).standard_normal((7, 13, 21)).astype("f")
    ((geometry, counts), *_) = geometries(kernel, stride, x.shape[1:])
    results = [np.empty((7, *counts), "f") for _ in range(2)]
    for count, y in zip((1, parts), results, strict=True):
        outputs = [y, np.zeros(y.shape, np.uint8)] if op == "MaxPooling" else [y]
        assert run(pooling, op, [x], outputs, parts=count, unread=(1,), **geometry) == 0
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("config", list(NARROW))
@pytest.mark.parametrize("stride", [1, 2])
def test_results_in_half_and_bf16_are_those_of_float32_rounded_once(config, stride):
    rng = np.random.default_rng(0)
    for width in (1, 2, 5, *range(15, 22), 32, 33, 34, 40):
        for geometry, _ in geometries(3, stride, (4, width)):
            x = any_numbers(rng, (2, 4, width), NARROW[config])
            average = partial(F.average_pooling, **geometry, including_pad=geometry["pad"] == (0, 0))
            check_rounded(computed(config, average, x), computed("float", average, x.astype("f")))
            add = partial(F.sum_pooling, **geometry)
            check_rounded(computed(config, add, x), computed("float", add, x.astype("f")))
            largest = partial(F.max_pooling, **geometry)  # of which no places are asked for
            check_rounded(computed(config, largest, x), computed("float", largest, x.astype("f")))


@pytest.mark.parametrize(
    "config, stride, width, counts, is_taken",
    [
        ("bf16", 1, 17, (7, 17), True),
        ("bf16", 1, 16, (7, 16), False),
        ("bf16", 2, 17, (4, 9), True),
        ("bf16", 2, 16, (4, 8), False),
        ("half", 1, 5, (7, 5), True),
    ],
)
def test_long_rows_in_half_and_bf16_are_taken_as_they_are(make_call, config, stride, width, counts, is_taken):
    geometry = {"kernel": (3, 3), "stride": (stride, stride), "pad": (1, 1), "including_pad": True}
    x, y = (np.zeros((2, 3, *sizes), NARROW[config]) for sizes in ((7, width), counts))
    taken = pooling.narrow_arguments(make_call("AveragePooling", [x], [y], channel_last=False, **geometry))
    assert taken == ((0, 1) if is_taken and x.dtype.name in narrow_dtypes() else ())


@pytest.mark.parametrize("config", list(NARROW))
@pytest.mark.parametrize("has_places", [False, True])
@pytest.mark.parametrize("stride", [1, 2])
def test_maxima_in_half_and_bf16_are_taken_as_they_are_without_places(make_call, config, has_places, stride):
    x, y = (np.zeros((2, 3, n, n), NARROW[config]) for n in (40, 40 // stride))
    geometry = {"kernel": (3, 3), "stride": (stride, stride), "pad": (1, 1)}
    call = make_call("MaxPooling", [x], [y, y.astype(np.uint8)], channel_last=False, **geometry)
    taken = pooling.narrow_arguments(call if has_places else call.without((1,)))
    is_taken = not has_places and (config, stride) != ("bf16", 1) and x.dtype.name in narrow_dtypes()
    assert taken == ((0, 1) if is_taken else ())
