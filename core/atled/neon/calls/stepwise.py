"""Calls that no single program computes: they run step by step in Python, and say why."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from atled.keyed import Description, View

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
        with _restored_on_error(self._context, self._targets):
            for step in self._steps:
                step()

    @property
    def plan(self) -> str:
        """How many steps there are, and why."""
        return f"plan: {len(self._steps)} steps, one by one in Python\n      {self.reason}"


class Together:
    """Programs that are one call: one behind the other; where one fails, the targets are as they were.

    programs: of kind `Program`.  targets: what they write; none where all of them, once compiled, do not fail.
    """

    def __init__(self, context: Context, programs: Sequence[Any], targets: Sequence[View] = ()) -> None:
        self._context = context
        self._programs = programs
        self._targets = targets
        self._is_compiled = False

    def run(self) -> None:
        """Run all; what cannot be compiled is told before the first one runs."""
        if not self._is_compiled:
            for program in self._programs:
                _ = program.plan
            self._is_compiled = True
        with _restored_on_error(self._context, self._targets):
            for program in self._programs:
                program.run()

    @property
    def plan(self) -> str:
        """The plans of all."""
        return "\n".join(str(program.plan) for program in self._programs)


@contextlib.contextmanager
def _restored_on_error(context: Context, targets: Sequence[View]) -> Iterator[None]:
    """Where an error comes, have targets hold what they held before."""
    d = Description(context)
    for target in targets:
        d.result(d.leaf(target))
    saved = d.run() if targets else []
    try:
        yield
    except BaseException:
        # One by one: two of them may be one tensor.
        for target, values in zip(targets, saved, strict=True):
            restored = Description(context)
            restored.assign(target, restored.leaf(values))
            restored.run()
        raise
