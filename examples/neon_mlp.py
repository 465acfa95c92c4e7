"""A network by neon's layers: Model.fit learns handwritten digits with drop-out and momentum.

The digits come with scikit-learn. A fifth of them is held out; after each epoch the error on these is told. The picture
shows the learning curve.

    python examples/neon_mlp.py
    python examples/neon_mlp.py --context sim --epochs 3
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from atled.demo.digits import SIDE, Digits, load_digits
from atled.neon.backends import cleanup_backend, gen_backend
from atled.neon.data import ArrayIterator
from atled.neon.initializers import Constant, GlorotUniform
from atled.neon.layers import Affine, Dropout, GeneralizedCost
from atled.neon.models import Model
from atled.neon.optimizers import GradientDescentMomentum, Schedule
from atled.neon.transforms import Accuracy, CrossEntropyMulti, Rectlin, Softmax

BATCH = 64
CLASSES = 10


class Outcome(NamedTuple):
    """costs: mean cost of each epoch.  errors: share of held-out digits that are wrong then.  accuracy: at the end."""

    costs: list[float]
    errors: list[float]
    accuracy: float
    picture: Path


class Progress:
    """Tells what a model has learned after each epoch, as `Model.fit` asks of callbacks."""

    def __init__(self, model: Model, held_out: ArrayIterator, epochs: int) -> None:
        self.model, self.held_out, self.epochs = model, held_out, epochs
        self.costs: list[float] = []
        self.errors: list[float] = []

    def on_train_begin(self, epochs: int) -> None:
        """Nothing was learned so far."""

    def on_train_end(self) -> None:
        """The bar is complete."""
        if sys.stdout.isatty():
            print()

    def on_epoch_begin(self, epoch: int) -> None:
        """Nothing to tell."""

    def on_minibatch_begin(self, epoch: int, minibatch: int) -> None:
        """Nothing to tell."""

    def on_minibatch_end(self, epoch: int, minibatch: int) -> None:
        """Nothing to tell."""

    def on_epoch_end(self, epoch: int) -> None:
        """Note cost and error, and draw the bar anew."""
        self.costs.append(float(self.model.total_cost.get()[0, 0]))
        self.errors.append(1.0 - float(self.model.eval(self.held_out, Accuracy())[0]))
        done = 30 * (epoch + 1) // self.epochs
        numbers = f"epoch {epoch + 1:3d}  cost {self.costs[-1]:.4f}  held-out error {self.errors[-1]:6.2%}"
        if sys.stdout.isatty():
            print(f"\r[{'#' * done}{' ' * (30 - done)}] {numbers}", end="", flush=True)
        else:
            print(numbers)


def network(hidden: int) -> Model:
    """Two hidden layers with drop-out, and a softmax over the classes."""
    init, zero = GlorotUniform(), Constant(0)
    return Model(
        [
            Affine(hidden, init=init, bias=zero, activation=Rectlin()),
            Dropout(keep=0.8),
            Affine(hidden, init=init, bias=zero, activation=Rectlin()),
            Dropout(keep=0.8),
            Affine(CLASSES, init=init, bias=zero, activation=Softmax()),
        ]
    )


def data_of(digits: Digits) -> tuple[ArrayIterator, ArrayIterator]:
    """Training and held-out images, in rows of pixels."""
    pairs = (digits.train_images, digits.train_labels), (digits.test_images, digits.test_labels)
    train, test = (ArrayIterator(x.reshape(-1, SIDE * SIDE), y, nclass=CLASSES) for x, y in pairs)
    return train, test


def draw(path: Path, costs: Sequence[float], errors: Sequence[float]) -> None:
    """The learning curve: cost in training, and error on what was held out."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure((9, 4), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    left.semilogy(range(1, len(costs) + 1), costs, color="#2a5db0")
    left.set_ylabel("mean cost in training")
    right.plot(range(1, len(errors) + 1), [100 * each for each in errors], color="#2a5db0")
    right.set_ylabel("held-out digits that are wrong, %")
    right.set_ylim(bottom=0)
    for axes in (left, right):
        axes.set_xlabel("epoch")
        axes.grid(alpha=0.3)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def main(argv: Sequence[str] | None = None) -> Outcome:
    """Train, tell, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hidden", type=int, default=100, help="units of each hidden layer (default: 100)")
    parser.add_argument("--epochs", type=int, default=40, help="passes over the training images (default: 40)")
    parser.add_argument("--rate", type=float, default=0.1, help="learning rate at first (default: 0.1)")
    parser.add_argument("--seed", type=int, default=0, help="of weights and drop-out (default: 0)")
    parser.add_argument("--context", default="cpu", help="backend, such as cpu, gpu or reference (default: cpu)")
    parser.add_argument("--out", type=Path, default=Path("demo-out"), help="folder for the picture (default: demo-out)")
    arguments = parser.parse_args(argv)

    gen_backend(arguments.context, rng_seed=arguments.seed, batch_size=BATCH)
    try:
        digits = load_digits()
        train, test = data_of(digits)
        model, cost = network(arguments.hidden), GeneralizedCost(CrossEntropyMulti())
        half: Any = Schedule(step_config=max(1, arguments.epochs // 2), change=0.5)
        optimizer = GradientDescentMomentum(arguments.rate, momentum_coef=0.9, wdecay=1e-4, schedule=half)
        progress = Progress(model, test, arguments.epochs)
        model.fit(train, cost, optimizer, arguments.epochs, progress)
        scores = model.get_outputs(test)
        accuracy = float(np.mean(scores.argmax(axis=1) == digits.test_labels[:, 0]))
    finally:
        cleanup_backend()
    picture = arguments.out / "neon_mlp.png"
    draw(picture, progress.costs, progress.errors)
    print(f"{accuracy:.1%} of the held-out digits right")
    print(f"learning curve: {picture}")
    return Outcome(progress.costs, progress.errors, accuracy, picture)


if __name__ == "__main__":
    main()
