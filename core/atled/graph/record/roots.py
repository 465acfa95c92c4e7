"""Roots: the values on which one forward or backward is called, with the plans made for them."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

from atled.graph.record.value import Value
from atled_contexts import lock_across_forks

Key = tuple[weakref.ref[Value], ...]


class Roots:
    """The values on which one forward or backward is called, referred to weakly, with the plans made for them.

    It lives as long as each of them does.

    forward: the Forward of them.  backward: the Backward from them.  None while nothing was planned.
    lent: per root the last gradient that was lent to it (`atled.graph.seed`), None before.
    """

    __slots__ = ("__weakref__", "_ends", "_references", "backward", "forward", "lent")

    def __init__(self, values: Sequence[Value]) -> None:
        self._references: Key = tuple(map(weakref.ref, values))
        self._ends: list[weakref.ref[Value]] = []
        # Any: what plans is above the records that it plans for.
        self.forward: Any = None
        self.backward: Any = None
        self.lent: list[Any] = [None] * len(values)

    def values(self) -> tuple[Value, ...]:
        """The roots; none where one of them is gone."""
        values = tuple(value for reference in self._references if (value := reference()) is not None)
        return values if len(values) == len(self._references) else ()

    def end_with(self, values: Sequence[Value], key: Key) -> None:
        """Leave the table when one of the roots goes."""
        self._ends = [weakref.ref(value, lambda _: _SEVERAL.pop(key, None)) for value in values]


_MAKING = lock_across_forks()

_SEVERAL: dict[Key, Roots] = {}
"""Those of several values. That of one value is kept by the value itself, where it is found without a look-up."""


def roots_of(values: Sequence[Value]) -> Roots:
    """The record of these roots, in this order: one as long as they exist."""
    with _MAKING:
        if len(values) == 1:
            (value,) = values
            if value.roots is None:
                value.roots = Roots(values)
            found: Roots = value.roots
            return found
        key = tuple(map(weakref.ref, values))
        if key not in _SEVERAL:
            _SEVERAL[key] = Roots(values)
            _SEVERAL[key].end_with(values, key)
        return _SEVERAL[key]
