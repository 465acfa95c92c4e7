"""Slicing by NumPy's rules, and its canonical attributes."""

import itertools

import numpy as np
import pytest

from atled.array_desc import ArrayDesc
from atled.ops.spec import SPECS

BOUNDS = range(-5, 6)


@pytest.mark.parametrize("size", [0, 1, 3])
@pytest.mark.parametrize("step", [-3, -2, -1, 1, 2, 3])
def test_slice_is_numpys(reference, size, step):
    x = np.arange(float(size))
    for start, stop in itertools.product(BOUNDS, BOUNDS):
        y = reference("Slice", x, start=(start,), stop=(stop,), step=(step,))
        np.testing.assert_array_equal(y, x[start:stop:step], err_msg=f"{start}:{stop}:{step}")


@pytest.mark.parametrize("step", [-2, 1])
def test_absent_bounds_mean_the_whole_axis(reference, step):
    x = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(reference("Slice", x, step=(1, step)), x[:, ::step])


def test_checked_bounds_stay_as_they_are():
    spec = SPECS["Slice"]
    inputs = [ArrayDesc((4,), np.float32)]
    for start, stop, step in itertools.product(BOUNDS, BOUNDS, (-2, -1, 1, 2)):
        once = spec.check_attributes({"start": (start,), "stop": (stop,), "step": (step,)}, inputs)
        assert spec.check_attributes(once, inputs) == once


def test_embed_gradient_sums_repeated_indices(reference):
    gw = reference("EmbedGrad", np.array([[1.0], [10.0], [100.0]]), np.array([2, 0, 2]), n=4)
    assert gw.ravel().tolist() == [10.0, 0.0, 101.0, 0.0]


def test_one_hot_of_index_pairs(reference):
    y = reference("OneHot", np.array([[1, 2], [0, 0]]), shape=(2, 3))
    assert y.dtype == np.float32
    assert np.argwhere(y).tolist() == [[0, 1, 2], [1, 0, 0]]


@pytest.mark.parametrize("index", [[[2, 0]], [[0, 3]], [[-1, 0]]])
def test_one_hot_checks_each_axis(reference, index):
    with pytest.raises(IndexError, match="out of range"):
        reference("OneHot", np.array(index), shape=(2, 3))
