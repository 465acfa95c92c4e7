"""Siamese network: two copies of one network learn to put equal digits close together in the plane.

The network never hears which digit it sees, only whether two images show the same one. Both images go through the
same parameters to a point each; the contrastive loss pulls points of equal digits together, and pushes those of
different digits apart until a margin lies between them. What comes out is a map of the digits in two dimensions, on
which images that were not in training are drawn.

    python examples/siamese.py
    python examples/siamese.py --steps 500 --margin 2

Source of the loss: Hadsell, Chopra, LeCun, Dimensionality Reduction by Learning an Invariant Mapping, 2006.
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
from atled.demo.digits import SIDE, load_digits

BATCH = 64


class Outcome(NamedTuple):
    """losses: one per step.  accuracy: share of held-out digits whose nearest training digit is the same.  picture."""

    losses: list[float]
    accuracy: float
    picture: Path


def embed(images: nn.Variable) -> nn.Variable:
    """Points in the plane, (N, 2), from images (N, 1, 8, 8)."""
    h = F.elu(PF.convolution(images, 16, (3, 3), pad=(1, 1), stride=(2, 2), name="conv1"))
    h = F.elu(PF.convolution(h, 32, (3, 3), pad=(1, 1), name="conv2"))
    h = F.elu(PF.affine(h, 64, name="affine3"))
    return PF.affine(h, 2, name="point")


def contrastive_loss(a: nn.Variable, b: nn.Variable, same: nn.Variable, margin: float) -> nn.Variable:
    """Mean of `same d^2 + (1 - same) max(margin - d, 0)^2`, d the distance of the points a and b (N, 2); same: (N,)."""
    squared = F.sum(F.squared_error(a, b), axis=1)
    distance = (squared + 1e-6) ** 0.5  # away from 0, where the root has no slope
    apart = F.maximum_scalar(margin - distance, 0.0) ** 2.0
    return F.mean(same * squared + (1.0 - same) * apart)


def pairs(labels: np.ndarray, count: int, rng: np.random.RandomState) -> tuple[np.ndarray, np.ndarray]:
    """Positions of `count` pairs, half of them of equal labels; labels: (N,)."""
    first = rng.randint(len(labels), size=count)
    second = rng.randint(len(labels), size=count)
    for number in range(0, count, 2):
        second[number] = rng.choice(np.flatnonzero(labels == labels[first[number]]))
    return first, second


def train(images: np.ndarray, labels: np.ndarray, steps: int, margin: float, rng: np.random.RandomState) -> list[float]:
    """The loss of each step; the parameters are left in the current scope."""
    left, right = (nn.Variable((BATCH, 1, SIDE, SIDE)) for _ in range(2))
    same = nn.Variable((BATCH,))
    loss = contrastive_loss(
        embed(left), embed(right), same, margin
    )  # the second call finds the parameters of the first
    solver = S.Adam(0.003)
    solver.set_parameters(nn.get_parameters())
    losses = []
    for _ in range(steps):
        first, second = pairs(labels, BATCH, rng)
        left.d, right.d, same.d = images[first], images[second], labels[first] == labels[second]
        loss.forward()
        solver.zero_grad()
        loss.backward()
        solver.update()
        losses.append(float(loss.d))
    return losses


def points(images: np.ndarray) -> np.ndarray:
    """Where the network puts images: (N, 2)."""
    y = embed(nn.Variable.from_numpy_array(images))
    y.forward()
    return y.d.copy()


def nearest(places: np.ndarray, known: np.ndarray) -> np.ndarray:
    """For each of (N, 2) points the position of the nearest of (M, 2) others."""
    return np.sum((places[:, np.newaxis] - known[np.newaxis]) ** 2, axis=2).argmin(axis=1)


def draw(path: Path, places: np.ndarray, labels: np.ndarray) -> None:
    """The map: one point per held-out image, coloured by digit; places (N, 2), labels (N,)."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure((6.5, 6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    shown = axes.scatter(places[:, 0], places[:, 1], c=labels, cmap="tab10", s=14, vmin=-0.5, vmax=9.5)
    for digit in range(10):
        middle = np.median(places[labels == digit], axis=0)
        axes.annotate(str(digit), middle, fontsize=16, fontweight="bold", ha="center", va="center")
    figure.colorbar(shown, ax=axes, ticks=range(10), label="digit")
    axes.set_title("held-out digits on the learned map")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def main(argv: Sequence[str] | None = None) -> Outcome:
    """Train, tell, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=2000, help="of training (default: 2000)")
    parser.add_argument("--margin", type=float, default=1.0, help="between different digits (default: 1)")
    parser.add_argument("--seed", type=int, default=0, help="of weights and pairs (default: 0)")
    parser.add_argument("--context", help="backend, such as cpu or reference (default: the default Context)")
    parser.add_argument("--out", type=Path, default=Path("demo-out"), help="folder for the picture (default: demo-out)")
    arguments = parser.parse_args(argv)
    context = nn.get_extension_context(arguments.context) if arguments.context else nn.get_current_context()

    digits = load_digits()
    labels, held_out = digits.train_labels[:, 0], digits.test_labels[:, 0]
    picture = arguments.out / "siamese.png"
    with nn.context_scope(context), nn.parameter_scope("siamese"):
        nn.clear_parameters()  # of an earlier run in the same process
        np.random.seed(arguments.seed)  # the initial weights are drawn from there
        rng = np.random.RandomState(arguments.seed)
        losses = train(digits.train_images, labels, arguments.steps, arguments.margin, rng)
        known, places = points(digits.train_images), points(digits.test_images)
    draw(picture, places, held_out)
    accuracy = float(np.mean(labels[nearest(places, known)] == held_out))
    print(f"loss {losses[0]:.4f} at first, {np.mean(losses[-20:]):.4f} after {len(losses)} steps")
    print(f"{accuracy:.1%} of the held-out digits lie nearest to a training image of the same digit")
    print(f"map: {picture}")
    return Outcome(losses, accuracy, picture)


if __name__ == "__main__":
    main()
