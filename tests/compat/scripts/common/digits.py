"""The handwritten digits of scikit-learn: 1797 images of 8 x 8."""

import numpy as np
from nnabla.utils.data_iterator import data_iterator_simple
from sklearn.datasets import load_digits


def images_and_labels(train=True):
    """(N, 1, 8, 8) float32 from 0 to 1 and (N, 1) labels."""
    digits = load_digits()
    chosen = slice(0, 1500) if train else slice(1500, None)
    return digits.images[chosen].reshape(-1, 1, 8, 8).astype(np.float32) / 16, digits.target[chosen].reshape(-1, 1)


def digits_iterator(batch_size, train=True, seed=313):
    """Batches of images and labels in an order drawn by a generator with that seed."""
    images, labels = images_and_labels(train)

    def load(i):
        return images[i], labels[i]

    rng = np.random.RandomState(seed)
    return data_iterator_simple(load, len(images), batch_size, shuffle=train, rng=rng, with_file_cache=False)
