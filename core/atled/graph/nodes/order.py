"""Which nodes must have run before others: it follows from the versions of arrays that they read and make."""

from __future__ import annotations

from collections.abc import Iterable

from atled.graph.nodes.ir import IRArray, IRNode


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
