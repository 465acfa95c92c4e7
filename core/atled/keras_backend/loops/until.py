"""`until`: the condition that ends a loop."""

from __future__ import annotations

from typing import Any

from atled.errors import four_parts
from atled.keras_backend.expressions.calls import expression


class until:  # programs call it, as a function
    """What the step of `scan` returns behind its outputs to end the loop.

    condition: () bool or number; where it is true (not 0), the step in which it is computed is the last one.

    TypeError: the condition has axes.
    """

    def __init__(self, condition: Any) -> None:
        self.condition = expression(condition)
        if self.condition.ndim:
            raise TypeError(
                four_parts(
                    f"until({self.condition.shown})",
                    f"a condition has no axes, this one has {self.condition.ndim}",
                    "",
                    "reduce it, for example by all or any",
                )
            )
