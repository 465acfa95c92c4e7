"""A restricted Boltzmann machine learns handwritten digits, in the words of Keras-style backends on Theano.

Persistent contrastive divergence: chains of samples that go on from batch to batch, by `scan`. Batches are gathered
inside of the compiled function (`givens`), momentum is an update beside that of the weights. What the machine knows is
told by the log-likelihood of digits that were held out, by annealed importance sampling; on a small machine, whose
states can be counted, that is compared with the exact one. The digits come with scikit-learn.

    python examples/rbm.py
    python examples/rbm.py --context sim --epochs 3 --hidden 40
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import atled.keras_backend as B
from atled.demo.digits import SIDE, load_digits
from atled_contexts import context_scope, get_current_context, get_extension_context

PIXELS = SIDE * SIDE
BATCH = 20
CHAINS = 100
SMALL = 12  # hidden units of the machine whose states are counted


class Outcome(NamedTuple):
    """errors: mean squared error of the reconstruction of held-out digits, by epoch.

    likelihood: mean log-likelihood of these, in nats.  small: that of a small machine.  exact: the same, counted.
    """

    errors: list[float]
    likelihood: float
    small: float
    exact: float
    picture: Path


class RBM:
    """Binary units; all methods are on expressions.

    beta: inverse temperature, a number or an expression, which the step of an annealing sets. At 0 all that is left are
    the visible biases `base`.
    """

    def __init__(self, pixels: np.ndarray, hidden: int, seed: int) -> None:
        chance = np.clip(pixels.mean(axis=0), 0.02, 0.98)
        weights = np.random.RandomState(seed).normal(0, 0.05, (PIXELS, hidden))
        self.rng = B.make_rng(seed + 1)
        self.weights = B.variable(weights, name="weights")
        self.visible = B.variable(np.log(chance / (1 - chance)), name="visible")
        self.hidden = B.zeros((hidden,), name="hidden")
        self.base = B.variable(B.get_value(self.visible), name="base")
        self.beta: Any = 1.0

    @property
    def learned(self) -> list[Any]:
        """What training changes."""
        return [self.weights, self.visible, self.hidden]

    def up(self, v: Any) -> Any:
        """Chances of the hidden units."""
        return B.sigmoid(self.beta * (B.dot(v, self.weights) + self.hidden))

    def down(self, h: Any) -> Any:
        """Chances of the pixels."""
        biases = self.beta * self.visible + (1 - self.beta) * self.base
        return B.sigmoid(self.beta * B.dot(h, B.transpose(self.weights)) + biases)

    def sampled(self, p: Any) -> Any:
        """Units that are on with these chances."""
        return B.random_binomial(p.shape, p, rng=self.rng)

    def gibbs(self, v: Any) -> Any:
        """One step of the chain."""
        return self.sampled(self.down(self.sampled(self.up(v))))

    def log_weight(self, v: Any) -> Any:
        """The logarithm of the unnormalized probability of each row: the negative free energy."""
        fields = self.beta * (B.dot(v, self.weights) + self.hidden)
        softplus = B.maximum(fields, 0.0) + B.log(1.0 + B.exp(-B.abs(fields)))
        biases = self.beta * self.visible + (1 - self.beta) * self.base
        return B.dot(v, biases) + B.sum(softplus, axis=1)


def trainer(rbm: RBM, pixels: np.ndarray, steps: int) -> tuple[Callable[..., Any], Any]:
    """A function of the rows of a batch, a rate and a momentum, that learns from the batch; and the chains."""
    data = B.variable(pixels, name="data")
    x, rows = B.placeholder(ndim=2, name="x"), B.placeholder(ndim=1, dtype="int32", name="rows")
    rate, momentum = B.placeholder(ndim=0, name="rate"), B.placeholder(ndim=0, name="momentum")
    chains = B.variable(pixels[:CHAINS], name="chains")

    samples, updates = B.scan(rbm.gibbs, outputs_info=[chains], n_steps=steps)
    model = B.stop_gradient(samples[-1])
    loss = B.mean(rbm.log_weight(model)) - B.mean(rbm.log_weight(x))
    updates[chains] = samples[-1]
    for each, gradient in zip(rbm.learned, B.gradients(loss, rbm.learned), strict=True):
        velocity = B.zeros(B.get_variable_shape(each))
        moved = momentum * velocity - rate * gradient
        updates[velocity] = moved
        updates[each] = each + moved
    return B.function([rows, rate, momentum], loss, updates=updates, givens={x: data[rows]}, name="learn"), chains


def train(rbm: RBM, pixels: np.ndarray, held_out: np.ndarray, epochs: int, seed: int, show: Any) -> tuple[Any, Any]:
    """Learn; the error of reconstructions of what is held out by epoch, and the chains.

    show: called with the number of an epoch and the error.
    """
    learn, chains = trainer(rbm, pixels, steps=5)
    x = B.placeholder(ndim=2, name="x")
    error = B.function([x], B.mean(B.square(x - rbm.down(rbm.up(x)))), name="error")
    order, errors = np.random.RandomState(seed), []
    for epoch in range(epochs):
        rate, momentum = 0.05 * (1 - epoch / epochs), 0.5 if epoch < 5 else 0.7
        shuffled = order.permutation(len(pixels))
        for start in range(0, len(pixels) - BATCH + 1, BATCH):
            learn(shuffled[start : start + BATCH], rate, momentum)
        errors.append(float(error(held_out)))
        show(epoch, errors[-1])
    return errors, chains


def log_partition(rbm: RBM, temperatures: int, runs: int = 200) -> float:
    """The logarithm of the sum over all states, estimated by annealing from the base rates of the pixels to the RBM."""
    betas = np.linspace(0, 1, temperatures)

    def step(before: Any, beta: Any, v: Any, total: Any) -> list[Any]:
        rbm.beta = before
        total = total - rbm.log_weight(v)
        rbm.beta = beta
        return [rbm.gibbs(v), total + rbm.log_weight(v)]

    first = rbm.sampled(B.zeros((runs, PIXELS)) + B.sigmoid(rbm.base))
    sequences = [B.variable(betas[:-1]), B.variable(betas[1:])]
    outputs, updates = B.scan(step, sequences=sequences, outputs_info=[first, B.zeros((runs,))], name="annealing")
    rbm.beta = 1.0
    ratio = B.function([], B.logsumexp(outputs[1][-1]) - np.log(runs), updates=updates)()
    base = B.get_value(rbm.base).astype(np.float64)
    return float(ratio) + B.get_variable_shape(rbm.hidden)[0] * np.log(2) + np.logaddexp(0, base).sum()


def likelihood(rbm: RBM, pixels: np.ndarray, log_z: float) -> float:
    """The mean log-likelihood of pixels, in nats, by the logarithm of the partition function."""
    x = B.placeholder(ndim=2)
    return float(B.function([x], B.mean(rbm.log_weight(x)))(pixels)) - log_z


def counted_partition(rbm: RBM) -> float:
    """The logarithm of the sum over all states, for few hidden units: the visible ones are summed out."""
    count = B.get_variable_shape(rbm.hidden)[0]
    states = np.arange(2**count)[:, None] >> np.arange(count) & 1
    h = B.placeholder(ndim=2)
    fields = B.dot(h, B.transpose(rbm.weights)) + rbm.visible
    softplus = B.maximum(fields, 0.0) + B.log(1.0 + B.exp(-B.abs(fields)))
    return float(B.function([h], B.logsumexp(B.dot(h, rbm.hidden) + B.sum(softplus, axis=1)))(states))


def mosaic(images: np.ndarray, columns: int = 6) -> np.ndarray:
    """Images (N, PIXELS) side by side in rows, with gaps of NaN; one picture is drawn faster than many."""
    rows = -(-len(images) // columns)
    tiles = np.full((rows * columns, SIDE + 2, SIDE + 2), np.nan)
    tiles[: len(images), 1:-1, 1:-1] = images.reshape(-1, SIDE, SIDE)
    return tiles.reshape(rows, columns, SIDE + 2, SIDE + 2).swapaxes(1, 2).reshape(rows * (SIDE + 2), -1)


def draw(path: Path, errors: Sequence[float], title: str, fields: np.ndarray, samples: np.ndarray) -> None:
    """The learning curve, what the first units look for, and samples of the chains; all (..., PIXELS)."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure((13, 4), layout="constrained")
    FigureCanvasAgg(figure)
    curve, left, right = figure.subplots(1, 3)
    curve.plot(range(1, len(errors) + 1), errors, color="#2a5db0")
    curve.set_title(title, fontsize=10)
    curve.set_xlabel("epoch")
    curve.set_ylabel("error of reconstructions, held out")
    curve.set_ylim(bottom=0)
    curve.grid(alpha=0.3)
    limit = np.abs(fields).max()
    left.imshow(mosaic(fields[:36]), cmap="RdBu", vmin=-limit, vmax=limit)
    left.set_title("what the first units look for", fontsize=10)
    right.imshow(mosaic(samples[:36]), cmap="gray_r", vmin=0, vmax=1)
    right.set_title("samples of the chains: chances of pixels", fontsize=10)
    for axes in (left, right):
        axes.set_axis_off()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


