"""Schedules of learning rates: the numbers of NNabla 1.39, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import atled.solvers as S
from atled.utils.learning_rate_scheduler import (
    BaseLearningRateScheduler,
    CosineScheduler,
    ExponentialScheduler,
    LinearWarmupScheduler,
    PolynomialScheduler,
    StepScheduler,
)

# Of iterations 0 to 11, as NNabla 1.39 gives them.
_COSINE = [1, 0.9755283, 0.9045085, 0.7938926, 0.6545085, 0.5, 0.3454915, 0.2061074, 0.0954915, 0.0244717, 0, 0.0244717]
_CASES: list[tuple[BaseLearningRateScheduler, list[float]]] = [
    (CosineScheduler(1.0, 10), _COSINE),
    (ExponentialScheduler(1.0, 0.5, 3), [1, 1, 1, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.125, 0.125, 0.125]),
    (ExponentialScheduler(2, 0.5), [2 * 0.5**i for i in range(12)]),
    (StepScheduler(1.0, 0.5, [3, 7]), [1, 1, 1, 0.5, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.25, 0.25]),
    (StepScheduler(1.0, 0.5, iter((7, 3))), [1, 1, 1, 0.5, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.25, 0.25]),
    (LinearWarmupScheduler(CosineScheduler(1.0, 10), 4), [0.25, 0.4877641, 0.6783814, *_COSINE[3:]]),
    (LinearWarmupScheduler(StepScheduler(1.0, 1.0, []), 0), [1] * 12),
]
_IDS = ["cosine", "exponential", "each iteration", "steps", "steps in any order", "warm-up", "no warm-up"]


@pytest.mark.parametrize(("scheduler", "rates"), _CASES, ids=_IDS)
def test_rates_are_those_of_nnabla(scheduler: BaseLearningRateScheduler, rates: list[float]) -> None:
    for _ in range(2):
        np.testing.assert_allclose([scheduler.get_learning_rate(i) for i in range(12)], rates, atol=1e-7)


@pytest.mark.parametrize("power", [0.5, 1, 2])
def test_a_polynomial_ends_at_0_and_stays_there(power: float) -> None:
    scheduler = PolynomialScheduler(0.1, 10, power)
    rates = [scheduler.get_learning_rate(i) for i in range(13)]
    np.testing.assert_allclose(rates, [0.1 * (1 - min(i, 10) / 10) ** power for i in range(13)])


def test_a_solver_takes_what_a_schedule_gives() -> None:
    solver, scheduler = S.Sgd(1.0), CosineScheduler(0.5, 4)
    solver.set_learning_rate(scheduler.get_learning_rate(2))
    assert solver.learning_rate() == 0.25


def test_a_class_of_ones_own_is_a_schedule() -> None:
    class Halves:
        def get_learning_rate(self, iter: int) -> float:
            return 1 / (iter + 1)

    assert LinearWarmupScheduler(Halves(), 2).get_learning_rate(0) == 0.5


def test_a_schedule_that_says_no_rate_is_told_what_to_define() -> None:
    with pytest.raises(NotImplementedError, match=r"define get_learning_rate\(self, iter\)"):
        BaseLearningRateScheduler().get_learning_rate(0)


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda: PolynomialScheduler(1.0, 0, 1), "PolynomialScheduler, max_iter=0"),
        (lambda: CosineScheduler(1.0, -3), "CosineScheduler, max_iter=-3"),
        (lambda: ExponentialScheduler(1.0, 0.5, 0), "ExponentialScheduler, iter_interval=0"),
    ],
    ids=["polynomial", "cosine", "exponential"],
)
def test_counts_that_are_not_above_0_are_refused(made: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        made()
