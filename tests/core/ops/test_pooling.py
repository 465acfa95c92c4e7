"""Pooling and unpooling: sizes, clipped windows, and which maximum wins."""

import itertools
import math

import numpy as np
import pytest

GEOMETRIES = [
    {"n": n, "kernel": k, "stride": s, "pad": p}
    for n, k, s, p in itertools.product((1, 4, 7), (1, 2, 3), (1, 2, 3), (0, 1))
]


def windows(n, kernel, stride, pad, ignore_border):
    """(start, stop) of every window, in elements of the unpadded axis."""
    count = (n + 2 * pad - kernel) // stride + 1 if ignore_border else math.ceil((n + 2 * pad) / stride)
    return [(i * stride - pad, i * stride - pad + kernel) for i in range(count)]


@pytest.mark.parametrize("ignore_border", [True, False])
@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
def test_max_takes_the_real_elements_of_each_window(reference, geometry, ignore_border):
    n, kernel, stride, pad = geometry.values()
    x = np.random.default_rng(0).standard_normal((2, n))
    parts = [(max(a, 0), min(b, n)) for a, b in windows(n, kernel, stride, pad, ignore_border)]
    attributes = {"kernel": (kernel,), "stride": (stride,), "pad": (pad,), "ignore_border": ignore_border}
    if not parts or any(a >= b for a, b in parts):
        with pytest.raises(ValueError, match=r"no window|padding only"):
            reference("MaxPooling", x, **attributes)
        return
    y, place = reference("MaxPooling", x, **attributes)
    np.testing.assert_array_equal(y, np.stack([x[:, a:b].max(axis=1) for a, b in parts], axis=1))
    assert place.dtype == np.uint8
    elements = place + np.arange(place.shape[1]) * stride - pad
    np.testing.assert_array_equal(np.take_along_axis(x, elements, axis=1), y)


@pytest.mark.parametrize("including_pad", [True, False])
@pytest.mark.parametrize("ignore_border", [True, False])
@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
def test_average_divides_by_the_clipped_window(reference, geometry, ignore_border, including_pad):
    n, kernel, stride, pad = geometry.values()
    x = np.random.default_rng(0).standard_normal((2, n))
    attributes = {"kernel": (kernel,), "stride": (stride,), "pad": (pad,), "ignore_border": ignore_border}
    parts = windows(n, kernel, stride, pad, ignore_border)
    if not parts:
        with pytest.raises(ValueError, match="no window"):
            reference("AveragePooling", x, including_pad=including_pad, **attributes)
        return
    expected = []
    for start, stop in parts:
        real = x[:, max(start, 0) : max(min(stop, n), 0)]
        count = min(stop, n + pad) - start if including_pad else real.shape[1]
        expected.append(real.sum(axis=1) / max(count, 1))
    y = reference("AveragePooling", x, including_pad=including_pad, **attributes)
    np.testing.assert_allclose(y, np.stack(expected, axis=1), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("ignore_border", [True, False])
@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
def test_sum_is_of_the_real_elements_of_each_window(reference, geometry, ignore_border):
    n, kernel, stride, pad = geometry.values()
    x = np.random.default_rng(0).standard_normal((2, n))
    attributes = {"kernel": (kernel,), "stride": (stride,), "pad": (pad,), "ignore_border": ignore_border}
    parts = windows(n, kernel, stride, pad, ignore_border)
    if not parts:
        with pytest.raises(ValueError, match="no window"):
            reference("SumPooling", x, **attributes)
        return
    expected = [x[:, max(start, 0) : max(stop, 0)].sum(axis=1) for start, stop in parts]
    y = reference("SumPooling", x, **attributes)
    np.testing.assert_allclose(y, np.stack(expected, axis=1), rtol=1e-12, atol=1e-12)


def test_sum_is_the_average_times_the_window_where_no_window_is_clipped(reference):
    x = np.random.default_rng(1).standard_normal((2, 3, 6, 8))
    average = reference("AveragePooling", x, kernel=(2, 3), stride=(2, 1))
    np.testing.assert_allclose(reference("SumPooling", x, kernel=(2, 3), stride=(2, 1)), 6 * average)


def test_unpooling_repeats_each_element_over_a_window(reference):
    y = reference("Unpooling", np.array([[[1.0, 2.0], [3.0, 4.0]]]), kernel=(1, 3))
    assert y.tolist() == [[[1, 1, 1, 2, 2, 2], [3, 3, 3, 4, 4, 4]]]


def test_average_pooling_undoes_unpooling(reference):
    x = np.random.default_rng(2).standard_normal((2, 3, 4))
    y = reference("Unpooling", x, kernel=(2, 3))
    assert y.shape == (2, 6, 12)
    np.testing.assert_allclose(reference("AveragePooling", y, kernel=(2, 3)), x)


def test_first_of_equal_maxima_wins(reference):
    x = np.array([[[1.0, 3.0, 3.0, 0.0], [3.0, 2.0, 0.0, 0.0]]])
    _, place = reference("MaxPooling", x, kernel=(2, 2))
    assert place.tolist() == [[[1, 0]]]


def test_padding_never_wins_even_against_minus_infinity(reference):
    y, place = reference("MaxPooling", np.full((1, 2, 2), -np.inf), kernel=(2, 2), pad=(1, 1))
    assert np.all(y == -np.inf)
    assert place.tolist() == [[[3, 2], [1, 0]]]


def test_first_nan_wins(reference):
    y, place = reference("MaxPooling", np.array([[1.0, np.nan, np.nan, 5.0]]), kernel=(4,))
    assert np.isnan(y).all()
    assert place.tolist() == [[1]]


def test_places_of_windows_with_more_than_256_are_wider(reference):
    y, place = reference("MaxPooling", np.arange(300.0)[np.newaxis], kernel=(300,))
    assert (y.tolist(), place.tolist(), place.dtype) == ([[299.0]], [[299]], np.int32)


def test_gradient_adds_up_where_windows_share_a_maximum(reference):
    _, place = reference("MaxPooling", np.array([[0.0, 9.0, 1.0]]), kernel=(2,), stride=(1,))
    gx = reference("MaxPoolingGrad", np.array([[10.0, 1.0]]), place, kernel=(2,), stride=(1,), shape=(3,))
    assert gx.tolist() == [[0.0, 11.0, 0.0]]
