"""The values that a call of a function is given, as arrays of the dtypes of its inputs."""

from __future__ import annotations

from typing import Any

import numpy as np

from atled.errors import four_parts
from atled.keras_backend.expressions.expression import Expression
from atled.keyed import NdArray


def as_array(value: Any, to: Expression) -> NdArray:
    """A copy of a value in the dtype of an input, in which NumPy casts it: floats become whole numbers, if need be.

    value: an array, a list, or a number.
    TypeError: for another count of axes than the input has, and for what is no numbers.
    """
    if isinstance(value, Expression):
        asked, wrong = f"{value!r} as a value for the input {to.shown}", "it is an expression"
        raise TypeError(four_parts(asked, wrong, "", "give its value, by eval(), or replace the input by givens"))
    try:
        found = np.asarray(value)
    except ValueError as error:  # rows of different lengths
        asked = f"a {type(value).__name__} as a value for the input {to.shown}"
        raise TypeError(four_parts(asked, f"it is no array ({error})", "", "give rows of one length")) from error
    if found.dtype.kind not in "biuf":
        asked = f"a {type(value).__name__} as a value for the input {to.shown}"
        wrong = f"NumPy makes an array of {found.dtype} of it"
        raise TypeError(four_parts(asked, wrong, "", "give an array, a list of numbers, or a number"))
    if found.ndim != to.ndim:
        asked = f"a value of shape {found.shape} for the input {to.shown}"
        wrong = f"it has {found.ndim} axes, the input {to.ndim}"
        raise TypeError(four_parts(asked, wrong, "", "give a value with as many axes, by reshape() or indexing"))
    if found.dtype != to.type:
        with np.errstate(over="ignore", invalid="ignore"):  # a number that is too large becomes inf, as in a variable
            found = found.astype(to.type)
    return NdArray.from_numpy_array(found)
