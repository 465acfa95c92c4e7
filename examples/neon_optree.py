"""Op-trees of neon's API: expressions of tensors that run as one program, and their gradients by Autodiff.

First the trees of neon's guide: built from tensors, by loops and conditions of Python, shown, computed, differentiated.
Then a network of two layers, forward and backward written as op-trees alone, learns handwritten digits. The picture
shows the learning curve, and what the units of the first layer look for in an image.

    python examples/neon_optree.py
    python examples/neon_optree.py --context sim --epochs 3
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from atled.demo.digits import SIDE, Digits, load_digits
from atled.neon.backends import Autodiff, cleanup_backend, gen_backend
from atled.neon.backends.backend import Backend, OpTreeNode, Tensor

BATCH = 64


class Outcome(NamedTuple):
    """costs: mean cost of each epoch.  accuracy: share of held-out digits that are right.  picture: of both."""

    costs: list[float]
    accuracy: float
    picture: Path


def show_trees(be: Backend) -> None:
    """The trees of the guide: nothing is computed before a tree is assigned to a tensor."""
    x0, x1 = be.ones((2, 2), name="x0"), be.ones((2, 2), name="x1")
    tree = x0 + x1 * 3
    print("a tree:", tree)
    y = be.empty((2, 2), name="y")
    y[:] = tree
    print("its values:", y.get().tolist())

    # Control flow is Python's: the tree has what was executed.
    tree = x0
    steps = 8
    for step in range(int(steps / 2)):
        if step % 2 == 0:
            tree = tree + be.tanh(x1)
        else:
            tree = tree * x0
    y[:] = tree
    print("built by a loop:", y.get()[0].round(4).tolist())

    gradients = Autodiff(tree, be).get_grad_op_tree([x0, x1])
    print("its gradient with respect to x1:", gradients[1].pp())
    print("what assigning a tree runs:")
    print((be.exp(x0 - be.max(x0, axis=0)) / be.sum(x1, axis=0)).plan)


def class_scores(be: Backend, images: Tensor, weights: Sequence[Tensor]) -> OpTreeNode:
    """Scores of the ten digits, (10, N), from images (pixels, N)."""
    hidden, bias, output = weights
    return be.dot(output, be.tanh(be.dot(hidden, images) + bias))


def cost_of(be: Backend, scores: OpTreeNode, targets: Tensor) -> OpTreeNode:
    """The mean over images, (1, 1), of the cross-entropy of their softmax and one-hot targets (10, N)."""
    exponentials = be.exp(scores - be.max(scores, axis=0))
    chances = exponentials / be.sum(exponentials, axis=0)
    return -be.mean(be.sum(targets * be.safelog(chances), axis=0), axis=1)


def train(be: Backend, digits: Digits, weights: Sequence[Tensor], epochs: int, rate: float) -> list[float]:
    """The mean cost of each epoch; the weights are learned in place."""
    images, labels = be.zeros((SIDE * SIDE, BATCH), name="images"), be.zeros((1, BATCH), dtype=np.int32)
    targets, cost = be.zeros((10, BATCH), name="targets"), be.zeros((1, 1))
    gradients = [be.zeros(each.shape) for each in weights]
    tree = cost_of(be, class_scores(be, images, weights), targets)
    autodiff = Autodiff(tree, be)
    pixels = digits.train_images.reshape(-1, SIDE * SIDE).T
    costs = []
    for _ in range(epochs):
        order, of_epoch = be.rng.permutation(pixels.shape[1]), []
        for start in range(0, len(order) - BATCH + 1, BATCH):
            chosen = order[start : start + BATCH]
            images[:] = pixels[:, chosen]
            labels[:] = digits.train_labels[chosen].T
            targets[:] = be.onehot(labels, axis=0)
            autodiff.back_prop_grad(list(weights), gradients)
            cost[:] = tree
            for weight, gradient in zip(weights, gradients, strict=True):
                weight[:] = weight - rate * gradient
            of_epoch.append(float(cost.get()[0, 0]))
        costs.append(float(np.mean(of_epoch)))
    return costs


def accuracy_on(be: Backend, digits: Digits, weights: Sequence[Tensor]) -> float:
    """The share of the held-out digits whose highest score is that of their class."""
    images = be.array(digits.test_images.reshape(-1, SIDE * SIDE).T)
    found = be.empty((1, images.shape[1]), dtype=np.int32)
    found[:] = be.argmax(class_scores(be, images, weights), axis=0)
    return float(np.mean(found.get() == digits.test_labels.T))


def draw(path: Path, costs: Sequence[float], weights: np.ndarray) -> None:
    """The learning curve, and the first layer's weights as images: weights is (units, 64)."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure((9, 4), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subfigures(1, 2)
    axes = left.subplots()
    axes.semilogy(range(1, len(costs) + 1), costs, color="#2a5db0")
    axes.set_xlabel("epoch")
    axes.set_ylabel("mean cost in training")
    axes.grid(alpha=0.3)
    right.suptitle("what the first units look for")
    limit = np.abs(weights).max()
    for place, unit in zip(right.subplots(4, 6).ravel(), weights, strict=False):
        place.imshow(unit.reshape(SIDE, SIDE), cmap="RdBu", vmin=-limit, vmax=limit)
        place.set_axis_off()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def main(argv: Sequence[str] | None = None) -> Outcome:
    """Show trees, train, tell, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hidden", type=int, default=64, help="units of the first layer (default: 64)")
    parser.add_argument("--epochs", type=int, default=30, help="passes over the training images (default: 30)")
    parser.add_argument("--rate", type=float, default=0.5, help="learning rate (default: 0.5)")
    parser.add_argument("--seed", type=int, default=0, help="of weights and batches (default: 0)")
    parser.add_argument("--context", default="cpu", help="backend, such as cpu, gpu or reference (default: cpu)")
    parser.add_argument("--out", type=Path, default=Path("demo-out"), help="folder for the picture (default: demo-out)")
    arguments = parser.parse_args(argv)

    be: Any = gen_backend(arguments.context, rng_seed=arguments.seed, batch_size=BATCH)
    try:
        show_trees(be)
        shapes = (arguments.hidden, SIDE * SIDE), (arguments.hidden, 1), (10, arguments.hidden)
        weights = [be.array(be.rng.normal(0, 1 / np.sqrt(shape[1]), shape)) for shape in shapes]
        digits = load_digits()
        costs = train(be, digits, weights, arguments.epochs, arguments.rate)
        accuracy = accuracy_on(be, digits, weights)
        picture = arguments.out / "neon_optree.png"
        draw(picture, costs, weights[0].get())
    finally:
        cleanup_backend()
    print(f"cost {costs[0]:.4f} in the first epoch, {costs[-1]:.4f} in the last")
    print(f"{accuracy:.1%} of the held-out digits right")
    print(f"learning curve and weights: {picture}")
    return Outcome(costs, accuracy, picture)


if __name__ == "__main__":
    main()
