"""The CP decomposition of an array with three axes, by alternating least squares."""

from __future__ import annotations

from typing import Any

import numpy as np

from atled.random import parameter_generator


def cp_decomposition(
    tensor: np.ndarray, rank: int, max_iter: int = 500, stopping_criterion: float = 1e-5, rng: Any = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Factors A, B, C with `tensor[i, j, k]` near `sum_r A[i, r] B[j, r] C[k, r]`.

    Each round solves for one factor after the other by linear least squares, the other two fixed; the squared error
    never grows. The start is the leading singular vectors of the three unfoldings, with random numbers where the rank
    asks for more of them than there are.

    Args:
        tensor: (I, J, K) float64.
        rank: r, at least 1.
        max_iter: the most rounds.
        stopping_criterion: how little the error, relative to the size of the tensor, must change in a round to end.
        rng: numpy.random.RandomState or Generator; None: the numpy.random module.

    Returns:
        A: (I, r), B: (J, r), C: (K, r), float64; a column has the same length in all three.

    Source: Kolda, Bader, Tensor Decompositions and Applications, SIAM Review 51, 2009, section 3.4.
    """
    unfoldings = [np.moveaxis(tensor, axis, 0).reshape(tensor.shape[axis], -1) for axis in range(3)]
    factors = [_start(unfolding, rank, rng) for unfolding in unfoldings]
    size = float(np.linalg.norm(tensor))
    before = np.inf
    for _ in range(max_iter):
        for axis in range(3):
            first, second = (factors[other] for other in range(3) if other != axis)
            columns = _columnwise_product(first, second)
            # Least squares, not the normal equations: beyond the true rank those are singular.
            factors[axis] = np.linalg.lstsq(columns, unfoldings[axis].T, rcond=None)[0].T
        error = float(np.linalg.norm(tensor - np.einsum("ir,jr,kr->ijk", *factors)))
        if size == 0.0 or abs(before - error) <= stopping_criterion * size:
            break
        before = error
    return _balanced(factors)


def _start(unfolding: np.ndarray, rank: int, rng: Any) -> np.ndarray:
    leading = np.linalg.svd(unfolding, full_matrices=False)[0][:, :rank]
    missing = rank - leading.shape[1]
    if not missing:
        return leading
    more = (parameter_generator() if rng is None else rng).normal(size=(unfolding.shape[0], missing))
    return np.hstack([leading, more])


def _columnwise_product(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """The Khatri-Rao product: (J K, r) float64 from (J, r) and (K, r)."""
    return (first[:, None] * second[None, :]).reshape(-1, first.shape[1])


def _balanced(factors: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The same product with columns of equal length in all three factors, from which training goes on best."""
    lengths = [np.linalg.norm(factor, axis=0) for factor in factors]
    common = np.cbrt(lengths[0] * lengths[1] * lengths[2])
    # A component of length 0 stays 0 whatever its other columns are.
    scales = [common / np.where(length == 0.0, 1.0, length) for length in lengths]
    first, second, third = (factor * scale for factor, scale in zip(factors, scales, strict=True))
    return first, second, third