@contextmanager
def progress(epochs: int) -> Iterator[Callable[[int, float], None]]:
    """What shows an epoch that is done and its error, as a bar of rich."""
    # Lazy: what loads the example, such as a test, may do without.
    from rich.progress import BarColumn, Progress, TextColumn

    columns = TextColumn("epoch {task.completed:3.0f}"), BarColumn(bar_width=30), TextColumn("{task.fields[figures]}")
    with Progress(*columns) as bar:
        task = bar.add_task("", total=epochs, figures="")
        yield lambda epoch, error: bar.update(task, completed=epoch + 1, figures=f"held-out error {error:.4f}")


def main(argv: Sequence[str] | None = None) -> Outcome:
    """Train, measure, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hidden", type=int, default=100, help="hidden units (default: 100)")
    parser.add_argument("--epochs", type=int, default=40, help="passes over the digits (default: 40)")
    parser.add_argument("--temperatures", type=int, default=1000, help="of the annealing (default: 1000)")
    parser.add_argument("--seed", type=int, default=0, help="of weights, batches and samples (default: 0)")
    parser.add_argument("--context", help="backend, such as cpu or reference (default: the default Context)")
    parser.add_argument("--out", type=Path, default=Path("demo-out"), help="folder for the picture (default: demo-out)")
    arguments = parser.parse_args(argv)

    digits = load_digits()
    pixels, held_out = (
        (images.reshape(-1, PIXELS) > 0.5).astype(np.float32) for images in (digits.train_images, digits.test_images)
    )
    context = get_extension_context(arguments.context) if arguments.context else get_current_context()
    with context_scope(context):
        small = RBM(pixels, SMALL, arguments.seed)
        with progress(arguments.epochs // 4 + 1) as show:
            train(small, pixels, held_out, arguments.epochs // 4 + 1, arguments.seed, show)
        exact = counted_partition(small)
        annealed = log_partition(small, arguments.temperatures)
        small_likelihood = likelihood(small, held_out, annealed)
        exact_likelihood = likelihood(small, held_out, exact)
        told = f"{small_likelihood:.3f} by annealing, {exact_likelihood:.3f} counted"
        print(f"{SMALL} hidden units: log-likelihood of held-out digits {told}")

        rbm = RBM(pixels, arguments.hidden, arguments.seed)
        with progress(arguments.epochs) as show:
            errors, chains = train(rbm, pixels, held_out, arguments.epochs, arguments.seed, show)
        found = likelihood(rbm, held_out, log_partition(rbm, arguments.temperatures))
        samples = B.eval(rbm.down(rbm.up(chains)))
        fields = B.get_value(rbm.weights).T
    picture = arguments.out / "rbm.png"
    draw(picture, errors, f"log-likelihood of held-out digits: {found:.2f}", fields, samples)
    print(f"{arguments.hidden} hidden units: error {errors[-1]:.4f}, log-likelihood of held-out digits {found:.2f}")
    print(f"learning curve, receptive fields and samples: {picture}")
    return Outcome(errors, found, small_likelihood, exact_likelihood, picture)


if __name__ == "__main__":
    main()
