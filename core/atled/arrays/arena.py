"""Arenas: arrays of bytes on devices, in which plans have what they need only while they run."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from weakref import WeakSet

import numpy as np

from atled.arrays.place import DeviceStorage, Place
from atled_contexts import lock_across_forks

_BYTE = np.dtype(np.uint8)


_ARENAS: WeakSet[Arena] = WeakSet()
_CHANGING = lock_across_forks()


class Arena:
    """One array of bytes on a device, for several plans, one at a time.

    It never moves, and lives as long as a binding has it.

    made_for: the plan for which it was made, in words.
    free: has one item, which a binding pops while it puts its work into the queue of the device, which keeps the order.
        Nobody waits for it: a binding that finds none, because another thread runs a plan or it runs amid one, takes
        another arena. Lists pop and append atomically, in a tenth of the time of a lock.
    is_outgrown: whether the thread has a larger one since, because a plan needed that: nobody is to take this one.
    """

    __slots__ = ("__weakref__", "free", "is_outgrown", "made_for", "storage")

    def __init__(self, place: Place, nbytes: int, made_for: str) -> None:
        self.storage = DeviceStorage(place, nbytes, _BYTE)
        self.made_for = made_for
        self.free = [True]
        self.is_outgrown = False
        with _CHANGING:
            _ARENAS.add(self)

    def retire(self) -> None:
        """Have those who use it take another arena at their next run; one that runs right now may go on with it."""
        self.is_outgrown = True
        with contextlib.suppress(IndexError):  # in use
            self.free.pop()


class Free:
    """The `free` of several arenas as one."""

    __slots__ = ("_lists",)

    def __init__(self, arenas: Sequence[Arena]) -> None:
        self._lists = [arena.free for arena in arenas]

    def pop(self) -> bool:
        """Take all; IndexError, and none is taken, where one is in use."""
        for count, free in enumerate(self._lists):
            try:
                free.pop()
            except IndexError:
                for taken in self._lists[:count]:
                    taken.append(True)
                raise
        return True

    def append(self, item: bool) -> None:
        """Give all back."""
        for free in self._lists:
            free.append(item)


def arenas_on(place: Place) -> list[Arena]:
    """All arenas of a device, the largest first."""
    with _CHANGING:
        found = [arena for arena in _ARENAS if arena.storage.place is place]
    return sorted(found, key=lambda arena: -arena.storage.nbytes)
