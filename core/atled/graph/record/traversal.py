"""Walks over recorded calls: those before a value in order, and whether a gradient reaches it."""

from __future__ import annotations

from atled.graph.record.value import RecordedCall, Value


def needs_gradient(value: Value) -> bool:
    """Whether a gradient reaches a value: by its need_grad, else by those of the values that it is computed from."""
    if value.need_grad is not None or value.parent is None:
        return bool(value.need_grad)
    needs: dict[int, bool] = {}
    for function in functions_before(value):
        flows = any(
            needs.get(id(v), False) if v.need_grad is None else v.need_grad for v in function.inputs if v is not None
        )
        for output in function.live_outputs():
            if output is not None:
                needs[id(output)] = flows and function.spec.no_gradient != "stops"
    return needs.get(id(value), False)


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
