"""Logistic regression from scratch: two classes of points, a weight, a bias, and a solver.

Nothing here comes ready-made but functions and the solver: the parameters are plain Variables, the graph is recorded
once, and each step runs it forward and backward. The points form two half moons, which no straight line separates;
with the monomials of x and y as features (`--degree 3`, the default) the boundary is a curve and does.

    python examples/logistic_regression.py
    python examples/logistic_regression.py --degree 1 --out line
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

import atled as nn
import atled.functions as F
import atled.solvers as S


class Outcome(NamedTuple):
    """losses: one per step.  accuracy: share of points on the right side in the end.  picture: of the boundary."""

    losses: list[float]
    accuracy: float
    picture: Path


def two_moons(count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Points (count, 2) on two interleaved half circles with noise, and their classes (count, 1), 0 or 1."""
    classes = rng.integers(0, 2, (count, 1))
    angles = rng.uniform(0, np.pi, (count, 1))
    upper = np.hstack([np.cos(angles), np.sin(angles)])
    lower = np.hstack([1 - np.cos(angles), 0.5 - np.sin(angles)])
    points = np.where(classes == 1, upper, lower) + rng.normal(0, 0.12, (count, 2))
    return points, classes


def monomials(points: np.ndarray, degree: int) -> np.ndarray:
    """All products x^i y^j with 1 <= i + j <= degree: (count, features)."""
    x, y = points[:, 0], points[:, 1]
    return np.stack([x**i * y**j for i in range(degree + 1) for j in range(degree + 1 - i) if i + j > 0], axis=1)


def train(
    points: np.ndarray, classes: np.ndarray, degree: int, steps: int
) -> tuple[list[float], nn.Variable, nn.Variable]:
    """Losses, and the weight (features, 1) and bias (1,) that were found."""
    features = monomials(points, degree)
    x = nn.Variable.from_numpy_array(features)
    t = nn.Variable.from_numpy_array(classes)
    weight = nn.Variable.from_numpy_array(np.zeros((features.shape[1], 1), np.float32), need_grad=True)
    bias = nn.Variable.from_numpy_array(np.zeros(1, np.float32), need_grad=True)

    # The graph: recorded once, computed at every loss.forward().
    loss = F.mean(F.sigmoid_cross_entropy(F.affine(x, weight, bias), t))

    solver = S.Momentum(lr=0.5)
    solver.set_parameters({"weight": weight, "bias": bias})
    losses = []
    for _ in range(steps):
        loss.forward()
        solver.zero_grad()
        loss.backward()
        solver.weight_decay(1e-4)
        solver.update()
        losses.append(float(loss.d))
    return losses, weight, bias


def probability(points: np.ndarray, degree: int, weight: nn.Variable, bias: nn.Variable) -> np.ndarray:
    """The probability of class 1, (count,). NdArrays are computed at once: no graph, no forward()."""
    x = nn.NdArray.from_numpy_array(monomials(points, degree))
    return F.sigmoid(F.affine(x, weight.data, bias.data)).data[:, 0]


def draw(
    path: Path, points: np.ndarray, classes: np.ndarray, degree: int, weight: nn.Variable, bias: nn.Variable
) -> None:
    """The points over the probability, with the boundary where it is one half."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    across, up = np.meshgrid(np.linspace(-1.6, 2.6, 211), np.linspace(-1.1, 1.6, 136))
    places = np.stack([across.ravel(), up.ravel()], axis=1)
    shades = probability(places, degree, weight, bias).reshape(across.shape)

    figure = Figure((7, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    filled = axes.contourf(across, up, shades, levels=np.linspace(0, 1, 11), cmap="RdBu", alpha=0.6)
    axes.contour(across, up, shades, levels=[0.5], colors="black", linewidths=1.5)
    figure.colorbar(filled, ax=axes, label="probability of class 1")
    for number, color in ((0, "#b2182b"), (1, "#2166ac")):
        chosen = points[classes[:, 0] == number]
        axes.scatter(
            chosen[:, 0], chosen[:, 1], s=14, color=color, edgecolor="white", linewidth=0.4, label=f"class {number}"
        )
    axes.legend(loc="lower left")
    axes.set_aspect("equal")
    axes.set_title(f"logistic regression on monomials up to degree {degree}")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def main(argv: Sequence[str] | None = None) -> Outcome:
    """Train, tell, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--degree", type=int, default=3, help="of the monomials; 1 is a straight line (default: 3)")
    parser.add_argument("--steps", type=int, default=1000, help="of training (default: 1000)")
    parser.add_argument("--points", type=int, default=400, help="how many (default: 400)")
    parser.add_argument("--seed", type=int, default=0, help="of the points (default: 0)")
    parser.add_argument("--context", help="backend, such as cpu or reference (default: the default Context)")
    parser.add_argument("--out", type=Path, default=Path("demo-out"), help="folder for the picture (default: demo-out)")
    arguments = parser.parse_args(argv)
    context = nn.get_extension_context(arguments.context) if arguments.context else nn.get_current_context()

    points, classes = two_moons(arguments.points, np.random.default_rng(arguments.seed))
    picture = arguments.out / "logistic_regression.png"
    with nn.context_scope(context):
        losses, weight, bias = train(points, classes, arguments.degree, arguments.steps)
        is_one = probability(points, arguments.degree, weight, bias) > 0.5
        draw(picture, points, classes, arguments.degree, weight, bias)
    accuracy = float(np.mean(is_one == classes[:, 0]))
    print(f"loss {losses[0]:.4f} at first, {losses[-1]:.4f} after {len(losses)} steps")
    print(f"{accuracy:.1%} of {len(points)} points on the right side")
    print(f"boundary: {picture}")
    return Outcome(losses, accuracy, picture)


if __name__ == "__main__":
    main()
