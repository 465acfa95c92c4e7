"""Poolings of any window, both ways, against the reference: places, ties, NaN, borders."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled.plugin import ArrayDesc, op_spec
from atled_cuda_cupy.kernels import pooling


def expected(op, inputs, attributes):
    descs = [ArrayDesc(x.shape, x.dtype) for x in inputs]
    spec = op_spec(op)
    found = spec.reference(*inputs, **spec.check_attributes(attributes, descs))
    return found if isinstance(found, tuple) else (found,)


def check(compute, prepare, op, inputs, **attributes):
    found = compute(pooling, prepare, op, inputs, **attributes)
    for one, other in zip(found, expected(op, inputs, attributes), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    return found


def geometries():
    for kernel, stride, pad, ignore_border in itertools.product(((2, 2), (3, 5)), (1, 2, 3), (0, 1), (True, False)):
        yield {"kernel": kernel, "stride": (stride, stride + 1), "pad": (pad, pad), "ignore_border": ignore_border}


@pytest.mark.parametrize("channel_last", [False, True])
def test_maxima_their_places_and_gradients(compute, channel_last):
    rng = np.random.default_rng(0)
    for geometry in geometries():
        # Few different values: of equal maxima the first counts.
        x = rng.integers(0, 3, (2, 7, 9, 3) if channel_last else (2, 3, 7, 9)).astype("float32")
        geometry["channel_last"] = channel_last
        if geometry["pad"] == (1, 1) and not geometry["ignore_border"]:
            continue  # windows that see padding only are refused
        y, place = check(compute, "prepare_maximum", "MaxPooling", [x], **geometry)
        check(compute, "prepare_places", "MaxPoolingPlaces", [x], **geometry)
        shape = x.shape[1:-1] if channel_last else x.shape[2:]
        gy = rng.standard_normal(y.shape).astype("float32")
        check(compute, "prepare_by_place", "MaxPoolingGrad", [gy, place], **geometry, shape=shape)
        check(compute, "prepare_by_place", "MaxPoolingGather", [x, place], **geometry, shape=shape)


@pytest.mark.parametrize("channel_last", [False, True])
@pytest.mark.parametrize("op", ["AveragePooling", "SumPooling"])
def test_sums_of_windows_and_their_gradients(compute, op, channel_last):
    rng = np.random.default_rng(0)
    counts = (True, False) if op == "AveragePooling" else (None,)
    for geometry, including_pad in itertools.product(geometries(), counts):
        x = rng.standard_normal((2, 7, 9, 3) if channel_last else (2, 3, 7, 9)).astype("float32")
        geometry["channel_last"] = channel_last
        if including_pad is not None:
            geometry["including_pad"] = including_pad
        (y,) = check(compute, "prepare_sums", op, [x], **geometry)
        shape = x.shape[1:-1] if channel_last else x.shape[2:]
        check(compute, "prepare_sums", f"{op}Grad", [y], **geometry, shape=shape)


def test_the_first_nan_of_a_window_is_its_maximum(compute):
    x = np.float32([[1, np.nan, 3, np.nan], [np.inf, -np.inf, -np.inf, -np.inf]])
    y, place = compute(pooling, "prepare_maximum", "MaxPooling", [x], kernel=(4,))
    np.testing.assert_array_equal(y[:, 0], [np.nan, np.inf])
    np.testing.assert_array_equal(place[:, 0], [1, 0])


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_other_dtypes(compute, dtype):
    x = np.random.default_rng(0).standard_normal((2, 3, 8, 6)).astype(dtype)
    for op, prepare in (("MaxPooling", "prepare_maximum"), ("AveragePooling", "prepare_sums")):
        y = compute(pooling, prepare, op, [x], kernel=(2, 3))[0]
        exact = expected(op, [x.astype("float64")], {"kernel": (2, 3)})[0]
        np.testing.assert_allclose(y, exact, rtol=2e-3 if dtype == "float16" else 1e-14, atol=1e-4)
        assert y.dtype == dtype


def test_places_of_large_windows(compute):
    x = np.random.default_rng(0).standard_normal((3, 20, 21)).astype("float32")
    y, place = check(compute, "prepare_maximum", "MaxPooling", [x], kernel=(17, 19), stride=(1, 1))
    assert place.dtype == np.int32
    check(compute, "prepare_by_place", "MaxPoolingGrad", [y, place], kernel=(17, 19), stride=(1, 1), shape=(20, 21))


@pytest.mark.parametrize(("op", "size"), [("MaxPoolingGrad", 3), ("MaxPoolingGather", 6)])
def test_a_place_that_a_window_has_not_marks_the_flag(compute, op, size):
    x, place = np.ones((2, size), np.float32), np.zeros((2, 3), np.uint8)
    compute(pooling, "prepare_by_place", op, [x, place], kernel=(2,), shape=(6,))
    assert compute.flag == 0
    place[1, 2] = 2
    compute(pooling, "prepare_by_place", op, [x, place], kernel=(2,), shape=(6,))
    assert compute.flag == 7


@pytest.mark.parametrize("size", [(4, 5), (40, 50)])
def test_averages_of_whole_images(compute, size):
    x = np.random.default_rng(0).standard_normal((2, 3, *size)).astype("float32")
    check(compute, "prepare_global", "GlobalAveragePooling", [x])


def test_gradients_read_places(cuda):
    x = nn.Variable.from_numpy_array(np.random.default_rng(0).standard_normal((2, 3, 4, 4)).astype("float32"))
    x.need_grad = True
    with nn.context_scope(cuda):
        y = F.max_pooling(x, (2, 2))
        y.forward()
        y.backward()
    (binding,) = y.value.roots.backward.bindings.values()
    assert "MaxPoolingGrad " in str(binding.plan)
    assert x.g.sum() == y.d.size and ((x.g == 1) <= (x.d == y.d.repeat(2, 2).repeat(2, 3))).all()
