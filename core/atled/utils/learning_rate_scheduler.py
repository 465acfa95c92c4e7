"""Learning rates that follow the number of the iteration, for `Solver.set_learning_rate`."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Protocol

from atled.errors import four_parts

__all__ = [
    "BaseLearningRateScheduler",
    "CosineScheduler",
    "ExponentialScheduler",
    "LinearWarmupScheduler",
    "PolynomialScheduler",
    "StepScheduler",
]


class _Schedule(Protocol):
    """Whatever has `get_learning_rate`: schedules of a program's own need no base class."""

    def get_learning_rate(self, iter: int) -> float: ...


class BaseLearningRateScheduler:
    """A learning rate by the number of the iteration, counted from 0; subclasses say which."""

    def get_learning_rate(self, iter: int) -> float:
        """The rate of an iteration."""
        raise NotImplementedError(
            four_parts(
                f"{type(self).__name__}.get_learning_rate",
                "the class does not define it",
                "",
                "define get_learning_rate(self, iter), which returns the rate of an iteration",
            )
        )


class PolynomialScheduler(BaseLearningRateScheduler):
    """`init_lr (1 - iter / max_iter)**power`; 0 from iteration max_iter on."""

    def __init__(self, init_lr: float, max_iter: int, power: float) -> None:
        """ValueError: max_iter is not above 0."""
        self.init_lr = init_lr
        self.max_iter = _positive(self, "max_iter", max_iter)
        self.power = power

    def get_learning_rate(self, iter: int) -> float:
        """The rate of an iteration."""
        # Not as the formula has it beyond its end: a rate below 0 would undo the training.
        return self.init_lr * max(0.0, 1.0 - iter / self.max_iter) ** self.power


class CosineScheduler(BaseLearningRateScheduler):
    """`init_lr (1 + cos(pi iter / max_iter)) / 2`: 0 at iteration max_iter, from where it rises again.

    Source: Loshchilov, Hutter, SGDR, 2017.
    """

    def __init__(self, init_lr: float, max_iter: int) -> None:
        """ValueError: max_iter is not above 0."""
        self.init_lr = init_lr
        self.max_iter = _positive(self, "max_iter", max_iter)

    def get_learning_rate(self, iter: int) -> float:
        """The rate of an iteration."""
        return self.init_lr * (1.0 + math.cos(math.pi * iter / self.max_iter)) / 2


class ExponentialScheduler(BaseLearningRateScheduler):
    """`init_lr gamma**(iter // iter_interval)`."""

    def __init__(self, init_lr: float, gamma: float, iter_interval: int = 1) -> None:
        """ValueError: iter_interval is not above 0."""
        self.init_lr = init_lr
        self.gamma = gamma
        self.iter_interval = _positive(self, "iter_interval", iter_interval)

    def get_learning_rate(self, iter: int) -> float:
        """The rate of an iteration."""
        return float(self.init_lr * self.gamma ** (iter // self.iter_interval))


class StepScheduler(BaseLearningRateScheduler):
    """`init_lr gamma**k`, where k is how many of `iter_steps` the iteration has reached."""

    def __init__(self, init_lr: float, gamma: float, iter_steps: Iterable[int]) -> None:
        self.init_lr = init_lr
        self.gamma = gamma
        self.iter_steps = list(iter_steps)

    def get_learning_rate(self, iter: int) -> float:
        """The rate of an iteration."""
        return float(self.init_lr * self.gamma ** sum(iter >= step for step in self.iter_steps))


class LinearWarmupScheduler(BaseLearningRateScheduler):
    """The rate of another schedule, times `(iter + 1) / warmup_iter` in the iterations before that number."""

    def __init__(self, scheduler: _Schedule, warmup_iter: int) -> None:
        """scheduler: anything with `get_learning_rate`."""
        self.scheduler = scheduler
        self.warmup_iter = warmup_iter

    def get_learning_rate(self, iter: int) -> float:
        """The rate of an iteration."""
        rate = self.scheduler.get_learning_rate(iter)
        return rate * (iter + 1) / self.warmup_iter if iter < self.warmup_iter else rate


def _positive(scheduler: BaseLearningRateScheduler, name: str, value: int) -> int:
    if not value > 0:
        raise ValueError(
            four_parts(f"{type(scheduler).__name__}, {name}={value!r}", "it is not above 0", "", "count iterations")
        )
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
