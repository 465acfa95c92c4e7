"""Arenas: arrays of bytes on devices, in which plans have what they need only while they run."""

from __future__ import annotations

import threading
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
    lock: held by a binding while it puts its work into the queue of the device, which keeps the order. Never waited
        for: a binding that finds it taken, by another thread or by a plan amid which it runs, takes another arena.
    is_outgrown: whether the thread has a larger one since, because a plan needed that: bindings go there at their next
        run, so that a thread has one arena in the end.
    """

    __slots__ = ("__weakref__", "is_outgrown", "lock", "made_for", "storage")

    def __init__(self, place: Place, nbytes: int, made_for: str) -> None:
        self.storage = DeviceStorage(place, nbytes, _BYTE)
        self.made_for = made_for
        self.lock = threading.Lock()
        self.is_outgrown = False
        with _CHANGING:
            _ARENAS.add(self)


def take(arenas: Sequence[Arena]) -> bool:
    """Take all for a run; False, and none is, where one is outgrown or in use."""
    for count, arena in enumerate(arenas):
        if arena.is_outgrown or not arena.lock.acquire(blocking=False):
            release(arenas[:count])
            return False
    return True


def release(arenas: Sequence[Arena]) -> None:
    """What was taken is free again."""
    for arena in arenas:
        arena.lock.release()


def arenas_on(place: Place) -> list[Arena]:
    """All arenas of a device, the largest first."""
    with _CHANGING:
        found = [arena for arena in _ARENAS if arena.storage.place is place]
    return sorted(found, key=lambda arena: -arena.storage.nbytes)
