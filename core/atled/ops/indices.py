"""The range check of index inputs."""

from __future__ import annotations

import numpy as np

from atled.errors import four_parts


def check_range(op: str, name: str, index: np.ndarray, stop: int) -> None:
    """Refuse indices outside [0, stop): IndexError that names the first one.

    Args:
        op, name: the op and its input, for the message.
        index: int64 of any shape.
        stop: the first whole number that is too large.
    """
    outside = (index < 0) | (index >= stop)
    if not outside.any():
        return
    position = tuple(int(i) for i in np.argwhere(outside)[0])
    raise IndexError(
        four_parts(
            f"{op}({name}: {list(index.shape)})",
            f"{name}{list(position)} is {int(index[position])}, out of range",
            "",
            f"use 0 to {stop - 1}" if stop else "there is nothing to index",
        )
    )
