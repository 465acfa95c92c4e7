"""Compiled plans by key, the least recently used dropped beyond a limit."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Any

from atled.graph.compile.parts import InParts
from atled.graph.compile.plan import Plan
from atled.limits.caches import register_cache
from atled.limits.collection import COLLECTION_PAUSED
from atled.limits.sizes import within_memory
from atled_contexts import is_observed, lock_across_forks

_STEPS_LIMIT = 100_000  # about 10 KB each

MAY_BE_IN_PARTS = True
"""Whether what is run for the first time may be planned in parts (`get_for_run`)."""

_FEW, _SECONDS = 32, 8
"""Plans behind which a process seems to make most of them for one run, and how many of them a second run outweighs."""


class PlanCache:
    """Plans by key, the least recently used dropped beyond a limit of them, or of their steps.

    name: what the statistics of memory call them.
    """

    def __init__(self, name: str, limit: int, steps_limit: int = _STEPS_LIMIT) -> None:
        self.limit = limit
        self.steps_limit = steps_limit
        self._steps = 0
        self._plans: OrderedDict[Hashable, Any] = OrderedDict()
        self._in_parts: OrderedDict[int, None] = OrderedDict()  # hashes of keys of which a plan in parts was made
        self._once = 0  # how many more plans seem to be for one run than for several
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

    def get_for_run(self, key: Hashable, make: Callable[[InParts], Any], whole: bool = False) -> Any:
        """As `get`; what is made for the first time may be a plan in parts, for one run, which is not kept.

        The second time it is made whole, and kept; at once under `whole`, and where somebody observes what runs. Parts
        of all formulas pay where most plans run once.
        """
        found = self.find(key)
        if found is not None:
            return found
        digest = hash(key)  # where two keys have one, the second is whole at once
        is_second = digest in self._in_parts
        self._once = max(0, self._once - _SECONDS) if is_second else self._once + 1
        if whole or is_second or is_observed() or not MAY_BE_IN_PARTS:
            return self.get(key, lambda: make(InParts.NONE))
        with COLLECTION_PAUSED, within_memory("the plan of a graph"):
            made = make(InParts.ALL if self._once > _FEW else InParts.UNCOMPILED)
        if not made.plan.is_in_parts:
            return self.get(key, lambda: made)
        with self._lock:
            self._in_parts[digest] = None
            if len(self._in_parts) > self.limit:
                self._in_parts.popitem(last=False)
        return made

    def clear(self) -> None:
        """Forget everything compiled."""
        with self._lock:
            # Not by `clear`: what a finalizer of something dropped adds meanwhile is then found, but not to be moved.
            _dropped, self._plans = self._plans, OrderedDict()
            self._in_parts.clear()
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
