"""Arrays that must not change unseen: whoever still needs their values is told before they are written."""

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
"""The watches that are open, by identity. Writers look whether there are any, and call `announce` if so."""


def open_watch(watch: Watch) -> None:
    """Have a watch told, until it is closed or gone."""
    key = id(watch)
    WATCHES[key] = weakref.ref(watch, lambda _: WATCHES.pop(key, None))


def close_watch(watch: Watch) -> None:
    """Have it told no more."""
    WATCHES.pop(id(watch), None)


def announce(cells: Iterable[int]) -> None:
    """Tell the watches that cells, given by identity, are going to be written."""
    written = frozenset(cells)
    for reference in tuple(WATCHES.values()):
        watch = reference()
        if watch is not None and not watch.watched.isdisjoint(written):
            watch.before_write()
