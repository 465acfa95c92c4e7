"""How far apart bounds are, by how they are written."""

import numpy as np
import pytest

import atled.keras_backend as B
from atled.keras_backend.expressions.distances import distance


@pytest.fixture
def i():
    return B.placeholder(ndim=0, dtype="int32")


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        (lambda i: (i, i + 2), 2),
        (lambda i: (i * 5, (i + 1) * 5), 5),
        (lambda i: (3 - i, np.int64(7) - i), 4),
        (lambda i: (-i, B.cast(-i, "int64") + 1), 1),
        (lambda i: (i * 2, i + i), 0),
        (lambda i: (2, 9), 7),
        (lambda i: (i, 2 * i), None),
        (lambda i: (0, i), None),
        (lambda i: (i, B.cast(i * 0.5, "int32")), None),
    ],
)
def test_a_distance_follows_or_does_not(i, bounds, expected):
    assert distance(*bounds(i)) == expected


def test_long_sums_are_read_once(i):
    doubled, added = i, i
    for _ in range(60):
        doubled = doubled + doubled
    for _ in range(5000):
        added = added + 1

    assert distance(doubled, doubled + 3) == 3
    assert distance(i, added) == 5000
