"""Arrays that travel between memories, as a binding uses them: looked at before each run and told of it, or trusted."""

from __future__ import annotations

import time

import numpy as np

from atled.arrays.cell import ArrayCell, Copies, Storage, Use
from atled.arrays.epoch import MOVES
from atled.arrays.place import TRANSFERS, Place
from atled_contexts import active_trace

_PATIENCE = 2  # runs without a move, after which an array is trusted to stay; doubled with each time that it does not
_MOST_PATIENCE = 1 << 16
_UNUSED, _WRITTEN, _ON_DEVICE = Use.NONE, Use.WRITTEN, Use.DEVICE


class Travelling:
    """One array that travels, as a binding uses it: which copy, in which storage.

    is_read, is_written: by the steps of a run.
    cause: step of the fallback for which alone it is fetched, or -1.  moved: bytes copied by the last fetch.
    before: the copies with present values that a run has outdated.
    quiet: runs in a row in which nothing was to be done for it.  patience: how many of them it takes to trust it.
    """

    __slots__ = (
        "before",
        "cause",
        "cell",
        "dtype",
        "is_read",
        "is_written",
        "moved",
        "patience",
        "place",
        "quiet",
        "storage",
    )

    def __init__(
        self,
        cell: ArrayCell,
        place: Place,
        dtype: np.dtype,
        storage: Storage,
        *,
        is_read: bool,
        is_written: bool,
        cause: int = -1,
    ) -> None:
        self.cell = cell
        self.place = place
        self.dtype = dtype
        self.storage = storage
        self.is_read = is_read
        self.is_written = is_written
        self.cause = cause
        self.moved = 0
        self.before: Copies | None = None
        self.quiet = 0
        self.patience = _PATIENCE
        if cell.use is _UNUSED:
            cell.use = _ON_DEVICE

    @property
    def is_current(self) -> bool:
        """Whether the array still has this storage."""
        return self.cell.storage_at(self.place, self.dtype) is self.storage

    @property
    def is_trusted(self) -> bool:
        """Whether the array tells when something is to be done for it."""
        use = self.cell.use
        return (use is _WRITTEN if self.is_written else use > 0) and self.cell.storage is self.storage

    def fetch(self) -> None:
        """Bring the present values into the storage."""
        cell = self.cell
        if cell.storage is self.storage and cell.pending is None:
            self.moved = 0
            return
        before = TRANSFERS.bytes_moved
        found = fetched(self.cell, self.place, self.dtype)
        self.moved = TRANSFERS.bytes_moved - before
        if self.moved:
            self.quiet = 0
        assert found is self.storage, "what replaces a storage raises the epoch"

    def expect(self) -> None:
        """Outdate the copies of what a run is going to write."""
        cell = self.cell
        if cell.storage is not self.storage or cell.has_current_copies:
            self.quiet = 0
            self.before = cell.copies
            cell.outdate_copies()

    def show(self) -> None:
        """Let the array have the values that a run wrote."""
        self.before = None
        self.cell.written_at(self.place, self.dtype, self.storage)

    def go_back(self) -> None:
        """The device was lost amid a run: let the array have the values that it had, if they are elsewhere, too."""
        if self.before and self.cell.storage is self.storage:
            self.cell.go_back(self.before)
        self.before = None

    def is_resident(self) -> bool:
        """Note that a run ended well; whether the array has become one that is trusted to stay."""
        self.quiet += 1
        if self.quiet <= self.patience or self.place.is_host:
            return False
        if self.cell.settle_down(self.place, self.dtype, self.storage, is_written=self.is_written):
            return True
        self.be_patient()
        return False

    def be_patient(self) -> None:
        """Trust it later than the last time."""
        self.quiet = 0
        self.patience = min(2 * self.patience, _MOST_PATIENCE)


class Travels:
    """All arrays of a binding that travel.

    Those that stayed where they are for some runs are trusted to stay (residents): a run looks at none of them, but at
    one number, `MOVES`, which is raised when one does not. Then all are looked at, and those that moved are looked at
    before each run again, for longer than the last time.

    items: all of them.
    """

    __slots__ = ("_looked_at", "_moves", "_read", "_trusted", "_written", "items")

    def __init__(self) -> None:
        self.items: list[Travelling] = []
        self._looked_at: list[Travelling] = []
        self._read: list[Travelling] = []
        self._written: list[Travelling] = []
        self._trusted: list[Travelling] = []
        self._moves = -1

    def add(self, item: Travelling) -> None:
        """One more."""
        self.items.append(item)
        self._look_at([*self._looked_at, item])

    @property
    def is_current(self) -> bool:
        """Whether all arrays still have the storages that are used here; none is trusted without another look."""
        self._moves = -1
        return all(item.is_current for item in self.items)

    def fetch(self) -> None:
        """Fetch the inputs to the place of the steps, and outdate the copies of what the steps write."""
        if self._moves != MOVES.value:
            self._look_again()
        if not self._looked_at:
            return
        start = time.perf_counter()
        calls, moved = TRANSFERS.calls, TRANSFERS.bytes_moved
        for item in self._read:
            item.fetch()
        for item in self._written:
            item.expect()
        calls = TRANSFERS.calls - calls
        trace = active_trace() if calls else None
        if trace is not None:
            seconds = time.perf_counter() - start
            moved = TRANSFERS.bytes_moved - moved
            trace.record("Transfer", "engine", "", seconds, calls=calls, bytes_moved=moved)

    def go_back(self) -> None:
        """A device was lost amid a run: let the arrays have the values that they had, as far as these are elsewhere."""
        for item in self._written:
            item.go_back()

    def show(self) -> None:
        """Let the arrays have the values that a run wrote."""
        if self._moves != MOVES.value:  # read amid the run, by code of the user in it or by another thread
            self._look_again()
        if not self._looked_at:
            return
        for item in self._written:
            item.show()
        settled = [item for item in self._looked_at if item.is_resident()]
        if settled:
            self._trusted += settled
            self._look_at([item for item in self._looked_at if item not in settled])

    def _look_again(self) -> None:
        self._moves = MOVES.value  # before looking: what moves now is seen by the next run
        moved = [item for item in self._trusted if not item.is_trusted]
        if moved:
            for item in moved:
                item.be_patient()
            self._trusted = [item for item in self._trusted if item not in moved]
            self._look_at([*self._looked_at, *moved])

    def _look_at(self, items: list[Travelling]) -> None:
        self._looked_at = items
        self._read = [item for item in items if item.is_read]
        self._written = [item for item in items if item.is_written]


def fetched(cell: ArrayCell, place: Place, dtype: np.dtype) -> Storage:
    """The storage of an array in a memory with its present values; where they are not there yet, they are copied."""
    try:
        return cell.copy_at(place, dtype)
    except Exception as error:
        error.add_note(f"while a plan fetched {dtype.name}[{cell.size}] to {place}")
        raise
