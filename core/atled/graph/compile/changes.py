"""Which outside arrays the nodes of a graph change, and when."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from atled.graph.nodes.ir import IRArray, IRNode, IRValue


class Changes:
    """Of nodes that run one after the other.

    position: the place of each node.
    """

    def __init__(self, nodes: Sequence[IRNode]) -> None:
        self.position = {node: position for position, node in enumerate(nodes)}
        self._made: dict[IRArray, list[tuple[int, int]]] = {}  # versions, and the positions of what makes them
        for position, node in enumerate(nodes):
            for value in node.changed.values():
                if value.base.array is not None:
                    self._made.setdefault(value.base.array, []).append((value.version, position))

    def spare(self, value: IRValue, readers: Iterable[IRNode]) -> bool:
        """Whether a value is still in its memory where the last of some nodes stands."""
        array = value.base.array
        changes = () if array is None else self._made.get(array, ())
        end = max(self.position[reader] for reader in readers)
        return not any(version > value.shows.version and position < end for version, position in changes)
