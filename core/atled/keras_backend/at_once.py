"""Functions of the backend on NumPy arrays: computed when they are called, by the references of their op specs."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from atled.errors import four_parts
from atled.keras_backend.expressions.expression import Expression
from atled.keras_backend.expressions.leaves import Constant, Variable
from atled.keras_backend.settings import floatx
from atled_contexts import Context, context_scope

# Parameters that are values; all others are sizes, axes, dtypes and names.
_VALUES = frozenset(["x", "y", "a", "b", "tensors", "indices", "val", "min_value", "max_value"])
_SEED = 1234  # of a generator that is given none


def at_once(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of arrays that gives arrays, of one of expressions that gives expressions."""
    signature = inspect.signature(function)

    def computed(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs)
        for name, value in given.arguments.items():
            if name != "value":  # of a variable, which takes anything
                given.arguments[name] = _expressed(value, name) if name in _VALUES else _as_sizes(value)
        with context_scope(_reference()):
            return _values(function(*given.args, **given.kwargs))

    # Messages say which function the program called by the name of its frame, which is that of the code.
    computed.__code__ = computed.__code__.replace(co_name=function.__name__)
    return functools.wraps(function)(computed)


def waits(function: Callable[..., Any], instead: str) -> Callable[..., NoReturn]:
    """What says that a function needs expressions, which wait for values; instead: what a program does on arrays."""

    @functools.wraps(function)
    def refused(*args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(
            four_parts(
                f"{function.__name__} on NumPy arrays",
                "arrays have their values already: nothing here waits for any",
                "",
                f"{instead}; or import atled.keras_backend, where expressions wait",
            )
        )

    return refused


@functools.cache
def _reference() -> Context:
    return Context(["reference:float"])


def _expressed(value: Any, name: str) -> Any:
    """A value, or a list of them, with constants for arrays, which have the parameter's name in messages."""
    if isinstance(value, (np.ndarray, np.generic)):
        constant = Constant(value)
        constant.name = name
        return constant
    if isinstance(value, (list, tuple)) and any(isinstance(each, np.ndarray) for each in value):
        return [_expressed(each, f"{name}[{number}]") for number, each in enumerate(value)]
    return value


def _as_sizes(value: Any) -> Any:
    """Sizes and axes as Python numbers."""
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


def _values(found: Any) -> Any:
    """The array of an expression; of lists those of all in them."""
    if isinstance(found, Variable):
        return found.get_value()
    if isinstance(found, Expression):
        return found.eval()
    if isinstance(found, (list, tuple)):
        return type(found)(_values(each) for each in found)
    return found


# What is no op.


def value_of(x: Any) -> Any:
    """The array itself: it is its own value."""
    return x


def values_of(xs: Any) -> list[Any]:
    """The arrays of a list."""
    return list(xs)


def shape_of(x: Any) -> tuple[int, ...]:
    """The sizes of an array, as Python numbers."""
    return np.shape(x)


def chosen(condition: Any, then_expression: Any, else_expression: Any) -> Any:
    """One of two values, by a condition; Python's `if`."""
    return then_expression if condition else else_expression


# Random numbers: draws of NumPy's.


def make_rng(seed: int | None = None) -> np.random.RandomState:
    """A generator of random numbers, NumPy's; seed None: 1234, the same numbers each time."""
    return np.random.RandomState(_SEED if seed is None else seed)


def random_normal(
    shape: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: str | None = None,
    rng: np.random.RandomState | None = None,
) -> np.ndarray:
    """Normal numbers of a shape; dtype None: `floatx()`.  rng None: one of seed 1234 for each call."""
    return _drawn(rng).normal(mean, stddev, _as_shape(shape)).astype(dtype or floatx())


def random_uniform(
    shape: Any,
    minval: Any = 0.0,
    maxval: Any = 1.0,
    dtype: str | None = None,
    rng: np.random.RandomState | None = None,
) -> np.ndarray:
    """Uniform numbers of a shape in [minval, maxval); see random_normal."""
    return _drawn(rng).uniform(minval, maxval, _as_shape(shape)).astype(dtype or floatx())


def random_binomial(
    shape: Any,
    p: Any = 0.0,
    dtype: str | None = None,
    rng: np.random.RandomState | None = None,
) -> np.ndarray:
    """1 with probability p, a number or an array that fits the shape, else 0; see random_normal."""
    return _drawn(rng).binomial(1, p, _as_shape(shape)).astype(dtype or floatx())


def _drawn(rng: np.random.RandomState | None) -> np.random.RandomState:
    return make_rng() if rng is None else rng


def _as_shape(shape: Any) -> tuple[int, ...]:
    return (int(shape),) if np.ndim(shape) == 0 else tuple(int(each) for each in shape)
