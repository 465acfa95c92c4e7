"""Trust: whether the arrays from which a backward computes values again still have the values of its forward."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from atled.arrays.cell import ArrayCell, Use
from atled.arrays.epoch import EPOCH, WRITES
from atled.arrays.watches import close_watch, open_watch
from atled.errors import four_parts
from atled.graph.compile.plans import PLANNING
from atled.graph.record.value import RecordedCall, Value
from atled_contexts import lock_across_forks

if TYPE_CHECKING:
    from atled.graph.recompute.recipes import ValueRecipe

_REGULAR_RUNS = 2
"""Count of regular steps, one backward per forward with no write in between, before values are trusted."""


class Trust:
    """The values that the backward of some roots computes again, and whether that gives what forward found.

    - At first the roots are watched: if each forward is followed by one backward, with no write to a source in between,
      forward stops storing the values.
    - From then on, before a source is written between forward and backward, the values are stored, and forwards
      store them for good.
    - Sources may be written after the backward. When that happens for the first time, the values are stored before, in
      case a second backward follows. If none did, they are not stored the next time, and a second backward is an error.

    values: what backward would read.  functions: those to be called again for them.
    sources: the arrays that these read.  before: those that computed sources are made of.
    recipe: how to get the values, once a forward does not store them.
    """

    __slots__ = (
        "__weakref__",
        "_is_open",
        "_is_refused",
        "_is_used",
        "_is_written_after",
        "_lock",
        "_number",
        "_regular_count",
        "_values",
        "before",
        "functions",
        "recipe",
        "sources",
        "watched",
    )

    def __init__(
        self,
        values: Sequence[weakref.ref[Value]],
        functions: frozenset[RecordedCall],
        sources: Sequence[ArrayCell],
    ) -> None:
        self._values = tuple(values)
        self.functions = functions
        self.sources = tuple(sources)
        self.before = tuple(_arrays_before(functions))
        self.recipe: ValueRecipe | None = None
        self.watched = frozenset(map(id, [*self.sources, *(value.data.cell for value in self.values())]))
        # A writer waits for a backward that runs. Nothing is planned while this is held without PLANNING.
        self._lock = lock_across_forks()
        self._number = 0  # of the last forward, among the writes
        self._is_open = False  # whether the values are stored before a source is written
        self._is_used = False  # whether a backward has run since the last forward
        self._is_written_after = False  # whether sources were written after the only backward of a forward
        self._is_refused = False
        self._regular_count = 0

    def values(self) -> list[Value]:
        """The values that still exist."""
        return [value for value in (reference() for reference in self._values) if value is not None]

    def is_like(self, other: Trust) -> bool:
        """Whether it is about the same values, of the same arrays."""
        return (
            self.functions == other.functions
            and self.watched == other.watched
            and set(map(id, self.before)) == set(map(id, other.before))
        )

    @property
    def is_trusted(self) -> bool:
        """Whether the forward need not store the values."""
        return self._regular_count >= _REGULAR_RUNS and not self._is_refused

    @property
    def is_watching(self) -> bool:
        """Whether regular steps are still being counted."""
        return self._regular_count < _REGULAR_RUNS and not self._is_refused

    def refuse(self) -> None:
        """Never trust the values again: forwards store the values from the next one on."""
        if not self._is_refused:
            self._is_refused = True
            EPOCH.bump()

    def forward_begins(self) -> None:
        """A forward is going to replace the values of the last one."""
        if self._is_used and not self._is_written_after:
            self._is_written_after = self._differ(self.sources)
        self._close()
        if self.is_trusted and any(cell.has_live_view for cell in self.sources):
            self.refuse()  # they could change unseen

    def forward_ran(self) -> None:
        """There are new values."""
        self._number = next(WRITES)
        self._is_used = False
        # Not by `is_trusted`: another thread may have changed that since the plan was made.
        if any(value.data.cell.is_unstored for value in self.values()):
            self._is_open = True
            open_watch(self)

    def run_backward(self, run: Callable[[], None], recomputes: bool) -> bool:
        """Run a plan of the backward, which computes values again or does not.

        Returns whether it ran: a plan that computes values again is stale once they are stored.
        Raises RuntimeError if the values cannot be computed any more, because a source was written.
        """
        with self._lock:
            if recomputes and not any(value.data.cell.is_unstored for value in self.values()):
                return False
            self._begin_backward(recomputes)
            run()
            self._is_used = True
            if self._is_written_after:
                self._close()
        return True

    def _begin_backward(self, recomputes: bool) -> None:
        if recomputes and not self._is_open and self._differ((*self.sources, *self.before)):
            self.refuse()
            raise RuntimeError(
                four_parts(
                    "backward once more after one forward",
                    "it needs values that the forward did not store, and something that they are computed from was "
                    "written since",
                    "",
                    "compute the graph again, from then on they are stored; or set persistent of what its "
                    "functions make before that",
                )
            )
        if self._is_used:
            self.refuse()
        elif self.is_watching:
            self._regular_count = 0 if self._differ(self.sources) else self._regular_count + 1
            if not self.is_watching:
                for value in self.values():
                    # So that no plan counts on its memory, not even the one that stored it.
                    value.data.cell.use = Use.NONE
                EPOCH.bump()

    def _close(self) -> None:
        self._is_open = False
        close_watch(self)

    def before_write(self) -> None:
        """A source or a value is going to be written: store the values."""
        self.store()

    def store(self) -> None:
        """Store the values that the forward did not store, and have later forwards store them."""
        with PLANNING, self._lock:
            if self._is_used:
                self._is_written_after = True
                self._regular_count = 0  # count again: sources are written after the backward
            else:
                self._is_refused = True
            is_open = self._is_open
            self._close()
            if is_open and self.recipe is not None:
                for value in self.values():
                    cell = value.data.cell
                    if cell.is_unstored:
                        self.recipe.restore(value)
                        # A backward is going to read it: other plans that make it must store it.
                        cell.use = Use.READ
            EPOCH.bump()

    def _differ(self, cells: Sequence[ArrayCell]) -> bool:
        return any(cell.is_unstored or cell.may_differ_since(self._number) for cell in cells)


def _arrays_before(functions: Iterable[RecordedCall]) -> list[ArrayCell]:
    """The leaves, and the random states, that lead to what functions make."""
    found: dict[int, ArrayCell] = {}
    seen = set(functions)
    stack = list(seen)
    while stack:
        function = stack.pop()
        if function.random_state is not None:
            found[id(function.random_state)] = function.random_state
        for source in function.inputs:
            if source is None:
                continue
            if source.parent is None:
                found[id(source.data.cell)] = source.data.cell
            elif source.parent not in seen:
                seen.add(source.parent)
                stack.append(source.parent)
    return list(found.values())
