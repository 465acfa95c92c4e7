"""One mark for all that is in force around a call: as long as it is the same object, nothing of it has changed."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar, Token
from typing import Any, Generic, TypeVar

_T = TypeVar("_T")

_mark: ContextVar[object] = ContextVar("atled_mark", default="outside of all blocks")

# For the engine, which asks at each call whether what it knows of the last one still holds.
mark_here: Callable[[], object] = _mark.get


def mark_change() -> None:
    """Note that something changed in this thread or asyncio task."""
    _mark.set(object())


class _Process:
    """The mark of what is in force for the whole process."""

    __slots__ = ("mark",)

    def __init__(self) -> None:
        self.mark = object()

    def mark_change(self) -> None:
        """Note that something changed; to be called after the change."""
        self.mark = object()


PROCESS = _Process()


class SetWithin(Generic[_T]):
    """A `with` block in which a context variable, one of those that `mark_here` stands for, has another value."""

    __slots__ = ("_mark", "_mark_token", "_token", "_value", "_variable")

    def __init__(self, variable: ContextVar[_T], value: _T) -> None:
        self._variable = variable
        self._value = value

    def __enter__(self) -> None:
        self._token: Token[_T] = self._variable.set(self._value)
        self._mark = object()
        self._mark_token = _mark.set(self._mark)

    def __exit__(self, *_: Any) -> None:
        self._variable.reset(self._token)
        if _mark.get() is self._mark:
            _mark.reset(self._mark_token)
        else:  # something was set within the block that may outlast it
            mark_change()
