"""Errors that handlers of signals raise: they come up anywhere, and say nothing of the code that they interrupt."""

from __future__ import annotations

from collections.abc import Iterator
from types import CodeType


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


def _handlers() -> Iterator[CodeType]:
    """The code of the handlers of signals that are written in Python."""
    import signal  # lazily: only errors ask

    for number in signal.valid_signals():
        handler = signal.getsignal(number)
        if not callable(handler) or isinstance(handler, signal.Handlers):
            continue
        for candidate in (handler, getattr(handler, "__func__", None), type(handler).__call__):
            code = getattr(candidate, "__code__", None)
            if isinstance(code, CodeType):
                yield code
