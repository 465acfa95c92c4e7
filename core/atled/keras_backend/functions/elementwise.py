"""Functions of each element of their operands, which broadcast as in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from atled.keras_backend.expressions.calls import call, expression, operand
from atled.keras_backend.expressions.expression import Expression
from atled.keras_backend.expressions.promotion import arithmetic, power
from atled.keras_backend.expressions.promotion import cast as cast_expression
from atled.keras_backend.functions.dtypes import dtype_of

# Functions of floats take integers, too: NumPy's rules say which floats they become.


def abs(x: Any) -> Expression:
    """The magnitude of each element; its gradient is 0 at 0."""
    return call("Magnitude", _numeric(x))


def square(x: Any) -> Expression:
    """Each element times itself."""
    return call("Square", _numeric(x))


def exp(x: Any) -> Expression:
    """e to the power of each element."""
    return call("Exp", _float(x))


def log(x: Any) -> Expression:
    """The natural logarithm of each element; -inf for 0, NaN below."""
    return call("Log", _float(x))


def sqrt(x: Any) -> Expression:
    """The square root of each element, of negative ones 0; its gradient is 0 below 0, infinity at 0."""
    return call("SqrtClipped", _float(x))


def sin(x: Any) -> Expression:
    """The sine of each element, in radians."""
    return call("Sin", _float(x))


def cos(x: Any) -> Expression:
    """The cosine of each element, in radians."""
    return call("Cos", _float(x))


def sigmoid(x: Any) -> Expression:
    """1 / (1 + exp(-x)) of each element."""
    return call("Sigmoid", _float(x))


def round(x: Any) -> Expression:
    """The whole number next to each element, halves to the even one; no gradient flows."""
    return call("Rint", _numeric(x))


def sign(x: Any) -> Expression:
    """-1, 0 or 1; no gradient flows."""
    return call("Sgn", _numeric(x))


def pow(x: Any, a: Any) -> Expression:
    """x to the power of a, one of which may be a number."""
    return power(x, a)


def maximum(x: Any, y: Any) -> Expression:
    """The larger one, NaN if one of them is; where they are equal both get the whole gradient."""
    return arithmetic("MaximumTies", x, y)


def minimum(x: Any, y: Any) -> Expression:
    """The smaller one, NaN if one of them is; where they are equal both get the whole gradient."""
    return arithmetic("MinimumTies", x, y)


def clip(x: Any, min_value: Any, max_value: Any) -> Expression:
    """Each element, but no less than one value and no more than another; the gradient flows on the bounds, too.

    max_value: None for no bound; where it is less than min_value, both are that.
    """
    if max_value is None:
        return arithmetic("MaximumTies", x, min_value)
    low, high = operand(min_value), operand(max_value)
    if isinstance(low, Expression) or isinstance(high, Expression):
        high = arithmetic("MaximumTies", low, high)
    elif low is not None and high is not None:
        high = max(low, high)
    return arithmetic("Clip", x, low, high)


def cast(x: Any, dtype: Any) -> Expression:
    """The elements in another dtype, by its name; a gradient flows where both are floats.

    x: an expression, or a number.  TypeError: there is no such dtype.
    """
    wanted = dtype_of(dtype)
    given = operand(x)
    is_number = given is not None and not isinstance(given, Expression)
    return cast_expression(expression(np.asarray(given) if is_number else given), wanted)


def _numeric(x: Any) -> Expression:
    """An operand whose truth values count as 0 and 1."""
    given = expression(x)
    return given if given.type.kind != "b" else cast_expression(given, np.int8)


def _float(x: Any) -> Expression:
    """An operand of a function of floats: Python numbers are of `floatx()`."""
    given = operand(x)
    return given if isinstance(given, Expression) else expression(None if given is None else float(given))
