"""Errors that handlers of signals raise: they come up anywhere, and say nothing of the code that they interrupt."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType
from typing import Any


def is_of_a_handler(error: BaseException) -> bool:
    """Whether a handler of a signal raised an error, as one that bounds the time of a call does.

    Third-party code that it interrupted has not failed: the error is the program's, and is to pass through.
    """
    codes = set(_handlers())
    found = error.__traceback__
    while found is not None:
        if found.tb_frame.f_code in codes:
            return True
        found = found.tb_next
    return False


@contextmanager
def handlers_wait() -> Iterator[None]:
    """Within the block no handler of a signal runs: those that are due run behind it, and raise what they raise there.

    Python runs them in the main thread alone: in others this does nothing. It takes some microseconds.
    """
    import signal  # as below

    due: dict[int, None] = {}
    former: dict[int, Any] = {}
    try:
        if threading.current_thread() is threading.main_thread():
            for number, handler in _python_handlers():
                former[number] = handler
                signal.signal(number, lambda number, _: due.setdefault(number))
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
        for number in due:
            signal.raise_signal(number)


def _python_handlers() -> Iterator[tuple[int, Callable[..., Any]]]:
    """The signals that Python code handles, with their handlers."""
    import signal  # lazily: only errors and few runs ask

    for number in signal.valid_signals():
        handler = signal.getsignal(number)
        if callable(handler) and not isinstance(handler, signal.Handlers):
            yield number, handler


def _handlers() -> Iterator[CodeType]:
    """The code of the handlers of signals that are written in Python."""
    for _, handler in _python_handlers():
        for candidate in (handler, getattr(handler, "__func__", None), type(handler).__call__):
            code = getattr(candidate, "__code__", None)
            if isinstance(code, CodeType):
                yield code
