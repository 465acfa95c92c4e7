"""Expressions that are computed from nothing: variables, placeholders and constants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from atled.dtypes import in_native_order
from atled.errors import four_parts
from atled.keras_backend.expressions.expression import Expression
from atled.keras_backend.expressions.messages import counted
from atled.keyed import NdArray

if TYPE_CHECKING:
    from atled.keras_backend.compiling.specialization import Specialization, Value


def array_of(value: Any, asked: str) -> np.ndarray:
    """An array of what a program gives as numbers.  TypeError: it is none; asked: for what they are."""
    try:
        values = np.asarray(value)
    except ValueError as error:  # rows of different lengths
        raise TypeError(four_parts(asked, f"it is no array ({error})", "", "give rows of one length")) from error
    if values.dtype.kind not in "biuf":
        wrong = f"NumPy makes an array of {values.dtype} of it"
        raise TypeError(four_parts(asked, wrong, "", "give an array, a list of numbers, or a number"))
    return values.astype(in_native_order(values.dtype), copy=False)


def numbers(value: Any, dtype: np.dtype, asked: str) -> np.ndarray:
    """What a program gives as values, in a dtype.  TypeError: no numbers; asked: for what they are."""
    values = array_of(value, asked)
    with np.errstate(over="ignore"):  # a large number becomes inf in a narrow dtype
        return values.astype(dtype, copy=False)


class Variable(Expression):
    """An array with a name, which functions read and update.

    array: its values, wherever the Context has them.
    next: what each function that reads it assigns to it, as the rows of a random generator have it; None for none.
    """

    __slots__ = ("array", "next")

    def __init__(self, value: np.ndarray, name: str | None = None) -> None:
        super().__init__(value.ndim, value.dtype, name)
        self.array = NdArray.from_numpy_array(value)
        self.next: Expression | None = None

    def __reduce__(self) -> Any:
        """Copies and pickles have its values and its name; rows of random generators are refused."""
        return super().__reduce__() if self.next is not None else (Variable, (self.get_value(), self.name))

    def get_value(self) -> np.ndarray:
        """A copy of its values."""
        return self.array.data.copy()

    def set_value(self, value: Any) -> None:
        """Hold other values, cast to its dtype; another shape of as many axes is accepted.

        ValueError: another count of axes.  TypeError: what is no numbers.
        """
        self.hold(self.as_value(value))

    def as_value(self, value: Any) -> np.ndarray:
        """What `set_value` would have it hold, checked."""
        asked = f"values for the variable {self!r}"
        values = numbers(value, self.type, asked)
        if values.ndim != self.ndim:
            remedy = f"give an array of {counted(self.ndim)}; the shape may be another one"
            raise ValueError(four_parts(asked, f"these have {values.ndim}: {values.shape}", "", remedy))
        return values

    def hold(self, values: np.ndarray) -> None:
        """Hold values of its dtype, where the program's functions find them: in its array, or in one of their shape."""
        if values.shape == self.array.shape:
            self.array.data = values
        else:
            self.array = NdArray.from_numpy_array(values)

    @property
    def advances(self) -> Mapping[Variable, Expression]:
        """Its own next value, if it has one."""
        return {} if self.next is None else {self: self.next}

    def described(self, into: Specialization) -> Value:
        """Its array."""
        return into.array(self.array)


class Placeholder(Expression):
    """A value that a call of a function brings; only the count of its axes is known.

    is_of_a_step: whether each step of a loop brings one.
    """

    __slots__ = ()
    is_of_a_step: ClassVar[bool] = False

    def described(self, into: Specialization) -> Value:
        """Not reached: a specialization begins with the inputs of its function."""
        raise TypeError(
            four_parts(
                f"the value of {self!r}, made at {self.written}",
                "it is none of the inputs",
                "",
                "list it among the inputs of the function, or replace it by givens",
            )
        )


class Constant(Expression):
    """An array that never changes."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = np.array(value)  # a copy: the program may write into its own
        super().__init__(self.value.ndim, self.value.dtype)

    def described(self, into: Specialization) -> Value:
        """Known before anything runs."""
        return into.known(self.value)
