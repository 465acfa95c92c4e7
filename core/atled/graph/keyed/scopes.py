"""Scopes: bodies of loops and branches while a description is read, and what they take from around them."""

from __future__ import annotations

from collections.abc import Sequence

from atled.array_desc import ArrayDesc
from atled.errors import four_parts
from atled.graph.nodes.body import Body, BodyBuilder
from atled.graph.nodes.branches import branch
from atled.graph.nodes.ir import FloatSlot, Graph, IRValue
from atled.graph.nodes.loops import loop


class Scope:
    """A body that is being described.

    graph: that in which its loop or branch will be.  builder: its own.
    taken: by value of the graph the input of the body.  floats: by float of the graph the parameter of the body.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.builder = BodyBuilder(graph.context, by_operands=graph.by_operands)
        self.taken: dict[IRValue, IRValue] = {}
        self.floats: dict[FloatSlot, FloatSlot] = {}

    def take(self, value: IRValue) -> IRValue:
        """A value from around it."""
        found = self.taken.get(value)
        if found is None:
            found = self.taken[value] = self.builder.input(value.desc.contiguous)
        return found

    def take_float(self, slot: FloatSlot) -> FloatSlot:
        """A float from around it."""
        found = self.floats.get(slot)
        if found is None:
            found = self.floats[slot] = self.builder.parameter()
        return found

    @property
    def drawn(self) -> list[IRValue]:
        """The random states among what it takes, as they are called around it."""
        states = {
            value
            for node in self.builder.nodes
            for position, value in enumerate(node.inputs)
            if node.spec is not None and node.spec.input_at(position).kind == "random_state"
        }
        return [value for value, inside in self.taken.items() if inside in states]


class Step(Scope):
    """The body of a loop.

    rows, states: of its sequences, and what its states hold before the step.
    last_row: which row of what is kept the last step makes; None where that is not known, or there is no step.
    """

    def __init__(
        self,
        graph: Graph,
        sequences: Sequence[IRValue],
        states: Sequence[IRValue],
        count: IRValue | None,
        length: int | None,
        backwards: bool,
    ) -> None:
        super().__init__(graph)
        for value in sequences:
            if not value.ndim:
                raise TypeError(
                    four_parts("a loop over a sequence without axes", "it has no rows", "", "take it as a constant")
                )
        self.rows = [self.builder.input(ArrayDesc(value.shape[1:], value.dtype)) for value in sequences]
        self.states = [self.builder.input(value.desc.contiguous) for value in states]
        self._sequences = sequences
        self._first = states
        self._count = count
        self._length = length
        self._backwards = backwards
        steps = sequences[0].shape[0] if sequences and length is None else length
        self.last_row = None if count is not None or not steps else 0 if backwards else steps - 1

    def end(
        self, states: Sequence[IRValue], rows: Sequence[IRValue], until: IRValue | None
    ) -> tuple[Sequence[IRValue], IRValue | None, Sequence[IRValue]]:
        """Add the loop: last states, count of steps, rows."""
        drawn = self.drawn
        constants = [value for value in self.taken if value not in drawn]
        inputs = [*self.rows, *self.states, *(self.taken[value] for value in (*constants, *drawn))]
        results = [*states, *([] if until is None else [until]), *rows]
        return loop(
            self.graph,
            self.builder.body(results, inputs),
            sequences=self._sequences,
            states=self._first,
            constants=constants,
            draws=drawn,
            count=self._count,
            length=self._length,
            ended=until is not None,
            backwards=self._backwards,
            parameters=list(self.floats),
        )


class Side(Scope):
    """The body of one side of a branch.  first: the other side, which was described before."""

    def __init__(self, graph: Graph, condition: IRValue, first: Side | None = None) -> None:
        super().__init__(graph)
        self.condition = condition
        self.results: Sequence[IRValue] = ()
        self.first = first
        if first is not None:
            for slot in first.floats:
                self.take_float(slot)

    def end(self) -> Sequence[IRValue]:
        """Add the branch: what it gives."""
        assert self.first is not None
        sides = self.first, self
        for side, other in (sides, sides[::-1]):
            for slot in other.floats:
                side.take_float(slot)
            for value in other.taken:
                side.take(value)
        drawn = list(dict.fromkeys((*self.first.drawn, *self.drawn)))
        given = [value for value in self.taken if value not in drawn]
        bodies = [self._body_of(side, [*given, *drawn]) for side in sides]
        return branch(self.graph, self.condition, bodies, given, draws=drawn, parameters=list(self.floats))

    @staticmethod
    def _body_of(side: Side, values: Sequence[IRValue]) -> Body:
        return side.builder.body(side.results, [side.taken[value] for value in values])
