"""History: which leaves of a graph stay as they are from run to run, while others change."""

from __future__ import annotations

from collections.abc import Sequence

from atled.arrays.cell import ArrayCell
from atled.arrays.epoch import WRITES

_PATIENCE = 1  # runs in a row before which others changed, until leaves count as unchanging
_MOST_PATIENCE = 64
_WORTHWHILE = 4  # runs with what was made of them; after fewer of them, patience doubles
_MOST_REST = 15  # runs of a graph whose leaves all change, or none of them, until it is looked at again
_NONE: frozenset[int] = frozenset()


class History:
    """Which leaves nobody wrote between runs; several threads may ask.

    A run tells something only if something else than in the run before goes into it: where no leaf was written, a run
    repeats the one before, and there is nothing to tell weights from data.

    leaves: the arrays, by number.  choices: sets of their numbers of which something worthwhile can be made.
    varies: whether the graph has random draws or state, so that no run is another one's repetition.
    before: number of the writes before a run that was not asked about, 0 if there was none.
    """

    __slots__ = (
        "_before",
        "_choices",
        "_count",
        "_idle",
        "_is_noted",
        "_leaves",
        "_patience",
        "_rest",
        "_same",
        "_varies",
    )

    def __init__(
        self,
        leaves: Sequence[tuple[int, ArrayCell]],
        choices: Sequence[frozenset[int]],
        varies: bool,
        before: int = 0,
    ) -> None:
        self._leaves = tuple(leaves)
        self._choices = tuple(choices)
        self._varies = varies
        self._patience = _PATIENCE
        self._before = before
        self._is_noted = False
        self._rest = 0
        self._idle = 0
        self._same = _NONE
        self._count = 0

    def unchanging(self) -> frozenset[int]:
        """The leaves of which something is to be made, before a run; none while that is not worthwhile."""
        if self._rest > 0:  # several threads may have passed here at once
            self._rest -= 1
            return _NONE
        before, self._before = self._before, next(WRITES)
        if not before:
            return _NONE  # graphs that are built again at every step run once
        if not self._is_noted:
            self._is_noted = True
            for _, cell in self._leaves:
                cell.note_runs()
        same = frozenset([number for number, cell in self._leaves if cell.is_unchanged_since(before)])
        if len(same) == len(self._leaves) and not self._varies:
            return self._nothing()
        if not self._has_choice(self._same & same):
            self._count = 0
            self._same = same
            if not self._has_choice(same):
                return self._nothing()
        self._same = self._same & same if self._count else same
        self._count += 1
        self._idle = 0
        if self._count < self._patience:
            return _NONE
        return _NONE.union(*(choice for choice in self._choices if choice <= self._same))

    def _has_choice(self, leaves: frozenset[int]) -> bool:
        return any(choice <= leaves for choice in self._choices)

    def _nothing(self) -> frozenset[int]:
        self._idle = self._rest = min(_MOST_REST, 2 * self._idle + 1)
        return _NONE

    def ended(self, runs: int) -> None:
        """Leaves were written of which something was made, that so many runs have used."""
        self._patience = min(_MOST_PATIENCE, 2 * self._patience) if runs < _WORTHWHILE else _PATIENCE
        self._begin_again()

    def put_off(self) -> None:
        """Do not ask again soon: there is no room for what would be made."""
        self._begin_again()
        self._rest = _MOST_PATIENCE

    def refuse(self, leaves: frozenset[int]) -> None:
        """Nothing is to be made of these leaves after all."""
        self._choices = tuple(choice for choice in self._choices if not choice <= leaves)

    def _begin_again(self) -> None:
        self._before = next(WRITES)
        self._same = _NONE
        self._count = 0
        self._idle = 0
