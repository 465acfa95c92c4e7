"""Errors that handlers of signals raise: they come up anywhere, and say nothing of the code that they interrupt."""

from __future__ import annotations

import functools
import importlib
import threading
from collections.abc import Callable, Iterator, Sequence
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


class handlers_wait:
    """Within the block no handler of a signal runs: those that are due run behind it, and raise what they raise there.

    Python runs them in the main thread alone: in others this does nothing. It takes 4 microseconds, half of them to ask
    which signals have handlers: nothing tells of one that was set since the last time.
    """

    __slots__ = ("_due", "_former", "_wait")

    def __enter__(self) -> None:
        self._due: dict[int, object] = {}
        self._wait = self._due.setdefault  # the handler meanwhile
        self._former: list[tuple[int, Any]] = []
        if threading.get_ident() != threading.main_thread().ident:
            return
        handle, wait = _functions().handle, self._wait
        try:
            self._former = _python_handlers()
            for number, _ in self._former:
                handle(number, wait)
        except BaseException:  # of a handler that is still there
            self._put_back()
            raise

    def __exit__(self, *error: object) -> None:
        self._put_back()

    def _put_back(self) -> None:
        """Put all handlers back, and have those run that are due, whatever one that is back raises meanwhile.

        Where there is another one by now, which code in the block has set, that stays.
        """
        functions, former = _functions(), self._former
        sent: Iterator[None] | None = None
        raised: BaseException | None = None
        while True:
            try:
                while former:
                    number, handler = former[-1]
                    if functions.handler_of(number) is self._wait:
                        functions.handle(number, handler)
                    former.pop()
                if self._due and sent is None:
                    sent = map(functions.send, self._due)  # nothing comes between the step to a signal and its sending
                for _ in sent or ():
                    pass
                break
            except BaseException as error:
                if raised is not None and raised is not error:
                    error.__context__ = raised
                raised = error
        if raised is not None:
            raise raised


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


def _python_handlers() -> list[tuple[int, Any]]:
    """The signals that Python code handles, with their handlers."""
    global _seen
    numbers, handler_of, *_ = _functions()
    found: list[Any] = list(map(handler_of, numbers))
    places, others = _seen
    handlers = []
    for place in places:
        handlers.append((numbers[place], found[place]))
        found[place] = _HANDLED if _is_of_python(found[place]) else None
    if found == others:
        return handlers
    found = list(map(handler_of, numbers))
    places = [place for place, handler in enumerate(found) if _is_of_python(handler)]
    _seen = places, [_HANDLED if place in places else handler for place, handler in enumerate(found)]
    return [(numbers[place], found[place]) for place in places]


_HANDLED = object()
_seen: tuple[Sequence[int], Sequence[Any]] = (), ()
"""Where among the signals there were handlers in Python at the last look, and what it found, `_HANDLED` for these.

To compare all takes a third of a look at each. The handlers themselves are not held: they may hold much.
"""


def _is_of_python(handler: object) -> bool:
    """Whether a handler is Python's: where there is none, or one of another language, it is a number or None."""
    return callable(handler) and not isinstance(handler, int)


def _handlers() -> Iterator[CodeType]:
    """The code of the handlers of signals that are written in Python."""
    for _, handler in _python_handlers():
        for candidate in (handler, getattr(handler, "__func__", None), type(handler).__call__):
            code = getattr(candidate, "__code__", None)
            if isinstance(code, CodeType):
                yield code
