"""Values that a backward computes again instead of reading: whether what they are made of is still there."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from atled.arrays.cell import ArrayCell, Plans
from atled.arrays.epoch import EPOCH, WRITES
from atled.arrays.watches import close_watch, open_watch
from atled.errors import four_parts
from atled.graph.compile.templates import PLANNING
from atled.graph.record.value import RecordedCall, Value
from atled_contexts import lock_across_forks

if TYPE_CHECKING:
    from atled.graph.recompute.recipes import ValueRecipe

_REGULAR_RUNS = 2
"""So many times one backward, and nothing between it and its forward, must have been seen before a root is trusted."""


class Trust:
    """The values of one root that its backward computes again, and what keeps that exact.

    Gradients are those of the values that the forward found. So a root is looked at first: only where each forward was
    followed by one backward, and nothing was written in between, its forward stops storing the values. From then on
    whoever is going to write a source before the backward has run has the values stored first, and the root goes back
    to storing them. After the backward sources may be written; a second backward of that forward is then an error, if
    it was seen before that sources are written there and none follows. Until that was seen the values are stored first.

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
        # Who is going to write waits for a backward that runs. Nothing is planned while this is held alone.
        self._lock = lock_across_forks()
        self._number = 0  # of the last forward, among the writes
        self._is_open = False  # whether whoever writes a source says so before
        self._is_used = False  # whether a backward has run since the last forward
        self._is_written_after = False  # whether sources were seen to be written after a backward that was the last one
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
        """Whether it is still to be seen if the root can be trusted."""
        return self._regular_count < _REGULAR_RUNS and not self._is_refused

    def refuse(self) -> None:
        """Have the values stored from the next forward on, for good."""
        if not self._is_refused:
            self._is_refused = True
            EPOCH.bump()

    def forward_begins(self) -> None:
        """What the last forward left is going to be replaced."""
        if self._is_used and not self._is_written_after:
            self._is_written_after = self._differ(self.sources)
        self._close()
        if self.is_trusted and any(cell.has_live_view for cell in self.sources):
            self.refuse()  # they could change unseen

    def forward_ran(self) -> None:
        """There are new values."""
        self._number = next(WRITES)
        self._is_used = False
        # Not by what is known of the root: that may have changed, by other threads, since the plan was made.
        if any(value.data.cell.is_unstored for value in self.values()):
            self._is_open = True
            open_watch(self)

    def run_backward(self, run: Callable[[], None], recomputes: bool) -> bool:
        """Run a plan of the backward, which computes values again or does not.

        Returns whether it ran: not if it was made before somebody had the values stored.
        Raises RuntimeError if they are not what they were any more.
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
                    value.data.cell.plans = (
                        Plans.NONE
                    )  # all plans look again, and the one that stored it need not any more
                EPOCH.bump()

    def _close(self) -> None:
        self._is_open = False
        close_watch(self)

    def before_write(self) -> None:
        """A source is going to be written, or a value."""
        self.store()

    def store(self) -> None:
        """Store the values that the forward did not, and from now on."""
        with PLANNING, self._lock:
            if self._is_used:
                self._is_written_after = True
                self._regular_count = 0  # the next ones are looked at with that in mind
            else:
                self._is_refused = True
            is_open = self._is_open
            self._close()
            if is_open and self.recipe is not None:
                for value in self.values():
                    cell = value.data.cell
                    if cell.is_unstored:
                        self.recipe.restore(value)
                        cell.plans = (
                            Plans.READ
                        )  # a backward is going to read it: what other plans make there must be stored
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
