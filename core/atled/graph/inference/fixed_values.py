"""What plans of an inference compute from parameters alone, kept until one of these is written."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Sequence
from typing import NamedTuple

from atled.arrays.cell import ArrayCell
from atled.arrays.epoch import WRITES
from atled.graph.compile.plan import Plan
from atled.graph.run.binding import Binding


class Snapshot(NamedTuple):
    """Values as of some state of the parameters; nobody writes them: what is computed later is in other arrays.

    number: of `WRITES`, since when no parameter was written.  cells: per key of a plan the array.
    """

    number: int
    cells: tuple[ArrayCell, ...]


class FixedValues:
    """The values of all plans of an inference, for inputs of whatever shapes, by key.

    parameters: the arrays that they are computed from.
    """

    def __init__(self, parameters: Sequence[ArrayCell]) -> None:
        self.parameters = tuple(parameters)
        self._known: dict[Hashable, ArrayCell] = {}
        self._number = 0
        self._lock = threading.Lock()

    def is_current(self, snapshot: Snapshot) -> bool:
        """Whether no parameter was written since, as far as can be told."""
        number = snapshot.number
        return all(cell.is_unchanged_since(number) for cell in self.parameters)

    def take(self, plan: Plan, keys: Sequence[Hashable], first: int) -> Snapshot:
        """The values of a plan, computed where they are not there, or not those of the parameters as they are.

        first: number of the first parameter among the plan's outside arrays.
        """
        with self._lock:
            number = next(WRITES)
            if not self.is_current(Snapshot(self._number, ())):
                self._known = {}
            if not self._known:
                self._number = number
            if any(key not in self._known for key in keys):
                made = _computed(plan, [ArrayCell(0)] * first + list(self.parameters))
                self._known.update((key, cell) for key, cell in zip(keys, made, strict=True) if key not in self._known)
            return Snapshot(self._number, tuple(self._known[key] for key in keys))


def _computed(plan: Plan, cells: Sequence[ArrayCell]) -> list[ArrayCell]:
    """The results of a plan, in new arrays."""
    made = [ArrayCell(plan.slots[slot].desc.size) for slot in plan.targets]
    Binding(plan, cells, made, [value for _, value in plan.floats]).run()
    return made
