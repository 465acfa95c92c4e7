"""Bound plans: a binding with the key, arrays and epoch that it was made from, which tell whether it still holds."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from atled.arrays.cell import ArrayCell
from atled.arrays.epoch import WRITES
from atled.graph.recompute.recipes import LastRun, ValueRecipe
from atled.graph.recompute.trust import Trust
from atled.graph.record.structure import Structure
from atled.graph.run.binding import Binding


class BoundPlan:
    """A binding with what it was made from: it holds while the epoch, or else key and storages, are the same.

    epoch: at the begin of binding, so that a change by another thread meanwhile is seen by the next run.
    structure: of the graph it computes, where that is a recorded one.
    written: cells that a run writes and that stay pending until it has: gradients of leaves.
    last_run: where the runs are to be noted, None where nothing depends on it.
    recipe: of a forward, how to get what it does not store; None where it stores everything.
    trust: of a forward, the values that its backward may compute again; None where there are none.
    """

    __slots__ = ("binding", "epoch", "key", "last_run", "recipe", "structure", "trust", "written")

    def __init__(
        self,
        key: Hashable,
        binding: Binding,
        epoch: int,
        written: Sequence[ArrayCell] = (),
        structure: Structure | None = None,
        last_run: LastRun | None = None,
    ) -> None:
        self.key = key
        self.binding = binding
        self.structure = structure
        self.written = tuple(written)
        self.last_run = last_run
        self.recipe: ValueRecipe | None = None
        self.trust: Trust | None = None
        self.epoch = epoch

    def holds(self, key: Hashable, cells: Sequence[ArrayCell], epoch: int) -> bool:
        """Whether the binding can be used for a structure of this key and these cells; if so, it takes the given epoch.

        epoch: before structure and cells were looked at.
        """
        binding = self.binding
        if self.key != key or len(cells) != len(binding.cells) or not binding.is_current(self.written):
            return False
        if any(mine is not theirs for mine, theirs in zip(binding.cells, cells, strict=True)):
            return False
        self.epoch = epoch
        return True

    def run(self, floats: Sequence[float] | np.ndarray | None = None) -> None:
        """Run the plan; floats: new values of its float attributes, in the plan's order, or None."""
        self.binding.run(floats)
        for cell in self.written:
            cell.pending = None
            cell.zeroed = False
        if self.last_run is not None:
            self.last_run.number = next(WRITES)
        if self.trust is not None:
            self.trust.forward_ran()
