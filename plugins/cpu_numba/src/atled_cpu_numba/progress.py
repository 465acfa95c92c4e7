"""Telling the user that kernels are being compiled, so that nobody waits without knowing for what."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from atled.plugin import is_preparation_watched, lock_across_forks, report_preparation

PLUGIN_NAME = "cpu-numba"
QUIET_S = 1.0  # of compiling in all before the line on stderr

Progress = Callable[[int, int, str], None]

_lock = lock_across_forks()
_callback: Progress | None = None
_done = 0
_total = 0
_spent_s = 0.0
_told = False


def set_progress(callback: Progress | None) -> None:
    """Have `callback(done, total, name)` called while kernels are compiled, instead of the line on stderr.

    done, total: counts of kernels of the current batch, as far as known: 0 <= done <= total.
    name: the kernel about to be compiled, or, in the call with done == total, the last one compiled.
    None restores the default: one line on stderr once compiling has taken 1 s in all, and not even that where the
    program shows what all plugins report (`atled_contexts.watch_preparation`).
    """
    global _callback
    _callback = callback


def expect(count: int) -> None:
    """Announce `count` kernels that are going to be compiled one after the other."""
    global _done, _total
    with _lock:
        _done, _total = 0, count


@contextmanager
def compiling(name: str) -> Iterator[None]:
    """Around the compilation of the kernel `name`."""
    global _done, _total, _spent_s
    with _lock:
        if _done >= _total:
            _done, _total = 0, 1
    _report(name)
    timer = threading.Timer(max(0.0, QUIET_S - _spent_s), _tell)
    timer.daemon = True  # must not hold up the end of the process
    if not _is_shown():
        try:
            timer.start()
        except RuntimeError:  # the system's limit of threads is no reason not to compile: the line comes at once
            _tell()
    start = time.perf_counter()
    try:
        yield
    finally:
        timer.cancel()
        with _lock:
            _spent_s += time.perf_counter() - start
            _done += 1
    if _done >= _total:
        _report(name)


def _report(name: str) -> None:
    if _callback is not None:
        _callback(_done, _total, name)
    report_preparation(PLUGIN_NAME, _done, _total, name)


def _is_shown() -> bool:
    return _callback is not None or is_preparation_watched()


def _tell() -> None:
    """Write the line, once per process."""
    global _told
    with _lock:
        if _told or _is_shown():
            return
        _told = True
    sys.stderr.write("atled: compiling cpu kernels for this machine; they are kept for the next time ...\n")
    sys.stderr.flush()
