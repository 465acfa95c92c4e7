"""Sample calls: what tests, the conformance kit and the pages feed to an op."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


class Data:
    """How to make one input array; subclasses say from what distribution.

    shape: tuple of int.
    """

    def __init__(self, shape: Sequence[int]) -> None:
        self.shape = tuple(shape)

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        """A float64 or int64 array of `shape`."""
        raise NotImplementedError

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({fields})"


class Normal(Data):
    """Standard normal numbers."""

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        return rng.standard_normal(self.shape)


class Uniform(Data):
    """Uniform numbers in [low, high)."""

    def __init__(self, shape: Sequence[int], low: float, high: float) -> None:
        super().__init__(shape)
        self.low = low
        self.high = high

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        return rng.uniform(self.low, self.high, self.shape)


class Away(Data):
    """Uniform numbers in [-2, 2) that keep 0.05 away from the given points, where a formula has a kink."""

    def __init__(self, shape: Sequence[int], *points: float) -> None:
        super().__init__(shape)
        self.points = points

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        x = rng.uniform(-2, 2, self.shape)
        for point in self.points:
            near = np.abs(x - point) < 0.05
            x = np.where(near, point + np.where(x < point, -0.1, 0.1), x)
        return x


class Distinct(Data):
    """Numbers no two of which are close: a shuffled grid of step 0.1 around 0, for maxima and sorting."""

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        size = int(np.prod(self.shape))
        return (rng.permutation(size).reshape(self.shape) - size / 2 + 0.3) * 0.1


class Grid(Data):
    """Multiples of `step` in [-2, 2), plus `offset`: two with one offset meet often, two with different ones never."""

    def __init__(self, shape: Sequence[int], offset: float = 0.0, step: float = 0.5) -> None:
        super().__init__(shape)
        self.offset = offset
        self.step = step

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        count = round(2 / self.step)
        return rng.integers(-count, count, self.shape) * self.step + self.offset


class Ints(Data):
    """Whole numbers in [low, high), int64."""

    def __init__(self, shape: Sequence[int], high: int, low: int = 0) -> None:
        super().__init__(shape)
        self.high = high
        self.low = low

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        return rng.integers(self.low, self.high, self.shape)


class Exact(Data):
    """Given values."""

    def __init__(self, values: Any) -> None:
        self.values = np.asarray(values)
        super().__init__(self.values.shape)

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        return self.values.copy()


class Sample:
    """One call that must work: `Sample((2, 3), Ints((2, 1), 3), axis=1)`.

    inputs: a shape (standard normal numbers), a Data, or None for an absent input.
    attributes: as given by a user.
    differentiable: False leaves out the comparison with finite differences.
    """

    differentiable = True

    def __init__(self, *inputs: Sequence[int] | Data | None, **attributes: Any) -> None:
        self.inputs = tuple(item if item is None or isinstance(item, Data) else Normal(tuple(item)) for item in inputs)
        self.attributes = attributes

    def no_gradient(self) -> Sample:
        """This sample, without the comparison of gradients with finite differences."""
        self.differentiable = False
        return self

    def draw(self, seed: int = 0) -> list[np.ndarray | None]:
        """The input arrays, float64 or int64, equal for equal seeds."""
        rng = np.random.default_rng(seed)
        return [None if data is None else np.asarray(data.draw(rng)) for data in self.inputs]

    def __repr__(self) -> str:
        inputs = [repr(item.shape) if type(item) is Normal else repr(item) for item in self.inputs]
        return f"Sample({', '.join(inputs + [f'{k}={v!r}' for k, v in self.attributes.items()])})"


class Refused(Sample):
    """One call that must be refused.

    error: the class of the error.  match: a regular expression that its message matches somewhere.
    inputs, attributes: as for `Sample`.
    """

    def __init__(self, error: type[Exception], match: str, *inputs: Any, **attributes: Any) -> None:
        super().__init__(*inputs, **attributes)
        self.error = error
        self.match = match
