"""Functions that read and write the values of variables, and evaluate expressions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from atled.errors import four_parts
from atled.keras_backend.expressions.expression import Expression, place
from atled.keras_backend.expressions.leaves import Variable


def get_value(x: Variable) -> np.ndarray:
    """A copy of the values of a variable.  TypeError: x is none."""
    return _variable(x).get_value()


def set_value(x: Variable, value: Any) -> None:
    """Have a variable hold other values, cast to its dtype; another shape of as many axes is accepted.

    TypeError: x is no variable.  ValueError: another count of axes.
    """
    _variable(x).set_value(value)


def batch_get_value(xs: Iterable[Variable]) -> list[np.ndarray]:
    """Copies of the values of several variables."""
    return [get_value(each) for each in xs]


def batch_set_value(tuples: Iterable[Sequence[Any]]) -> None:
    """Have several variables hold other values: pairs of variable and values. All are checked before one is written."""
    pairs = [(_variable(x), value) for x, value in tuples]
    checked = [(x, x.as_value(value)) for x, value in pairs]
    for x, value in checked:
        x.hold(value)


def get_variable_shape(x: Variable) -> tuple[int, ...]:
    """The sizes of a variable, as ints."""
    return tuple(_variable(x).array.shape)


def eval(x: Any) -> np.ndarray:
    """The value of a variable, or of an expression that needs no placeholders; random nodes advance."""
    if isinstance(x, Variable):
        return x.get_value()
    if isinstance(x, Expression):
        return x.eval()
    if isinstance(x, list | tuple) and any(isinstance(each, Expression) for each in x):
        return np.asarray([eval(each) for each in x])
    return np.array(x)


def _variable(x: Any) -> Variable:
    if isinstance(x, Variable):
        return x
    what = repr(x) if isinstance(x, Expression) else f"a {type(x).__name__}"
    remedy = "evaluate it by B.eval" if isinstance(x, Expression) else "give what B.variable makes"
    raise TypeError(four_parts(f"{place()[1]} of {what}", "it is no variable", "", remedy))
