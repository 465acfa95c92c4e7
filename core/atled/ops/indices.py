"""Checks of index inputs: the range of indices, and the shape of labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from atled.errors import four_parts

if TYPE_CHECKING:
    from atled.array_desc import ArrayDesc
    from atled.ops.spec import OpSpec


def check_range(op: str, name: str, index: np.ndarray, stop: int, *, start: int = 0) -> None:
    """Refuse indices outside [start, stop): IndexError that names the first one.

    Args:
        op, name: the op and its input, for the message.
        index: int64 of any shape.
        stop: the first whole number that is too large.
    """
    outside = (index < start) | (index >= stop)
    if not outside.any():
        return
    position = tuple(int(i) for i in np.argwhere(outside)[0])
    raise IndexError(
        four_parts(
            f"{op}({name}: {list(index.shape)})",
            f"{name}{list(position) or ''} is {int(index[position])}, out of range",
            "",
            f"use {start} to {stop - 1}" if stop else "there is nothing to index",
        )
    )


def check_target(spec: OpSpec, inputs: Sequence[ArrayDesc], scores: ArrayDesc, target: ArrayDesc, axis: int) -> None:
    """Refuse a target that has not one label for each position: the shape of scores, with 1 on axis. ValueError."""
    expected = (*scores.shape[:axis], 1, *scores.shape[axis + 1 :])
    if target.shape != expected:
        raise spec.error(
            inputs,
            f"target has shape {list(target.shape)}",
            f"use {list(expected)}: one label along axis {axis} for each position",
        )
