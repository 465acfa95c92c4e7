"""Reductions: empty ones, ties, NaN, accuracy, and the index of the extremum."""

import numpy as np
import pytest

from atled.array_desc import ArrayDesc
from atled.ops import reduction  # noqa: F401 - registers the specs
from atled.ops.spec import SPECS


def reduce(name, x, **attributes):
    spec = SPECS[name]
    checked = spec.check_attributes(attributes, [ArrayDesc(x.shape, x.dtype)])
    return spec.reference(x, **checked)


def test_the_sum_of_nothing_is_0_the_mean_nan_the_product_1():
    x = np.zeros((2, 0), np.float32)
    np.testing.assert_array_equal(reduce("Sum", x, axes=1), [0, 0])
    np.testing.assert_array_equal(reduce("Mean", x, axes=1), [np.nan, np.nan])
    np.testing.assert_array_equal(reduce("Prod", x, axes=1), [1, 1])


def test_no_axes_reduce_nothing():
    x = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(reduce("Sum", x, axes=()), x)


def test_axes_become_sorted_and_count_from_the_front():
    spec = SPECS["Sum"]
    assert spec.check_attributes({"axes": (-1, 0)}, [ArrayDesc((2, 3, 4))])["axes"] == (0, 2)
    assert spec.check_attributes({}, [ArrayDesc((2, 3, 4))])["axes"] == (0, 1, 2)
    assert spec.check_attributes({"axes": np.array([1])}, [ArrayDesc((2, 3, 4))])["axes"] == (1,)


def test_a_float32_sum_over_the_leading_axis_is_accurate():
    x = np.full((100_000, 2), 0.1, np.float32)
    y = reduce("Sum", x, axes=0)
    assert y.dtype == np.float32
    np.testing.assert_allclose(y, np.float64(np.float32(0.1)) * 100_000, rtol=1e-7)


@pytest.mark.parametrize(("name", "sign"), [("Max", 1.0), ("Min", -1.0)])
def test_the_first_of_equals_wins(name, sign):
    x = sign * np.array([[1.0, 3.0, 3.0], [2.0, 2.0, 1.0]])
    y, index = reduce(name, x, axes=1)
    np.testing.assert_array_equal(y, sign * np.array([3.0, 2.0]))
    np.testing.assert_array_equal(index, [1, 0])
    assert index.dtype == np.int64


@pytest.mark.parametrize("name", ["Max", "Min"])
def test_nan_wins(name):
    y, index = reduce(name, np.array([1.0, np.nan, 3.0, np.nan]))
    assert np.isnan(y)
    assert index == 1


def test_the_index_counts_within_the_reduced_axes():
    x = np.zeros((2, 3, 4))
    x[1, 0, 2] = x[0, 1, 3] = x[1, 2, 0] = 1
    _, index = reduce("Max", x, axes=(2, 0), keep_dims=True)
    np.testing.assert_array_equal(index, [[[6], [3], [4]]])


@pytest.mark.parametrize("axes", [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2), ()])
@pytest.mark.parametrize("keep_dims", [False, True])
def test_gather_finds_what_grad_puts(axes, keep_dims):
    rng = np.random.default_rng(1)
    x = rng.permutation(24).reshape(2, 3, 4).astype(np.float64)
    y, index = reduce("Max", x, axes=axes, keep_dims=keep_dims)
    np.testing.assert_array_equal(y, x.max(axis=axes, keepdims=keep_dims))
    np.testing.assert_array_equal(SPECS["MaxMinGather"].reference(x, index, axes=axes), y)
    gx = SPECS["MaxMinGrad"].reference(y + 1, index, axes=axes, shape=x.shape)
    np.testing.assert_array_equal(gx, np.where(x == x.max(axis=axes, keepdims=True), x + 1, 0))


@pytest.mark.parametrize("index", [-1, 3])
def test_an_index_out_of_range_is_refused(index):
    with pytest.raises(IndexError, match="use indices from 0 to 2"):
        SPECS["MaxMinGrad"].reference(np.ones(1), np.array([index]), axes=(1,), shape=(1, 3))
