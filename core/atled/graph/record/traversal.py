"""Walks over recorded calls: those before a value in order, and whether a gradient reaches it."""

from __future__ import annotations

from collections.abc import Sequence

from atled.graph.record.value import RecordedCall, Value
from atled.ops.spec import OpSpec


def needs_gradient(value: Value) -> bool:
    """Whether a gradient reaches a value: by its need_grad, else by those of the values that it is computed from."""
    if value.need_grad is not None:  # as that of every parameter is, of which there may be thousands
        return bool(value.need_grad)
    needs: dict[Value, bool] = {}
    stack = [value]
    while stack:
        last = stack[-1]
        made = None if last.need_grad is not None else _made_by(last)
        if made is None:
            needs[last] = bool(last.need_grad)
        else:
            spec, inputs = made
            unknown = [each for each in inputs if each is not None and each not in needs]
            if unknown and spec.no_gradient != "stops":
                stack += unknown
                continue
            needs[last] = spec.no_gradient != "stops" and any(needs[each] for each in inputs if each is not None)
        stack.pop()
    return needs[value]


def _made_by(value: Value) -> tuple[OpSpec, Sequence[Value | None]] | None:
    """The op of the call that makes a value, and the inputs; None for a leaf.

    `parent` would be made of the pattern for that, and the graph would count as one that the user looked at.
    """
    inputs, pattern = value.inputs, value.pattern  # the pattern last: see `walked.walk`
    if pattern is not None and inputs is not None:
        return pattern.spec, inputs
    call = value.parent
    return None if call is None else (call.spec, call.inputs)


def functions_before(*values: Value) -> list[RecordedCall]:
    """The functions that lead to values, each once, in an order in which they can run."""
    order: list[RecordedCall] = []
    seen: set[RecordedCall] = set()
    parents = [value.parent for value in values]
    stack = [(parent, False) for parent in reversed(parents) if parent is not None]
    while stack:
        function, expanded = stack.pop()
        if expanded:
            order.append(function)
        elif function not in seen:
            seen.add(function)
            stack.append((function, True))
            for source in reversed(function.inputs):
                if source is not None and source.parent is not None and source.parent not in seen:
                    stack.append((source.parent, False))
    return order
