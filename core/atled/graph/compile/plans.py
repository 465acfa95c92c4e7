"""Compiled plans by key, the least recently used dropped beyond a limit."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Any

from atled.graph.compile.plan import Plan
from atled.limits.caches import register_cache
from atled.limits.collection import COLLECTION_PAUSED
from atled.limits.sizes import within_memory
from atled_contexts import lock_across_forks

_STEPS_LIMIT = 100_000  # about 10 KB each


class PlanCache:
    """Plans by key, the least recently used dropped beyond a limit of them, or of their steps.

    name: what the statistics of memory call them.
    """

    def __init__(self, name: str, limit: int, steps_limit: int = _STEPS_LIMIT) -> None:
        self.limit = limit
        self.steps_limit = steps_limit
        self._steps = 0
        self._plans: OrderedDict[Hashable, Any] = OrderedDict()
        self._lock = lock_across_forks()
        register_cache(name, self.__len__, self.clear)

    def find(self, key: Hashable) -> Any:
        """What was made for the key; None if nothing was."""
        with self._lock:
            found = self._plans.get(key)
            if found is not None:
                with suppress(KeyError):  # a handler of a signal has forgotten it meanwhile
                    self._plans.move_to_end(key)
            return found

    def get(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """What was made for the key, made now if it is not there."""
        found = self.find(key)
        if found is not None:
            return found
        with COLLECTION_PAUSED, within_memory("the plan of a graph"):
            made = make()
        with self._lock:
            if key in self._plans:  # another thread was quicker
                return self._plans[key]
            self._plans[key] = made
            self._steps += _step_count(made)
            while len(self._plans) > max(1, self.limit) or (self._steps > self.steps_limit and len(self._plans) > 1):
                _, dropped = self._plans.popitem(last=False)
                self._steps -= _step_count(dropped)
        return made

    def clear(self) -> None:
        """Forget everything compiled."""
        with self._lock:
            # Not by `clear`: what a finalizer of something dropped adds meanwhile is then found, but not to be moved.
            _dropped, self._plans = self._plans, OrderedDict()
            self._steps = 0

    def __len__(self) -> int:
        return len(self._plans)


def _step_count(made: Any) -> int:
    """Count of steps of a plan; 1 for anything else that is cached."""
    plan = getattr(made, "plan", made)
    return len(plan.steps) if isinstance(plan, Plan) else 1


# A shape takes three or four entries to be trained on. Lengths of sentences come in hundreds of shapes: with a limit
# below what they need, the least recently used is what comes next, and every step would be planned again.
SHAPES_LIMIT = 1024
"""Shapes of one small graph, or such graphs, that are trained on without planning again."""

PLANS = PlanCache("plans", 4 * SHAPES_LIMIT)

PLANNING = lock_across_forks()
"""Held while a plan is made and bound, so that no other thread plans on arrays half way through."""
