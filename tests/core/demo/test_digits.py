"""The demo's data: the split is fixed and even, batches cover the images, moved images stay themselves."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="the demo's data come with scikit-learn")

from atled.demo.digits import batches, load_digits, moved, split


def test_digits_have_the_documented_shapes_and_range():
    digits = load_digits()
    assert digits.train_images.shape[1:] == digits.test_images.shape[1:] == (1, 8, 8)
    assert len(digits.train_images) + len(digits.test_images) == 1797
    assert digits.train_images.dtype == np.float32
    assert digits.train_labels.shape == (len(digits.train_images), 1)
    assert (digits.train_images.min(), digits.train_images.max()) == (0.0, 1.0)


def test_a_fifth_of_each_digit_is_held_out():
    digits = load_digits()
    for digit in range(10):
        held_out = np.count_nonzero(digits.test_labels == digit)
        count = held_out + np.count_nonzero(digits.train_labels == digit)
        assert held_out == round(count / 5)


def test_split_covers_every_position_once():
    rest, held_out = split(np.array([0, 1] * 10), 0.3, np.random.RandomState(0))
    assert sorted([*rest, *held_out]) == list(range(20))
    assert len(held_out) == 6


def test_batches_are_of_equal_size_without_repetition():
    images = np.zeros((10, 1, 8, 8), np.float32)
    labels = np.arange(10).reshape(10, 1)
    made = list(batches(images, labels, 4, np.random.RandomState(0)))
    assert [image.shape for image, _ in made] == [(4, 1, 8, 8)] * 2
    seen = np.concatenate([label[:, 0] for _, label in made])
    assert len(set(seen)) == 8


def test_moved_images_are_the_image_up_to_one_pixel_away_and_many_stay():
    image = np.zeros((8, 8), np.float32)
    image[3:5, 2:6] = np.arange(1, 9).reshape(2, 4)
    neighbours = [np.roll(image, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1)]
    images = np.tile(image, (200, 1, 1, 1))
    result = moved(images, np.random.RandomState(0))
    assert result.shape == images.shape
    assert result.dtype == np.float32
    assert all(any(np.array_equal(one[0], other) for other in neighbours) for one in result)
    # Half stay by choice, and one in nine of the others by chance.
    assert 90 < sum(np.array_equal(one[0], image) for one in result) < 130


def test_what_moves_in_at_the_border_is_black():
    result = moved(np.ones((50, 1, 8, 8), np.float32), np.random.RandomState(1))
    assert set(np.unique(result)) == {0.0, 1.0}
