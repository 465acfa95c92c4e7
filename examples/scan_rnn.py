"""A recurrent network written by hand, as a loop of a Keras-style backend, learns to add up 50 numbers.

The step is a Python function on symbols, called once; `scan` makes a loop of it, `gradients` goes back through it, and
the optimizer is made of updates. The network reads a number at each step and has to tell their sum at the end. The
picture shows the learning curve, and what the network says of sums that it never saw.

    python examples/scan_rnn.py
    python examples/scan_rnn.py --context sim --steps 5 --batches 300
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import atled.keras_backend as B
from atled_contexts import context_scope, get_current_context, get_extension_context

BATCH = 32
UNSEEN = 500


class Outcome(NamedTuple):
    """losses: mean squared error of each batch, as a share of the variance of the sums.  error: that of unseen sums."""

    losses: list[float]
    error: float
    picture: Path


class Network:
    """A layer of units that see a number and themselves; all methods are on expressions."""

    def __init__(self, units: int, seed: int) -> None:
        rng = np.random.RandomState(seed)
        self.from_input = B.variable(rng.normal(0, 0.1, (1, units)), name="from_input")
        self.from_state = B.variable(np.eye(units), name="from_state")  # at first, all that was seen stays
        self.bias = B.zeros((units,), name="bias")
        self.out = B.variable(rng.normal(0, 1 / np.sqrt(units), (units, 1)), name="out")
        self.learned = [self.from_input, self.from_state, self.bias, self.out]

    def step(self, x: Any, h: Any) -> Any:
        """The state (N, units) behind a number (N,) for each row."""
        fields = B.dot(B.reshape(x, (-1, 1)), self.from_input) + B.dot(h, self.from_state) + self.bias
        return 2.0 * B.sigmoid(2.0 * fields) - 1.0  # the hyperbolic tangent

    def __call__(self, numbers: Any) -> Any:
        """What it says (N,) of numbers (N, steps)."""
        start = B.zeros_like(B.dot(numbers[:, :1], self.from_input))
        states, _ = B.scan(self.step, sequences=B.transpose(numbers), outputs_info=[start], name="recurrence")
        return B.flatten(B.dot(states[-1], self.out))


def adam(loss: Any, learned: Sequence[Any], rate: Any) -> list[tuple[Any, Any]]:
    """Updates by Adam; gradients are made shorter, all by the same factor, where they are longer than 1 together."""
    gradients = B.gradients(loss, learned)
    norm = B.sqrt(sum(B.sum(B.square(each)) for each in gradients))
    factor = 1.0 / B.maximum(norm, 1.0)
    count = B.variable(0.0, name="count")
    updates: list[tuple[Any, Any]] = [(count, count + 1.0)]
    fixed = B.sqrt(1.0 - B.pow(0.999, count + 1.0)) / (1.0 - B.pow(0.9, count + 1.0))
    for each, gradient in zip(learned, gradients, strict=True):
        mean, square = B.zeros_like(each), B.zeros_like(each)
        new_mean = 0.9 * mean + 0.1 * factor * gradient
        new_square = 0.999 * square + 0.001 * B.square(factor * gradient)
        updates += [(mean, new_mean), (square, new_square)]
        updates.append((each, each - rate * fixed * new_mean / (B.sqrt(new_square) + 1e-8)))
    return updates


def train(network: Network, steps: int, batches: int, rng: np.random.RandomState) -> list[float]:
    """Learn from sums of so many numbers; the loss of each batch."""
    # Lazy: what loads the example, such as a test, may do without.
    from rich.progress import BarColumn, Progress, TextColumn

    x, y = B.placeholder(ndim=2, name="x"), B.placeholder(ndim=1, name="y")
    rate = B.placeholder(ndim=0, name="rate")
    loss = B.mean(B.square(network(x) - y))
    learn = B.function([x, y, rate], loss, updates=adam(loss, network.learned, rate), name="learn")
    losses: list[float] = []
    columns = TextColumn("batch {task.completed:5.0f}"), BarColumn(bar_width=30), TextColumn("{task.fields[figures]}")
    with Progress(*columns) as bar:
        task = bar.add_task("", total=batches, figures="")
        for batch in range(batches):
            numbers = rng.uniform(-1, 1, (BATCH, steps))
            losses.append(float(learn(numbers, sums(numbers), 3e-3 * (1 - batch / batches))))
            bar.update(task, advance=1, figures=f"loss {np.mean(losses[-50:]):.4f}")
    return losses


def sums(numbers: np.ndarray) -> np.ndarray:
    """Of each row, in units of their standard deviation: the variance of a uniform number in (-1, 1) is a third."""
    return numbers.sum(axis=1) / np.sqrt(numbers.shape[1] / 3)


def draw(path: Path, losses: Sequence[float], wanted: np.ndarray, said: np.ndarray, error: float) -> None:
    """The learning curve, and what is said against what is right."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure((9, 4), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    left.semilogy(range(1, len(losses) + 1), losses, color="#2a5db0", linewidth=0.8)
    left.set_xlabel("batch")
    left.set_ylabel("squared error / variance of the sums")
    left.grid(alpha=0.3)
    right.plot(wanted, said, ".", color="#2a5db0", markersize=4)
    ends = [wanted.min(), wanted.max()]
    right.plot(ends, ends, color="#c0392b", linewidth=0.8)
    right.set_title(f"unseen sums: {error:.2%} of the variance are left", fontsize=10)
    right.set_xlabel("the sum, in standard deviations")
    right.set_ylabel("what the network says")
    right.grid(alpha=0.3)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def main(argv: Sequence[str] | None = None) -> Outcome:
    """Train, tell, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=50, help="numbers to add up (default: 50)")
    parser.add_argument("--units", type=int, default=32, help="units of the layer (default: 32)")
    parser.add_argument("--batches", type=int, default=1500, help="batches of 32 to learn from (default: 1500)")
    parser.add_argument("--seed", type=int, default=0, help="of weights and numbers (default: 0)")
    parser.add_argument("--context", help="backend, such as cpu or reference (default: the default Context)")
    parser.add_argument("--out", type=Path, default=Path("demo-out"), help="folder for the picture (default: demo-out)")
    arguments = parser.parse_args(argv)

    rng = np.random.RandomState(arguments.seed)
    context = get_extension_context(arguments.context) if arguments.context else get_current_context()
    with context_scope(context):
        network = Network(arguments.units, arguments.seed)
        losses = train(network, arguments.steps, arguments.batches, rng)
        x = B.placeholder(ndim=2, name="x")
        unseen = rng.uniform(-1, 1, (UNSEEN, arguments.steps))
        said = B.function([x], network(x), name="say")(unseen)
    wanted = sums(unseen)
    error = float(np.mean((said - wanted) ** 2) / wanted.var())
    picture = arguments.out / "scan_rnn.png"
    draw(picture, losses, wanted, said, error)
    print(f"sums of {arguments.steps} numbers that it never saw: {error:.2%} of their variance are left")
    print(f"learning curve and sums: {picture}")
    return Outcome(losses, error, picture)


if __name__ == "__main__":
    main()
