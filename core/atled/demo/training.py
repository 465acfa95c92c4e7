"""Training of the demo's network: the loop over epochs and steps, by a static or a dynamic graph."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Protocol

import numpy as np

from atled.calling.auto_mode import auto_forward
from atled.demo.digits import Digits, batches
from atled.demo.network import digit_scores, mean_loss
from atled.named_tuple import NamedTuple
from atled.parameter import get_parameters
from atled.solvers import Adam, Solver
from atled.variable import Variable
from atled_contexts import Trace, trace

_LEARNING_RATE = 5e-3


class Plan(NamedTuple):
    """How to train. dynamic: record a new graph at every step, computing at once."""

    epochs: int
    batch_size: int
    seed: int
    dynamic: bool


class Epoch(NamedTuple):
    """One pass over the training images.

    loss: mean over the steps.  accuracy: share of the held-out images classified rightly afterwards.
    images_per_second: training images, without the time spent on preparation.
    """

    loss: float
    accuracy: float
    images_per_second: float


class Result(NamedTuple):
    """What training gave.

    predictions: (N,) int; the digit that each held-out image is taken for.  seconds: of the whole loop.
    """

    epochs: list[Epoch]
    predictions: np.ndarray
    trace: Trace
    seconds: float


class Display(Protocol):
    """Receives the progress of training."""

    def step(self, epoch: int, loss: float, images_per_second: float) -> None:
        """A step of the epoch with this number, from 1, is done."""

    def epoch(self, number: int, epoch: Epoch) -> None:
        """An epoch is done."""


# Images and labels of a batch in, the loss with its graph out.
LossOf = Callable[[np.ndarray, np.ndarray], Variable]


def train(digits: Digits, plan: Plan, display: Display, prepared_s: Callable[[], float]) -> Result:
    """Train in the present parameter scope, which must be empty, and the present Context.

    prepared_s: seconds spent on preparation so far.
    """
    np.random.seed(plan.seed)  # the initializers draw from there
    rng = np.random.RandomState(plan.seed)
    start = time.perf_counter()
    with trace() as collected:
        # First, so that static and dynamic training make the parameters in the same order.
        classify = classifier(digits.test_images)
        loss_of = dynamic_loss if plan.dynamic else static_loss(plan.batch_size)
        solver = Adam(_LEARNING_RATE)
        solver.set_parameters(get_parameters())
        epochs = []
        for number in range(1, plan.epochs + 1):
            solver.set_learning_rate(learning_rate(number, plan.epochs))
            watch = _Stopwatch(prepared_s)
            losses = []
            for images, labels in batches(digits.train_images, digits.train_labels, plan.batch_size, rng):
                losses.append(train_step(solver, loss_of, images, labels))
                display.step(number, losses[-1], len(losses) * plan.batch_size / watch.seconds())
            rate = len(losses) * plan.batch_size / watch.seconds()
            predictions = classify()
            accuracy = float(np.mean(predictions == digits.test_labels[:, 0]))
            epochs.append(Epoch(float(np.mean(losses)), accuracy, rate))
            display.epoch(number, epochs[-1])
    return Result(epochs, predictions, collected, time.perf_counter() - start)


def train_step(solver: Solver, loss_of: LossOf, images: np.ndarray, labels: np.ndarray) -> float:
    """Move the parameters once; the loss before that."""
    loss = loss_of(images, labels)
    solver.zero_grad()
    loss.backward()
    solver.update()
    return float(loss.d)


def static_loss(batch_size: int) -> LossOf:
    """Records the graph now; each call fills in a batch and runs it."""
    x, t = Variable((batch_size, 1, 8, 8)), Variable((batch_size, 1))
    loss = mean_loss(x, t)

    def loss_of(images: np.ndarray, labels: np.ndarray) -> Variable:
        x.d, t.d = images, labels
        loss.forward()
        return loss

    return loss_of


def dynamic_loss(images: np.ndarray, labels: np.ndarray) -> Variable:
    """Records a graph of its own, each function computing at the call."""
    with auto_forward():
        return mean_loss(Variable.from_numpy_array(images), Variable.from_numpy_array(labels))


def classifier(images: np.ndarray) -> Callable[[], np.ndarray]:
    """A graph that shares the parameters of training; each call gives the likeliest digits, (N,) int."""
    x = Variable.from_numpy_array(images)
    scores = digit_scores(x, training=False)

    def classify() -> np.ndarray:
        scores.forward()
        return np.argmax(scores.d, axis=1)

    return classify


def learning_rate(epoch: int, epochs: int) -> float:
    """Falls along half a cosine, from the first epoch on: big steps at first, small ones to settle."""
    return _LEARNING_RATE * (1 + math.cos(math.pi * (epoch - 1) / epochs)) / 2


class _Stopwatch:
    """Seconds since it was made, without those spent on preparation."""

    def __init__(self, prepared_s: Callable[[], float]) -> None:
        self._prepared_s = prepared_s
        self._start = self._now()

    def _now(self) -> float:
        return time.perf_counter() - self._prepared_s()

    def seconds(self) -> float:
        """Above 0, so that one can divide by it."""
        return max(self._now() - self._start, 1e-9)
