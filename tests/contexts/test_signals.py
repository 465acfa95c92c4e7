"""Handlers of signals wait where what runs must not be interrupted."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator

import pytest

from atled_contexts.signals import handlers_wait

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="there is no such signal")


@pytest.fixture
def handled() -> Iterator[list[int]]:
    """The signals that were handled: SIGUSR1 is, and SIGUSR2 is ignored."""
    seen: list[int] = []
    before = [signal.signal(signal.SIGUSR1, lambda number, _: seen.append(number))]
    before.append(signal.signal(signal.SIGUSR2, signal.SIG_IGN))
    yield seen
    signal.signal(signal.SIGUSR1, before[0])
    signal.signal(signal.SIGUSR2, before[1])


def test_a_handler_runs_behind_the_block_and_once(handled: list[int]):
    mine = signal.getsignal(signal.SIGUSR1)
    with handlers_wait():
        for _ in range(2):
            signal.raise_signal(signal.SIGUSR1)
        signal.raise_signal(signal.SIGUSR2)
        assert handled == []
    assert handled == [signal.SIGUSR1]
    assert signal.getsignal(signal.SIGUSR1) is mine and signal.getsignal(signal.SIGUSR2) is signal.SIG_IGN


def test_handlers_are_there_again_behind_an_error(handled: list[int]):
    mine = signal.getsignal(signal.SIGUSR1)
    with pytest.raises(ValueError, match="mine"), handlers_wait():
        signal.raise_signal(signal.SIGUSR1)
        raise ValueError("mine")
    assert handled == [signal.SIGUSR1] and signal.getsignal(signal.SIGUSR1) is mine


def test_in_another_thread_it_leaves_them_alone(handled: list[int]):
    found = []

    def look() -> None:
        with handlers_wait():
            found.append(signal.getsignal(signal.SIGUSR1))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert found == [signal.getsignal(signal.SIGUSR1)]
