"""Multi-layer perceptron: handwritten digits from their 64 pixels, with as many hidden layers as you like.

The same graph with and without labels: one for training, one for held-out images, both finding their parameters by
name. The picture shows the learning curves, and what the units of the first layer look for in an image.

    python examples/mlp.py
    python examples/mlp.py --hidden 64 64 64 --epochs 10
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

import atled as nn
import atled.functions as F
import atled.parametric_functions as PF
import atled.solvers as S
from atled.demo.digits import SIDE, Digits, load_digits

BATCH = 64


class Outcome(NamedTuple):
    """losses, errors: mean loss in training and share of held-out digits mistaken, one per epoch.  picture: of both."""

    losses: list[float]
    errors: list[float]
    picture: Path


def network(images: nn.Variable, hidden: Sequence[int]) -> nn.Variable:
    """Scores of the ten digits, (N, 10), from images (N, 1, 8, 8): affine maps with ELUs in between."""
    h = images
    for number, units in enumerate(hidden, 1):
        h = F.elu(PF.affine(h, units, name=f"hidden{number}"))
    return PF.affine(h, 10, name="scores")


def train(digits: Digits, hidden: Sequence[int], epochs: int, seed: int) -> tuple[list[float], list[float]]:
    """Losses and errors per epoch; the parameters are left in the current scope."""
    x, t = nn.Variable((BATCH, 1, SIDE, SIDE)), nn.Variable((BATCH, 1))
    loss = F.mean(F.softmax_cross_entropy(network(x, hidden), t))

    # A second graph on the same parameters, for all held-out images at once.
    held_out = nn.Variable.from_numpy_array(digits.test_images)
    error = F.mean(F.top_n_error(network(held_out, hidden), nn.Variable.from_numpy_array(digits.test_labels)))

    solver = S.Adam(0.003)
    solver.set_parameters(nn.get_parameters())
    rng = np.random.RandomState(seed)
    losses, errors = [], []
    for _ in range(epochs):
        of_epoch = []
        order = rng.permutation(len(digits.train_images))
        for start in range(0, len(order) - BATCH + 1, BATCH):
            chosen = order[start : start + BATCH]
            x.d, t.d = digits.train_images[chosen], digits.train_labels[chosen]
            loss.forward()
            solver.zero_grad()
            loss.backward()
            solver.weight_decay(1e-4)
            solver.update()
            of_epoch.append(float(loss.d))
        error.forward()
        losses.append(float(np.mean(of_epoch)))
        errors.append(float(error.d))
    return losses, errors


def draw(path: Path, losses: Sequence[float], errors: Sequence[float], weights: np.ndarray) -> None:
    """The learning curves, and the first layer's weights as images: weights is (64, units)."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure((9, 4), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subfigures(1, 2)
    axes = left.subplots()
    axes.semilogy(range(1, len(losses) + 1), losses, color="#2a5db0", label="loss in training")
    axes.semilogy(
        range(1, len(errors) + 1), np.maximum(errors, 1e-4), color="#c0392b", label="error on held-out digits"
    )
    axes.set_xlabel("epoch")
    axes.grid(alpha=0.3)
    axes.legend()
    right.suptitle("what the first units look for")
    limit = np.abs(weights).max()
    for place, unit in zip(right.subplots(4, 6).ravel(), weights.T, strict=False):
        place.imshow(unit.reshape(SIDE, SIDE), cmap="RdBu", vmin=-limit, vmax=limit)
        place.set_axis_off()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def main(argv: Sequence[str] | None = None) -> Outcome:
    """Train, tell, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hidden", type=int, nargs="+", default=[128, 64], help="units per layer (default: 128 64)")
    parser.add_argument("--epochs", type=int, default=30, help="passes over the training images (default: 30)")
    parser.add_argument("--seed", type=int, default=0, help="of weights and batches (default: 0)")
    parser.add_argument("--context", help="backend, such as cpu or reference (default: the default Context)")
    parser.add_argument("--out", type=Path, default=Path("demo-out"), help="folder for the picture (default: demo-out)")
    arguments = parser.parse_args(argv)
    context = nn.get_extension_context(arguments.context) if arguments.context else nn.get_current_context()

    picture = arguments.out / "mlp.png"
    with nn.context_scope(context), nn.parameter_scope("mlp"):
        nn.clear_parameters()  # of an earlier run in the same process
        np.random.seed(arguments.seed)  # the initial weights are drawn from there
        losses, errors = train(load_digits(), arguments.hidden, arguments.epochs, arguments.seed)
        draw(picture, losses, errors, nn.get_parameters()["hidden1/affine/W"].d)
    print(f"loss {losses[0]:.4f} in the first epoch, {losses[-1]:.4f} in the last")
    print(f"{1 - errors[-1]:.1%} of the held-out digits right")
    print(f"learning curves and weights: {picture}")
    return Outcome(losses, errors, picture)


if __name__ == "__main__":
    main()
