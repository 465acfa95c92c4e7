"""How the inputs of a measured call are drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Make = Callable[[np.random.Generator], np.ndarray]


@dataclass(frozen=True)
class Input:
    """One input: how its values are drawn, and whether its gradient is asked for."""

    make: Make
    grad: bool = True


@dataclass(frozen=True)
class FunctionCall:
    """A function's inputs and other arguments.

    inputs: None for an absent one.  arguments: by keyword.
    comparable: False where libraries may differ rightly: random numbers, places of equal values.
    """

    inputs: Sequence[Input | None] = ()
    arguments: Mapping[str, Any] = field(default_factory=dict)
    comparable: bool = True


def normal(*shape: int) -> Input:
    """Of the normal distribution."""
    return Input(lambda rng: rng.standard_normal(shape).astype(np.float32))


def uniform(low: float, high: float, *shape: int, grad: bool = True) -> Input:
    """Uniform in an interval."""
    return Input(lambda rng: rng.uniform(low, high, shape).astype(np.float32), grad)


def whole(high: int, *shape: int) -> Input:
    """Whole numbers from 0, such as labels or indices."""
    return Input(lambda rng: rng.integers(0, high, shape), grad=False)


def truth(*shape: int) -> Input:
    """Zeros and ones, as float32."""
    return Input(lambda rng: rng.integers(0, 2, shape).astype(np.float32), grad=False)


def probabilities(count: int, classes: int) -> Input:
    """A distribution in each row."""
    return Input(lambda rng: rng.dirichlet(np.full(classes, 10.0), count).astype(np.float32))


def filled(value: float, *shape: int) -> Input:
    """One value everywhere."""
    return Input(lambda rng: np.full(shape, value, np.float32), grad=False)


def boxes(batch: int, count: int, classes: int) -> Input:
    """Boxes that overlap here and there: middle, size, a score, and one score for each class."""

    def make(rng: np.random.Generator) -> np.ndarray:
        places = rng.uniform(0, 1, (batch, count, 2))
        sizes = rng.uniform(0.05, 0.3, (batch, count, 2))
        scores = rng.uniform(0, 1, (batch, count, 1 + classes))
        return np.concatenate((places, sizes, scores), axis=2).astype(np.float32)

    return Input(make, grad=False)


def one(*names: str, x: Input, **arguments: Any) -> dict[str, FunctionCall]:
    """Calls of functions with one input."""
    return {name: FunctionCall((x,), arguments) for name in names}


def two(*names: str, x: Input, y: Input, **arguments: Any) -> dict[str, FunctionCall]:
    """Calls of functions with two inputs."""
    return {name: FunctionCall((x, y), arguments) for name in names}


def random(name: str, *inputs: Input, **arguments: Any) -> dict[str, FunctionCall]:
    """A call that draws random numbers."""
    return {name: FunctionCall(inputs, {"seed": 5, **arguments}, comparable=False)}
