"""Locks that a child process finds free, whichever thread of its parent held them."""

from __future__ import annotations

import os
import threading


def lock_across_forks() -> threading.RLock:
    """A re-entrant lock that is free in a child after a fork: the thread that held it is not there to release it.

    For what lasts as long as the process, and is whole at any time, or made anew by whoever finds it missing.
    """
    lock = threading.RLock()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lock._at_fork_reinit)  # type: ignore[attr-defined]  # of CPython and PyPy
    return lock
