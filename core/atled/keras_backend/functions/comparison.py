"""Comparisons of elements: truth values."""

from __future__ import annotations

from typing import Any

from atled.keras_backend.expressions.calls import call, expression
from atled.keras_backend.expressions.expression import Expression


def equal(x: Any, y: Any) -> Expression:
    """Whether elements are equal: bool. `x == y` asks whether both are one expression."""
    return call("IsEqual", x, y)


def not_equal(x: Any, y: Any) -> Expression:
    """Whether elements differ: bool."""
    return call("IsNotEqual", x, y)


def greater(x: Any, y: Any) -> Expression:
    """Whether elements of x are greater than those of y: bool."""
    return call("IsGreater", x, y)


def greater_equal(x: Any, y: Any) -> Expression:
    """Whether elements of x are greater than those of y, or equal: bool."""
    return call("IsGreaterEqual", x, y)


def less(x: Any, y: Any) -> Expression:
    """Whether elements of x are less than those of y: bool."""
    return call("IsLess", x, y)


def less_equal(x: Any, y: Any) -> Expression:
    """Whether elements of x are less than those of y, or equal: bool."""
    return call("IsLessEqual", x, y)


def allclose(x: Any, y: Any, rtol: float = 1.0e-05, atol: float = 1.0e-08) -> Expression:
    """Whether all elements are near each other: one bool.

    Near is `abs(x - y) <= atol + rtol * abs(y)`; NaN is near nothing.
    """
    return call("All", call("IsClose", expression(x), y, rtol=float(rtol), atol=float(atol)))
