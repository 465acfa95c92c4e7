"""What still has to read arrays: it is told before one of them is written, so that it reads what was there."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from atled.array import ArrayCell


class Reader(Protocol):
    """Somebody who was asked for something, and has put off the work."""

    def reads(self, cell: ArrayCell) -> bool:
        """Whether the work reads an array."""

    def finish(self) -> None:
        """Do the work now."""


WAITING: set[weakref.ref[Reader]] = set()
"""All who have put off work that reads arrays; empty at nearly every moment, which is all that most writes look at."""


def add_reader(reader: Reader) -> None:
    """Tell it before one of its arrays is written, until it is gone."""
    WAITING.add(weakref.ref(reader, WAITING.discard))


def let_read(*cells: ArrayCell) -> None:
    """Have everybody do the work that reads one of some arrays: these are going to be written."""
    for reference in tuple(WAITING):
        reader = reference()
        if reader is not None and any(map(reader.reads, cells)):
            reader.finish()
