"""Telling the user that kernels are being compiled, or ways measured, so that nobody waits without knowing for what."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from atled.plugin import is_preparation_watched, lock_across_forks, report_preparation
from atled_cpu_numba import object_files

PLUGIN_NAME = "cpu-numba"
QUIET_S = 1.0  # of compiling, or of measuring, in all before the line on stderr

Progress = Callable[[int, int, str], None]

_COMPILING = "compiling cpu kernels for this machine; they are kept for the next time"
_MEASURING = "measuring ways to compute convolutions and products here; the fastest are kept for the next time"

_lock = lock_across_forks()
_callback: Progress | None = None
_done = 0
_total = 0
_spent_s = {_COMPILING: 0.0, _MEASURING: 0.0}
_told: set[str] = set()


def set_progress(callback: Progress | None) -> None:
    """Have `callback(done, total, name)` called while kernels are compiled or ways measured, instead of lines.

    done, total: counts of kernels of the current batch, as far as known: 0 <= done <= total. A call whose ways are
    measured is a batch of its own.
    name: the kernel about to be compiled, or the ways about to be measured; in the call with done == total, the last
    ones. None restores the default: a line on stderr once compiling has taken 1 s in all, another once measuring has,
    and not even these where the program shows what all plugins report (`atled_contexts.watch_preparation`).
    """
    global _callback
    _callback = callback


def expect(count: int) -> None:
    """Announce `count` kernels that are going to be compiled one after the other."""
    global _done, _total
    with _lock:
        _done, _total = 0, count


def compiling(name: str) -> AbstractContextManager[None]:
    """Around the compilation of the kernel `name`."""
    return _preparing(name, _COMPILING)


def measuring(name: str) -> AbstractContextManager[None]:
    """Around the measurement of the ways of a call, in which no kernel is compiled."""
    return _preparing(name, _MEASURING)


@contextmanager
def _preparing(name: str, line: str) -> Iterator[None]:
    global _done, _total
    with _lock:
        if _done >= _total:
            _done, _total = 0, 1
    _report(name)
    timer = threading.Timer(max(0.0, QUIET_S - _spent_s[line]), _tell, (line,))
    timer.daemon = True  # must not hold up the end of the process
    if not _is_shown():
        try:
            timer.start()
        except RuntimeError:  # the system's limit of threads is no reason not to go on: the line comes at once
            _tell(line)
    start = time.perf_counter()
    try:
        yield
    finally:
        timer.cancel()
        with _lock:
            _spent_s[line] += time.perf_counter() - start
            _done += 1
    if _done >= _total:
        _report(name)


def _report(name: str) -> None:
    if _callback is not None:
        _callback(_done, _total, name)
    report_preparation(PLUGIN_NAME, _done, _total, name)


def _is_shown() -> bool:
    return _callback is not None or is_preparation_watched()


def _tell(line: str) -> None:
    """Write the line, once per process."""
    with _lock:
        if line in _told or _is_shown():
            return
        _told.add(line)
    if line == _COMPILING and object_files.is_refused():
        line = line.partition(";")[0]  # it would contradict that warning
    sys.stderr.write(f"atled: {line} ...\n")
    sys.stderr.flush()
