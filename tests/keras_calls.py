"""Calls of each function of the Keras-style backend, beside NumPy called directly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import atled.keras_backend as B

_RANDOM = np.random.default_rng(3)
ARRAYS = {
    "a": _RANDOM.normal(size=(3, 4)),
    "b": _RANDOM.normal(size=(3, 4)),
    "p": _RANDOM.uniform(0.5, 2.0, (3, 4)),
    "t": _RANDOM.normal(size=(2, 3, 4)),
    "r": _RANDOM.normal(size=4),
    "c": _RANDOM.normal(size=3),
    "s": np.float64(0.7),
    "m": _RANDOM.normal(size=(4, 4)) + 4 * np.eye(4),
    "d": _RANDOM.permutation(12).reshape(3, 4) / 4.0 - 1.3,
    "w": np.sort(_RANDOM.normal(size=(3, 2))),
    "one": _RANDOM.normal(size=(3, 1, 4)),
    "k": np.array([2, 0, 1], np.int32),
    "j": np.array([1, 3, 0], np.int32),
    "h": np.array([0.5, 1.5, 2.5, -0.5, -1.5, 2.4]),
    "e": np.array([[1.0, 2.0], [np.nan, 0.0]]),
}
"""By name: floats are given in the dtype that a test asks for, integers as they are."""


class Case(NamedTuple):
    """call: of the backend, on expressions.  numpy: the same on arrays.  is_smooth: whether it has a derivative."""

    call: Callable[..., Any]
    numpy: Callable[..., Any]
    arrays: str
    is_smooth: bool = True


def _rows(a: np.ndarray, x: Any) -> np.ndarray:
    return np.where(np.eye(*a.shape, dtype=bool), np.reshape(x, (-1, 1)), a)


CASES = {
    # each element
    "abs": Case(lambda a: B.abs(a), np.abs, "a"),
    "cast": Case(lambda a: B.cast(a, "float64"), lambda a: a.astype(np.float64), "a"),
    "cast_to_integers": Case(lambda a: B.cast(3 * a, "int32"), lambda a: (3 * a).astype(np.int32), "a", False),
    "clip": Case(lambda a: B.clip(a, -0.5, 0.25), lambda a: np.clip(a, -0.5, 0.25), "a"),
    "clip_below": Case(lambda a: B.clip(a, 0.1, None), lambda a: np.maximum(a, 0.1), "a"),
    "clip_turned": Case(lambda a: B.clip(a, 1.0, 0.0), lambda a: np.ones_like(a), "a"),
    "clip_by_arrays": Case(lambda a, r: B.clip(a, r - 0.5, r), lambda a, r: np.clip(a, r - 0.5, r), "a r"),
    "cos": Case(lambda a: B.cos(a), np.cos, "a"),
    "exp": Case(lambda a: B.exp(a), np.exp, "a"),
    "log": Case(lambda p: B.log(p), np.log, "p"),
    "maximum": Case(lambda a, r: B.maximum(a, r), np.maximum, "a r"),
    "minimum": Case(lambda a: B.minimum(a, 0.3), lambda a: np.minimum(a, 0.3), "a"),
    "pow": Case(lambda p, a: B.pow(p, a), np.power, "p a"),
    "pow_of_a_number": Case(lambda a: B.pow(2.0, a), lambda a: np.power(2.0, a), "a"),
    "pow_by_a_number": Case(lambda a: B.pow(a, 3), lambda a: a**3, "a"),
    "round": Case(lambda h: B.round(h), np.round, "h", False),
    "sigmoid": Case(lambda a: B.sigmoid(a), lambda a: 1 / (1 + np.exp(-a)), "a"),
    "sign": Case(lambda a: B.sign(a), np.sign, "a"),
    "sin": Case(lambda a: B.sin(a), np.sin, "a"),
    "sqrt": Case(lambda a: B.sqrt(a), lambda a: np.sqrt(np.clip(a, 0, np.inf)), "a"),
    "square": Case(lambda a: B.square(a), np.square, "a"),
    # comparisons
    "allclose": Case(lambda a: B.allclose(a, a + 1e-7), lambda a: np.True_, "a", False),
    "allclose_far": Case(lambda a: B.allclose(a, a + 0.1, atol=0.05), lambda a: np.False_, "a", False),
    "allclose_of_nan": Case(lambda e: B.allclose(e, e), lambda e: np.False_, "e", False),
    "equal": Case(lambda k, j: B.equal(k, j), np.equal, "k j", False),
    "greater": Case(lambda a, r: B.greater(a, r), np.greater, "a r", False),
    "greater_equal": Case(lambda k, j: B.greater_equal(k, j), np.greater_equal, "k j", False),
    "less": Case(lambda a: B.less(a, 0.2), lambda a: a < 0.2, "a", False),
    "less_equal": Case(lambda k: B.less_equal(1, k), lambda k: k >= 1, "k", False),
    "not_equal": Case(lambda k, j: B.not_equal(k, j), np.not_equal, "k j", False),
    # along axes
    "all": Case(lambda a: B.all(a > -1.0, axis=-1), lambda a: np.all(a > -1, axis=-1), "a", False),
    "all_of_a_list": Case(lambda a, r: B.all([a > -9.0, r > 9.0]), lambda a, r: np.False_, "a r", False),
    "any": Case(
        lambda a: B.any(a > 0, axis=[0], keepdims=True), lambda a: np.any(a > 0, axis=0, keepdims=True), "a", False
    ),
    "any_of_a_list": Case(lambda a, b: B.any([a, b], axis=0), lambda a, b: (a != 0) | (b != 0), "a b", False),
    "argmax": Case(lambda d: B.argmax(d), lambda d: np.argmax(d, -1), "d", False),
    "argmin": Case(lambda d: B.argmin(d, axis=0), lambda d: np.argmin(d, 0), "d", False),
    "cumprod": Case(lambda p: B.cumprod(p, axis=1), lambda p: np.cumprod(p, 1), "p"),
    "cumsum": Case(lambda a: B.cumsum(a), lambda a: np.cumsum(a, 0), "a"),
    "cumsum_of_all": Case(lambda a: B.cumsum(a, axis=None), np.cumsum, "a"),
    "logdiffexp": Case(
        lambda w: B.logdiffexp(w, axis=1, keepdims=True),
        lambda w: np.log(np.exp(w[:, 1:]) - np.exp(w[:, :1])),
        "w",
    ),
    "logsumexp": Case(lambda a: B.logsumexp(a, axis=(0, 1)), lambda a: np.log(np.exp(a).sum()), "a"),
    "max": Case(lambda d: B.max(d, axis=-1, keepdims=True), lambda d: d.max(-1, keepdims=True), "d"),
    "mean": Case(lambda t: B.mean(t, axis=[0, -1]), lambda t: t.mean((0, 2)), "t"),
    "mean_of_integers": Case(lambda k: B.mean(k), np.mean, "k", False),
    "min": Case(lambda d: B.min(d), np.min, "d"),
    "prod": Case(lambda a: B.prod(a, axis=0), lambda a: np.prod(a, 0), "a"),
    "std": Case(lambda a: B.std(a, axis=0), lambda a: np.std(a, 0), "a"),
    "sum": Case(lambda t: B.sum(t, axis=(0, -1), keepdims=True), lambda t: t.sum((0, 2), keepdims=True), "t"),
    "sum_of_integers": Case(lambda k: B.sum(k), np.sum, "k", False),
    "var": Case(lambda a: B.var(a, axis=1, keepdims=True), lambda a: np.var(a, 1, keepdims=True), "a"),
    # shapes
    "arange": Case(lambda a: B.arange(1, a.shape[1], 2), lambda a: np.arange(1, 4, 2), "a", False),
    "arange_of_nothing": Case(lambda a: B.arange(-3), lambda a: np.arange(-3), "a", False),
    "arange_of_data": Case(lambda k: B.arange(k[0], -2, -1), lambda k: np.arange(2, -2, -1), "k", False),
    "concatenate": Case(lambda a, b: B.concatenate([a, b, a]), lambda a, b: np.concatenate([a, b, a], -1), "a b"),
    "flatten": Case(lambda t: B.flatten(t), np.ravel, "t"),
    "one_hot": Case(lambda k: B.one_hot(k, 3), lambda k: np.eye(3)[k], "k", False),
    "ones_like": Case(lambda a: B.ones_like(a, "int32"), lambda a: np.ones((3, 4), int), "a", False),
    "permute_dimensions": Case(lambda t: B.permute_dimensions(t, [2, 0, -2]), lambda t: t.transpose(2, 0, 1), "t"),
    "repeat": Case(lambda a: B.repeat(a, 2), lambda a: np.repeat(a[:, None, :], 2, 1), "a"),
    "repeat_elements": Case(lambda t: B.repeat_elements(t, 3, -2), lambda t: np.repeat(t, 3, 1), "t"),
    "reshape": Case(lambda a: B.reshape(a, (2, -1)), lambda a: a.reshape(2, -1), "a"),
    "reshape_by_sizes": Case(lambda a: B.reshape(a, (a.shape[1], a.shape[0])), lambda a: a.reshape(4, 3), "a"),
    "reshape_by_a_shape": Case(lambda a: B.reshape(a, B.shape(a)[::-1]), lambda a: a.reshape(4, 3), "a"),
    "reverse": Case(lambda t: B.reverse(t, (0, -1)), lambda t: np.flip(t, (0, 2)), "t"),
    "squeeze": Case(lambda one: B.squeeze(one, -2), lambda one: one[:, 0], "one"),
    "stack": Case(lambda a, b: B.stack([a, b], axis=1), lambda a, b: np.stack([a, b], 1), "a b"),
    "tile": Case(lambda a: B.tile(a, (2, 1, 3)), lambda a: np.tile(a, (2, 1, 3)), "a"),
    "transpose": Case(lambda t: B.transpose(t), np.transpose, "t"),
    "zeros_like": Case(lambda a: B.zeros_like(a), np.zeros_like, "a", False),
    # matrices
    "diag": Case(lambda r: B.diag(r), np.diag, "r"),
    "diag_of_a_matrix": Case(lambda m: B.diag(m), np.diag, "m"),
    "dot": Case(lambda a, m: B.dot(a, m), np.dot, "a m"),
    "dot_of_more_axes": Case(lambda t, m: B.dot(m, B.permute_dimensions(t, (0, 2, 1))), lambda t, m: np.dot(
        m, t.transpose(0, 2, 1)), "t m"),
    "dot_with_a_vector": Case(lambda t, r: B.dot(t, r), np.dot, "t r"),
    "fill_diagonal": Case(lambda a, c: B.fill_diagonal(a, c), _rows, "a c"),
    "fill_diagonal_with_one": Case(lambda a, s: B.fill_diagonal(a, s), _rows, "a s"),
    "solve": Case(lambda m, r: B.solve(m, r), np.linalg.solve, "m r"),
    "solve_of_columns": Case(lambda m, a: B.solve(m, a.T), lambda m, a: np.linalg.solve(m, a.T), "m a"),
    "svd": Case(lambda a: B.svd(a)[1], lambda a: np.linalg.svd(a)[1], "a"),
    # operators
    "arithmetic": Case(lambda a, r: (2 - a) * r / (a**2 + 1) + -r, lambda a, r: (2 - a) * r / (a**2 + 1) + -r, "a r"),
    "floor_division": Case(lambda a, p: a // p, lambda a, p: a // p, "a p"),
    "remainder": Case(lambda a, p: a % p, lambda a, p: a % p, "a p"),
    "truth": Case(
        lambda a: ((a > 0) & (a < 1)) | ~(a < 1.2), lambda a: ((a > 0) & (a < 1)) | ~(a < 1.2), "a", False
    ),
    # indices
    "slices": Case(lambda t: t[0, 1:, ::-2], lambda t: t[0, 1:, ::-2], "t"),
    "last": Case(lambda t: t[-1, ..., -1], lambda t: t[-1, ..., -1], "t"),
    "new_axes": Case(lambda a: a[None, :, None, 1], lambda a: a[None, :, None, 1], "a"),
    "slices_by_sizes": Case(lambda a: a[: a.shape[1] - 2, 1 : a.shape[0]], lambda a: a[:2, 1:3], "a"),
    "slices_by_data": Case(lambda a, k: a[k[2] :, : -k[2]], lambda a, k: a[1:, :-1], "a k"),
    "rows": Case(lambda a, k: a[k], lambda a, k: a[k], "a k"),
    "columns": Case(lambda t, j: t[..., j], lambda t, j: t[..., j], "t j"),
    "rows_of_a_constant": Case(lambda a: a[np.array([[0, -1], [1, 1]])], lambda a: a[[[0, -1], [1, 1]]], "a"),
    "an_element": Case(lambda a, k: a[k[0], k[2]], lambda a, k: a[2, 1], "a k"),
    "pairs": Case(lambda a, k, j: a[k, j], lambda a, k, j: a[k, j], "a k j"),
    "pairs_apart": Case(lambda t, j: t[np.array([0, 1, -1]), :, j], lambda t, j: t[[0, 1, -1], :, j], "t j"),
    "beside_a_vector": Case(lambda t, k: t[1, None, k, 1:], lambda t, k: t[1, None, k, 1:], "t k"),
}  # fmt: skip  # a table


def arrays_of(case: Case, dtype: str) -> list[np.ndarray]:
    """The arrays of a case, floats in a dtype."""
    found = [np.asarray(ARRAYS[name]) for name in case.arrays.split()]
    return [each.astype(dtype) if each.dtype.kind == "f" else each for each in found]


def inputs_of(arrays: list[np.ndarray]) -> list[Any]:
    """Placeholders for arrays."""
    return [B.placeholder(ndim=each.ndim, dtype=each.dtype.name) for each in arrays]
