"""What tests run in a child of the process, by a fork."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")
# Newer Pythons warn of every fork while there are threads; that is what these tests are about.
ignores_fork = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


def in_child(body: Callable[[], None]) -> None:
    """Run a body in a child of this process, which is ended when it takes too long."""
    pid = os.fork()
    if pid == 0:
        signal.alarm(20)
        status = 1
        try:
            body()
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0, "the child failed"
