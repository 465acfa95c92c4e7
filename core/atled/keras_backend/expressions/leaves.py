"""Expressions that are computed from nothing: variables, placeholders and constants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from atled.errors import four_parts
from atled.keras_backend.expressions.expression import Expression
from atled.keyed import NdArray

if TYPE_CHECKING:
    from atled.keras_backend.compiling.specialization import Specialization, Value


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

    def get_value(self) -> np.ndarray:
        """A copy of its values."""
        return self.array.data.copy()

    @property
    def advances(self) -> Mapping[Variable, Expression]:
        """Its own next value, if it has one."""
        return {} if self.next is None else {self: self.next}

    def described(self, into: Specialization) -> Value:
        """Its array."""
        return into.array(self.array)


class Placeholder(Expression):
    """A value that a call of a function brings; only the count of its axes is known."""

    __slots__ = ()

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
