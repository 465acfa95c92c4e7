"""Ops beside the NumPy functions that compute the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

Compute = Callable[..., Any]


class Term(NamedTuple):
    """A value of a description beside NumPy's.

    number: of the value.  array: what NumPy has.  error: how far the value may be off.
    """

    number: int
    array: np.ndarray
    error: float = 0


class Op(NamedTuple):
    """An op and how NumPy computes it.

    accepts: of the operands, whether they are fit for it.  rounds: whether the result is exact of exact floats, too.
    """

    name: str
    compute: Compute
    arity: int
    accepts: Callable[..., bool] = lambda *terms: True
    rounds: bool = True


def _floats(*terms: Term) -> bool:
    return all(term.array.dtype.kind == "f" for term in terms)


def _exact(*terms: Term) -> bool:
    return all(term.error == 0 for term in terms)


def _no_truth(*terms: Term) -> bool:
    return all(term.array.dtype.kind != "b" for term in terms)


def _dot(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    wide = np.float32 if x.dtype == y.dtype == np.float16 else np.result_type(x, y)
    return np.dot(x.astype(wide), y.astype(wide)).astype(np.result_type(x, y))


def _matrices(x: Term, y: Term) -> bool:
    return _floats(x, y) and x.array.ndim == y.array.ndim == 2 and x.array.shape[1] == y.array.shape[0]


OPS = (
    Op("Tanh", np.tanh, 1, _floats),
    Op("Sin", np.sin, 1, _floats),
    Op("Sigmoid", lambda x: (1 / (1 + np.exp(-x.astype(np.float64)))).astype(x.dtype), 1, _floats),
    Op("Abs", np.abs, 1, rounds=False),
    Op("Add2", np.add, 2),
    Op("Sub2", np.subtract, 2, _no_truth),
    Op("Mul2", np.multiply, 2),
    Op("Maximum2", np.maximum, 2, rounds=False),
    Op("Minimum2", np.minimum, 2, rounds=False),
    Op("Less", np.less, 2, _exact),
    Op("GreaterEqual", np.greater_equal, 2, _exact),
    Op("Equal", np.equal, 2, _exact),
    Op("Where", np.where, 3, lambda condition, x, y: condition.error == 0),
    Op("Dot", _dot, 2, _matrices),
)


class Shaped(NamedTuple):
    """An op of one operand with attributes that follow from its shape.

    draw: of the random numbers and the array, the attributes and what NumPy makes of it.
    """

    name: str
    draw: Callable[[np.random.Generator, np.ndarray], tuple[dict[str, Any], np.ndarray]]
    rounds: bool = False


def _axis(rng: np.random.Generator, x: np.ndarray) -> int:
    return int(rng.integers(x.ndim))


def _sum(rng: np.random.Generator, x: np.ndarray) -> tuple[dict[str, Any], np.ndarray]:
    axis, keep = _axis(rng, x), bool(rng.integers(2))
    wide = x.astype(np.float32) if x.dtype == np.float16 else x
    made = np.sum(wide, axis=axis, keepdims=keep)
    return {"axes": axis, "keep_dims": keep}, np.asarray(made, x.dtype if x.dtype.kind == "f" else made.dtype)


def _max(rng: np.random.Generator, x: np.ndarray) -> tuple[dict[str, Any], np.ndarray]:
    axis = _axis(rng, x)
    return {"axes": axis}, np.max(x, axis=axis)


def _transpose(rng: np.random.Generator, x: np.ndarray) -> tuple[dict[str, Any], np.ndarray]:
    axes = tuple(int(axis) for axis in rng.permutation(x.ndim))
    return {"axes": axes}, x.transpose(axes)


def _slice(rng: np.random.Generator, x: np.ndarray) -> tuple[dict[str, Any], np.ndarray]:
    starts = tuple(int(rng.integers(size)) for size in x.shape)
    steps = tuple(int(rng.integers(1, 3)) for _ in x.shape)
    keys = tuple(slice(start, size, step) for start, size, step in zip(starts, x.shape, steps, strict=True))
    return {"start": starts, "stop": x.shape, "step": steps}, x[keys]


def _reshape(rng: np.random.Generator, x: np.ndarray) -> tuple[dict[str, Any], np.ndarray]:
    shape = (x.size,) if rng.integers(2) else (1, *x.shape)
    return {"shape": shape}, x.reshape(shape)


def _cum_sum(rng: np.random.Generator, x: np.ndarray) -> tuple[dict[str, Any], np.ndarray]:
    axis = _axis(rng, x)
    made = np.cumsum(x.astype(np.float32) if x.dtype == np.float16 else x, axis=axis)
    return {"axis": axis}, made.astype(x.dtype) if x.dtype.kind == "f" else made


SHAPED = (
    Shaped("Sum", _sum, rounds=True),
    Shaped("Max", _max),
    Shaped("Transpose", _transpose),
    Shaped("Slice", _slice),
    Shaped("Reshape", _reshape),
    Shaped("CumSum", _cum_sum, rounds=True),
)


def broadcast(arrays: Sequence[Any]) -> bool:
    """Whether shapes fit each other."""
    try:
        np.broadcast_shapes(*(np.shape(array) for array in arrays))
    except ValueError:
        return False
    return True
