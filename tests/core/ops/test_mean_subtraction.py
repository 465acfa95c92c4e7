"""Mean subtraction in the front end: the running mean, its count, and the gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import atled as nn
import atled.functions as F

pytestmark = pytest.mark.usefixtures("backend")

BATCHES = np.random.default_rng(0).standard_normal((3, 4, 2, 5)).astype(np.float32)


def leaf(values: Any, need_grad: bool | None = None) -> nn.Variable:
    return nn.Variable.from_numpy_array(np.asarray(values, np.float32), need_grad=need_grad)


def test_the_running_mean_is_that_of_all_batches():
    x, mean, t = leaf(BATCHES[0]), leaf(np.full((2, 5), 7)), leaf([0])
    y = F.mean_subtraction(x, mean, t)
    for count, batch in enumerate(BATCHES, start=1):
        x.d = batch
        y.forward()
        expected = BATCHES[:count].mean(axis=(0, 1))
        assert_array_equal(t.d, [count])
        assert_allclose(mean.d, expected, rtol=1e-5, atol=1e-6)
        assert_allclose(y.d, batch - expected, rtol=1e-5, atol=1e-6)


def test_the_gradient_counts_what_an_element_adds_to_the_mean_of_itself():
    x, mean, t = leaf(BATCHES[0], True), leaf(np.zeros((2, 5))), leaf([2])
    y = F.mean_subtraction(x, mean, t)
    y.forward()
    x.grad.zero()
    gy = BATCHES[1]
    y.backward(gy)
    assert_allclose(x.g, gy * (1 - 1 / (3 * 4)), rtol=1e-6)
    assert_array_equal(t.d, [3])  # backward moves nothing


def test_without_update_nothing_moves():
    x, mean, t = leaf(BATCHES[0], True), leaf(np.full((2, 5), 0.5)), leaf([2])
    y = F.mean_subtraction(x, mean, t, update_running_mean=False)
    y.forward()
    x.grad.zero()
    y.backward()
    assert_allclose(y.d, BATCHES[0] - 0.5, rtol=1e-6)
    assert_array_equal(mean.d, np.full((2, 5), 0.5))
    assert_array_equal(t.d, [2])
    assert_array_equal(x.g, np.ones_like(BATCHES[0]))


def test_mean_and_count_get_no_gradient():
    x, mean, t = leaf(BATCHES[0], True), leaf(np.zeros((2, 5)), True), leaf([0], True)
    y = F.mean_subtraction(x, mean, t)
    y.forward()
    for variable in (x, mean, t):
        variable.grad.zero()
    y.backward()
    assert not mean.g.any() and not t.g.any()


def test_arrays_compute_at_once():
    mean = nn.NdArray.from_numpy_array(np.zeros((2, 5), np.float32))
    t = nn.NdArray.from_numpy_array(np.zeros(1, np.int64))
    for count, batch in enumerate(BATCHES, start=1):
        y = F.mean_subtraction(nn.NdArray.from_numpy_array(batch), mean, t)
        assert t.data.tolist() == [count]
        assert_allclose(y.data, batch - BATCHES[:count].mean(axis=(0, 1)), rtol=1e-5, atol=1e-6)


def test_base_axis_says_what_the_batch_is():
    x, mean, t = leaf(BATCHES), leaf(np.zeros(5)), leaf(0)
    y = F.mean_subtraction(x, mean, t, base_axis=-1)
    y.forward()
    assert_allclose(mean.d, BATCHES.mean(axis=(0, 1, 2)), rtol=1e-5, atol=1e-6)
    assert t.d.shape == () and t.d == 1


def test_the_running_mean_stays_float32_under_half(backend):
    mean, t = leaf(np.full(5, 1024.25)), leaf([1000])
    with nn.context_scope(nn.Context([f"{backend}:half"])):
        y = F.mean_subtraction(leaf(np.full((2, 5), 1026.0)), mean, t)
    y.forward()
    assert y.d.dtype == np.float16 and mean.d.dtype == np.float32
    assert_allclose(mean.d, 1024.25 + 1.75 / 1001, rtol=1e-7)


def test_without_update_no_array_is_written():
    x, mean, t = (nn.Variable.from_numpy_array(np.ones(shape, np.float32)) for shape in ((4, 3), (3,), (1,)))
    y = F.mean_subtraction(x * 2, mean, t, base_axis=1, update_running_mean=False)
    y.forward()
    assert not any(step.changes_arrays for step in y.plan.steps)
    assert len(y.plan.targets) == 1  # what it subtracts from is not stored
