"""What is alive of objects that are referred to weakly, while other threads add to them."""

from __future__ import annotations

from typing import Any, Generic, TypeVar
from weakref import WeakValueDictionary

T = TypeVar("T")


def alive(references: WeakValueDictionary[Any, T]) -> list[T]:
    """The values of a table, to which another thread may add meanwhile: its own iterators break off then."""
    return [each for reference in references.valuerefs() if (each := reference()) is not None]


class WeakRegister(Generic[T]):
    """Objects by identity, as long as they live: `WeakSet` for what several threads use.

    It iterates over a copy: a `WeakSet` raises RuntimeError where another thread adds to it meanwhile.
    """

    __slots__ = ("_references",)

    def __init__(self) -> None:
        self._references: WeakValueDictionary[int, T] = WeakValueDictionary()

    def add(self, item: T) -> None:
        """One more; nothing if it is there."""
        self._references[id(item)] = item

    def alive(self) -> list[T]:
        """Those that live."""
        return alive(self._references)
