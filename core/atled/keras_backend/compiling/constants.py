"""What a function computes of constants alone: once for all of its specializations, which share the arrays."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from atled.keras_backend.expressions.expression import Expression
from atled.keras_backend.expressions.leaves import Constant
from atled.keyed import NdArray


class Constants:
    """Values of expressions that depend on nothing, neither sizes nor variables, by expression."""

    def __init__(self, reached: Iterable[Expression]) -> None:
        """reached: among them the constants to begin with."""
        self._known: dict[Expression, np.ndarray] = {each: each.value for each in reached if isinstance(each, Constant)}
        self._kept = {id(each) for each in self._known.values()}
        self._arrays: dict[int, NdArray] = {}  # by identity of the values, which are kept above

    def find(self, expression: Expression) -> np.ndarray | None:
        """The value of an expression that was computed before."""
        return self._known.get(expression)

    def add(self, expression: Expression, value: np.ndarray) -> np.ndarray:
        """Keep a value if it depends on nothing; gives the one that is kept, or the value."""
        if not expression.needed or not all(each in self._known for each in expression.needed):
            return value
        kept = self._known.setdefault(expression, value)
        self._kept.add(id(kept))
        return kept

    def array(self, value: np.ndarray) -> NdArray:
        """An array of a value: the same one each time for those that are kept."""
        found = self._arrays.get(id(value))
        if found is None:
            found = NdArray.from_numpy_array(value)
            if id(value) in self._kept:
                found = self._arrays.setdefault(id(value), found)
        return found
