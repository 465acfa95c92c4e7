"""Runs that see each write of parameters as a whole: all of it, or nothing."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from threading import get_ident
from typing import TypeVar

from atled.arrays.cell import ArrayCell
from atled.arrays.epoch import WRITES
from atled.arrays.together import is_amid_writes
from atled.arrays.watches import WATCHES, close_watch, open_watch

T = TypeVar("T")

_TRIES = 2  # runs beside writers, until these wait
_PATIENCE_S = 1.0  # for writers that have begun; one that waits for this thread in turn ends only after that
_PAUSE_S = 1e-4


def run_whole(run: Callable[[], T], parameters: Sequence[ArrayCell]) -> tuple[T, int]:
    """What a run gives during which no parameter was written, and the number of `WRITES` at which it was over.

    A run during which one was is done again, one that failed, too: that costs the others nothing. After two of them,
    who is going to write waits for the next one. Writes through views that users hold are not seen.
    """
    while True:
        for _ in range(_TRIES):
            found = _tried(run, parameters)
            if found is not None:
                return found
        waiting = _Waiting(parameters)
        try:  # no `with`: what an interrupt ends while it begins must be ended, too, or writers would wait for ever
            waiting.begin()
            found = _tried(run, parameters)
            if found is not None:
                return found
        finally:
            waiting.end()


def _tried(run: Callable[[], T], parameters: Sequence[ArrayCell]) -> tuple[T, int] | None:
    """See `run_whole`; None where a parameter was written meanwhile."""
    number = next(WRITES)
    try:
        result, end = run(), next(WRITES)
    except Exception:
        if _are_quiet_since(parameters, number):
            raise
        return None  # a verification, say, that found a parameter changed
    return (result, end) if _are_quiet_since(parameters, number) else None


def _are_quiet_since(parameters: Sequence[ArrayCell], number: int) -> bool:
    """Whether nobody wrote or began to write, this thread apart: a run within a write of its own is part of it."""
    for cell in parameters:
        if (cell.writer and cell.writer != get_ident()) or cell.last_write > number or cell.last_run > number:
            return False
    return True


class _Waiting:
    """From when it began until its end other threads that are going to write parameters wait; those at it have ended.

    watched: the identities of their cells.
    """

    def __init__(self, parameters: Sequence[ArrayCell]) -> None:
        self.watched = frozenset(map(id, parameters))
        self._parameters = parameters
        self._thread = threading.get_ident()
        self._ended = threading.Event()

    def begin(self) -> None:
        """Have writers wait, and wait for those that have begun."""
        open_watch(self)
        for cell in self._parameters:
            writer = cell.writer
            if writer and writer not in sys._current_frames():
                cell.writer = 0  # it was amid its write when a fork was made, which copies no other threads
        end = time.monotonic() + _PATIENCE_S
        while any(cell.writer not in (0, self._thread) for cell in self._parameters) and time.monotonic() < end:
            time.sleep(_PAUSE_S)

    def before_write(self) -> None:
        """Wait, unless it is code within the run that writes, or one has begun for whose end the run waits."""
        if threading.get_ident() != self._thread and not is_amid_writes():
            self._ended.wait()

    def end(self) -> None:
        """Have them go on; no error if it did not begin."""
        close_watch(self)
        self._ended.set()


def _let_go_in_child() -> None:
    """After a fork nobody waits for runs of the parent's other threads, which are not there."""
    for reference in tuple(WATCHES.values()):
        watch = reference()
        if isinstance(watch, _Waiting):
            watch.end()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go_in_child)
