"""Elman network: a recurrent network reads a handwritten digit row by row and says what it takes it for.

At each step a hidden state is made of one row of pixels and the state before: `h' = tanh(W [row, h] + b)`. The graph
holds one copy of the step per row, all with the same parameters, so that backward goes back through time. The network
is asked after every row, and the picture shows how it makes up its mind while it reads.

    python examples/elman_rnn.py
    python examples/elman_rnn.py --state 32 --epochs 10
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

BATCH = 32


class Outcome(NamedTuple):
    """losses: mean per epoch.  accuracies: share of held-out digits right after each row.  picture: of some digits."""

    losses: list[float]
    accuracies: list[float]
    picture: Path


def step(row: nn.Variable, h: nn.Variable) -> nn.Variable:
    """The next state, (N, S), from a row of pixels (N, 8) and the state before (N, S)."""
    return F.tanh(PF.affine(F.concatenate(row, h, axis=1), h.shape[1], name="step"))


def read(images: nn.Variable, state_size: int) -> list[nn.Variable]:
    """Scores of the ten digits, (N, 10), after each row of images (N, 8, 8)."""
    h = F.constant(0.0, (images.shape[0], state_size))
    scores = []
    for row in F.split(images, axis=1):
        h = step(row, h)
        scores.append(PF.affine(h, 10, name="scores"))
    return scores


def train(digits: Digits, state_size: int, epochs: int, seed: int) -> list[float]:
    """The mean loss of each epoch; the parameters are left in the current scope."""
    x, t = nn.Variable((BATCH, SIDE, SIDE)), nn.Variable((BATCH, 1))
    after_each_row = [F.softmax_cross_entropy(scores, t) for scores in read(x, state_size)]
    loss = F.mean(F.stack(*after_each_row, axis=0))
    solver = S.Adam(0.003)
    solver.set_parameters(nn.get_parameters())
    rng = np.random.RandomState(seed)
    losses = []
    for _ in range(epochs):
        of_epoch = []
        order = rng.permutation(len(digits.train_images))
        for start in range(0, len(order) - BATCH + 1, BATCH):
            chosen = order[start : start + BATCH]
            x.d, t.d = digits.train_images[chosen, 0], digits.train_labels[chosen]
            loss.forward()
            solver.zero_grad()
            loss.backward()
            solver.update()
            of_epoch.append(float(loss.d))
        losses.append(float(np.mean(of_epoch)))
    return losses


def probabilities(images: np.ndarray, state_size: int) -> np.ndarray:
    """What the network takes images (N, 1, 8, 8) for after each row: (8, N, 10)."""
    with nn.auto_forward():  # the same functions, computed as they are called
        scores = read(nn.Variable.from_numpy_array(images[:, 0]), state_size)
        return np.stack([F.softmax(s).d for s in scores])


def draw(path: Path, images: np.ndarray, labels: np.ndarray, believed: np.ndarray) -> None:
    """One example of each digit with the probabilities after each row; believed is (8, N, 10)."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure((10, 4), layout="constrained")
    FigureCanvasAgg(figure)
    places = figure.subplots(2, 10)
    for digit in range(10):
        number = int(np.flatnonzero(labels[:, 0] == digit)[0])
        above, below = places[:, digit]
        above.imshow(images[number, 0], cmap="gray_r")
        above.set_axis_off()
        below.imshow(believed[:, number], cmap="viridis", vmin=0, vmax=1)
        below.set_xticks([digit])
        below.set_yticks([])
    places[1, 0].set_ylabel("row read")
    figure.suptitle("a digit, and below it the probability of 0 to 9 (columns) after each row")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def main(argv: Sequence[str] | None = None) -> Outcome:
    """Train, tell, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--state", type=int, default=64, help="numbers in the hidden state (default: 64)")
    parser.add_argument("--epochs", type=int, default=60, help="passes over the training images (default: 60)")
    parser.add_argument("--seed", type=int, default=0, help="of weights and batches (default: 0)")
    parser.add_argument("--context", help="backend, such as cpu or reference (default: the default Context)")
    parser.add_argument("--out", type=Path, default=Path("demo-out"), help="folder for the picture (default: demo-out)")
    arguments = parser.parse_args(argv)
    context = nn.get_extension_context(arguments.context) if arguments.context else nn.get_current_context()

    digits = load_digits()
    picture = arguments.out / "elman_rnn.png"
    with nn.context_scope(context), nn.parameter_scope("elman_rnn"):
        nn.clear_parameters()  # of an earlier run in the same process
        np.random.seed(arguments.seed)  # the initial weights are drawn from there
        losses = train(digits, arguments.state, arguments.epochs, arguments.seed)
        believed = probabilities(digits.test_images, arguments.state)
    draw(picture, digits.test_images, digits.test_labels, believed)
    accuracies = [float(np.mean(p.argmax(axis=1) == digits.test_labels[:, 0])) for p in believed]
    print(f"loss {losses[0]:.4f} in the first epoch, {losses[-1]:.4f} in the last")
    for row, accuracy in enumerate(accuracies, 1):
        print(f"{accuracy:.1%} of the held-out digits right after row {row}")
    print(f"how it makes up its mind: {picture}")
    return Outcome(losses, accuracies, picture)


if __name__ == "__main__":
    main()
