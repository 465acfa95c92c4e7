"""Which nodes must run for some values, and which before others: that follows from the versions of arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from atled.graph.nodes.ir import Graph, IRArray, IRNode, IRValue


def nodes_for(graph: Graph, values: Sequence[IRValue]) -> list[IRNode]:
    """The nodes to run, in order: those that results depend on, and those that change outside arrays."""
    needed: set[IRNode] = set()
    stack = [value.node for value in values if value.node is not None]
    stack += [node for node in graph.nodes if node.changed]
    while stack:
        node = stack.pop()
        if node not in needed:
            needed.add(node)
            stack += [value.node for value in node.inputs if value is not None and value.node is not None]
    return [node for node in graph.nodes if node in needed]


class Order:
    """What must have run before each of some nodes.

    Those that make its inputs do; and where it makes the next version of an array, which takes the place of the one
    before, those that make and read that one.
    """

    def __init__(self, nodes: Iterable[IRNode]) -> None:
        readers: dict[tuple[IRArray, int], list[IRNode]] = {}
        makers: dict[IRArray, dict[int, IRNode]] = {}
        for node in nodes:
            if node.computed or (node.spec is not None and node.spec.views):
                continue  # it reads nothing
            for value in node.inputs:
                if value is not None:
                    array = value.base.array
                    if array is not None and array.values:
                        readers.setdefault((array, value.shows.version), []).append(node)
            for value in (*node.outputs, *node.changed.values()):
                array = value.base.array
                if array is not None and value.version:
                    makers.setdefault(array, {})[value.version] = node
        self._earlier: dict[IRNode, dict[IRNode, None]] = {}
        for array, made in makers.items():
            former = 0  # one node may make several versions, of which it shows the last
            for version, node in sorted(made.items()):
                earlier = dict.fromkeys(readers.get((array, former), ()))
                if former in made:
                    earlier[made[former]] = None
                earlier.pop(node, None)
                if earlier:
                    self._earlier.setdefault(node, {}).update(earlier)
                former = version

    def before(self, node: IRNode) -> list[IRNode]:
        """The nodes that must have run right before a node."""
        before = [value.node for value in node.inputs if value is not None and value.node is not None]
        earlier = self._earlier.get(node)
        return before if earlier is None else [*before, *earlier]
