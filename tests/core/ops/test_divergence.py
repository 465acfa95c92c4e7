"""Kullback-Leibler divergence: what its numbers say."""

import numpy as np


def test_is_zero_for_equal_distributions_and_positive_for_others(reference):
    p = np.random.default_rng(0).dirichlet(np.ones(5), 3)
    q = np.random.default_rng(1).dirichlet(np.ones(5), 3)
    np.testing.assert_allclose(reference("KLMultinomial", p, p), np.zeros((3, 1)), atol=1e-12)
    np.testing.assert_allclose(
        reference("KLMultinomial", p, q), (p * np.log(p / q)).sum(axis=1, keepdims=True), rtol=1e-5
    )


def test_impossible_outcomes_stay_finite(reference):
    p, q = np.array([[0.0, 1.0]]), np.array([[1.0, 0.0]])
    np.testing.assert_allclose(reference("KLMultinomial", p, q), [[-np.log(1e-8)]], rtol=1e-6)


def test_sums_over_the_axes_from_base_axis_on(reference):
    rng = np.random.default_rng(2)
    p, q = rng.uniform(0.1, 1, (2, 3, 4)), rng.uniform(0.1, 1, (2, 3, 4))
    per_row = reference("KLMultinomial", p, q, base_axis=2)
    assert per_row.shape == (2, 3, 1)
    np.testing.assert_allclose(reference("KLMultinomial", p, q), per_row.sum(axis=1))
