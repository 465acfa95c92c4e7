"""The register of the library's caches, by which they are counted and cleared; a cache with a bound."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeVar

V = TypeVar("V")

_CACHES: dict[str, tuple[Callable[[], int], Callable[[], None]]] = {}


def register_cache(name: str, count: Callable[[], int], clear: Callable[[], None]) -> None:
    """Have a cache counted by `memory_statistics` and cleared by `clear_memory_cache`.

    name: what it holds, such as "plans"; a cache of the same name is replaced.  count: how many of them, or bytes where
    the name says so.  clear: forget all of it; what is still in use lives on.
    """
    _CACHES[name] = count, clear


def cache_counts() -> dict[str, int]:
    """How much each cache holds, by name."""
    return {name: count() for name, (count, _) in sorted(_CACHES.items())}


def clear_caches(*names: str) -> None:
    """Forget what the caches of these names hold; without a name, what every cache holds.

    One that is not registered, as its module was not imported yet, holds nothing.
    """
    for name in names or list(_CACHES):
        if name in _CACHES:
            _, clear = _CACHES[name]
            clear()


class Generations(dict[Hashable, V]):
    """A registered cache that drops what was not asked for lately.

    It is the younger of two generations, so that what is in use is found as quickly as in any dict: by `get`, then by
    `find_old`. When it is full it becomes the old one, from which each entry that is asked for moves back.

    limit: the most that a generation holds; both together hold twice as much.
    weigh, weight_limit: the weight of a value, and the most that a generation weighs; one that is heavier stands alone.
    """

    def __init__(
        self, name: str, limit: int, *, weigh: Callable[[V], int] | None = None, weight_limit: int = 0
    ) -> None:
        self.limit = limit
        self._old: dict[Hashable, V] = {}
        self._weigh = weigh
        self._weight_limit = weight_limit
        self._weight = 0
        register_cache(name, lambda: len(self) + len(self._old), self.clear)

    def find_old(self, key: Hashable) -> V | None:
        """What `get` did not find, if it is in the old generation; it is in the young one then."""
        found = self._old.pop(key, None)
        if found is not None:
            self.add(key, found)
        return found

    def add(self, key: Hashable, value: V) -> V:
        """Keep a value; gives the one that is kept, which another thread may have added first."""
        weight = 0 if self._weigh is None else self._weigh(value)
        if len(self) >= self.limit or (self and self._weight + weight > self._weight_limit):
            self._old = dict(self)
            super().clear()
            self._weight = 0
        self._weight += weight
        return self.setdefault(key, value)

    def clear(self) -> None:
        """Forget all."""
        self._old = {}
        self._weight = 0
        super().clear()
