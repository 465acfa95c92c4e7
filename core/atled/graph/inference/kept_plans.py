"""The plans of one inference, by shapes and dtypes of its inputs: those that were not run lately are dropped."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, Protocol, TypeVar

from atled.graph.inference.working_memory import WorkingMemories
from atled.limits.alive import WeakRegister
from atled.limits.caches import register_cache
from atled_contexts import lock_across_forks

_STEPS_LIMIT = 20_000  # about 6 to 15 KB each
_PLANS_LIMIT = 4096  # a bound for plans without steps


class Planned(Protocol):
    """What is kept for some shapes and dtypes."""

    @property
    def step_count(self) -> int:
        """Count of steps, by which its size is known."""

    def let_go(self) -> None:
        """Keep nothing alive that others may have, too; it may still be running."""


P = TypeVar("P", bound=Planned)


class KeptPlans(Generic[P]):
    """See the module.

    memories: in which the plans run. All of them share these, so that a plan keeps none of its own.
    latest: what was used last.
    """

    def __init__(self, steps_limit: int = _STEPS_LIMIT) -> None:
        self.memories = WorkingMemories()
        self.latest: P | None = None
        self._steps_limit = steps_limit
        self._plans: OrderedDict[Hashable, P] = OrderedDict()
        self._steps = 0
        self._lock = lock_across_forks()
        self.get = self._plans.get
        """What is kept for a key, or None; without a lock, which would take as long as this."""
        _ALL.add(self)

    def __len__(self) -> int:
        return len(self._plans)

    def note_use(self, key: Hashable, planned: P) -> None:
        """What is kept for a key is used now, others before."""
        with self._lock:
            try:
                self._plans.move_to_end(key)
            except KeyError:  # it was dropped meanwhile
                return
            self.latest = planned

    def keep(self, key: Hashable, planned: P) -> None:
        """Keep a plan instead of what there was, and drop what was not used lately where there are too many steps."""
        with self._lock:
            former = self._plans.pop(key, None)
            self._plans[key] = planned
            self._steps += _size(planned) - (0 if former is None else _size(former))
            while len(self._plans) > 1 and (self._steps > self._steps_limit or len(self._plans) > _PLANS_LIMIT):
                _, dropped = self._plans.popitem(last=False)
                self._steps -= _size(dropped)
                dropped.let_go()

    def clear(self) -> None:
        """Drop all plans, and the memory in which no run is."""
        with self._lock:
            # Not by `clear`: what a finalizer of something dropped adds meanwhile is then found, but not to be moved.
            dropped, self._plans = self._plans, OrderedDict()
            self.get = self._plans.get
            self._steps = 0
            self.latest = None
            for planned in dropped.values():
                planned.let_go()
        self.memories.forget()


def _size(planned: Planned) -> int:
    return planned.step_count + 1


_ALL: WeakRegister[KeptPlans] = WeakRegister()


def _clear_all() -> None:
    for plans in _ALL.alive():
        plans.clear()


def _forget_memories() -> None:
    for plans in _ALL.alive():
        plans.memories.forget()


def _idle_bytes() -> int:
    return sum(plans.memories.idle_bytes() for plans in _ALL.alive())


register_cache("plans of inferences", lambda: sum(map(len, _ALL.alive())), _clear_all)
register_cache("bytes of working memory of inferences", _idle_bytes, _forget_memories)
