"""Where a graph is cut in two: what depends on some outside arrays alone is read by the rest as outside arrays."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from atled.arrays.place import HOST
from atled.graph.constants.expression import Expression, expression_of
from atled.graph.nodes.ir import Graph, IRNode, IRValue
from atled.named_tuple import NamedTuple

_LEAST_BYTES = 1 << 15
"""Read and written where a value is computed: it takes longer than to see that none of its arrays was written."""

_MOST_ARRAYS = 32
"""Of which one value is computed, so that looking takes time with the length of a graph; mostly it is one to three."""


class Imported(NamedTuple):
    """A value that a plan reads as an outside array, and the numbers of the outside arrays that it is computed of."""

    expression: Expression
    arrays: tuple[int, ...]


class _Origin(NamedTuple):
    """What a value is computed of: the numbers of outside arrays, and about how many bytes that reads and writes."""

    arrays: frozenset[int]
    work: int


class Cut:
    """What of a graph depends on which leaves; made before it is lowered.

    results: what is stored, so that a step has to make it.
    leaf_count: outside arrays below this number are those of values; of them leaves.
    wanted: values that save more than the time that they take, if they depend on leaves alone.
    """

    def __init__(
        self,
        graph: Graph,
        results: Collection[IRValue | None],
        leaf_count: int,
        wanted: Collection[IRValue] = (),
    ) -> None:
        self._graph = graph
        self._results = [value for value in results if value is not None]
        self._stored = {value.base for value in self._results}
        self._leaf_count = leaf_count
        self._wanted = wanted
        self._origins: dict[IRValue, _Origin | None] = {}
        for node in graph.nodes:
            origin = self._origin_of_node(node)
            self._origins.update((value, self._with_place(value, origin)) for value in node.outputs)

    def _origin_of_node(self, node: IRNode) -> _Origin | None:
        spec = node.spec
        if spec is None or node.computed or node.changed or spec.by_engine or spec.random:
            return None
        if spec.inplace or spec.opaque:
            return None
        arrays: frozenset[int] = frozenset()
        inputs = [value for value in node.inputs if value is not None]
        work = 0
        for value in inputs:
            origin = self._origin(value)
            if origin is None:
                return None
            arrays |= origin.arrays
            work += origin.work
        if not arrays or len(arrays) > _MOST_ARRAYS:
            return None
        if not spec.views and work < _LEAST_BYTES:
            work += sum(value.desc.nbytes for value in (*inputs, *node.outputs))
        return _Origin(arrays, min(work, _LEAST_BYTES))

    @staticmethod
    def _with_place(value: IRValue, origin: _Origin | None) -> _Origin | None:
        if origin is None or value.place not in (None, HOST) or value.is_window:
            return None
        return origin if value.desc.is_contiguous else None

    def _origin(self, value: IRValue) -> _Origin | None:
        if value.base.array is not None and value.base.array.version:
            return None  # a step changes it
        if value.node is not None:
            return self._origins.get(value)
        is_leaf = 0 <= value.external < self._leaf_count and value.place in (None, HOST)
        return _Origin(frozenset((value.external,)), 0) if is_leaf else None

    def _is_worthwhile(self, value: IRValue) -> bool:
        """Whether a value is better read than computed: what is repeated reads less, and what is stored is made."""
        node, origin = value.base.node, self._origin(value.base)
        if value in self._wanted:
            return origin is not None
        if node is None or origin is None or origin.work < _LEAST_BYTES or value.is_window:
            return False
        read = sum(each.desc.nbytes for each in node.inputs if each is not None)
        return value.desc.nbytes <= read and self._stored.isdisjoint(node.outputs)

    def has_all_wanted(self, leaves: Collection[int]) -> bool:
        """Whether all values that are wanted depend on some leaves alone, in host memory."""
        origins = map(self._origin, self._wanted)
        return all(origin is not None and origin.arrays.issubset(leaves) for origin in origins)

    @property
    def choices(self) -> tuple[frozenset[int], ...]:
        """Sets of leaves of which something worthwhile is computed."""
        found = (value for node in self._graph.nodes for value in node.outputs if self._is_worthwhile(value))
        return tuple({origin.arrays: None for value in found if (origin := self._origin(value)) is not None})

    def import_values(
        self, leaves: Collection[int], first: int, floats: Sequence[float], allowed: Collection[Imported] | None
    ) -> tuple[Imported, ...]:
        """Have the graph read what depends on some leaves alone as outside arrays, numbered from `first` on.

        floats: the value of each float of the graph.  allowed: of what to do so; None for everything worthwhile.
        """
        importing = _Importing(self._graph, frozenset(leaves), first, floats, allowed)
        waiting = [value.node for value in self._results]
        waiting += [node for node in self._graph.nodes if node.changed]
        read: dict[IRNode, tuple[IRValue | None, ...]] = {}
        while waiting:
            node = waiting.pop()
            if node is None or node in read:
                continue
            read[node] = node.inputs
            if node.spec is None or not node.spec.views:  # a view is in the memory of what it shows
                read[node] = tuple(
                    None if value is None else importing.named(value, self._may_import(value, importing.leaves))
                    for value in node.inputs
                )
            waiting += [value.node for value in read[node] if value is not None]
        for node, inputs in read.items():  # only now: a node may be in the expression of a value, too
            node.inputs = inputs
        return tuple(importing.imported)

    def _may_import(self, value: IRValue, leaves: frozenset[int]) -> bool:
        origin = None if value.node is None else self._origin(value)
        return origin is not None and origin.arrays <= leaves and self._is_worthwhile(value)


class _Importing:
    """The values that a graph reads as outside arrays, as they come up."""

    def __init__(
        self,
        graph: Graph,
        leaves: frozenset[int],
        first: int,
        floats: Sequence[float],
        allowed: Collection[Imported] | None,
    ) -> None:
        self.leaves = leaves
        self.imported: list[Imported] = []
        self._graph = graph
        self._first = first
        self._floats = floats
        self._allowed = allowed
        self._known: dict[IRValue, IRValue] = {}

    def named(self, value: IRValue, is_fixed: bool) -> IRValue:
        """The value as the graph is to read it."""
        found = self._known.get(value)
        if found is None:
            found = self._known[value] = self._found(value) if is_fixed else value
        return found

    def _found(self, value: IRValue) -> IRValue:
        found = Imported(*expression_of(value, self._floats))
        if self._allowed is not None and found not in self._allowed:
            return value
        number = self._first + len(self.imported)
        self.imported.append(found)
        return self._graph.external(number, value.desc, HOST)
