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
