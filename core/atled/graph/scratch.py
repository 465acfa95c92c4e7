"""Scratch memory of plans on the host: those that a thread binds share it, because it matters only within a step."""

from __future__ import annotations

import threading
import weakref

from atled.storage import HostStorage


class Scratch:
    """One piece of scratch memory.

    storage: the memory.  lock: held by a plan while steps that use the memory run, and not while code of the user does,
    which may wait for a plan that another thread runs.
    """

    __slots__ = ("__weakref__", "lock", "storage")

    def __init__(self, nbytes: int) -> None:
        self.storage = HostStorage(nbytes)
        self.lock = threading.RLock()


class _OfThread(threading.local):
    latest: weakref.ref[Scratch] | None = None


_of_thread = _OfThread()


def scratch(nbytes: int) -> Scratch:
    """Scratch memory of at least that size: what this thread's plans have, or else a new one."""
    latest = None if _of_thread.latest is None else _of_thread.latest()
    if latest is None or latest.storage.nbytes < nbytes:
        latest = Scratch(nbytes)
        _of_thread.latest = weakref.ref(latest)
    return latest
