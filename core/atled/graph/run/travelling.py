"""Arrays that travel between memories, as a binding uses them: looked at before each run, told of it afterwards."""

from __future__ import annotations

import numpy as np

from atled.arrays.cell import ArrayCell, Storage, Use
from atled.arrays.place import TRANSFERS, Place


class Travelling:
    """One array that travels, as a binding uses it: which copy, in which storage.

    cause: step of the fallback for which alone it is fetched, or -1.  moved: bytes copied by the last fetch.
    """

    __slots__ = ("cause", "cell", "dtype", "moved", "place", "storage")

    def __init__(
        self,
        cell: ArrayCell,
        place: Place,
        dtype: np.dtype,
        storage: Storage,
        cause: int = -1,
    ) -> None:
        self.cell = cell
        self.place = place
        self.dtype = dtype
        self.storage = storage
        self.cause = cause
        self.moved = 0
        if cell.use is Use.NONE:
            cell.use = Use.DEVICE

    @property
    def is_current(self) -> bool:
        """Whether the array still has this storage."""
        return self.cell.storage_at(self.place, self.dtype) is self.storage

    def fetch(self) -> None:
        """Bring the present values into the storage."""
        before = TRANSFERS.bytes_moved
        found = fetched(self.cell, self.place, self.dtype)
        self.moved = TRANSFERS.bytes_moved - before
        assert found is self.storage, "what replaces a storage raises the epoch"

    def show(self) -> None:
        """Let the array have the values that a run wrote."""
        self.cell.written_at(self.place, self.dtype, self.storage)


def fetched(cell: ArrayCell, place: Place, dtype: np.dtype) -> Storage:
    """The storage of an array in a memory with its present values; where they are not there yet, they are copied."""
    try:
        return cell.copy_at(place, dtype)
    except Exception as error:
        error.add_note(f"while a plan fetched {dtype.name}[{cell.size}] to {place}")
        raise
