"""Layers of neon's API on text: a bidirectional recurrent network puts the spaces back into NumPy's docstrings.

Of each docstring the network sees the letters without the spaces between words, and says behind which of them a space
belongs. It learns from the docstrings of some of NumPy's modules and is tried on those of others, which it never saw.
The picture shows the learning curve; some lines of the other modules are printed as the network reads them.

    python examples/neon_birnn.py
    python examples/neon_birnn.py --context sim --epochs 2
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from atled.neon.backends import cleanup_backend, gen_backend
from atled.neon.data import NervanaDataIterator
from atled.neon.initializers import Gaussian, GlorotUniform
from atled.neon.layers import Affine, BiRNN, GeneralizedCost, LookupTable
from atled.neon.models import Model
from atled.neon.optimizers import Adam
from atled.neon.transforms import CrossEntropyBinary, Logistic, Tanh

LEARNED = ("numpy", "numpy.ma", "numpy.random", "numpy.char", "numpy.rec", "numpy.testing")
HELD_OUT = ("numpy.linalg", "numpy.fft", "numpy.polynomial", "numpy.lib.stride_tricks")
ALPHABET = "?abcdefghijklmnopqrstuvwxyz0123456789.,:;()[]{}'\"`=+-*/<>_\\|#@!%&^~$"
BATCH, STEPS = 32, 64


class Outcome(NamedTuple):
    """costs: mean cost per letter of each epoch.  f1: of the spaces that were held out.  picture: of both."""

    costs: list[float]
    f1: float
    picture: Path


def lines_of(modules: Sequence[str]) -> list[str]:
    """The lines of prose in the docstrings of what modules offer, each once: words with one space between."""
    seen: dict[str, None] = {}
    for name in modules:
        module = importlib.import_module(name)
        members = [getattr(module, member) for member in sorted(dir(module)) if not member.startswith("_")]
        classes = [member for member in members if inspect.isclass(member)]
        members += [getattr(each, name) for each in classes for name in sorted(vars(each)) if not name.startswith("_")]
        for member in members:
            for line in (inspect.getdoc(member) or "").splitlines():
                words = re.sub(r"\s+", " ", line.strip().lower())
                # Prose, no code: what a reader could put the spaces into.
                if len(words.split()) >= 4 and not words.startswith((">>>", "...", "[", "array(")):
                    seen[words] = None
    return list(seen)


def as_letters(lines: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Letters without spaces, (N,) numbers in the alphabet, and whether a space or the end of a line is behind each."""
    letters, spaces = [], []
    for line in lines:
        for word in line.split():
            letters += [max(0, ALPHABET.find(letter)) for letter in word]
            spaces += [0] * (len(word) - 1) + [1]
    return np.array(letters, np.int32), np.array(spaces, np.float32)


class Text(NervanaDataIterator):
    """Batches of sequences: BATCH pieces of STEPS letters each, with what is behind each letter.

    shape: (1, STEPS), one number a step; the batch runs fastest, as in all sequences of neon's.
    """

    def __init__(self, letters: np.ndarray, spaces: np.ndarray, rng: Any = None) -> None:
        super().__init__()
        self.shape = (1, STEPS)
        count = len(letters) // STEPS
        self.letters, self.spaces = (each[: count * STEPS].reshape(count, STEPS) for each in (letters, spaces))
        self.rng = rng
        self.ndata = count // BATCH * BATCH
        self.inputs = self.be.zeros((1, STEPS * BATCH), dtype=np.int32)
        self.targets = self.be.zeros((1, STEPS * BATCH))

    def __iter__(self) -> Iterator[Any]:
        """Pairs of inputs and targets, in new order where there is a generator of random numbers."""
        order = np.arange(len(self.letters)) if self.rng is None else self.rng.permutation(len(self.letters))
        for start in range(0, self.ndata, BATCH):
            chosen = order[start : start + BATCH]
            self.inputs[:] = self.letters[chosen].T.reshape(1, -1)
            self.targets[:] = self.spaces[chosen].T.reshape(1, -1)
            yield self.inputs, self.targets


