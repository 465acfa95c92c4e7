"""What a loop need not do step by step: products of rows with constants before it, sums over its steps behind it."""

from __future__ import annotations

from collections.abc import Sequence

from atled.graph.nodes.body import Body, BodyBuilder
from atled.graph.nodes.ir import Graph, IRNode, IRValue
from atled_contexts import Context

_MOST_ROWS = 256
"""Of a product in a step: more are no quicker in one product than in several."""


class Hoisted:
    """A loop's body without what is done before and behind it.

    body: the smaller one; None if there is nothing to hoist.
    sequences, states, constants: numbers of those that it reads still, behind new sequences.
    """

    def __init__(self, body: Body, sequences: int, states: int, draws: int, context: Context) -> None:
        self._builder = BodyBuilder(context, body.by_operands)
        self._given = [self._builder.input(desc) for desc in body.inputs]
        first_constant, first_draw = sequences + states, len(body.inputs) - draws
        self._sequences = self._given[:sequences]
        self._states = self._given[sequences:first_constant]
        self._constants = self._given[first_constant:first_draw]
        draw_values = self._given[first_draw:]
        parameters = [self._builder.parameter() for _ in range(body.parameter_count)]
        results = list(body.emit(self._builder, self._given, parameters))
        self._rows = results[states:]
        self._results = results[:states]
        self._readers = self._find_readers(results)
        self._products = [node for node in self._builder.nodes if self._is_before(node)]
        self._sums = self._find_sums()
        self.body: Body | None = None
        if not self._products and not self._sums:
            return
        self._stored = self._find_stored()
        made = [node.outputs[0] for node in self._products]
        kept = [number for number in range(states) if number not in self._sums]
        new_results = [*(self._results[number] for number in kept), *self._rows, *self._stored]
        needed = _sources(new_results, made)
        self.sequences = [number for number, value in enumerate(self._sequences) if value in needed]
        self.constants = [number for number, value in enumerate(self._constants) if value in needed]
        self.states = kept
        inputs = [
            *made,
            *(self._sequences[number] for number in self.sequences),
            *(self._states[number] for number in kept),
            *(self._constants[number] for number in self.constants),
            *draw_values,
        ]
        self.body = self._builder.body(new_results, inputs)

    def before(self, graph: Graph, sequences: Sequence[IRValue], constants: Sequence[IRValue]) -> list[IRValue]:
        """Add what is done before the loop; the new sequences."""
        made = []
        for node in self._products:
            a, b = node.inputs
            assert a is not None and b is not None
            rows = sequences[self._sequences.index(a)]
            length, count, width = rows.shape
            product = graph.op(
                "BatchMatmul",
                graph.reshape(rows, (length * count, width)),
                constants[self._constants.index(b)],
                transpose_b=node.attributes["transpose_b"],
            )
            made.append(graph.reshape(product, (length, *node.outputs[0].shape)))
        return made

    def behind(
        self,
        graph: Graph,
        sequences: Sequence[IRValue],
        states: Sequence[IRValue],
        last: Sequence[IRValue],
        rows: Sequence[IRValue],
    ) -> tuple[tuple[IRValue, ...], None, tuple[IRValue, ...]]:
        """Add what is done behind the loop; the last states, no count of steps, and the rows.

        sequences, states: that it starts from.  last, rows: what the smaller loop gives.
        """
        count = len(self._rows)
        stored = dict(zip([*self._sequences, *self._stored], [*sequences, *rows[count:]], strict=True))
        stored.update(zip(self._rows, rows, strict=False))
        remaining = iter(last)
        found = []
        for number, state in enumerate(states):
            term = self._sums.get(number)
            found.append(
                next(remaining) if term is None else graph.op("Add2", state, self._summed(graph, term, stored))
            )
        return tuple(found), None, tuple(rows[:count])

    def _find_readers(self, results: Sequence[IRValue]) -> dict[IRValue, int]:
        """How often each value is read, as a result or by a node."""
        count: dict[IRValue, int] = {}
        for value in [*results, *(value for node in self._builder.nodes for value in node.inputs if value is not None)]:
            count[value] = count.get(value, 0) + 1
        return count

    def _is_before(self, node: IRNode) -> bool:
        """Whether a node is a product of a row of a sequence with a constant."""
        if node.name != "BatchMatmul" or node.attributes["transpose_a"]:
            return False
        a, b = node.inputs
        return a in self._sequences and b in self._constants and _is_small(a) and b is not None and b.ndim == 2

    def _find_sums(self) -> dict[int, IRNode]:
        """By state that only sums terms of the steps up: the node of the term, a product or a sum of what has rows."""
        terms = {number: term for number in range(len(self._states)) if (term := self._term(number)) is not None}
        found = {number: term for number, term in terms.items() if _is_long_product(term)}
        with_rows = {*self._sequences, *self._rows, *(value for term in found.values() for value in term.inputs)}
        found |= {n: term for n, term in terms.items() if term.name == "Sum" and term.inputs[0] in with_rows}
        return found

    def _term(self, number: int) -> IRNode | None:
        """The node that makes what each step adds to a state, if that is all that is done with it."""
        state, result = self._states[number], self._results[number]
        node = result.node
        if node is None or node.name != "Add2" or state not in node.inputs:
            return None
        if self._readers[state] != 1 or self._readers[result] != 1:
            return None
        (term,) = (value for value in node.inputs if value is not state)
        return None if term is None or term.size != state.size or term.dtype != state.dtype else _made_by(term)

    def _find_stored(self) -> list[IRValue]:
        """The values of which the loop stores rows for what is behind it."""
        read = [value for node in self._sums.values() for value in node.inputs if value is not None]
        there = {*self._sequences, *self._rows}
        return [value for value in dict.fromkeys(read) if value not in there]

    def _summed(self, graph: Graph, node: IRNode, stored: dict[IRValue, IRValue]) -> IRValue:
        """The sum over all steps of what a node makes."""
        number = next(number for number, found in self._sums.items() if found is node)
        shape = self._states[number].shape
        factors = [stored[value] for value in node.inputs if value is not None]
        if node.name == "Sum":
            axes = tuple(axis + 1 for axis in _axes_of(node))
            return graph.reshape(graph.op("Sum", factors[0], axes=(0, *axes), keep_dims=False), shape)
        a, b = (graph.reshape(rows, (rows.shape[0] * rows.shape[1], rows.shape[2])) for rows in factors)
        return graph.reshape(graph.op("BatchMatmul", a, b, transpose_a=True), shape)


