"""A lock for plans that run code of the user."""

from __future__ import annotations

from atled.errors import four_parts
from atled_contexts import lock_across_forks


class LockOfUserCode:
    """A lock that raises an error if code of the user, within the run of a plan, runs that same plan."""

    __slots__ = ("_is_held", "_lock")

    def __init__(self) -> None:
        # Re-entrant: a signal handler that runs the graph just before `_is_held` is set, or just after it, must not
        # wait for its own thread.
        self._lock = lock_across_forks()
        self._is_held = False

    def __enter__(self) -> None:
        # Not so, and yet `_is_held` once it is acquired: in a child, of a thread that did not come along.
        is_mine = self._lock._is_owned()  # type: ignore[attr-defined]  # as a Condition asks
        self._lock.acquire()
        if is_mine and self._is_held:
            self._lock.release()
            raise RuntimeError(
                four_parts(
                    "running a graph",
                    "a PythonFunction in it, which is running now, asks for a run of that same graph",
                    "",
                    "compute in a PythonFunction from the arrays it is given, or on a graph of its own",
                )
            )
        self._is_held = True

    def __exit__(self, *_: object) -> None:
        self._is_held = False
        self._lock.release()
