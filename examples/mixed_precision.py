"""Mixed precision: one network trained in float and in half precision, with a loss scale that finds its own size.

In half precision every array of the graph is float16, except the parameters: they stay float32, and so does what the
solver adds to them. Gradients below 6e-8 would vanish in float16, so the loss is multiplied by a scale before backward,
and the gradients are divided by it before the update. How large the scale may be nobody knows beforehand. It begins far
too large here: an update that overflows is not made, and halves it; many good ones in a row double it.

    python examples/mixed_precision.py
    python examples/mixed_precision.py --context reference --steps 100
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
from atled.experimental.mixed_precision_training import DynamicLossScalingUpdater
from atled.utils.data_iterator import DataIterator, data_iterator_simple

FIRST_SCALE = 2.0**20


class Training(NamedTuple):
    """losses, scales: one per step.  accuracy: on held-out images.  dtype: of the scores."""

    losses: list[float]
    scales: list[float]
    accuracy: float
    dtype: np.dtype


class Outcome(NamedTuple):
    """single, half: the two trainings.  picture: of their losses and of the loss scale."""

    single: Training
    half: Training
    picture: Path


def scores(images: nn.Variable, training: bool) -> nn.Variable:
    """A small convolutional network; images: (N, 1, 8, 8); result: (N, 10)."""
    h = PF.convolution(images, 16, (3, 3), pad=(1, 1), name="conv1")
    h = F.relu(PF.batch_normalization(h, batch_stat=training, name="bn1"))
    h = PF.convolution(F.max_pooling(h, (2, 2)), 32, (3, 3), pad=(1, 1), name="conv2")
    h = F.relu(PF.batch_normalization(h, batch_stat=training, name="bn2"))
    return PF.affine(F.average_pooling(h, (2, 2)), 10, name="classes")


def digits(held_out: bool) -> tuple[np.ndarray, np.ndarray]:
    """Images (N, 1, 8, 8) and labels (N, 1) of scikit-learn's handwritten digits: the first 1500, or the others."""
    from sklearn.datasets import load_digits

    data = load_digits()
    chosen = slice(1500, None) if held_out else slice(1500)
    return (data.images[chosen, np.newaxis] / 16).astype(np.float32), data.target[chosen, np.newaxis]


def digit_batches(size: int, seed: int) -> DataIterator:
    """Batches without end, in an order drawn by chance."""
    images, labels = digits(held_out=False)
    rng = np.random.RandomState(seed)
    return data_iterator_simple(lambda i: (images[i], labels[i]), len(images), size, shuffle=True, rng=rng)


def train(type_config: str, arguments: argparse.Namespace) -> Training:
    """Train under one type config, in a parameter scope of its own; the same seed gives the same initial weights."""
    context = nn.get_extension_context(arguments.context, type_config=type_config)
    with nn.context_scope(context), nn.parameter_scope(type_config):
        nn.clear_parameters()
        np.random.seed(arguments.seed)
        x, t = nn.Variable((arguments.batch_size, 1, 8, 8)), nn.Variable((arguments.batch_size, 1))
        loss = F.mean(F.softmax_cross_entropy(scores(x, training=True), t))
        solver = S.Adam(0.005)
        solver.set_parameters(nn.get_parameters())

        with digit_batches(arguments.batch_size, arguments.seed) as batches:

            def feed() -> None:
                x.d, t.d = batches.next()

            # In float nothing overflows, and there is no reason to scale.
            is_half = type_config == "half"
            scale, interval = (FIRST_SCALE, arguments.interval) if is_half else (1.0, arguments.steps)
            updater = DynamicLossScalingUpdater(solver, loss, feed, scale=scale, N=interval)
            losses, scales = [], []
            for _ in range(arguments.steps):
                updater.update()
                losses.append(float(loss.d))
                scales.append(updater.scale)

        images, labels = digits(held_out=True)
        y = scores(nn.Variable.from_numpy_array(images), training=False)
        y.forward()
        accuracy = float(np.mean(y.d.argmax(axis=1) == labels[:, 0]))
        return Training(losses, scales, accuracy, y.data.dtype)


def draw(path: Path, single: Training, half: Training) -> None:
    """The losses, and below them the loss scale."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure((7, 5), layout="constrained")
    FigureCanvasAgg(figure)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
    above.plot(single.losses, color="#2a5db0", linewidth=4, alpha=0.4, label=f"float, accuracy {single.accuracy:.1%}")
    above.plot(half.losses, color="#c0392b", linewidth=1, label=f"half, accuracy {half.accuracy:.1%}")
    above.set_ylabel("mean softmax cross entropy")
    above.legend()
    below.step(range(len(half.scales)), half.scales, color="#c0392b")
    below.set_yscale("log", base=2)
    below.set_ylabel("loss scale")
    below.set_xlabel("step")
    for axes in (above, below):
        axes.grid(alpha=0.3)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def main(argv: Sequence[str] | None = None) -> Outcome:
    """Train twice, compare, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=300, help="of training (default: 300)")
    parser.add_argument("--batch-size", type=int, default=64, help="images per step (default: 64)")
    parser.add_argument("--interval", type=int, default=60, help="good steps until the scale doubles (default: 60)")
    parser.add_argument("--seed", type=int, default=0, help="of weights and batches (default: 0)")
    parser.add_argument("--context", help="extension, such as cpu or reference (default: that of the default Context)")
    parser.add_argument("--out", type=Path, default=Path("demo-out"), help="folder for the picture (default: demo-out)")
    arguments = parser.parse_args(argv)
    if arguments.context is None:
        arguments.context = nn.get_current_context().backends[0][0]

    single, half = train("float", arguments), train("half", arguments)
    picture = arguments.out / "mixed_precision.png"
    draw(picture, single, half)

    print(f"{'step':>6}  {'float':>10}  {'half':>10}  {'scale':>8}")
    for step in sorted({*range(0, arguments.steps, max(1, arguments.steps // 8)), arguments.steps - 1}):
        print(f"{step:6d}  {single.losses[step]:10.6f}  {half.losses[step]:10.6f}  {half.scales[step]:8g}")
    print(f"held-out images right: {single.accuracy:.1%} in {single.dtype}, {half.accuracy:.1%} in {half.dtype}")
    print(f"losses and scale: {picture}")
    return Outcome(single, half, picture)


if __name__ == "__main__":
    main()
