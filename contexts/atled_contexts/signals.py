"""Errors that handlers of signals raise: they come up anywhere, and say nothing of the code that they interrupt."""

from __future__ import annotations

import functools
import importlib
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import CodeType
from typing import Any, NamedTuple


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
    _, _, handle, send = _functions()
    due: dict[int, None] = {}
    former: dict[int, Any] = {}
    try:
        if threading.current_thread() is threading.main_thread():
            for number, handler in _python_handlers():
                former[number] = handler
                handle(number, lambda number, _: due.setdefault(number))
        yield
    finally:
        for number, handler in former.items():
            handle(number, handler)
        for number in due:
            send(number)


class _Functions(NamedTuple):
    """numbers: of all signals.  handler_of, handle, send: `getsignal`, `signal` and `raise_signal`."""

    numbers: Sequence[int]
    handler_of: Callable[[int], Any]
    handle: Callable[[int, Any], Any]
    send: Callable[[int], None]


@functools.cache
def _functions() -> _Functions:
    """Where there is one, of the module inside Python's: that makes enumerations, a microsecond for each signal."""
    import signal  # lazy: only errors and few runs ask

    try:
        inner = importlib.import_module("_signal")
    except ImportError:
        inner = signal
    numbers = tuple(sorted(map(int, signal.valid_signals())))
    return _Functions(numbers, inner.getsignal, inner.signal, inner.raise_signal)


def _python_handlers() -> list[tuple[int, Callable[..., Any]]]:
    """The signals that Python code handles, with their handlers."""
    numbers, handler_of, *_ = _functions()
    # Where there is none, or one of another language, it is a number or None, or a member of an enumeration.
    found = [number for number in numbers if callable(handler_of(number))]
    handlers = [(number, handler_of(number)) for number in found]
    return [(number, handler) for number, handler in handlers if not isinstance(handler, int)]


def _handlers() -> Iterator[CodeType]:
    """The code of the handlers of signals that are written in Python."""
    for _, handler in _python_handlers():
        for candidate in (handler, getattr(handler, "__func__", None), type(handler).__call__):
            code = getattr(candidate, "__code__", None)
            if isinstance(code, CodeType):
                yield code
