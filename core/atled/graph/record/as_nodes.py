"""Recorded calls as nodes of a graph, for a forward or a backward to be compiled from."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from atled.array_desc import ArrayDesc
from atled.arrays.place import Place
from atled.errors import four_parts
from atled.graph.compile.plan import Plan
from atled.graph.nodes.ir import Graph, IRNode, IRValue, digits_of
from atled.graph.record.structure import Structure


class AsNodes:
    """The calls of a structure as graph nodes.

    graph: with the aliases of the structure.
    calls: the node of each call.  nodes: those and the casts and transfers between them, in order.
    values: per value of the structure its IRValue.
    computed: the calls ran already; their outputs are then read from the outside arrays.
    planned: the calls are going to run; the outside arrays of their outputs need not be there yet.
    recomputed: numbers of calls that ran already and whose nodes run again in this graph.
    instead: gives, for the number of a call and the nodes of the calls up to it, another value in the place of its
        first output, or None.
    """

    def __init__(
        self,
        graph: Graph,
        structure: Structure,
        computed: bool,
        planned: bool = False,
        recomputed: Collection[int] = (),
        instead: Callable[[int, Sequence[IRNode]], IRValue | None] | None = None,
    ) -> None:
        self.graph = graph
        self.structure = structure
        self._planned = planned
        self._recomputed = recomputed
        self.calls: list[IRNode] = []
        self._instead: dict[int, IRValue] = {}
        self.values: list[IRValue] = []
        values: dict[int, IRValue] = {
            number: self._outside(number, shape)
            for number, (shape, origin) in enumerate(zip(structure.shapes, structure.origins, strict=True))
            if origin is None
        }
        for number in range(len(structure.functions)):
            node = self._add(number, values, computed)
            self.calls.append(node)
            other = None if instead is None else instead(number, self.calls)
            if other is not None:
                self._instead[number] = other
            for position, value in enumerate(structure.made[number]):
                if value >= 0:
                    values[value] = self._output(number, position)
        self.nodes = list(graph.nodes)
        self.values = [values[number] for number in range(len(structure.shapes))]

    def result(self, number: int, position: int) -> IRValue | None:
        """The output of a call that a plan is to store; None for one that nobody needs."""
        node, made = self.calls[number], self.structure.made[number]
        is_held = position < len(made) and made[position] >= 0
        return None if node.spares(position) and not is_held else self._output(number, position)

    def _output(self, number: int, position: int) -> IRValue:
        """The output of a call as what reads it is to see it."""
        other = None if position else self._instead.get(number)
        return self.calls[number].outputs[position] if other is None else other

    def blocked_values(self, passing: Collection[int]) -> set[IRValue]:
        """The results at which gradients stop, their need_grad being False; those of the numbers `passing` left out."""
        structure = self.structure
        return {
            value
            for number, (value, origin) in enumerate(zip(self.values, structure.origins, strict=True))
            if origin is not None and structure.flags[number] is False and number not in passing
        }

    def _add(self, number: int, values: dict[int, IRValue], computed: bool) -> IRNode:
        function = self.structure.functions[number]
        auxiliary, random_state = self.structure.state_numbers[number]
        inputs = [None if i < 0 else values[i] for i in self.structure.references[number]]
        if random_state >= 0:
            inputs.append(self._outside(random_state, (2,)))
        attributes = dict(function.attributes)
        for name in function.spec.float_names:
            attributes[name] = self.graph.float_from("function", number, name)
        computed = computed and number not in self._recomputed
        node = self.graph.add(function.spec, inputs, attributes, function.context, computed)
        if computed:
            made = self.structure.made[number]
            node.outputs = tuple(
                self._result(auxiliary[position], output)
                if auxiliary[position] >= 0 and not node.spares(position)
                else self._result(made[position], output)
                if position < len(made) and made[position] >= 0
                else output
                for position, output in enumerate(node.outputs)
            )
        elif self.structure.overwritten and not function.spec.views:
            for result, output in zip(self.structure.made[number], node.outputs, strict=False):
                if result >= 0 and self.structure.aliases[result] in self.structure.overwritten:
                    self.graph.store(output, result)
        return node

    def _result(self, number: int, output: IRValue) -> IRValue:
        """The outside array that holds an output of a call."""
        if self._planned or self.structure.cells[number].is_unstored:
            return self.graph.external(number, output.desc, output.place)
        return self._outside(number, output.shape, output.place)

    def _outside(self, number: int, shape: tuple[int, ...], place: Place | None = None) -> IRValue:
        cell = self.structure.cells[number]
        if cell.dtype is None:
            raise RuntimeError(
                four_parts(
                    "backward",
                    "a value that it needs was not computed yet",
                    "",
                    "call forward() on the same Variable before backward()",
                )
            )
        return self.graph.external(number, ArrayDesc(shape, cell.dtype), place)


def float_values(plan: Plan | Graph, structure: Structure) -> list[float]:
    """The value of each float of a plan, or of a graph, now; 0 for those of a solver, which are given at each run."""
    return [
        0.0
        if source[0] == "solver"
        else source[1]
        if source[0] == "constant"
        else structure.functions[source[1]].attributes[source[2]]
        for source in plan.floats
    ]


def float_digits(plan: Plan | Graph, structure: Structure) -> tuple[str, ...]:
    """The same for keys, see `digits_of`."""
    return tuple(map(digits_of, float_values(plan, structure)))