class Costs:
    """Prints and keeps the mean cost per letter of each epoch: what `Model.fit` asks of callbacks."""

    def __init__(self, model: Model, epochs: int) -> None:
        self.model = model
        self.epochs = epochs
        self.of_epochs: list[float] = []

    def on_train_begin(self, epochs: int) -> None:
        """Nothing to tell."""

    def on_epoch_begin(self, epoch: int) -> None:
        """Nothing to tell."""

    def on_minibatch_begin(self, epoch: int, minibatch: int) -> None:
        """Nothing to tell."""

    def on_minibatch_end(self, epoch: int, minibatch: int) -> None:
        """Nothing to tell."""

    def on_epoch_end(self, epoch: int) -> None:
        """Note the cost."""
        self.of_epochs.append(float(self.model.total_cost.get()[0, 0]))
        done = 30 * (epoch + 1) // self.epochs
        numbers = f"epoch {epoch + 1:3d}  cost {self.of_epochs[-1]:.4f} per letter"
        if sys.stdout.isatty():
            print(f"\r[{'#' * done}{' ' * (30 - done)}] {numbers}", end="", flush=True)
        else:
            print(numbers)

    def on_train_end(self) -> None:
        """End the line of the bar."""
        if sys.stdout.isatty():
            print()


def f1_of(found: np.ndarray, right: np.ndarray) -> float:
    """The harmonic mean of precision and recall."""
    hits = float(np.sum(found & right))
    return 2 * hits / max(1.0, float(found.sum() + right.sum()))


def chances_of(model: Model, text: Text) -> tuple[np.ndarray, np.ndarray]:
    """For each letter the chance of a space behind it, and whether there is one: (pieces, STEPS)."""
    chances, spaces = [], []
    for inputs, targets in text:
        chances.append(model.fprop(inputs, inference=True).get().reshape(STEPS, BATCH).T)
        spaces.append(targets.get().reshape(STEPS, BATCH).T)
    return np.concatenate(chances), np.concatenate(spaces) > 0


def spaced(letters: np.ndarray, has_space: np.ndarray) -> str:
    """A piece of text with the spaces put back."""
    return "".join(
        ALPHABET[letter] + " " * bool(space) for letter, space in zip(letters, has_space, strict=True)
    ).strip()


def draw(path: Path, costs: Sequence[float], f1: float) -> None:
    """The learning curve."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure((6, 4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    axes.semilogy(range(1, len(costs) + 1), costs, color="#2a5db0")
    axes.set_title(f"F1 of spaces in modules that were held out: {f1:.3f}")
    axes.set_xlabel("epoch")
    axes.set_ylabel("cost per letter")
    axes.grid(alpha=0.3)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def main(argv: Sequence[str] | None = None) -> Outcome:
    """Train, tell, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--units", type=int, default=128, help="recurrent units per direction (default: 128)")
    parser.add_argument("--epochs", type=int, default=12, help="passes over the training text (default: 12)")
    parser.add_argument("--lines", type=int, help="learn from and try on so many lines only (default: all)")
    parser.add_argument("--seed", type=int, default=0, help="of weights and batches (default: 0)")
    parser.add_argument("--context", default="cpu", help="backend, such as cpu, gpu or reference (default: cpu)")
    parser.add_argument("--out", type=Path, default=Path("demo-out"), help="folder for the picture (default: demo-out)")
    arguments = parser.parse_args(argv)

    learned = lines_of(LEARNED)
    held_out = [line for line in lines_of(HELD_OUT) if line not in set(learned)]
    print(f"{len(learned)} lines to learn from, {len(held_out)} held out")
    be = gen_backend(arguments.context, rng_seed=arguments.seed, batch_size=BATCH)
    try:
        text = Text(*as_letters(learned[: arguments.lines]), rng=be.rng)
        model = Model(
            [
                LookupTable(len(ALPHABET), 32, init=Gaussian(scale=0.3)),
                BiRNN(arguments.units, init=GlorotUniform(), activation=Tanh(), reset_cells=True),
                Affine(1, init=GlorotUniform(), bias=Gaussian(scale=0.01), activation=Logistic(shortcut=True)),
            ]
        )
        costs = Costs(model, arguments.epochs)
        cost = GeneralizedCost(costfunc=CrossEntropyBinary())
        model.fit(text, cost, Adam(learning_rate=2e-3), num_epochs=arguments.epochs, callbacks=costs)
        unseen = Text(*as_letters(held_out[: arguments.lines]))
        chances, spaces = chances_of(model, unseen)
        f1 = f1_of(chances > 0.5, spaces)
        picture = arguments.out / "neon_birnn.png"
        draw(picture, costs.of_epochs, f1)
    finally:
        cleanup_backend()
    for letters, chance in list(zip(unseen.letters, chances, strict=False))[:: len(chances) // 4]:
        print("  read:", spaced(letters, chance > 0.5))
    print(f"F1 of the spaces in the docstrings that were held out: {f1:.3f}")
    print(f"learning curve: {picture}")
    return Outcome(costs.of_epochs, f1, picture)


if __name__ == "__main__":
    main()
