"""Expressions that give several values, and each of these."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from atled.keras_backend.expressions.expression import Expression

if TYPE_CHECKING:
    from atled.keras_backend.compiling.specialization import Specialization, Value


class Several(Expression):
    """What gives several values at once, each of which is a Part; its own value consists of them."""

    __slots__ = ()

    def __init__(self, name: str | None = None) -> None:
        super().__init__(0, np.bool_, name)  # nobody reads these

    def paths_of(self, number: int) -> Sequence[Expression]:
        """Those of `needed` and `inside` through which gradients of one of the values flow."""
        return self.paths


class Part(Expression):
    """One value of what gives several."""

    __slots__ = ("number", "of")

    def __init__(self, of: Several, number: int, ndim: int, dtype: Any, name: str | None = None) -> None:
        super().__init__(ndim, dtype, name)
        self.of = of
        self.number = number

    @property
    def needed(self) -> Sequence[Expression]:
        """What gives it."""
        return (self.of,)

    @property
    def paths(self) -> Sequence[Expression]:
        """Those that what gives it has for it."""
        return self.of.paths_of(self.number)

    def described(self, into: Specialization) -> Value:
        """See Expression."""
        return into.value(self.of).parts[self.number]
