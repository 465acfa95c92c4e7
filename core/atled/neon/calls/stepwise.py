"""Calls that no single program computes: they run step by step in Python, and say why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from atled.keyed import Description, NdArray, View

if TYPE_CHECKING:
    from atled_contexts import Context


class Stepwise:
    """Steps that run one behind the other; where one fails, the targets are as they were.

    reason: why they are no single program, as `plan` shows it.
    """

    def __init__(
        self, context: Context, reason: str, targets: Sequence[View], steps: Sequence[Callable[[], object]]
    ) -> None:
        self.reason = reason
        self._context = context
        self._targets = targets
        self._steps = steps

    def run(self) -> None:
        """Run all steps."""
        saved = self._saved()
        try:
            for step in self._steps:
                step()
        except BaseException:
            # One by one: two of them may be one tensor.
            for target, values in zip(self._targets, saved, strict=True):
                restored = Description(self._context)
                restored.assign(target, restored.leaf(values))
                restored.run()
            raise

    def _saved(self) -> Sequence[NdArray]:
        """What the targets hold."""
        d = Description(self._context)
        for target in self._targets:
            d.result(d.leaf(target))
        return d.run()

    @property
    def plan(self) -> str:
        """How many steps there are, and why."""
        return f"plan: {len(self._steps)} steps, one by one in Python\n      {self.reason}"


class Together:
    """Programs that are one call: one behind the other.

    programs: of kind `Program`.
    """

    def __init__(self, *programs: Any) -> None:
        self._programs = programs
        self._is_compiled = False

    def run(self) -> None:
        """Run all; what cannot be compiled is told before the first one runs."""
        if not self._is_compiled:
            for program in self._programs:
                _ = program.plan
            self._is_compiled = True
        for program in self._programs:
            program.run()

    @property
    def plan(self) -> str:
        """The plans of all."""
        return "\n".join(str(program.plan) for program in self._programs)
