"""StepPlan: the layer calls of a training step, with their plans."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class StepPlan:
    """Layer calls in the order in which a step made them.

    calls: names and plans.  replay: how steps are replayed, or why not. `print` shows it all.
    """

    def __init__(self, backend: Any, made: list[tuple[str, tuple[Any, ...], dict[str, Any]]], replay: str = "") -> None:
        self.replay = replay
        self.calls = [(name, backend.plan(name, *given, **named)) for name, given, named in made]

    def __len__(self) -> int:
        return len(self.calls)

    def __str__(self) -> str:
        lines = [f"{name}: {plan}" for name, plan in self.calls]
        return "\n".join([*lines, self.replay] if self.replay else lines)


@contextmanager
def noted_calls(backend: Any) -> Iterator[list[tuple[str, tuple[Any, ...], dict[str, Any]]]]:
    """A list that gets the layer calls of a backend, with their arguments, within the block."""
    made: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
    kind = type(backend)
    names = [name for name in dir(kind) if hasattr(getattr(kind, name, None), "describe")]

    def noting(name: str, call: Any) -> Any:
        def noted(*given: Any, **named: Any) -> Any:
            made.append((name, given, named))
            return call(*given, **named)

        return noted

    # On the object, before the methods of its class.
    shadows = {name: noting(name, getattr(backend, name)) for name in names if name not in vars(backend)}
    vars(backend).update(shadows)
    try:
        yield made
    finally:
        for name in shadows:
            vars(backend).pop(name, None)
