"""Whether parameters are written at nearly every call, so that nothing computed of them alone is worth its time."""

from __future__ import annotations

from collections.abc import Callable

_WORTHWHILE = 8  # runs: at a batch of one, weights take as long to be folded and packed as several runs
_IN_VAIN = 3  # times in a row: a second plan, without folding, takes longer to compile than these
_MOST_PATIENCE = 64


class Restlessness:
    """What an inference has seen of its parameters.

    is_seen: whether they were written before what was computed of them had served some runs, several times in a row.
    """

    __slots__ = ("_in_vain", "_patience", "_quiet", "is_seen")

    def __init__(self) -> None:
        self.is_seen = False
        self._in_vain = 0
        self._patience = 0  # runs in a row that find them unwritten, until values are kept again
        self._quiet = 0

    def note_end(self, runs: int) -> None:
        """What was computed is old: so many runs read it."""
        if runs >= _WORTHWHILE:
            self._in_vain = self._patience = 0
            return
        self._in_vain += 1
        if self._in_vain >= _IN_VAIN:
            self._patience = min(_MOST_PATIENCE, max(1, 2 * self._patience))
            self._quiet = 0
            self.is_seen = True

    def lasts(self, is_quiet: Callable[[], bool]) -> bool:
        """Whether one more run is to do without; is_quiet: whether nothing was written since the last time."""
        self._quiet = self._quiet + 1 if is_quiet() else 0
        self.is_seen = self._quiet < self._patience
        return self.is_seen
