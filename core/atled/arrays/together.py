"""Writes of several arrays of which an inference sees all or none."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from atled.arrays.cell import ArrayCell
from atled.arrays.epoch import WRITES
from atled.arrays.watches import WATCHES, announce


class _Writing(threading.local):
    """Whether this thread is amid such writes."""

    is_amid = False


_WRITING = _Writing()


@contextmanager
def written_together(cells: Sequence[ArrayCell]) -> Iterator[None]:
    """What is written inside into these arrays, an inference of another thread sees as a whole or not at all.

    Within another one of this thread it is part of that: what both write is written when the outer one ends.
    """
    if WATCHES:
        announce(map(id, cells))  # who has to wait for a reader waits here: inside, readers wait for this thread
    writer, was_amid = threading.get_ident(), _WRITING.is_amid
    outer = frozenset(id(cell) for cell in cells if was_amid and cell.writer == writer)
    try:
        for cell in cells:
            cell.writer = writer
        next(WRITES)  # who sees that nothing was written meanwhile need not look at these
        _WRITING.is_amid = True
        yield
    finally:
        _WRITING.is_amid = was_amid
        version = next(WRITES)
        for cell in cells:
            cell.last_write = version
            if id(cell) not in outer:
                cell.writer = 0


def is_amid_writes() -> bool:
    """Whether this thread is amid `written_together`: nothing may wait for an inference that waits for its end."""
    return _WRITING.is_amid
