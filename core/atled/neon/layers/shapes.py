"""Sizes as layers tell them to each other, and what they stand for."""

from __future__ import annotations

import math
from typing import Any


def interpret_in_shape(shape: Any) -> tuple[int, int]:
    """Features and steps: n is (n, 1), (features, steps) itself, and all else, as (C, H, W), (their product, 1)."""
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    if len(sizes) == 2:
        features, steps = sizes
        return features, steps
    return math.prod(sizes), 1


def maps_of(shape: Any) -> int:
    """How many rows, or maps of images, as (C, H, W), there are."""
    return shape if isinstance(shape, int) else int(shape[0])


def columns_of(shape: Any, batch: int) -> tuple[int, int]:
    """The shape of the tensor for sizes, with two axes."""
    features, steps = interpret_in_shape(shape)
    return features, steps * batch
