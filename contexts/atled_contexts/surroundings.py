"""Surroundings: all that is in force around a call, as one object; while it is the same, nothing of it has changed."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from atled_contexts.forks import lock_across_forks

if TYPE_CHECKING:
    from atled_contexts.context import Context

_T = TypeVar("_T")

_LIMIT = 256

_lock = lock_across_forks()


class Surroundings:
    """What is in force for the calls of a thread or task between two changes there; the engine works it out.

    arrays: the cached calls by key, for calls on arrays; None where nothing is known yet, or any more.
    values: the same for calls on Variables; None where those do not compute at the call.
    context, auto_forward: what they were when it was last worked out, also after it was forgotten.
    """

    __slots__ = ("arrays", "auto_forward", "context", "values")

    context: Context
    auto_forward: bool

    def __init__(self) -> None:
        self.arrays: dict[Any, Any] | None = None
        self.values: dict[Any, Any] | None = None

    def forget(self) -> None:
        """Know nothing any more. The Context stays, for a thread that just found that it is known."""
        self.arrays = self.values = None

    def note(self, change: object, context: Context, auto_forward: bool, calls: dict[Any, Any]) -> bool:
        """Know what was worked out since `latest_change` gave `change`; False if there was another one meanwhile."""
        with _lock:
            while len(_knowing) >= _LIMIT:
                _knowing.pop().forget()
            # First entered, then looked: a signal handler may change something in between.
            _knowing.append(self)
            self.context, self.auto_forward = context, auto_forward
            self.values, self.arrays = calls if auto_forward else None, calls
            if _latest is not change:
                self.forget()
                return False
        return True


_knowing: list[Surroundings] = []
_latest = object()
_OUTSIDE = Surroundings()
_here: ContextVar[Surroundings] = ContextVar("atled_surroundings", default=_OUTSIDE)

here: Callable[[], Surroundings] = _here.get
"""The surroundings in this thread or asyncio task. Outside of all blocks all threads have the same."""


def latest_change() -> object:
    """An object for the last change of what is in force for the whole process."""
    return _latest


def change_here() -> None:
    """Note that something changed in this thread or asyncio task."""
    _here.set(Surroundings())


def change_everywhere() -> None:
    """Note that something changed for the whole process; to be called after the change."""
    global _latest
    with _lock:
        _latest = object()
        while _knowing:
            _knowing.pop().forget()


class SetWithin(Generic[_T]):
    """A `with` block in which a context variable, one of those that `here` stands for, has another value."""

    __slots__ = ("_inside", "_inside_token", "_token", "_value", "_variable")

    def __init__(self, variable: ContextVar[_T], value: _T) -> None:
        """value: of the variable within the block."""
        self._variable = variable
        self._value = value

    def __enter__(self) -> None:
        """Set the value; the block has surroundings of its own."""
        self._token: Token[_T] = self._variable.set(self._value)
        self._inside = Surroundings()
        self._inside_token = _here.set(self._inside)

    def __exit__(self, *_: Any) -> None:
        """Set the value of before; its surroundings hold again, unless the block set something else."""
        self._variable.reset(self._token)
        if _here.get() is self._inside:
            _here.reset(self._inside_token)
        else:  # something was set within the block that may outlast it
            change_here()
