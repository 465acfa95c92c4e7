"""A busy neighbour: one process that spins on each core, for as long as it is asked to."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence

_SPIN = "import os, sys\nos.sched_setaffinity(0, {int(sys.argv[1])})\nwhile True: pass"


class Neighbour:
    """The spinning processes, stopped but for the time of `busy()`; a context manager that ends them.

    cores: numbers of the cores, one process on each. Only where the system can bind processes to cores.
    """

    def __init__(self, cores: Sequence[int]) -> None:
        self._processes = [subprocess.Popen([sys.executable, "-c", _SPIN, str(core)]) for core in cores]
        self._send(signal.SIGSTOP)

    @contextlib.contextmanager
    def busy(self) -> Iterator[None]:
        """The time in which they spin."""
        self._send(signal.SIGCONT)
        try:
            yield
        finally:
            self._send(signal.SIGSTOP)

    def _send(self, number: signal.Signals) -> None:
        for process in self._processes:
            os.kill(process.pid, number)

    def __enter__(self) -> Neighbour:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.kill()
            process.wait()
