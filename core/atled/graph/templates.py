"""Compiled templates by key, the least recently used dropped beyond a limit."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

from atled_contexts import lock_across_forks


class TemplateCache:
    """Templates by key, the least recently used dropped beyond a limit."""

    def __init__(self, limit: int = 4096) -> None:
        self.limit = limit
        self._templates: OrderedDict[Hashable, Any] = OrderedDict()
        self._lock = lock_across_forks()

    def find(self, key: Hashable) -> Any:
        """What was made for the key; None if nothing was."""
        with self._lock:
            found = self._templates.get(key)
            if found is not None:
                self._templates.move_to_end(key)
            return found

    def get(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """What was made for the key, made now if it is not there."""
        found = self.find(key)
        if found is not None:
            return found
        made = make()
        with self._lock:
            made = self._templates.setdefault(key, made)
            while len(self._templates) > self.limit:
                self._templates.popitem(last=False)
        return made

    def clear(self) -> None:
        """Forget everything compiled."""
        with self._lock:
            self._templates.clear()

    def __len__(self) -> int:
        return len(self._templates)


TEMPLATES = TemplateCache()

PLANNING = lock_across_forks()
"""Held by whoever makes a plan and binds it: what it finds out about arrays, and does to them, must be of one piece."""
