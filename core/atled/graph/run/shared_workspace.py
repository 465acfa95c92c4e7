"""Shared workspace: plans that one thread bound use the same host memory, which each needs only while it runs."""

from __future__ import annotations

import threading
import weakref

from atled.arrays.storage import ALIGNMENT, HostStorage, StoragePart
from atled_contexts import lock_across_forks

_MOST_TO_SPARE = 16 << 20


class SharedWorkspace:
    """Memory that several plans of a thread use, one at a time.

    storage: the memory: workspace of single steps, and the inner values of plans that are one native program.
    lock: held by a plan while steps that use the memory run, and not while code of the user does, which may wait for a
        plan that another thread runs.
    """

    __slots__ = ("__weakref__", "lock", "storage")

    def __init__(self, nbytes: int) -> None:
        self.storage = HostStorage(nbytes)
        self.lock = lock_across_forks()

    def part(self, offset: int, nbytes: int) -> StoragePart:
        """Some bytes of it."""
        return StoragePart(self.storage, offset, nbytes)


class _OfThread(threading.local):
    latest: weakref.ref[SharedWorkspace] | None = None


_of_thread = _OfThread()


def shared_workspace(nbytes: int) -> SharedWorkspace:
    """Workspace of at least that size: what this thread's plans have, or else a new one.

    A new one has half of it to spare, so that a plan that needs more than the one before, as a backward does after its
    forward, shares it, too. Pages that are never touched take no memory.
    """
    latest = None if _of_thread.latest is None else _of_thread.latest()
    if latest is None or latest.storage.nbytes < nbytes:
        latest = SharedWorkspace(nbytes + min(nbytes // 2, _MOST_TO_SPARE))
        _of_thread.latest = weakref.ref(latest)
    return latest


def aligned(offset: int) -> int:
    """The first place from `offset` on where an array may begin."""
    return -(-offset // ALIGNMENT) * ALIGNMENT
