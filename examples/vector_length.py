"""Regression: a small network learns the length of vectors in the plane.

The network has never heard of Pythagoras; it sees vectors and their lengths, fresh ones at every step. The picture
shows the contours of what it has learned beside those of the truth, which are circles.

    python examples/vector_length.py
    python examples/vector_length.py --steps 200 --hidden 8
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

BATCH = 64


class Outcome(NamedTuple):
    """losses: one per step.  error: largest error on a grid over the square.  picture: of the contours."""

    losses: list[float]
    error: float
    picture: Path


def network(vectors: nn.Variable, hidden: int) -> nn.Variable:
    """(N, 2) to (N, 1); the parameters are found by name, so that a second graph shares them."""
    h = F.tanh(PF.affine(vectors, hidden, name="hidden1"))
    h = F.tanh(PF.affine(h, hidden, name="hidden2"))
    return PF.affine(h, 1, name="length")


def lengths(vectors: np.ndarray) -> np.ndarray:
    """The truth: (N, 2) to (N, 1)."""
    return np.sqrt(np.sum(vectors**2, axis=1, keepdims=True))


def train(hidden: int, steps: int, rng: np.random.Generator) -> list[float]:
    """The loss of each step; the parameters are left in the current scope."""
    x, t = nn.Variable((BATCH, 2)), nn.Variable((BATCH, 1))
    loss = F.mean(F.squared_error(network(x, hidden), t))
    solver = S.Adam()
    solver.set_parameters(nn.get_parameters())
    losses = []
    for step in range(steps):
        solver.set_learning_rate(0.01 * (1 - step / steps))
        x.d = rng.uniform(-1, 1, x.shape)
        t.d = lengths(x.d)
        loss.forward()
        solver.zero_grad()
        loss.backward()
        solver.update()
        losses.append(float(loss.d))
    return losses


def predict(vectors: np.ndarray, hidden: int) -> np.ndarray:
    """What the network takes the lengths for, (N, 1)."""
    x = nn.Variable.from_numpy_array(vectors)
    y = network(x, hidden)
    y.forward()
    return y.d.copy()


def draw(path: Path, hidden: int) -> float:
    """Contours of the learned function and of the truth; the largest difference."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    across, up = np.meshgrid(np.linspace(-1, 1, 81), np.linspace(-1, 1, 81))
    vectors = np.stack([across.ravel(), up.ravel()], axis=1)
    learned = predict(vectors, hidden).reshape(across.shape)
    truth = lengths(vectors).reshape(across.shape)

    figure = Figure((9, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    levels = np.linspace(0, 1.5, 11)
    both = figure.subplots(1, 2, sharey=True)
    for axes, title, values in zip(both, ("learned", "truth"), (learned, truth), strict=True):
        shades = axes.contourf(across, up, values, levels=levels, cmap="viridis", extend="both")
        axes.contour(across, up, values, levels=levels, colors="white", linewidths=0.7)
        axes.set_title(title)
        axes.set_aspect("equal")
    figure.colorbar(shades, ax=both, label="length")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    return float(np.max(np.abs(learned - truth)))


def main(argv: Sequence[str] | None = None) -> Outcome:
    """Train, tell, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hidden", type=int, default=32, help="units of each hidden layer (default: 32)")
    parser.add_argument("--steps", type=int, default=3000, help="of training (default: 3000)")
    parser.add_argument("--seed", type=int, default=0, help="of weights and vectors (default: 0)")
    parser.add_argument("--context", help="backend, such as cpu or reference (default: the default Context)")
    parser.add_argument("--out", type=Path, default=Path("demo-out"), help="folder for the picture (default: demo-out)")
    arguments = parser.parse_args(argv)
    context = nn.get_extension_context(arguments.context) if arguments.context else nn.get_current_context()

    picture = arguments.out / "vector_length.png"
    with nn.context_scope(context), nn.parameter_scope("vector_length"):
        nn.clear_parameters()  # of an earlier run in the same process
        np.random.seed(arguments.seed)  # the initial weights are drawn from there
        losses = train(arguments.hidden, arguments.steps, np.random.default_rng(arguments.seed))
        error = draw(picture, arguments.hidden)
    print(f"mean squared error {losses[0]:.5f} at first, {losses[-1]:.5f} after {len(losses)} steps")
    print(f"largest error over the square: {error:.3f}")
    print(f"contours: {picture}")
    return Outcome(losses, error, picture)


if __name__ == "__main__":
    main()
