"""Functions that say what an expression is."""

from __future__ import annotations

from typing import Any

from atled.keras_backend.expressions.calls import expression


def shape(x: Any) -> Any:
    """The sizes of x, an expression of int64: indexable, iterable, usable wherever sizes are wanted."""
    return expression(x).shape


def ndim(x: Any) -> int:
    """The count of the axes of x."""
    return expression(x).ndim


def dtype(x: Any) -> str:
    """The name of the dtype of x."""
    return expression(x).dtype
