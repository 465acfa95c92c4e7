"""Which values the backward of a graph will read, found before its forward runs."""

from __future__ import annotations

from typing import NamedTuple

from atled.graph.compile.lowering import nodes_for
from atled.graph.compile.plans import PLANS
from atled.graph.nodes.gradient import backpropagate
from atled.graph.nodes.ir import Graph, IRNode, IRValue
from atled.graph.record.as_nodes import AsNodes
from atled.graph.record.structure import Structure
from atled_contexts import plugin_generation


def read_by_backward(structure: Structure, root: int) -> frozenset[int]:
    """The values that a backward from a value reads, by number; none where no leaf needs a gradient."""
    needs = structure.needs
    if not any(needs[reference] for reference in structure.references[-1] if reference >= 0):
        return frozenset()
    key = ("read by backward", plugin_generation(), structure.key, tuple(structure.flags), root)
    read: frozenset[int] = PLANS.get(key, lambda: _find_read(structure, root))
    return read


class PlannedGradients(NamedTuple):
    """The gradients of a graph that is still to run.

    recorded: its calls.  gradients: of all values.  nodes: those that compute them.
    """

    recorded: AsNodes
    gradients: list[IRValue]
    nodes: list[IRNode]


def planned_gradients(structure: Structure, root: int) -> PlannedGradients | None:
    """The gradients of a value, by number, as nodes; None where an op on the way has none."""
    graph = Graph(structure.functions[-1].context)
    recorded = AsNodes(graph, structure, computed=True, planned=True)
    values = recorded.values
    seed = graph.external(len(structure.cells), values[root].desc)
    wanted = [value for value, flag in zip(values, structure.flags, strict=True) if flag]
    try:
        found = backpropagate(graph, recorded.nodes, {values[root]: seed}, wanted, recorded.blocked_values({root}))
    except RuntimeError:
        return None  # a call of backward raises it
    gradients = list(found.values())
    return PlannedGradients(recorded, gradients, nodes_for(graph, gradients))


def _find_read(structure: Structure, root: int) -> frozenset[int]:
    """Find the values that are inputs of the nodes of the gradients."""
    planned = planned_gradients(structure, root)
    if planned is None:
        return frozenset()
    inputs = [*planned.gradients, *(value for node in planned.nodes for value in node.inputs if value is not None)]
    count = len(structure.shapes)
    return frozenset(value.base.external for value in inputs if 0 <= value.base.external < count)
