"""What a child process needs after a fork: locks that are free, and no module half imported.

A fork copies the thread that forks and no other. A lock that another thread held, or a module that it was
importing, stays so for ever.
"""

from __future__ import annotations

# The lock that is held while a fork is made, and the locks of the imports under way: nothing public has them.
import _frozen_importlib
import _imp
import contextlib
import importlib
import os
import sys
import threading
from collections.abc import Iterator
from weakref import WeakSet

# Packages whose imports a fork waits for: those of this project, with or without an underscore behind the name, and
# what they load when it is first needed.
_AWAITED = {"atled"}


# They live as long as what they are for: a hook for each of them would stay for ever.
_LOCKS: WeakSet[threading.RLock] = WeakSet()

_locks: dict[str, object] = _frozen_importlib._module_locks  # type: ignore[attr-defined]  # private, as said


def lock_across_forks() -> threading.RLock:
    """A re-entrant lock that is free in a child after a fork: the thread that held it is not there to release it.

    The thread that forks goes on in the child and still holds its own. For state that is consistent at any time or
    rebuilt where it is missing.
    """
    lock = threading.RLock()
    _LOCKS.add(lock)
    return lock


def _free_locks() -> None:
    for lock in tuple(_LOCKS):
        if not lock._is_owned():  # type: ignore[attr-defined]  # as a Condition asks
            lock._at_fork_reinit()  # type: ignore[attr-defined]  # of CPython and PyPy


def await_imports(*packages: str) -> None:
    """Have forks wait until no other thread imports one of `packages`, or a module of theirs.

    For packages that are imported at first need, in whichever thread that is: a child that was forked meanwhile would
    wait for that thread when it needs them itself. Packages named `atled` or `atled_...` need not be named.
    """
    _AWAITED.update(packages)


def _is_awaited(name: str) -> bool:
    package = name.partition(".")[0]
    return package in _AWAITED or package.startswith("atled_")


def _before_fork() -> None:
    """Wait for imports under way, and let none begin before the fork is made."""
    waited: set[str] = set()
    while True:
        _imp.acquire_lock()
        # Every import under way has an entry, also one that is still looking for the file.
        underway = {name for name in tuple(_locks) if _is_awaited(name)} - waited
        if not underway:
            return
        _imp.release_lock()
        with _logging_unlocked():
            for name in underway:
                with contextlib.suppress(Exception):  # the importing thread gets the exception
                    importlib.import_module(name)  # waits for the importing thread; not if that is this one
        waited |= underway


@contextlib.contextmanager
def _logging_unlocked() -> Iterator[None]:
    """Let go of the lock of `logging` for a while: that module holds it before a fork, by a hook that may run first.

    An import that is waited for may need it: most modules ask for their logger.
    """
    lock = getattr(sys.modules.get("logging"), "_lock", None)
    if lock is None or not lock._is_owned():
        yield
        return
    held = lock._release_save()  # as a Condition does
    try:
        yield
    finally:
        lock._acquire_restore(held)


def _after_fork() -> None:
    with contextlib.suppress(RuntimeError):  # not held: waiting was interrupted
        _imp.release_lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
    os.register_at_fork(after_in_child=_free_locks)
