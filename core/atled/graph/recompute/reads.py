"""Which values the backward of a graph will read, found before its forward runs."""

from __future__ import annotations

from collections.abc import Sequence

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

    recorded: its calls.  gradients: of all values.  nodes: those that compute them.
    """

    recorded: AsNodes
    gradients: list[IRValue]
    nodes: list[IRNode]


class GradientsToCome:
    """The gradients of results of a graph that is still to run, made when they are first asked for.

    roots: the numbers of the results.
    """

    def __init__(self, structure: Structure, roots: Sequence[int]) -> None:
        self.structure = structure
        self.roots = tuple(roots)
        self._made: tuple[PlannedGradients | None] | None = None

    def planned(self) -> PlannedGradients | None:
        """The gradients as nodes; None where an op on the way has none."""
        if self._made is None:
            self._made = (_planned_gradients(self.structure, self.roots),)
        return self._made[0]


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
    gradients = list(found.values())
    return PlannedGradients(recorded, gradients, nodes_for(graph, gradients))


def _find_read(gradients: GradientsToCome) -> frozenset[int]:
    """Find the outside arrays that are inputs of the nodes of the gradients."""
    planned = gradients.planned()
    if planned is None:
        return frozenset()
    inputs = [*planned.gradients, *(value for node in planned.nodes for value in node.inputs if value is not None)]
    count = len(gradients.structure.cells)
    return frozenset(value.base.external for value in inputs if 0 <= value.base.external < count)
