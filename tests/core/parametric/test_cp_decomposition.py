"""The CP decomposition: exact where the rank suffices, a good approximation below, for any shapes."""

import numpy as np
import pytest

from atled.parametric.cp_decomposition import cp_decomposition


def rebuilt(factors):
    return np.einsum("ir,jr,kr->ijk", *factors)


def test_a_tensor_of_the_rank_is_found_exactly():
    rng = np.random.RandomState(0)
    tensor = rebuilt([rng.randn(size, 3) for size in (5, 4, 9)])
    factors = cp_decomposition(tensor, 3, 2000, 1e-12)
    assert [factor.shape for factor in factors] == [(5, 3), (4, 3), (9, 3)]
    np.testing.assert_allclose(rebuilt(factors), tensor, atol=1e-5)


def test_a_higher_rank_approximates_better():
    tensor = np.random.RandomState(0).randn(6, 5, 9)
    errors = [
        np.linalg.norm(rebuilt(cp_decomposition(tensor, rank, rng=np.random.RandomState(1))) - tensor)
        for rank in (1, 4, 12, 40)
    ]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 1e-3 * np.linalg.norm(tensor)


def test_the_columns_of_a_component_are_equally_long():
    factors = cp_decomposition(np.random.RandomState(0).randn(4, 4, 4), 2)
    lengths = [np.linalg.norm(factor, axis=0) for factor in factors]
    np.testing.assert_allclose(lengths[0], lengths[1])
    np.testing.assert_allclose(lengths[0], lengths[2])


@pytest.mark.parametrize("rank", [1, 5])
def test_zeros_stay_zeros(rank):
    factors = cp_decomposition(np.zeros((3, 2, 4)), rank, rng=np.random.RandomState(0))
    assert np.isfinite(np.concatenate(factors)).all()
    assert not rebuilt(factors).any()


def test_equal_seeds_give_equal_factors():
    tensor = np.random.RandomState(0).randn(3, 2, 4)
    first, second = (cp_decomposition(tensor, 6, rng=np.random.RandomState(2)) for _ in range(2))
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)
