"""The values that a call of a function is given."""

from __future__ import annotations

from typing import Any

import numpy as np

from atled.errors import four_parts
from atled.keras_backend.expressions.expression import Expression
from atled.keras_backend.expressions.leaves import array_of
from atled.keras_backend.expressions.messages import counted

NO_LIST = "give values one by one, f(a, b), and not in a list, which Keras's own backends take"
"""The remedy where a function is called as one of these."""


def as_values(value: Any, to: Expression) -> np.ndarray:
    """A value as numbers with as many axes as an input has.

    value: an array, a list, or a number.
    TypeError: for another count of axes than the input has, and for what is no numbers.
    """
    if isinstance(value, Expression):
        asked, wrong = f"{value!r} as a value for the input {to.shown}", "it is an expression"
        raise TypeError(four_parts(asked, wrong, "", "give its value, by eval(), or replace the input by givens"))
    found = array_of(value, f"a {type(value).__name__} as a value for the input {to.shown}")
    if found.ndim != to.ndim:
        asked = f"a value of shape {found.shape} for the input {to.shown}"
        wrong = f"it has {counted(found.ndim)}, the input {to.ndim}"
        is_list = isinstance(value, list | tuple) and len(value) == 1 and found.ndim == to.ndim + 1
        remedy = NO_LIST if is_list else "give a value with as many axes, by reshape() or indexing"
        raise TypeError(four_parts(asked, wrong, "", remedy))
    return found
