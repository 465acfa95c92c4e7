"""Batch normalization: what happens to the running statistics."""

import numpy as np
import pytest

from atled.ops.spec import SPECS


def parameters(channels):
    shape = (1, channels, 1, 1)
    return np.zeros(shape), np.ones(shape), np.zeros(shape), np.zeros(shape)


def test_batch_statistics_normalize_by_the_biased_variance(reference):
    x = np.random.default_rng(0).normal(3, 2, (4, 3, 2, 5))
    y, mean, variance = reference("BatchNormalization", x, *parameters(3), eps=0.0)
    np.testing.assert_allclose(y.mean(axis=(0, 2, 3)), 0, atol=1e-12)
    np.testing.assert_allclose(y.var(axis=(0, 2, 3)), 1)
    np.testing.assert_allclose(mean.ravel(), x.mean(axis=(0, 2, 3)))
    np.testing.assert_allclose(variance.ravel(), x.var(axis=(0, 2, 3)))


def test_running_statistics_move_at_every_call_with_the_unbiased_variance(reference):
    x = np.random.default_rng(0).normal(3, 2, (4, 3, 2, 5))
    beta, gamma, mean, variance = parameters(3)
    for _ in range(2):
        reference("BatchNormalization", x, beta, gamma, mean, variance)
    np.testing.assert_allclose(mean.ravel(), 0.19 * x.mean(axis=(0, 2, 3)))
    np.testing.assert_allclose(variance.ravel(), 0.19 * x.var(axis=(0, 2, 3), ddof=1))


def test_a_single_element_has_running_variance_zero(reference):
    beta, gamma, mean, variance = parameters(2)
    variance += 1
    reference("BatchNormalization", np.ones((1, 2, 1, 1)), beta, gamma, mean, variance, decay_rate=0.5)
    np.testing.assert_array_equal(variance, 0.5)


def test_without_batch_stat_nothing_moves(reference):
    x = np.random.default_rng(0).normal(3, 2, (4, 3, 2, 5))
    beta, gamma, mean, variance = parameters(3)
    mean += 3
    variance += 4
    y, m, v = reference("BatchNormalization", x, beta, gamma, mean, variance, eps=0.0, batch_stat=False)
    np.testing.assert_allclose(y, (x - 3) / 2)
    assert m.tolist() == mean.tolist() == np.full((1, 3, 1, 1), 3.0).tolist()
    assert v.tolist() == variance.tolist() == np.full((1, 3, 1, 1), 4.0).tolist()


def test_variance_survives_a_large_mean_in_float32(reference):
    x = np.random.default_rng(0).normal(1000, 1, (64, 2, 8, 8)).astype(np.float32)
    tensors = [array.astype(np.float32) for array in parameters(2)]
    _, _, variance = reference("BatchNormalization", x, *tensors)
    np.testing.assert_allclose(variance.ravel(), x.astype(np.float64).var(axis=(0, 2, 3)), rtol=1e-6)


@pytest.mark.parametrize(("output_stat", "count"), [(False, 1), (True, 3)])
def test_output_stat_shows_the_statistics(output_stat, count):
    assert SPECS["BatchNormalization"].visible_count(3, {"output_stat": output_stat}) == count
