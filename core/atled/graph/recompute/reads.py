"""Which values the backward of a graph will read, found before its forward runs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from atled.arrays.cell import ArrayCell
from atled.graph.compile.plans import PLANS
from atled.graph.nodes.gradient import backpropagate
from atled.graph.nodes.ir import Graph, IRNode, IRValue
from atled.graph.nodes.order import nodes_for
from atled.graph.record.as_nodes import AsNodes
from atled.graph.record.structure import Structure
from atled.named_tuple import NamedTuple
from atled_contexts import plugin_generation


class PlannedGradients(NamedTuple):
    """The gradients of a graph that is still to run.

    recorded: its calls.  seeds: the gradient of each root.  found: the gradients of all values.
    """

    recorded: AsNodes
    seeds: dict[IRValue, IRValue]
    found: dict[IRValue, IRValue]

    @property
    def gradients(self) -> list[IRValue]:
        """All gradients."""
        return list(self.found.values())

    @property
    def nodes(self) -> list[IRNode]:
        """Those that compute them."""
        return nodes_for(self.recorded.graph, self.gradients)


class GradientsToCome:
    """The gradients of results of a graph that is still to run, made when they are first asked for.

    roots: the numbers of the results.  generation: that of the plugins.
    """

    def __init__(self, structure: Structure, roots: Sequence[int]) -> None:
        self.structure = structure
        self.roots = tuple(roots)
        self.generation = plugin_generation()
        self._made: tuple[PlannedGradients | None] | None = None

    def planned(self) -> PlannedGradients | None:
        """The gradients as nodes; None where an op on the way has none."""
        if self._made is None:
            self._made = (_planned_gradients(self.structure, self.roots),)
        return self._made[0]

    @property
    def are_made(self) -> bool:
        """Whether gradients were asked for, and there are some."""
        return self._made is not None and self._made[0] is not None

    def of(self, structure: Structure, seeds: Sequence[tuple[int, ArrayCell]]) -> PlannedGradients | None:
        """The gradients where they are there and those of a backward that begins now, which may add to their graph.

        structure: of the graph that ran.  seeds: where backpropagation starts, and the array of the gradient there.
        """
        planned = None if self._made is None else self._made[0]
        if planned is None or self.generation != plugin_generation():
            return None
        mine, values = self.structure, planned.recorded.values
        if mine.key != structure.key or mine.flags != structure.flags:
            return None
        if tuple(number for number, _ in seeds) != self.roots or len(set(self.roots)) < len(self.roots):
            return None
        if any(not _is_like(cell, values[number]) for number, cell in seeds):
            return None
        made = enumerate(zip(structure.origins, structure.cells, strict=False))
        if any(origin is not None and not _has_dtype(cell, values[number].dtype) for number, (origin, cell) in made):
            return None  # a result is in an array that was there before, of another dtype
        kept = zip(planned.recorded.calls, structure.state_numbers, strict=True)
        if any(
            number >= 0 and not _has_dtype(structure.cells[number], output.dtype)
            for node, (numbers, _) in kept
            for number, output in zip(numbers, node.outputs, strict=True)
        ):
            return None
        return planned


def _is_like(seed: ArrayCell, root: IRValue) -> bool:
    """Whether the array of a gradient has the size and the dtype that were planned: those of the root."""
    return seed.size == root.size and seed.dtype == root.dtype


def _has_dtype(cell: ArrayCell, dtype: np.dtype) -> bool:
    """Whether an array is read in a dtype: it has that, or nothing is stored, so that it will."""
    return cell.is_unstored or cell.dtype == dtype


def read_by_backward(gradients: GradientsToCome) -> frozenset[int]:
    """The values and auxiliary outputs that a backward reads, by number; none where no leaf needs a gradient."""
    structure, roots = gradients.structure, gradients.roots
    if not structure.is_reached(roots):
        return frozenset()
    key = ("read by backward", plugin_generation(), structure.key, tuple(structure.flags), roots)
    read: frozenset[int] = PLANS.get(key, lambda: _find_read(gradients))
    return read


def _planned_gradients(structure: Structure, roots: Sequence[int]) -> PlannedGradients | None:
    """The gradients of results, by number, as nodes; None where an op on the way has none."""
    graph = Graph(structure.functions[-1].context, structure.aliases)
    recorded = AsNodes(graph, structure, computed=True, planned=True)
    values = recorded.values
    first = len(structure.cells)
    seeds = {values[root]: graph.external(first + n, values[root].desc) for n, root in enumerate(roots)}
    wanted = [value for value, flag in zip(values, structure.flags, strict=True) if flag]
    try:
        found = backpropagate(graph, recorded.nodes, seeds, wanted, recorded.blocked_values(roots))
    except RuntimeError:
        return None  # a call of backward raises it
    return PlannedGradients(recorded, seeds, found)


def _find_read(gradients: GradientsToCome) -> frozenset[int]:
    """Find the outside arrays that are inputs of the nodes of the gradients."""
    planned = gradients.planned()
    if planned is None:
        return frozenset()
    inputs = [*planned.gradients, *(value for node in planned.nodes for value in node.inputs if value is not None)]
    count = len(gradients.structure.cells)
    return frozenset(value.base.external for value in inputs if 0 <= value.base.external < count)
