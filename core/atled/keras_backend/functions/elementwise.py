"""Functions of each element."""

from __future__ import annotations

from typing import Any

from atled.keras_backend.expressions.calls import call
from atled.keras_backend.expressions.expression import Expression


def exp(x: Any) -> Expression:
    """e to the power of each element."""
    return call("Exp", x)


def sigmoid(x: Any) -> Expression:
    """1 / (1 + exp(-x)) of each element."""
    return call("Sigmoid", x)
