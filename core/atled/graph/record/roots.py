"""Roots: the values on which one forward or backward is called, with the plans made for them."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

from atled.arrays.epoch import EPOCH
from atled.graph.record.value import Value
from atled_contexts import lock_across_forks

Key = tuple[weakref.ref[Value], ...]


_CLEARED_RUNS = 3
"""That were told that no backward follows, and behind which none did, until the last of them is believed."""


class Roots:
    """The values on which one forward or backward is called, referred to weakly, with the plans made for them.

    It lives as long as each of them does: that of one value belongs to the value, that of several to that of the first.
    In no table of the process: what it holds may hold the values, and such circles must stay collectable.

    stores_less: whether forward is to store nothing for a backward, as some were told that none follows.
    may_clear: whether there was never a backward.
    forward: the Forward of them.  backward: the Backward from them.  None while nothing was planned.
    gradients: what planning the forward found of the backward, for that to begin with; None where nothing was.
    first_run: number of the writes before a forward by the plan of an earlier graph, 0 if there was none.
    seeds: per root the last gradient that was lent to it (`atled.graph.seed`), None before.
    walk: of the one root, by which a forward found its plan, for the backward behind it; None where there is none.
    """

    __slots__ = (
        "__weakref__",
        "_ends",
        "_missing",
        "_patience",
        "_references",
        "_several",
        "backward",
        "first_run",
        "forward",
        "gradients",
        "may_clear",
        "seeds",
        "stores_less",
        "walk",
    )

    def __init__(self, values: Sequence[Value]) -> None:
        self._references: Key = tuple(map(weakref.ref, values))
        self._ends: list[weakref.ref[Value]] = []
        self._several: dict[Key, Roots] = {}
        # Any: what plans is above the records that it plans for.
        self.forward: Any = None
        self.stores_less = False
        self.may_clear = True
        self._patience = self._missing = _CLEARED_RUNS  # of `_missing` each that is told so takes one
        self.backward: Any = None
        self.gradients: Any = None
        self.first_run = 0
        self.seeds: list[Any] = [None] * len(values)
        self.walk: Any = None

    def values(self) -> tuple[Value, ...]:
        """The roots; none where one of them is gone."""
        values = tuple(value for reference in self._references if (value := reference()) is not None)
        return values if len(values) == len(self._references) else ()

    def count(self, clears: bool) -> None:
        """A forward begins; clears: whether it is told that no backward follows."""
        if clears and self._missing:
            self._missing -= 1
        elif not clears:  # and those before were: two plans in turns would each be bound anew
            self._patience *= 2
            self._missing = self._patience
        self._store_less(not self._missing)

    def refuse_clearing(self) -> None:
        """There was a backward: from now on forward stores what the next one would read."""
        self.may_clear = False
        self._missing = -1
        self._store_less(False)

    def _store_less(self, flag: bool) -> None:
        if flag != self.stores_less:
            self.stores_less = flag
            EPOCH.bump()  # the plan of last time is another one's

    def several(self, values: Sequence[Value]) -> Roots:
        """The record of several roots of which the first is the one here."""
        key = tuple(map(weakref.ref, values))
        found = self._several.get(key)
        if found is None:
            found = self._several[key] = Roots(values)
            owner = weakref.ref(self)
            found._ends = [weakref.ref(value, lambda _: _end(owner, key)) for value in values[1:]]
        return found


def _end(owner: weakref.ref[Roots], key: Key) -> None:
    """Drop a record: one of its roots is gone."""
    first = owner()
    if first is not None:
        first._several.pop(key, None)


_MAKING = lock_across_forks()


def roots_of(values: Sequence[Value]) -> Roots:
    """The record of these roots, in this order: one as long as they exist."""
    first = values[0]
    with _MAKING:
        if first.roots is None:
            first.roots = Roots((first,))
        own: Roots = first.roots
        return own if len(values) == 1 else own.several(values)
