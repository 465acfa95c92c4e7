"""Python's search for cyclic garbage, put off while much is made that stays.

Making a plan makes objects by the ten thousand, and few of them are garbage: Python would look through all objects of
the process several times meanwhile, which took a tenth of a first call.
"""

from __future__ import annotations

import gc
import os

from atled_contexts import lock_across_forks


class _Pause:
    """No collection while a thread is within; afterwards it is as it was before."""

    def __init__(self) -> None:
        # Re-entrant: where Python calls a finalizer in here, that may make a plan.
        self._lock = lock_across_forks()
        self._within = 0
        self._was_enabled = False

    def __enter__(self) -> None:
        with self._lock:
            if not self._within:
                self._was_enabled = gc.isenabled()
                gc.disable()
            self._within += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._within = max(0, self._within - 1)  # 0 already in a child that was forked within
            if not self._within and self._was_enabled:
                gc.enable()

    def after_fork(self) -> None:
        """In a child: the threads that were within are not there to leave."""
        if self._within:
            self._within = 0
            if self._was_enabled:
                gc.enable()


COLLECTION_PAUSED = _Pause()
"""Within it no collection of cyclic garbage begins."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=COLLECTION_PAUSED.after_fork)
