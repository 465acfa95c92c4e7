"""Batch normalization in the front end: running statistics, output_stat, and gradients with fixed statistics."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import atled as nn
import atled.functions as F
from atled.arrays.epoch import WRITES

pytestmark = pytest.mark.usefixtures("backend")

X = np.random.default_rng(5).standard_normal((6, 3, 2, 2)).astype(np.float32) * 2 + 1
SHAPE = (1, 3, 1, 1)


def leaf(values: Any, need_grad: bool | None = None) -> nn.Variable:
    return nn.Variable.from_numpy_array(np.asarray(values, np.float32), need_grad=need_grad)


def parameters(mean: float = 0, variance: float = 0) -> list[nn.Variable]:
    beta, gamma = (leaf(np.full(SHAPE, value), True) for value in (0.5, 2))
    return [beta, gamma, leaf(np.full(SHAPE, mean)), leaf(np.full(SHAPE, variance))]


def statistics() -> tuple[np.ndarray, np.ndarray]:
    return X.mean(axis=(0, 2, 3), keepdims=True), X.var(axis=(0, 2, 3), keepdims=True)


def test_the_output_uses_the_biased_variance():
    y = F.batch_normalization(leaf(X), *parameters())
    y.forward()
    mean, variance = statistics()
    assert_allclose(y.d, 2 * (X - mean) / np.sqrt(variance + 1e-5) + 0.5, atol=1e-5)


def test_every_forward_moves_the_running_statistics_with_the_unbiased_variance():
    beta, gamma, running_mean, running_variance = parameters()
    y = F.batch_normalization(leaf(X), beta, gamma, running_mean, running_variance)
    mean, variance = statistics()
    for share in (0.1, 0.19, 0.271):
        y.forward()
        assert_allclose(running_mean.d, share * mean, rtol=1e-5)
        assert_allclose(running_variance.d, share * variance * 24 / 23, rtol=1e-5)


def test_backward_does_not_move_the_running_statistics():
    x, ps = leaf(X, True), parameters()
    y = F.sum(F.batch_normalization(x, *ps))
    y.forward()
    before = ps[2].d.copy()
    y.backward()
    assert_array_equal(ps[2].d, before)


def test_running_statistics_that_are_set_in_between_are_used():
    ps = parameters()
    y = F.batch_normalization(leaf(X), *ps)
    y.forward()
    ps[2].d = 10
    y.forward()
    assert_allclose(ps[2].d, 9 + 0.1 * statistics()[0], rtol=1e-5)
    ps[2].data.fill(20)
    y.forward()
    assert_allclose(ps[2].d, 18 + 0.1 * statistics()[0], rtol=1e-5)


def test_output_stat_gives_mean_and_biased_variance():
    y, mean, variance = F.batch_normalization(leaf(X), *parameters(), output_stat=True)
    y.forward()
    assert mean.shape == variance.shape == SHAPE
    expected = statistics()
    assert_allclose(mean.d, expected[0], rtol=1e-5)
    assert_allclose(variance.d, expected[1], rtol=1e-5)


def test_gradients_flow_through_the_statistics():
    x = leaf(X, True)
    _, mean, variance = F.batch_normalization(x, *parameters(), output_stat=True)
    z = F.sum(mean * 3) + F.sum(variance * 2)
    z.forward()
    z.backward()
    assert_allclose(x.g, 3 / 24 + 2 * 2 * (X - statistics()[0]) / 24, rtol=1e-4, atol=1e-6)


def test_running_statistics_get_no_gradient():
    x, ps = leaf(X, True), parameters()
    for v in ps[2:]:
        v.need_grad = True
        v.g = 3
    y = F.sum(F.batch_normalization(x, *ps))
    y.forward()
    y.backward()
    for v in ps[2:]:
        assert_array_equal(v.g, np.full(SHAPE, 3))


def test_fixed_statistics_stay_and_let_the_gradient_through():
    x, ps = leaf(X, True), parameters(mean=0.5, variance=2)
    y = F.batch_normalization(x, *ps, batch_stat=False)
    y.forward()
    scale = 1 / np.sqrt(2 + 1e-5)
    assert_allclose(y.d, 2 * (X - 0.5) * scale + 0.5, atol=1e-5)
    y.backward()
    assert_allclose(x.g, np.full_like(X, 2 * scale), rtol=1e-5)
    assert_allclose(ps[1].g.ravel(), ((X - 0.5) * scale).sum(axis=(0, 2, 3)), rtol=1e-4, atol=1e-4)
    assert_array_equal(ps[2].d, np.full(SHAPE, 0.5))


def test_output_stat_needs_batch_stat():
    with pytest.raises(ValueError, match="output_stat"):
        F.batch_normalization(leaf(X), *parameters(), batch_stat=False, output_stat=True)


def test_statistics_follow_the_shape_of_the_input():
    x = leaf(X)
    y, mean, _ = F.batch_normalization(x, *parameters(), output_stat=True)
    y.forward()
    x.reset_shape((2, 3, 4, 4), force=True)
    x.d = 7
    y.forward()
    assert_allclose(mean.d, np.full(SHAPE, 7), rtol=1e-6)
    assert y.shape == (2, 3, 4, 4)


def contexts(backend: str) -> tuple[nn.Context, nn.Context]:
    return nn.Context([f"{backend}:half", f"{backend}:float"]), nn.Context([f"{backend}:float"])


def test_statistics_stay_float32_under_half(backend: str) -> None:
    x, mean, variance = leaf(X, True), nn.Variable(SHAPE), nn.Variable(SHAPE)
    variance.data.zero()
    beta, gamma = parameters()[:2]
    with nn.context_scope(contexts(backend)[0]):
        mean.data.zero()
        y, m, v = F.batch_normalization(x, beta, gamma, mean, variance, output_stat=True)
    # Steps of the running mean below half a unit in the last place of float16, which would stand still in it.
    mean.d = 1024
    for array in (m, v):
        array.persistent = True
    y.forward()
    assert [array.d.dtype for array in (y, m, v, mean, variance)] == [np.float16] + [np.float32] * 4
    expected = statistics()
    assert_allclose(mean.d, 0.9 * 1024 + 0.1 * expected[0], rtol=1e-6)
    assert_allclose(m.d, expected[0], atol=2e-4)  # of x rounded to float16
    y.backward(np.cos(np.arange(X.size)).reshape(X.shape))
    exact = leaf(X, True)
    z = F.batch_normalization(exact, beta, gamma, leaf(np.zeros(SHAPE)), leaf(np.zeros(SHAPE)))
    z.forward()
    z.backward(np.cos(np.arange(X.size)).reshape(X.shape))
    assert_allclose(x.g, exact.g, atol=5e-3)


def test_half_and_float_may_move_the_same_statistics_in_one_plan(backend: str) -> None:
    x = leaf(X)
    given = parameters()
    ends = []
    for context in contexts(backend):
        with nn.context_scope(context):
            ends.append(F.sum(F.batch_normalization(x, *given)))
    (ends[0] + ends[1]).forward()
    mean, _ = statistics()
    assert_allclose(given[2].d, 0.19 * mean, atol=1e-4)


def test_fixed_statistics_are_read_and_not_written():
    x, w = leaf(X), leaf(np.ones((3, 3, 1, 1)))
    ps = [leaf(np.ones(SHAPE)) for _ in range(4)]
    y = F.batch_normalization(F.convolution(x, w), *ps, batch_stat=False)
    y.forward()
    assert not any(step.changes_arrays for step in y.plan.steps)
    assert len(y.plan.targets) == 1  # what the convolution makes is not stored
    for each in ps:
        each.data.cell.note_runs()
    number = next(WRITES)
    y.forward()
    F.batch_normalization(x.data, *(each.data for each in ps), batch_stat=False)
    assert all(each.data.cell.is_unchanged_since(number) for each in ps)


def test_moving_statistics_are_written():
    ps = [leaf(np.ones(SHAPE)) for _ in range(4)]
    for each in ps:
        each.data.cell.note_runs()
    y = F.batch_normalization(leaf(X), *ps)
    number = next(WRITES)
    y.forward()
    assert [each.data.cell.is_unchanged_since(number) for each in ps] == [True, True, False, False]
