"""Gradients as expressions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from atled.keras_backend.expressions.expression import Expression
from atled.keras_backend.expressions.parts import Several

if TYPE_CHECKING:
    from atled.keras_backend.compiling.specialization import Specialization, Value


class Gradients(Several):
    """The gradients of a loss with respect to some of the expressions that it is computed from.

    loss: without axes.  wanted: which ones.
    """

    __slots__ = ("loss", "wanted")

    def __init__(self, loss: Expression, wanted: Sequence[Expression]) -> None:
        super().__init__()
        self.loss = loss
        self.wanted = tuple(wanted)

    @property
    def needed(self) -> Sequence[Expression]:
        """See Expression."""
        return self.loss, *self.wanted

    @property
    def anchors(self) -> Sequence[Expression]:
        """See Expression."""
        return self.wanted

    def described(self, into: Specialization) -> Value:
        """See Expression."""
        loss, *numbers = into.numbers_from(self.loss, self.wanted)
        found = into.description.gradients(loss, numbers)
        descs = [into.value(each).desc for each in self.wanted]
        return into.parts([into.of(desc, number) for desc, number in zip(descs, found, strict=True)])
