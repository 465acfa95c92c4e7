"""Changes of gradients that wait: an update takes them in, and whoever looks before sees them done."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from atled.array import ArrayCell
from atled.graph.templates import PLANNING
from atled.graph.updating import Updated, UpdatePlans, run_updates
from atled.graph.value import Value
from atled.waiting import add_reader
from atled_contexts import Context

_MOST_CHANGES = 4
"""That wait together: each sequence of ops is a kernel of its own, to be compiled when it is first met."""


class Change(NamedTuple):
    """An op that changes gradients in place, reading no more than the parameter, and the value of its attribute."""

    op: str
    value: float


class Changed(NamedTuple):
    """A parameter whose gradient changes."""

    gradient: weakref.ref[ArrayCell]
    data: ArrayCell
    shape: tuple[int, ...]


class WaitingChanges:
    """What was to be done to gradients and is not done yet: their recipe, while it waits.

    changes: in order.  context: under which they were asked for.

    It refers to gradients weakly, because they refer to it.
    """

    __slots__ = ("__weakref__", "_data_of", "_is_taken", "_parameters", "_plans", "_read", "changes", "context")

    def __init__(
        self, changes: Sequence[Change], parameters: Sequence[Changed], context: Context, plans: UpdatePlans
    ) -> None:
        self.changes = tuple(changes)
        self.context = context
        self._is_taken = False  # by the thread that holds PLANNING
        self._parameters = parameters
        self._plans = weakref.ref(plans)
        self._read = frozenset(id(parameter.data) for parameter in parameters)
        self._data_of = {parameter.gradient: parameter.data for parameter in parameters}

    def reads(self, cell: ArrayCell) -> bool:
        """Whether the array is one of the parameters."""
        return id(cell) in self._read

    def is_about(self, gradient: ArrayCell, data: ArrayCell) -> bool:
        """Whether the gradient waits for this, for the one of this parameter."""
        return gradient.lazy is self and self._data_of.get(weakref.ref(gradient)) is data

    def hold(self) -> None:
        """Nothing more is needed than what is held anyway."""

    def recover(self, cell: ArrayCell) -> None:
        """Make the changes, of all gradients that wait for them."""
        self.finish()

    def finish(self) -> None:
        """Make the changes, of all gradients that wait for them."""
        with PLANNING:
            if self._is_taken:
                return  # who makes the changes wants what is in the memory
            waiting = [p for p in self._parameters if (cell := p.gradient()) is not None and cell.lazy is self]
            if waiting:
                with self.taken([_alive(p) for p in waiting]):
                    self.run(waiting)

    def run(self, parameters: Sequence[Changed]) -> None:
        """Make the changes in passes of their own; those that were made before one fails wait no more."""
        gradients = [_alive(parameter) for parameter in parameters]
        key = ("gradients", tuple(map(id, gradients)))  # which the plans hold, so that no other can have the number
        plans = self._plans()
        if plans is None:  # the solver is gone
            plans = UpdatePlans()

        def arrays() -> list[Updated]:
            return [Updated(p.shape, (p.data, cell)) for p, cell in zip(parameters, gradients, strict=True)]

        while self.changes:
            change = self.changes[0]
            run_updates([change.op], key, arrays, [change.value] * len(parameters), self.context, plans)
            self.changes = self.changes[1:]

    @contextmanager
    def taken(self, gradients: Sequence[ArrayCell]) -> Iterator[None]:
        """Make the changes within this, under PLANNING: until the end others who look at a gradient are kept waiting.

        Gradients go on waiting where that fails.
        """
        self._is_taken = True
        try:
            yield
            for cell in gradients:
                cell.lazy = None
        finally:
            self._is_taken = False


def _alive(parameter: Changed) -> ArrayCell:
    cell = parameter.gradient()
    assert cell is not None, "the caller holds it"
    return cell


def change_gradients(change: Change, values: Sequence[Value], context: Context, plans: UpdatePlans) -> None:
    """Change the gradients of values, as soon as somebody looks at them, or as a part of the next update.

    At once where the change could be missed: somebody holds a view of a gradient or a parameter, or a plan reads a
    gradient as data.
    """
    with PLANNING:
        before = common_changes(values, context)
        gradients = [value.grad.cell for value in values]
        if before is not None and len(before.changes) < _MOST_CHANGES:
            changes, may_wait = [*before.changes, change], True
        else:
            for cell in gradients:
                if cell.lazy is not None:
                    cell.settle()
            changes, may_wait = [change], _may_wait(values)
        parameters = [Changed(weakref.ref(value.grad.cell), value.data.cell, value.shape) for value in values]
        waiting = WaitingChanges(changes, parameters, context, plans)
        if not may_wait:
            waiting.run(parameters)
            return
        for cell in gradients:
            cell.lazy = waiting
            cell.touched()
        add_reader(waiting)


def common_changes(values: Sequence[Value], context: Context) -> WaitingChanges | None:
    """What the gradients of all values wait for, under a Context; None where that is not one and the same."""
    first = values[0].grad.cell.lazy
    if not isinstance(first, WaitingChanges) or first.context != context:
        return None
    return first if all(first.is_about(value.grad.cell, value.data.cell) for value in values) else None


def _may_wait(values: Sequence[Value]) -> bool:
    """Whether everybody who could notice a change of the gradients is told to ask, and no array is there twice."""
    cells = [cell for value in values for cell in (value.data.cell, value.grad.cell)]
    if len(set(map(id, cells))) < len(cells):
        return False
    if any(cell.storage is None or cell.lazy is not None or cell.has_live_view for cell in cells):
        return False
    gradients = [value.grad.cell for value in values]
    return all(value.is_leaf for value in values) and not any(cell.bound > 0 and cell.is_data for cell in gradients)
