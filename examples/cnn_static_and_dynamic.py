"""One network, trained as a static and as a dynamic graph: the same losses, and how long each takes.

A static graph is recorded once and run at every step. A dynamic graph is recorded anew at every step, each function
computing at its call; it may have another shape each time. Both are made by the same function below, and since a
graph that has been seen before finds its plan again, the dynamic one pays for recording only.

    python examples/cnn_static_and_dynamic.py
    python examples/cnn_static_and_dynamic.py --steps 300 --context reference
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

import atled as nn
import atled.functions as F
import atled.parametric_functions as PF
import atled.solvers as S

WARM_UP = 5  # steps that are not timed: kernels are compiled and plans made there


class Training(NamedTuple):
    """losses: one per step.  step_ms: median time of a step in milliseconds."""

    losses: list[float]
    step_ms: float


class Outcome(NamedTuple):
    """static, dynamic: the two trainings.  picture: of their losses."""

    static: Training
    dynamic: Training
    picture: Path


def mean_loss(images: nn.Variable, labels: nn.Variable) -> nn.Variable:
    """A small convolutional network and its loss; images: (N, 1, 8, 8), labels: (N, 1)."""
    h = PF.convolution(images, 16, (3, 3), stride=(2, 2), pad=(1, 1), name="conv1")
    h = F.tanh(PF.batch_normalization(h, name="bn1"))
    h = PF.convolution(h, 32, (3, 3), pad=(1, 1), name="conv2")
    h = F.tanh(PF.batch_normalization(h, name="bn2"))
    h = F.average_pooling(h, (2, 2))
    h = F.tanh(PF.affine(h, 64, name="affine3"))
    return F.mean(F.softmax_cross_entropy(PF.affine(h, 10, name="affine4"), labels))


Batches = Sequence[tuple[np.ndarray, np.ndarray]]
Forward = Callable[[np.ndarray, np.ndarray], nn.Variable]


def digit_batches(count: int, size: int, seed: int) -> Batches:
    """Batches of scikit-learn's handwritten digits, drawn by chance: images (size, 1, 8, 8), labels (size, 1)."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    images, labels = digits.images[:, np.newaxis] / 16, digits.target[:, np.newaxis]
    rng = np.random.default_rng(seed)
    chosen = [rng.integers(0, len(images), size) for _ in range(count)]
    return [(images[numbers].astype(np.float32), labels[numbers]) for numbers in chosen]


def static_graph(batch_size: int) -> Forward:
    """Record now; at each step fill in the batch and run."""
    x, t = nn.Variable((batch_size, 1, 8, 8)), nn.Variable((batch_size, 1))
    loss = mean_loss(x, t)

    def forward(images: np.ndarray, labels: np.ndarray) -> nn.Variable:
        x.d, t.d = images, labels
        loss.forward()
        return loss

    return forward


def dynamic_graph(images: np.ndarray, labels: np.ndarray) -> nn.Variable:
    """Record and compute at each step."""
    with nn.auto_forward():
        return mean_loss(nn.Variable.from_numpy_array(images), nn.Variable.from_numpy_array(labels))


def train(name: str, make: Callable[[], Forward], batches: Batches, seed: int) -> Training:
    """One step per batch, in a parameter scope of its own; the same seed gives the same initial weights."""
    with nn.parameter_scope(name):
        nn.clear_parameters()
        np.random.seed(seed)
        # Recording makes the parameters; nothing is computed, and this graph is not needed any more.
        mean_loss(nn.Variable((1, 1, 8, 8)), nn.Variable((1, 1)))
        solver = S.Adam(0.005)
        solver.set_parameters(nn.get_parameters())
        forward = make()
        losses, times = [], []
        for images, labels in batches:
            start = time.perf_counter()
            loss = forward(images, labels)
            solver.zero_grad()
            loss.backward()
            solver.update()
            losses.append(float(loss.d))
            times.append(time.perf_counter() - start)
    return Training(losses, 1000 * float(np.median(times[WARM_UP:] or times)))


def draw(path: Path, static: Training, dynamic: Training) -> None:
    """Both losses over the steps, one on top of the other."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure((7, 4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    axes.plot(static.losses, color="#2a5db0", linewidth=4, alpha=0.4, label=f"static, {static.step_ms:.2f} ms a step")
    axes.plot(dynamic.losses, color="#c0392b", linewidth=1, label=f"dynamic, {dynamic.step_ms:.2f} ms a step")
    axes.set_xlabel("step")
    axes.set_ylabel("mean softmax cross entropy")
    axes.grid(alpha=0.3)
    axes.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def main(argv: Sequence[str] | None = None) -> Outcome:
    """Train twice, compare, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200, help="of training (default: 200)")
    parser.add_argument("--batch-size", type=int, default=32, help="images per step (default: 32)")
    parser.add_argument("--seed", type=int, default=0, help="of weights and batches (default: 0)")
    parser.add_argument("--context", help="backend, such as cpu or reference (default: the default Context)")
    parser.add_argument("--out", type=Path, default=Path("demo-out"), help="folder for the picture (default: demo-out)")
    arguments = parser.parse_args(argv)
    context = nn.get_extension_context(arguments.context) if arguments.context else nn.get_current_context()

    batches = digit_batches(arguments.steps, arguments.batch_size, arguments.seed)
    with nn.context_scope(context):
        static = train("static", lambda: static_graph(arguments.batch_size), batches, arguments.seed)
        dynamic = train("dynamic", lambda: dynamic_graph, batches, arguments.seed)
    picture = arguments.out / "cnn_static_and_dynamic.png"
    draw(picture, static, dynamic)

    print(f"{'step':>6}  {'static':>10}  {'dynamic':>10}")
    for step in sorted({*range(0, arguments.steps, max(1, arguments.steps // 8)), arguments.steps - 1}):
        print(f"{step:6d}  {static.losses[step]:10.6f}  {dynamic.losses[step]:10.6f}")
    print(f"largest difference: {np.max(np.abs(np.subtract(static.losses, dynamic.losses))):.2g}")
    print(f"milliseconds a step: static {static.step_ms:.2f}, dynamic {dynamic.step_ms:.2f}")
    print(f"losses: {picture}")
    return Outcome(static, dynamic, picture)


if __name__ == "__main__":
    main()
