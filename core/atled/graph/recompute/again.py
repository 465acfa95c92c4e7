"""Calls that run a second time for a backward, as further nodes of the graph that has both."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from atled.graph.nodes.ir import Graph, IRNode, IRValue
from atled.graph.record.as_nodes import AsNodes


def run_again(recorded: AsNodes, chosen: Sequence[Sequence[int]], first: int) -> list[IRNode]:
    """Have the nodes of a backward read values that are computed again, right before they are read: by which nodes.

    chosen: per value its number, then those of the calls that compute it.  first: of the nodes of the backward.
    """
    graph = recorded.graph
    readers = graph.nodes[first:]
    again: dict[IRValue, IRValue] = {}
    for call in sorted({call for _, *calls in chosen for call in calls}):
        node = recorded.calls[call]
        assert node.spec is not None
        inputs = [None if value is None else again.get(value, value) for value in node.inputs]
        made = graph.add(node.spec, inputs, node.attributes, node.context)
        again.update(zip(node.outputs, made.outputs, strict=True))
    replaced = {recorded.values[number]: again[recorded.values[number]] for number, *_ in chosen}
    for reader in readers:
        reader.inputs = tuple(None if value is None else replaced.get(value, value) for value in reader.inputs)
    made_again = graph.nodes[first + len(readers) :]
    graph.nodes[first:] = [*made_again, *readers]
    put_off(graph, made_again)
    return made_again


def put_off(graph: Graph, nodes: Collection[IRNode]) -> None:
    """Move each of some nodes right before its first reader, so that its results live shortly."""
    moved = frozenset(nodes)
    place: dict[IRNode, int] = {node: position for position, node in enumerate(graph.nodes)}
    first: dict[IRNode, int] = {}
    for node in reversed(graph.nodes):
        if node in moved:
            place[node] = first.get(node, len(graph.nodes))
        for value in node.inputs:
            if value is not None and value.node is not None:
                first[value.node] = min(place[node], first.get(value.node, len(graph.nodes)))
    graph.nodes.sort(key=place.__getitem__)  # stable: they stay before it, and in their order
