"""Surroundings: all that is in force around a call, as one object; while it is the same, nothing of it has changed."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar, Token
from functools import wraps
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from atled_contexts.forks import lock_across_forks

if TYPE_CHECKING:
    from atled_contexts.context import Context

_T = TypeVar("_T")
_P = ParamSpec("_P")
_R = TypeVar("_R")

_LIMIT = 256
_INSIDE_LIMIT = 8
"""The surroundings of so many blocks are kept by those around them."""

_lock = lock_across_forks()


class Surroundings:
    """What is in force for the calls of a thread or task between two changes there; the engine works it out.

    arrays: the cached calls by key, for calls on arrays; None where nothing is known yet, or any more.
    values: the same for calls on Variables; None where those do not compute at the call.
    recorded: what calls on Variables are recorded from, by key; None where they compute at the call.
    context, auto_forward: what they were when it was last worked out, also after it was forgotten.
    """

    __slots__ = ("_inside", "arrays", "auto_forward", "context", "recorded", "values")

    context: Context
    auto_forward: bool

    def __init__(self) -> None:
        self.arrays: dict[Any, Any] | None = None
        self.values: dict[Any, Any] | None = None
        self.recorded: dict[Any, Any] | None = None
        # By variable and identity of the value that a block sets: the value, which is kept alive, and what is inside.
        self._inside: dict[tuple[ContextVar[Any], int], tuple[object, Surroundings]] = {}

    def inside(self, variable: ContextVar[_T], value: _T) -> Surroundings:
        """Those of a block that sets a variable here: the same ones each time, so that what they know is kept.

        What such blocks set besides leaves them as they are: it makes other ones (`change_here`).
        """
        key = variable, id(value)
        found = self._inside.get(key)
        if found is None:
            if len(self._inside) >= _INSIDE_LIMIT:
                self._inside.clear()
            found = self._inside[key] = value, Surroundings()
        return found[1]

    def forget(self) -> None:
        """Know nothing any more. The Context stays, for a thread that just found that it is known."""
        self.arrays = self.values = self.recorded = None

    def note(
        self,
        change: object,
        context: Context,
        auto_forward: bool,
        calls: dict[Any, Any],
        recorded: dict[Any, Any],
    ) -> bool:
        """Know what was worked out since `latest_change` gave `change`; False if there was another one meanwhile."""
        with _lock:
            while len(_knowing) >= _LIMIT:
                _knowing.pop().forget()
            # First entered, then looked: a signal handler may change something in between.
            _knowing.append(self)
            self.context, self.auto_forward = context, auto_forward
            self.values, self.recorded = (calls, None) if auto_forward else (None, recorded)
            self.arrays = calls
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
    """A `with` block in which a context variable, one of those that `here` stands for, has another value.

    As a decorator it is a block around each call of a function.
    """

    __slots__ = ("_comes_again", "_entered", "_value", "_variable")

    def __init__(self, variable: ContextVar[_T], value: _T, *, comes_again: bool = False) -> None:
        """value: of the variable within the block.  comes_again: whether further blocks are likely to set the same."""
        self._variable = variable
        self._value = value
        self._comes_again = comes_again
        self._entered: list[tuple[Token[_T], Surroundings, Token[Surroundings]]] = []

    def __enter__(self) -> _T:
        """Set the value, and give it; the block has surroundings of its own."""
        inside = _here.get().inside(self._variable, self._value) if self._comes_again else Surroundings()
        self._entered.append((self._variable.set(self._value), inside, _here.set(inside)))
        return self._value

    def __exit__(self, *_: object) -> None:
        """Set the value of before; its surroundings hold again, unless the block set something else."""
        token, inside, inside_token = self._entered.pop()
        self._variable.reset(token)
        if _here.get() is inside:
            _here.reset(inside_token)
        else:  # something was set within the block that may outlast it
            change_here()

    def __call__(self, function: Callable[_P, _R]) -> Callable[_P, _R]:
        """The function, each call of it in such a block."""

        @wraps(function)
        def within(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            with SetWithin(self._variable, self._value, comes_again=self._comes_again):
                return function(*args, **kwargs)

        return within
