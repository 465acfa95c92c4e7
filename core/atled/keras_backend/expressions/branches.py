"""Branches: expressions of which a condition says which are computed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from atled.keras_backend.expressions.expression import Expression, reached
from atled.keras_backend.expressions.needs import NeedsValueError
from atled.keras_backend.expressions.parts import Several

if TYPE_CHECKING:
    from atled.array_desc import ArrayDesc
    from atled.keras_backend.compiling.specialization import Specialization, Value


class Branch(Several):
    """One of two lists of expressions, each with the ndim and dtype of the other's at its place.

    condition: without axes; 0 is false.
    """

    __slots__ = ("_common", "condition", "sides")

    def __init__(self, condition: Expression, if_true: Sequence[Expression], if_false: Sequence[Expression]) -> None:
        super().__init__()
        self.condition = condition
        self.sides = tuple(if_true), tuple(if_false)
        self._common = _common(*self.sides)

    @property
    def needed(self) -> Sequence[Expression]:
        """The condition, and what is computed whatever it is: once, before the branch."""
        return (self.condition, *self._common)

    @property
    def inside(self) -> Sequence[Expression]:
        """See Expression."""
        return [each for side in self.sides for each in side]

    def paths_of(self, number: int) -> Sequence[Expression]:
        """See Several."""
        return [side[number] for side in self.sides]

    def described(self, into: Specialization) -> Value:
        """See Expression. Where the sides have other sizes, those of the result depend on the condition's value."""
        known = into.value(self.condition).known
        if known is not None:
            chosen = self.sides[0 if known else 1]
            into.add(chosen)
            return into.parts([into.value(each) for each in chosen])
        descs: list[list[ArrayDesc]] = []

        def described(side: Sequence[Expression]) -> list[int]:
            with into.scope({}):
                try:
                    into.add(side)
                except NeedsValueError as error:  # of the side that is not chosen nothing is to be computed
                    raise NeedsValueError(self.condition) from error
                descs.append([into.value(each).desc for each in side])
                if descs[0] != descs[-1]:
                    raise NeedsValueError(self.condition)
                return [into.number(each) for each in side]

        numbers = into.description.branch(
            into.number(self.condition), lambda: described(self.sides[0]), lambda: described(self.sides[1])
        )
        return into.parts([into.of(desc, number) for desc, number in zip(descs[0], numbers, strict=True)])


def _common(*sides: Sequence[Expression]) -> list[Expression]:
    """What both sides need, without what only that needs.

    Described in each side, a chain of branches would be described twice as often with each one.
    """
    first, second = (reached(side, lambda each: each.needed) for side in sides)
    both = [each for each in first if each in second]
    below = {other for each in both for other in each.needed}
    return [each for each in both if each not in below]
