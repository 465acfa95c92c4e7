"""Shapes as programs give them: a size, or several."""

from __future__ import annotations

import operator
from typing import Any

from atled.errors import four_parts, shortened


def sizes_of(shape: Any) -> tuple[int, ...]:  # Any: whatever a program gives
    """The sizes of an int, a tuple or a list; TypeError where they are no integers."""
    try:
        return tuple(map(operator.index, shape if isinstance(shape, tuple | list) else (shape,)))
    except TypeError as error:
        raise TypeError(
            four_parts(f"shape {shortened(shape)}", "sizes are integers", "", "pass integers, or a tuple of them")
        ) from error


def two_axes(shape: Any) -> tuple[int, ...]:
    """The sizes of two axes or more: n is (n, 1), and none at all (1, 1)."""
    sizes = sizes_of(shape)
    return sizes if len(sizes) > 1 else (*(sizes or (1,)), 1)
