"""Watches: told before an array is written whose values are still needed."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Protocol


class Watch(Protocol):
    """What needs the values of some arrays.

    watched: the identities of their cells.
    """

    @property
    def watched(self) -> frozenset[int]: ...

    def before_write(self) -> None:
        """One of them is going to be written."""
        ...


WATCHES: dict[int, weakref.ref[Watch]] = {}
"""The open watches, by identity. If there are any, a writer calls `announce` before it writes."""


def open_watch(watch: Watch) -> None:
    """Open a watch: it is told of writes until it is closed or gone."""
    key = id(watch)
    WATCHES[key] = weakref.ref(watch, lambda _: WATCHES.pop(key, None))


def close_watch(watch: Watch) -> None:
    """Close a watch: it is told of no more writes."""
    WATCHES.pop(id(watch), None)


def announce(cells: Iterable[int]) -> None:
    """Tell the watches that cells, given by identity, are going to be written."""
    written = frozenset(cells)
    for reference in tuple(WATCHES.values()):
        watch = reference()
        if watch is not None and not watch.watched.isdisjoint(written):
            watch.before_write()
