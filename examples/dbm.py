"""A deep Boltzmann machine learns handwritten digits: mean field by a loop that ends when nothing moves any more.

Two layers of hidden units. Each learns first by itself, as a machine whose missing other side is made up for by twice
the input; then both learn together: what the hidden units are likely to be for a digit is found by mean field (`scan`
with `until`), what the machine itself would make by chains of samples. It is compared with a restricted Boltzmann
machine of one layer with as many hidden units, that learns as long in the same way. The digits come with scikit-learn.

    python examples/dbm.py
    python examples/dbm.py --context sim --epochs 3 --hidden 30 20
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


class Outcome(NamedTuple):
    """Mean squared errors of reconstructions of held-out digits.

    errors: of the deep machine, by epoch of the common learning.  error: its last.  flat: of the one with one layer.
    sweeps: how many the last mean field took.
    """

    errors: list[float]
    error: float
    flat: float
    sweeps: int
    picture: Path


class Machine:
    """Pixels below one layer of hidden units or two; all methods are on expressions, of states (N, units)."""

    def __init__(self, pixels: np.ndarray, hidden: Sequence[int], seed: int) -> None:
        rng = np.random.RandomState(seed)
        sizes = [PIXELS, *hidden]
        self.rng = B.make_rng(seed + 1)
        self.weights = [
            B.variable(rng.normal(0, 0.05, sizes[i : i + 2]), name=f"weights{i}") for i in range(len(hidden))
        ]
        self.biases = [B.variable(log_odds(pixels), name="bias0")]
        self.biases += [B.zeros((size,), name=f"bias{i}") for i, size in enumerate(hidden, 1)]

    def chances(self, layer: int, states: Sequence[Any]) -> Any:
        """Of the units of a layer, by the states of the layers beside it."""
        fields = self.biases[layer]
        if layer > 0:
            fields = fields + B.dot(states[layer - 1], self.weights[layer - 1])
        if layer < len(self.weights):
            fields = fields + B.dot(states[layer + 1], B.transpose(self.weights[layer]))
        return B.sigmoid(fields)

    def sampled(self, p: Any) -> Any:
        """Units that are on with these chances."""
        return B.random_binomial(p.shape, p, rng=self.rng)

    def mean_field(self, v: Any, tolerance: float = 1e-3) -> tuple[list[Any], Any]:
        """Chances of the hidden layers for pixels, and the count of sweeps after which none moves by the tolerance."""

        def sweep(*hidden: Any) -> tuple[list[Any], Any]:
            states = [v, *hidden]
            for layer in range(1, len(states)):
                states[layer] = self.chances(layer, states)
            moved = [B.max(B.abs(new - old)) for new, old in zip(states[1:], hidden, strict=True)]
            farthest = moved[0] if len(moved) == 1 else B.maximum(*moved)
            return states[1:], B.until(farthest < tolerance)

        # Up once, with twice the input for what comes from above later.
        states = [v]
        for layer, weights in enumerate(self.weights, 1):
            factor = 2.0 if layer < len(self.weights) else 1.0
            states.append(B.sigmoid(factor * B.dot(states[-1], weights) + self.biases[layer]))
        found, _ = B.scan(sweep, outputs_info=states[1:], n_steps=100, name="mean_field")
        layers = found if isinstance(found, list) else [found]
        return [each[-1] for each in layers], layers[0].shape[0]

    def gibbs(self, *states: Any) -> list[Any]:
        """One step of the chains: the first hidden layer, then those beside it."""
        new = list(states)
        for layer in (1, 0, *range(2, len(new))):
            new[layer] = self.sampled(self.chances(layer, new))
        return new

    def reconstructed(self, v: Any) -> Any:
        """Chances of the pixels, from the chances of the hidden units for pixels."""
        hidden, _ = self.mean_field(v, 1e-4)
        return self.chances(0, [v, *hidden])


def energy(states: Sequence[Any], weights: Sequence[Any], biases: Sequence[Any]) -> Any:
    """The mean over rows of the energy of states of layers."""
    found = sum(B.dot(state, bias) for state, bias in zip(states, biases, strict=True))
    for below, between, above in zip(states[:-1], weights, states[1:], strict=True):
        found = found + B.sum(B.dot(below, between) * above, axis=1)
    return -B.mean(found)


def updates_by_momentum(
    seen: Sequence[Any], made: Sequence[Any], weights: Sequence[Any], biases: Sequence[Any], rate: Any
) -> list[tuple[Any, Any]]:
    """Steps that lower the energy of what was seen, and raise that of what the machine makes itself."""
    seen, made = ([B.stop_gradient(each) for each in states] for states in (seen, made))
    loss = energy(seen, weights, biases) - energy(made, weights, biases)
    learned, updates = [*weights, *biases], []
    for each, gradient in zip(learned, B.gradients(loss, learned), strict=True):
        velocity = B.zeros_like(each)
        moved = 0.5 * velocity - rate * gradient
        updates += [(velocity, moved), (each, each + moved)]
    return updates


def learn_by_batches(learn: Callable[..., Any], count: int, epochs: int, seed: int, show: Callable[..., Any]) -> None:
    """Call a function of the rows of a batch and of a rate that falls; show is called after each epoch."""
    order = np.random.RandomState(seed)
    for epoch in range(epochs):
        shuffled = order.permutation(count)
        for start in range(0, count - BATCH + 1, BATCH):
            learn(shuffled[start : start + BATCH], 0.05 * (1 - epoch / epochs))
        show()


def pretrain(machine: Machine, pixels: np.ndarray, epochs: int, seed: int, show: Callable[..., Any]) -> None:
    """Each layer by itself, by contrastive divergence: the lower one reads twice, the upper one writes twice."""
    x, rows, rate = B.placeholder(ndim=2), B.placeholder(ndim=1, dtype="int32"), B.placeholder(ndim=0)
    values = pixels
    for layer, weights in enumerate(machine.weights):
        up, down = (2.0, 1.0) if layer == 0 else (1.0, 2.0)
        above, below = machine.biases[layer + 1], B.variable(log_odds(values))
        h = B.sigmoid(up * B.dot(x, weights) + above)
        v = machine.sampled(B.sigmoid(down * B.dot(machine.sampled(h), B.transpose(weights)) + below))
        made = [v, B.sigmoid(up * B.dot(v, weights) + above)]
        updates = updates_by_momentum([x, h], made, [weights], [below, above], rate)
        data = B.variable(values, name="data")
        learn = B.function([rows, rate], None, updates=updates, givens={x: data[rows]}, name=f"layer{layer}")
        learn_by_batches(learn, len(values), epochs, seed, show)
        # Two machines had a bias for the units between them: the mean serves both.
        biases = B.get_value(below) if layer == 0 else (B.get_value(machine.biases[layer]) + B.get_value(below)) / 2
        B.set_value(machine.biases[layer], biases)
        values = B.function([x], machine.sampled(h))(values)


def train(machine: Machine, pixels: np.ndarray, epochs: int, seed: int, show: Callable[..., Any]) -> Any:
    """All layers together; the chains."""
    x, rows, rate = B.placeholder(ndim=2), B.placeholder(ndim=1, dtype="int32"), B.placeholder(ndim=0)
    data = B.variable(pixels, name="data")
    hidden, _ = machine.mean_field(x)
    rng = np.random.RandomState(seed)
    chains = [B.variable(pixels[rng.randint(len(pixels), size=CHAINS)])]
    chains += [B.variable(rng.randint(2, size=(CHAINS, B.get_variable_shape(b)[0]))) for b in machine.biases[1:]]
    samples, advanced = B.scan(machine.gibbs, outputs_info=chains, n_steps=5, name="chains")
    last = [each[-1] for each in samples]
    # Chances of the first hidden layer instead of samples: less noise.
    made = [last[0], machine.chances(1, last), *last[2:]]
    updates = updates_by_momentum([x, *hidden], made, machine.weights, machine.biases, rate)
    updates += [*zip(chains, last, strict=True), *advanced.items()]
    learn = B.function([rows, rate], None, updates=updates, givens={x: data[rows]}, name="learn")
    learn_by_batches(learn, len(pixels), epochs, seed, show)
    return chains[0]


def log_odds(values: np.ndarray) -> np.ndarray:
    """Of each column being 1."""
    chance = np.clip(values.mean(axis=0), 0.05, 0.95)
    return np.log(chance / (1 - chance))


def error_of(machine: Machine) -> Callable[[np.ndarray], float]:
    """The mean squared error of reconstructions of pixels."""
    x = B.placeholder(ndim=2)
    return B.function([x], B.mean(B.square(x - machine.reconstructed(x))), name="error")


@contextmanager
def progress(what: str, epochs: int) -> Iterator[Callable[..., None]]:
    """What shows that an epoch is done, as a bar of rich, with a text beside it."""
    # Lazy: what loads the example, such as a test, may do without.
    from rich.progress import BarColumn, Progress, TextColumn

    columns = TextColumn("{task.description}"), BarColumn(bar_width=30), TextColumn("{task.fields[text]}")
    with Progress(*columns) as bar:
        task = bar.add_task(what, total=epochs, text="")

        def show(text: str = "") -> None:
            bar.update(task, advance=1, text=text)

        yield show


def draw(path: Path, errors: Sequence[float], flat: float, rows: Sequence[tuple[str, np.ndarray]]) -> None:
    """The learning curve, and rows of digits (N, PIXELS) with a title each."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure((13, 4), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subfigures(1, 2, width_ratios=[1, 2])
    curve = left.subplots()
    curve.plot(range(1, len(errors) + 1), errors, color="#2a5db0", label="two layers, learning together")
    curve.axhline(flat, color="#c0392b", linewidth=0.8, label="one layer of as many units, at the end")
    curve.set_xlabel("epoch")
    curve.set_ylabel("error of reconstructions, held out")
    curve.set_ylim(bottom=0)
    curve.legend(fontsize=8)
    curve.grid(alpha=0.3)
    for axes, (title, digits) in zip(right.subplots(len(rows), 1), rows, strict=True):
        # Side by side, with two columns without ink behind each.
        tiles = np.pad(digits[:12].reshape(-1, SIDE, SIDE), ((0, 0), (0, 0), (0, 2)))
        axes.imshow(tiles.swapaxes(0, 1).reshape(SIDE, -1), cmap="gray_r", vmin=0, vmax=1)
        axes.set_title(title, fontsize=9, loc="left")
        axes.set_axis_off()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def main(argv: Sequence[str] | None = None) -> Outcome:
    """Train both machines, compare, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hidden", type=int, nargs=2, default=[150, 50], help="units of both layers (default: 150 50)")
    parser.add_argument("--epochs", type=int, default=20, help="for each layer, and again for both (default: 20)")
    parser.add_argument("--seed", type=int, default=0, help="of weights, batches and samples (default: 0)")
    parser.add_argument("--context", help="backend, such as cpu or reference (default: the default Context)")
    parser.add_argument("--out", type=Path, default=Path("demo-out"), help="folder for the picture (default: demo-out)")
    arguments = parser.parse_args(argv)

    digits, seed, epochs = load_digits(), arguments.seed, arguments.epochs
    pixels, held_out = (
        (images.reshape(-1, PIXELS) > 0.5).astype(np.float32) for images in (digits.train_images, digits.test_images)
    )
    context = get_extension_context(arguments.context) if arguments.context else get_current_context()
    with context_scope(context):
        flat = Machine(pixels, [sum(arguments.hidden)], seed)
        with progress("one layer", 2 * epochs) as show:
            train(flat, pixels, 2 * epochs, seed, show)
        flat_error = float(error_of(flat)(held_out))

        deep = Machine(pixels, arguments.hidden, seed)
        errors: list[float] = []
        error = error_of(deep)

        def note() -> None:
            errors.append(float(error(held_out)))
            show(f"held-out error {errors[-1]:.4f}")

        with progress("two layers, by themselves", 2 * epochs) as show:
            pretrain(deep, pixels, epochs, seed, show)
        with progress("two layers, together", epochs) as show:
            chains = train(deep, pixels, epochs, seed, note)
        x = B.placeholder(ndim=2)
        reconstructed = B.function([x], deep.reconstructed(x))(held_out[::30])
        sweeps = int(B.function([x], deep.mean_field(x, 1e-4)[1])(held_out))
        samples = B.eval(chains)
    picture = arguments.out / "dbm.png"
    rows = [("held-out digits", held_out[::30]), ("reconstructed", reconstructed), ("samples of the chains", samples)]
    draw(picture, errors, flat_error, rows)
    print(f"error of reconstructions of held-out digits: {errors[-1]:.4f} by two layers, {flat_error:.4f} by one")
    print(f"sweeps of mean field until nothing moves: {sweeps}")
    print(f"learning curve and digits: {picture}")
    return Outcome(errors, errors[-1], flat_error, sweeps, picture)


if __name__ == "__main__":
    main()
