"""Sizes of expressions, which are known before anything runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from atled.keras_backend.expressions.expression import Expression

if TYPE_CHECKING:
    from atled.keras_backend.compiling.specialization import Specialization, Value


class ShapeOf(Expression):
    """The sizes of an expression, int64."""

    __slots__ = ("of",)

    def __init__(self, of: Expression) -> None:
        super().__init__(1, np.int64)
        self.of = of

    @property
    def needed(self) -> Sequence[Expression]:
        """What has the sizes; it is described, and computed only where something else reads it."""
        return (self.of,)

    @property
    def paths(self) -> Sequence[Expression]:
        """None: sizes have no gradients."""
        return ()

    def described(self, into: Specialization) -> Value:
        """Known."""
        return into.known(np.array(into.value(self.of).desc.shape, np.int64))

    def __len__(self) -> int:
        return self.of.ndim

    def __iter__(self) -> Iterator[Expression]:
        return (SizeOf(self.of, axis) for axis in range(self.of.ndim))

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return tuple(self)[index]
        return SizeOf(self.of, range(self.of.ndim)[index])


class SizeOf(Expression):
    """One size of an expression, int64 without axes."""

    __slots__ = ("axis", "of")

    def __init__(self, of: Expression, axis: int) -> None:
        super().__init__(0, np.int64)
        self.of = of
        self.axis = axis

    @property
    def needed(self) -> Sequence[Expression]:
        """See ShapeOf."""
        return (self.of,)

    @property
    def paths(self) -> Sequence[Expression]:
        """None: sizes have no gradients."""
        return ()

    def described(self, into: Specialization) -> Value:
        """Known."""
        return into.known(np.array(into.value(self.of).desc.shape[self.axis], np.int64))
