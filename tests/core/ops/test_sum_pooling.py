"""Sum pooling and unpooling."""

import math

import numpy as np
import pytest


@pytest.mark.parametrize("ignore_border", [True, False])
@pytest.mark.parametrize("pad", [0, 1])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("kernel", [1, 2, 3])
@pytest.mark.parametrize("n", [4, 7])
def test_sums_the_real_elements_of_each_window(reference, n, kernel, stride, pad, ignore_border):
    x = np.random.default_rng(0).standard_normal((2, n))
    count = (n + 2 * pad - kernel) // stride + 1 if ignore_border else math.ceil((n + 2 * pad) / stride)
    starts = [i * stride - pad for i in range(count)]
    expected = np.stack([x[:, max(a, 0) : max(a + kernel, 0)].sum(axis=1) for a in starts], axis=1)
    y = reference("SumPooling", x, kernel=(kernel,), stride=(stride,), pad=(pad,), ignore_border=ignore_border)
    np.testing.assert_allclose(y, expected, rtol=1e-12, atol=1e-12)


def test_is_the_average_times_the_window_where_no_window_is_clipped(reference):
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
