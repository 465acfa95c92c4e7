"""A convolutional network by neon's layers tells by how many quarter turns a piece of a photograph is rotated.

The two photographs come with scikit-learn. Pieces of the left halves are learned, mirrored or not, lighter or darker;
the network is measured on pieces of the right halves, which it never saw. The picture shows the learning curve, and
held-out pieces with what the network says.

    python examples/neon_conv.py
    python examples/neon_conv.py --context sim --epochs 1 --pieces 128
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from atled.neon.backends import cleanup_backend, gen_backend
from atled.neon.data import ArrayIterator
from atled.neon.initializers import Constant, GlorotUniform, Kaiming
from atled.neon.layers import Affine, Conv, Dropout, GeneralizedCost, Pooling
from atled.neon.models import Model
from atled.neon.optimizers import Adam
from atled.neon.transforms import Accuracy, CrossEntropyMulti, Rectlin, Softmax

BATCH = 64
SIDE = 32  # pixels of a piece, each the mean of SHRUNK x SHRUNK of the photograph
SHRUNK = 9
TURNS = 4


class Outcome(NamedTuple):
    """costs: mean cost of each epoch.  accuracies: share of held-out pieces that are right then; the last is final."""

    costs: list[float]
    accuracies: list[float]
    picture: Path


def pieces_of(halves: Sequence[np.ndarray], count: int, rng: Any, is_varied: bool) -> tuple[np.ndarray, np.ndarray]:
    """Pieces (count, 3 * 32 * 32) from anywhere in the halves in turn, and their quarter turns (count,).

    halves: (height, width, 3) in [0, 1].  is_varied: whether they are mirrored, and made lighter or darker, by chance.
    """
    size, made = SIDE * SHRUNK, []
    turns = rng.randint(TURNS, size=count)
    for number, turn in enumerate(turns):
        half = halves[number % len(halves)]
        row, column = (rng.randint(extent - size + 1) for extent in half.shape[:2])
        piece = half[row : row + size, column : column + size]
        piece = piece.reshape(SIDE, SHRUNK, SIDE, SHRUNK, 3).mean(axis=(1, 3))
        if is_varied:
            piece = piece[:, :: rng.choice([-1, 1])] * rng.uniform(0.8, 1.2) + rng.uniform(-0.1, 0.1)
        made.append(np.rot90(piece, turn).transpose(2, 0, 1).ravel() - 0.5)
    return np.array(made, np.float32), turns


def data_of(count: int, held_out: int, seed: int) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    """Pieces of the left halves of both photographs to learn from, and of the right ones, with their turns."""
    # Lazy: scikit-learn takes most of a second to import.
    from sklearn.datasets import load_sample_images

    images = [image.astype(np.float32) / 255 for image in load_sample_images().images]
    middle, rng = images[0].shape[1] // 2, np.random.RandomState(seed)
    learned = pieces_of([image[:, :middle] for image in images], count, rng, is_varied=True)
    other = pieces_of([image[:, middle:] for image in images], held_out, rng, is_varied=False)
    return learned, other


def network() -> Model:
    """Three convolutions with batch normalization and pooling, and two layers behind."""
    init: Any = Kaiming()

    def convolution(size: int, maps: int) -> Any:
        return Conv((size, size, maps), init=init, padding=size // 2, batch_norm=True, activation=Rectlin())

    return Model(
        [
            [convolution(5, 16), Pooling(2)],
            [convolution(3, 32), Pooling(2)],
            [convolution(3, 32), Pooling(2)],
            Dropout(keep=0.7),
            Affine(64, init=init, batch_norm=True, activation=Rectlin()),
            Dropout(keep=0.5),
            Affine(TURNS, init=GlorotUniform(), bias=Constant(0), activation=Softmax()),
        ]
    )


def draw(
    path: Path,
    costs: Sequence[float],
    accuracies: Sequence[float],
    pieces: np.ndarray,
    turns: np.ndarray,
    found: np.ndarray,
) -> None:
    """The learning curve: cost in training, and what is right of the held-out pieces; the first of these.

    pieces: (N, 3 * 32 * 32).  turns, found: (N,) quarter turns, and what the network takes them for.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure((13, 4), layout="constrained")
    FigureCanvasAgg(figure)
    curves, shown = figure.subfigures(1, 2)
    left, right = curves.subplots(1, 2)
    left.semilogy(range(1, len(costs) + 1), costs, "o-", color="#2a5db0")
    left.set_ylabel("mean cost in training")
    right.plot(range(1, len(accuracies) + 1), accuracies, "o-", color="#2a5db0")
    right.set_ylabel("share of held-out pieces that are right")
    right.set_ylim(0, 1)
    for axes in (left, right):
        axes.set_xlabel("epoch")
        axes.grid(alpha=0.3)
    shown.suptitle("held-out pieces, and what the network says (red: wrong)")
    for place, piece, turn, says in zip(shown.subplots(3, 6).ravel(), pieces, turns, found, strict=False):
        place.imshow(piece.reshape(3, SIDE, SIDE).transpose(1, 2, 0) + 0.5)
        place.set_title(f"{90 * says}°", fontsize=9, color="#1e8449" if says == turn else "#c0392b")
        place.set_axis_off()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def main(argv: Sequence[str] | None = None) -> Outcome:
    """Train, tell, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pieces", type=int, default=3072, help="to learn from (default: 3072)")
    parser.add_argument("--epochs", type=int, default=8, help="passes over them (default: 8)")
    parser.add_argument("--rate", type=float, default=0.002, help="learning rate (default: 0.002)")
    parser.add_argument("--seed", type=int, default=0, help="of pieces, weights and drop-out (default: 0)")
    parser.add_argument("--context", default="cpu", help="backend, such as cpu, gpu or reference (default: cpu)")
    parser.add_argument("--out", type=Path, default=Path("demo-out"), help="folder for the picture (default: demo-out)")
    arguments = parser.parse_args(argv)

    gen_backend(arguments.context, rng_seed=arguments.seed, batch_size=BATCH)
    costs, accuracies = [], []
    try:
        learned, (pieces, turns) = data_of(arguments.pieces, arguments.pieces // 4, arguments.seed)
        train, test = (ArrayIterator(x, y, nclass=TURNS, lshape=(3, SIDE, SIDE)) for x, y in (learned, (pieces, turns)))
        model, cost, optimizer = network(), GeneralizedCost(CrossEntropyMulti()), Adam(arguments.rate)
        for epoch in range(1, arguments.epochs + 1):
            model.fit(train, cost, optimizer, num_epochs=epoch)  # goes on where it ended
            costs.append(float(model.total_cost.get()[0, 0]))
            accuracies.append(float(model.eval(test, Accuracy())[0]))
            print(f"epoch {epoch:2d} of {arguments.epochs}  cost {costs[-1]:.4f}  held out {accuracies[-1]:.1%} right")
        found = model.get_outputs(test).argmax(axis=1)
    finally:
        cleanup_backend()
    picture = arguments.out / "neon_conv.png"
    draw(picture, costs, accuracies, pieces, turns, found)
    print(f"{accuracies[-1]:.1%} of the held-out pieces right")
    print(f"learning curve and pieces: {picture}")
    return Outcome(costs, accuracies, picture)


if __name__ == "__main__":
    main()
