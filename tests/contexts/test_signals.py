"""Handlers of signals wait where what runs must not be interrupted."""

from __future__ import annotations

import itertools
import signal
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from atled_contexts import signals
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


def test_handlers_set_and_reset_between_two_blocks_are_found(handled: list[int]):
    for number in (signal.SIGUSR2, signal.SIGUSR1):
        former = signal.signal(number, lambda number, _: handled.append(-number))
        with handlers_wait():
            signal.raise_signal(number)
            assert handled == []
        assert handled == [-number]
        handled.clear()
        signal.signal(number, former)
    with handlers_wait():
        signal.raise_signal(signal.SIGUSR2)  # ignored again
    assert handled == [] and signal.getsignal(signal.SIGUSR2) is signal.SIG_IGN


def test_a_handler_that_is_set_within_the_block_stays(handled: list[int]):
    def another(number: int, _: object) -> None:
        handled.append(-number)

    with handlers_wait():
        signal.raise_signal(signal.SIGUSR1)
        signal.signal(signal.SIGUSR1, another)
    assert signal.getsignal(signal.SIGUSR1) is another and handled == [-signal.SIGUSR1]


def test_handlers_that_were_replaced_are_held_no_longer(handled: list[int]):
    class Handler:
        def __call__(self, number: int, frame: object) -> None: ...

    handler = Handler()
    there = weakref.ref(handler)
    former = signal.signal(signal.SIGUSR1, handler)
    with handlers_wait():
        pass
    signal.signal(signal.SIGUSR1, former)
    del handler
    assert there() is None


def test_all_that_are_due_run_and_what_they_raise_comes_up_whichever_raises(handled: list[int]):
    def fail(number: int, _: object) -> None:
        handled.append(number)
        raise LookupError(number)

    former = {number: signal.signal(number, fail) for number in (signal.SIGUSR1, signal.SIGUSR2)}
    try:
        with pytest.raises(LookupError) as raised, handlers_wait():
            for number in former:
                signal.raise_signal(number)
        assert sorted(handled) == sorted(former)
        assert isinstance(raised.value.__context__, LookupError)
        assert all(signal.getsignal(number) is fail for number in former)
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


@pytest.mark.parametrize("place", range(4))
def test_a_handler_that_raises_as_handlers_are_taken_or_put_back_leaves_all_there(
    handled: list[int], monkeypatch: pytest.MonkeyPatch, place: int
):
    """A signal comes before one of the calls that take the handlers of two signals away, or put them back."""
    entered = []

    def fail(number: int, _: object) -> None:
        raise LookupError

    before = signal.signal(signal.SIGUSR2, fail)
    counted = itertools.count()
    functions = signals._functions()

    def handle(number: int, handler: Any) -> Any:
        if number in (signal.SIGUSR1, signal.SIGUSR2) and next(counted) == place:
            signal.raise_signal(signal.SIGUSR2)
        return functions.handle(number, handler)

    mine = signal.getsignal(signal.SIGUSR1)
    with monkeypatch.context() as patch:
        patch.setattr(signals, "_functions", lambda: functions._replace(handle=handle))
        with pytest.raises(LookupError), handlers_wait():
            entered.append(True)
    found = signal.getsignal(signal.SIGUSR1), signal.getsignal(signal.SIGUSR2)
    signal.signal(signal.SIGUSR2, before)
    assert found == (mine, fail) and handled == []
    assert entered == [True] * (place >= 2)
