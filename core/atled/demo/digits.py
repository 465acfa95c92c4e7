"""Data of the demo: scikit-learn's handwritten digits, split into training and held-out images, and batches of them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from atled.named_tuple import NamedTuple

SIDE = 8  # pixels
_WHITE = 16  # the largest value of a pixel
_HELD_OUT = 0.2
_SPLIT_SEED = 0  # fixed, so that results of different seeds are of the same held-out images


class Digits(NamedTuple):
    """Images: (N, 1, 8, 8) float32 in [0, 1]. Labels: (N, 1) int64 in [0, 10)."""

    train_images: np.ndarray
    train_labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray


def load_digits() -> Digits:
    """The 1797 images that come with scikit-learn, a fifth of each digit held out."""
    # Lazy: scikit-learn takes most of a second to import.
    from sklearn import datasets

    loaded = datasets.load_digits()
    images = (loaded.images / _WHITE).astype(np.float32).reshape(-1, 1, SIDE, SIDE)
    labels = loaded.target.astype(np.int64).reshape(-1, 1)
    train, test = split(labels[:, 0], _HELD_OUT, np.random.RandomState(_SPLIT_SEED))
    return Digits(images[train], labels[train], images[test], labels[test])


def split(labels: np.ndarray, share: float, rng: np.random.RandomState) -> tuple[np.ndarray, np.ndarray]:
    """Two arrays of positions, sorted: the rest, and `share` of each class, chosen by chance.

    labels: (N,) int; the class of each position.
    """
    held_out = np.zeros(len(labels), bool)
    for label in np.unique(labels):
        members = rng.permutation(np.flatnonzero(labels == label))
        held_out[members[: round(share * len(members))]] = True
    return np.flatnonzero(~held_out), np.flatnonzero(held_out)


def batches(
    images: np.ndarray, labels: np.ndarray, batch_size: int, rng: np.random.RandomState
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The images in new order, half of them moved, in batches of equal size; what is left over sits out this time."""
    order = rng.permutation(len(images))
    for start in range(0, len(order) - batch_size + 1, batch_size):
        chosen = order[start : start + batch_size]
        yield moved(images[chosen], rng), labels[chosen]


def moved(images: np.ndarray, rng: np.random.RandomState) -> np.ndarray:
    """A copy in which about half of the images are moved by up to one pixel; what comes in is black.

    Moved images teach the network that a digit is the same digit a little further on. Moving all of them is too
    much at this size: many digits touch the border.

    images: (N, 1, 8, 8) float.
    """
    count = len(images)
    offsets = rng.randint(-1, 2, (2, count)) * (rng.uniform(size=count) < 0.5)
    padded = np.pad(images[:, 0], ((0, 0), (1, 1), (1, 1)))
    rows, columns = offsets[:, :, np.newaxis] + np.arange(1, SIDE + 1)
    taken = padded[np.arange(count)[:, np.newaxis, np.newaxis], rows[:, :, np.newaxis], columns[:, np.newaxis, :]]
    return taken[:, np.newaxis]
