"""A handler of a signal that raises, as one that bounds the time of a call does, at a place that a test chooses."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from typing import Any

import pytest

needs_signals = pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="there is no such signal")


class Late(Exception):
    """What the handler raises."""


def interrupted(*_: Any, **__: Any) -> Any:
    """In the place of other code: the signal comes amid it."""
    signal.raise_signal(signal.SIGUSR1)


@contextlib.contextmanager
def raises_late() -> Iterator[None]:
    """Within the block there is the handler, and what it raises ends the block as itself."""

    def stop(*_: Any) -> None:
        raise Late

    before = signal.signal(signal.SIGUSR1, stop)
    try:
        with pytest.raises(Late):
            yield
    finally:
        signal.signal(signal.SIGUSR1, before)
