"""Deferred decay and scaling of gradients: fused into the next update, or applied when a gradient is read before."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from atled.arrays.cell import ArrayCell
from atled.arrays.watches import open_watch
from atled.graph.compile.plans import PLANNING
from atled.graph.record.value import Value
from atled.graph.run.binding import Progress
from atled.graph.update.updates import Updated, UpdatePlans, run_updates
from atled.named_tuple import NamedTuple
from atled_contexts import Context

_MOST_CHANGES = 4
"""Deferred at a time: each sequence of ops is a kernel of its own, compiled when it is first met."""


class Change(NamedTuple):
    """An op that changes gradients in place, reading no more than the parameter, and the value of its attribute."""

    op: str
    value: float


class Parameters:
    """The arrays of some parameters whose gradients change together.

    shapes, data: of each.  read: the identities of `data`.  are_distinct: whether no array is there twice.

    It refers to gradients weakly, because they refer to it while they wait.
    """

    __slots__ = ("_gradients", "are_distinct", "data", "read", "shapes")

    def __init__(self, values: Sequence[Value]) -> None:
        self._gradients = [weakref.ref(value.grad.cell) for value in values]
        self.shapes = [value.shape for value in values]
        self.data = [value.cell for value in values]
        self.read = frozenset(map(id, self.data))
        arrays = {*self.read, *(id(value.grad.cell) for value in values)}
        self.are_distinct = len(arrays) == 2 * len(values)

    def are(self, values: Sequence[Value]) -> bool:
        """Whether they still have these arrays."""
        return all(
            value.grad.cell is gradient() and value.cell is data
            for value, gradient, data in zip(values, self._gradients, self.data, strict=True)
        )

    def waiting_for(self, recipe: object) -> list[tuple[tuple[int, ...], ArrayCell, ArrayCell]]:
        """Shape, data and gradient of those whose gradient waits for something."""
        everything = zip(self.shapes, self.data, self._gradients, strict=True)
        return [
            (shape, data, cell)
            for shape, data, gradient in everything
            if (cell := gradient()) is not None and cell.pending is recipe
        ]


class WaitingChanges:
    """Deferred changes of gradients, and the recipe of these gradients until the changes are made.

    changes: in order.  parameters: whose gradients these are.  context: under which the changes were asked for.
    """

    __slots__ = ("__weakref__", "_is_taken", "_plans", "changes", "context", "parameters")

    def __init__(self, changes: Sequence[Change], parameters: Parameters, context: Context, plans: UpdatePlans) -> None:
        self.changes = tuple(changes)
        self.parameters = parameters
        self.context = context
        self._is_taken = False  # by the thread that holds PLANNING
        self._plans = weakref.ref(plans)

    @property
    def watched(self) -> frozenset[int]:
        """The parameters, which the changes read."""
        return self.parameters.read

    def before_write(self) -> None:
        """A parameter is going to be written: make the changes first."""
        self.finish()

    def hold(self) -> None:
        """Nothing to do: the gradient refers to all that is needed."""

    def recover(self, cell: ArrayCell) -> None:
        """Make the changes, of all gradients that wait for them, not only of this one."""
        self.finish()

    def finish(self) -> None:
        """Make the changes, of all gradients that wait for them, in passes of their own."""
        with PLANNING:
            if self._is_taken:
                return  # the changes are being made, from what is in the memory
            waiting = self.parameters.waiting_for(self)
            if not waiting:
                return
            progress = Progress()
            with self.taken([gradient for _, _, gradient in waiting], progress):
                while self.changes:
                    change, made = self.changes[0], Progress()
                    floats = [change.value] * len(waiting)
                    try:
                        _run_alone(change.op, floats, waiting, self.context, self._plans(), made)
                    finally:
                        if made.is_complete:
                            self.changes = self.changes[1:]  # if the next one fails, this one is done
                            progress.is_complete = not self.changes

    @contextmanager
    def taken(self, gradients: Sequence[ArrayCell], progress: Progress) -> Iterator[None]:
        """Make the changes within this block, under PLANNING: other threads that read a gradient wait for its end.

        If the block fails, the changes stay deferred, unless `progress` says that they are made.
        """
        self._is_taken = True
        try:
            yield
        finally:
            if progress.is_complete:
                for cell in gradients:
                    cell.pending = None
            self._is_taken = False


def scale_gradients(factors: Sequence[float], values: Sequence[Value], context: Context, plans: UpdatePlans) -> None:
    """Multiply the gradient of each value by a number of its own, now; what waits of them is done before."""
    for value in values:
        value.grad.cell.settle()
    _run_alone(
        "ScaleGrad",
        factors,
        [(value.shape, value.cell, value.grad.cell) for value in values],
        context,
        plans,
    )


def _run_alone(
    op: str,
    floats: Sequence[float],
    arrays: Sequence[tuple[tuple[int, ...], ArrayCell, ArrayCell]],
    context: Context,
    plans: UpdatePlans | None,
    progress: Progress | None = None,
) -> None:
    """Make a change in a pass of its own.

    floats: the op's attribute for each gradient.  progress: is told whether it is made.
    """
    # The plans hold the arrays, so that no other can get the number of one.
    key = ("gradients", tuple((id(data), id(gradient)) for _, data, gradient in arrays))
    run_updates(
        [op],
        key,
        lambda: [Updated(shape, (data, gradient)) for shape, data, gradient in arrays],
        floats,
        context,
        UpdatePlans() if plans is None else plans,  # none where the solver is gone
        progress,
    )


def change_gradients(change: Change, values: Sequence[Value], context: Context, plans: UpdatePlans) -> None:
    """Change the gradients of values: as a part of the next update, or when one of them is read before.

    At once if it could be missed: a user holds a view of a gradient or a parameter, or a plan reads a gradient as data.
    """
    with PLANNING:
        gradients = [value.grad.cell for value in values]
        before = common_changes(values, gradients, context)
        if before is not None and len(before.changes) < _MOST_CHANGES:
            waiting = WaitingChanges([*before.changes, change], before.parameters, context, plans)
        else:
            for cell in gradients:
                if cell.pending is not None:
                    cell.settle()
            parameters = _parameters(values, plans)
            if not parameters.are_distinct or not _may_wait(values):
                arrays = [(value.shape, value.cell, value.grad.cell) for value in values]
                _run_alone(change.op, [change.value] * len(arrays), arrays, context, plans)
                return
            waiting = WaitingChanges([change], parameters, context, plans)
        for cell in gradients:
            cell.wait_for(waiting)
        open_watch(waiting)


def _parameters(values: Sequence[Value], plans: UpdatePlans) -> Parameters:
    """The record of these parameters; that of the last time if it is of the same ones."""
    before = plans.parameters
    if isinstance(before, Parameters) and len(before.data) == len(values) and before.are(values):
        return before
    plans.parameters = made = Parameters(values)
    return made


def common_changes(values: Sequence[Value], gradients: Sequence[ArrayCell], context: Context) -> WaitingChanges | None:
    """The deferred changes that the gradients of all values have in common, under a Context; None if they differ."""
    first = gradients[0].pending
    if not isinstance(first, WaitingChanges) or first.context != context:
        return None
    if len(first.parameters.data) != len(values) or any(cell.pending is not first for cell in gradients):
        return None
    return first if first.parameters.are(values) else None


def _may_wait(values: Sequence[Value]) -> bool:
    """Whether every read of the gradients, and every write of the parameters, is announced."""
    for value in values:
        data, gradient = value.cell, value.grad.cell
        if data.pending is not None or gradient.pending is not None or data.storage is None or gradient.storage is None:
            return False
        if data.has_live_view or gradient.has_live_view or (gradient.is_data and gradient.use > 0):
            return False
        if not value.is_leaf:
            return False
    return True