def _is_small(value: IRValue | None) -> bool:
    return value is not None and value.ndim == 2 and value.shape[0] <= _MOST_ROWS


def _made_by(value: IRValue) -> IRNode | None:
    """The node that makes the elements of a value, seen through reshapes."""
    node = value.node
    while node is not None and node.name == "Reshape" and node.inputs[0] is not None:
        node = node.inputs[0].node
    return node


def _is_long_product(node: IRNode) -> bool:
    """Whether a node is a product over the rows of two matrices, of which there are few in a step."""
    if node.name != "BatchMatmul" or not node.attributes["transpose_a"] or node.attributes["transpose_b"]:
        return False
    return all(_is_small(value) for value in node.inputs)


def _axes_of(node: IRNode) -> list[int]:
    """The axes of a sum, counted from the first one."""
    (value,) = node.inputs
    assert value is not None
    axes = node.attributes["axes"]
    return list(range(value.ndim)) if axes is None else [axis % value.ndim for axis in axes]


def _sources(results: Sequence[IRValue], known: Sequence[IRValue]) -> set[IRValue]:
    """What results are computed from, down to the values that are known."""
    found: set[IRValue] = set()
    stack = list(results)
    while stack:
        value = stack.pop()
        if value not in found:
            found.add(value)
            if value not in known and value.node is not None:
                stack += [item for item in value.node.inputs if item is not None]
    return found
