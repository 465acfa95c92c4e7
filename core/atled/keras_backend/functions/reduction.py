"""Functions that reduce axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from atled.keras_backend.expressions.calls import call
from atled.keras_backend.expressions.expression import Expression


def sum(x: Any, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Expression:
    """The sum over axes, all of them for None; of integers in int64."""
    return call("Sum", x, axes=_axes(axis), keep_dims=keepdims)


def _axes(axis: int | Sequence[int] | None) -> tuple[int, ...] | None:
    return None if axis is None else (axis,) if isinstance(axis, int) else tuple(axis)
