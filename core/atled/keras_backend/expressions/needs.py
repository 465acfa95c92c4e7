"""What a specialization cannot go on without."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from atled.keras_backend.expressions.expression import Expression


class NeedsValueError(Exception):
    """Sizes depend on a value that only a run knows: `expression`, which has to be computed first.

    kept: what the run that computes it may give as well, for the next one to begin with.
    is_replacing: whether it is wanted for what replaces other expressions, before that is done.
    """

    def __init__(self, expression: Expression, kept: Sequence[Expression] = ()) -> None:
        super().__init__(f"the value of {expression!r}")
        self.expression = expression
        self.kept = kept
        self.is_replacing = False
