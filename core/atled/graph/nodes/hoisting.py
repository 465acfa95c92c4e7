"""What a loop need not do in each step: what is made of constants alone, and products that no step waits for."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from atled.graph.nodes.body import Body, BodyBuilder
from atled.graph.nodes.ir import FloatSlot, Graph, IRNode, IRValue
from atled.named_tuple import NamedTuple

_MOST_BYTES = 64 << 20
"""Of what is kept of all steps for one product outside."""

_MOST_ROWS = 256
"""Of a product in a step: more are no quicker in one product than in several."""

_LEAST_DEPTH = 4
"""Of a product before the loop: where fewer terms are added, it takes no longer than to read what it made."""

_PRODUCTS = frozenset(("Affine", "BatchMatmul", "Dot"))


class LoopParts(NamedTuple):
    """A loop of known length: its body, and what the inputs of that are outside."""

    body: Body
    sequences: Sequence[IRValue]
    states: Sequence[IRValue]
    constants: Sequence[IRValue]
    draws: Sequence[IRValue]

    @property
    def inputs(self) -> list[IRValue]:
        """What stands outside for each input of the body."""
        return [*self.sequences, *self.states, *self.constants, *self.draws]


def constants_outside(
    graph: Graph, parts: LoopParts, parameters: Sequence[FloatSlot], *, may_be_empty: bool
) -> LoopParts:
    """A loop without what each step would make of constants alone, which are added to the graph before it.

    may_be_empty: whether there may be no step. Then only what cannot fail is done without one.
    """
    body = parts.body
    builder = BodyBuilder(graph.context, body.by_operands)
    given = iter([builder.input(desc) for desc in body.inputs])
    floats = {builder.parameter().index: slot for slot in parameters}
    results = body.emit(builder, builder.inputs, [FloatSlot(number) for number in floats])
    sequences, states, constants, draws = ({next(given): value for value in values} for values in parts[1:])
    count = len(constants)
    for node in builder.nodes:
        inputs = [value for value in node.inputs if value is not None]
        if may_be_empty and not _never_fails(node):
            continue
        # What is only spread takes no time where it is read, and memory outside.
        if inputs and node.spec is not None and not node.spec.copies and all(value in constants for value in inputs):
            attributes = dict(node.attributes)
            for name in node.spec.float_names:
                number = attributes[name].index
                attributes[name] = floats[number] if number in floats else graph.constant(builder.floats[number][1])
            outside = [None if value is None else constants[value] for value in node.inputs]
            made = graph.add(node.spec, outside, attributes, graph.context).outputs
            constants.update(zip(node.outputs, made, strict=True))
    if len(constants) == count:
        return parts
    inputs = [*sequences, *states, *constants, *draws]
    read = builder.body(results, inputs).read_inputs
    constants = {value: outside for value, outside in constants.items() if inputs.index(value) in read}
    body = builder.body(results, [*sequences, *states, *constants, *draws])
    return parts._replace(body=body, constants=list(constants.values()))


def _never_fails(node: IRNode) -> bool:
    """Whether no values make a node fail; of others than these nobody says so."""
    spec = node.spec
    return spec is not None and (spec.program is not None or spec.chooses or spec.views or spec.name in _PRODUCTS)


def has_products(body: Body) -> bool:
    """Whether there may be anything to be had outside."""
    return any(node.spec.name in _PRODUCTS for node in body.nodes)


class _Product(NamedTuple):
    """`y = op(a) op(b) + bias` on matrices, op transposing on request; a and b may have other shapes elsewhere."""

    y: IRValue
    a: IRValue
    a_shape: tuple[int, ...]
    b: IRValue
    b_shape: tuple[int, ...]
    bias: IRValue | None = None
    transpose_a: bool = False
    transpose_b: bool = False


class OutsideProducts:
    """A loop of known length without the products that can be computed before it or behind it.

    Before it: those of rows of a sequence and a constant. Behind it: those with a constant that are only rows of an
    output, and those that are only added to a state, as are sums over what is kept of all steps then.

    inside: what remains for the loop.
    """

    def __init__(self, graph: Graph, parts: LoopParts, length: int) -> None:
        self._graph = graph
        self._length = length
        body = parts.body
        builder = self._builder = BodyBuilder(graph.context, body.by_operands)
        given = iter([builder.input(desc) for desc in body.inputs])
        floats = [builder.parameter() for _ in range(body.parameter_count)]
        results = body.emit(builder, builder.inputs, floats)
        self._sequences, self._states, self._constants, self._draws = (
            {next(given): value for value in values} for values in parts[1:]
        )
        self._row_results = results[len(self._states) :]
        self._readers = Counter(results)
        for node in builder.nodes:
            self._readers.update(value for value in node.inputs if value is not None)
        self._take_out_before()
        self._last = {row: product for row in self._row_results if (product := self._behind(row)) is not None}
        kept = [self._last[row].a if row in self._last else row for row in self._row_results]
        self._rows = dict.fromkeys(value for value in kept if value not in self._sequences)
        self._new_states = dict(zip(self._states, results, strict=False))
        self._added = {state: self._terms(state) for state in self._states}
        self._added_behind: dict[IRValue, list[IRValue]] = {state: [] for state in self._added}
        self._take_out_terms(self._is_product_behind)
        self._take_out_terms(self._is_sum_behind)
        self.inside = self._inside()

    def _take_out_before(self) -> None:
        for node in self._builder.nodes:
            product = _product(node)
            if product is None or product.a not in self._sequences or product.a_shape[1] < _LEAST_DEPTH:
                continue
            if self._has_rows(product):
                self._sequences[product.y] = self._of_all_rows(product, product.y, self._sequences[product.a])

    def _has_rows(self, product: _Product) -> bool:
        """Whether rows of a product are made of rows and constants, and those of all steps can be kept."""
        if product.transpose_a or product.a_shape[0] > _MOST_ROWS or not self._fits(product.y):
            return False
        if self._builder.by_operands and product.y.dtype not in (product.a.dtype, product.b.dtype):
            return False  # a wider bias has the product computed in its dtype
        return product.b in self._constants and (product.bias is None or product.bias in self._constants)

    def _fits(self, value: IRValue) -> bool:
        return self._length * value.desc.nbytes <= _MOST_BYTES

    def _behind(self, row: IRValue) -> _Product | None:
        """The product that is only this row of an output, if it can be computed behind the loop."""
        node = self._read_once(row)
        product = None if node is None else _product(node)
        if product is None or product.a in self._constants or not self._has_rows(product) or not self._fits(product.a):
            return None
        return product

    def _read_once(self, value: IRValue) -> IRNode | None:
        """The node that makes a value, seen through reshapes, if all of that is read once."""
        while self._readers[value] == 1 and value.node is not None and value not in self._sequences:
            if value.node.name != "Reshape":
                return value.node
            assert value.node.inputs[0] is not None
            value = value.node.inputs[0]
        return None

    def _terms(self, state: IRValue) -> list[IRValue]:
        """What is added to a state that nothing else reads; nothing if it is another state."""
        terms: list[IRValue] = []
        stack = [self._new_states[state]]
        while stack:
            value = stack.pop()
            summands = self._summands(value)
            stack += reversed(summands)
            if not summands:
                terms.append(value)
        if self._readers[state] != 1 or state not in terms:
            return []
        terms.remove(state)
        return terms

    def _summands(self, value: IRValue) -> list[IRValue]:
        """The values of whose addition a value is the only use, if it is one."""
        if value.node is None or value.node.name != "Add2" or self._readers[value] != 1:
            return []
        summands = [item for item in value.node.inputs if item is not None]
        # Of one dtype: what is added behind the loop is not to be wider or narrower than in it.
        return summands if all(item.desc == value.desc for item in summands) else []

    def _take_out_terms(self, is_behind: Callable[[IRValue], bool]) -> None:
        """Have those terms added behind the loop that can be, and note what that needs of all steps."""
        for state, terms in self._added.items():
            behind = [term for term in terms if is_behind(term)]
            self._added_behind[state] += behind
            self._added[state] = [term for term in terms if term not in behind]

    def _is_product_behind(self, term: IRValue) -> bool:
        """Whether a term adds up products of rows, which take less memory than it does."""
        node = self._read_once(term)
        product = None if node is None else _product(node)
        if product is None or not product.transpose_a or product.transpose_b or product.a_shape[0] > _MOST_ROWS:
            return False
        factors = [
            value for value in (product.a, product.b) if value not in self._sequences and value not in self._rows
        ]
        if any(value in self._constants for value in (product.a, product.b)):
            return False
        if sum(value.size for value in factors) > term.size or not all(map(self._fits, factors)):
            return False
        self._rows |= dict.fromkeys(factors)
        return True

    def _is_sum_behind(self, term: IRValue) -> bool:
        """Whether a term is a sum over what is kept of all steps."""
        node = self._read_once(term)
        if node is None or node.name != "Sum":
            return False
        assert node.inputs[0] is not None
        source = _source(node.inputs[0])
        return source in self._rows or source in self._sequences

    def _inside(self) -> LoopParts:
        states = {state: value for state, value in self._states.items() if self._is_inside(state)}
        results = [self._new_state(state) for state in states]
        results += self._rows
        inputs = [*self._sequences, *states, *self._constants, *self._draws]
        read = self._builder.body(results, inputs).read_inputs
        sequences, constants = (
            {value: outside for value, outside in values.items() if inputs.index(value) in read}
            for values in (self._sequences, self._constants)
        )
        body = self._builder.body(results, [*sequences, *states, *constants, *self._draws])
        return LoopParts(body, *(list(values.values()) for values in (sequences, states, constants, self._draws)))

    def _is_inside(self, state: IRValue) -> bool:
        return bool(self._added[state]) or not self._added_behind[state]

    def _new_state(self, state: IRValue) -> IRValue:
        if not self._added_behind[state]:
            return self._new_states[state]
        first, *rest = self._added[state]
        return sum(rest, state + first)

    def results(
        self, states: Sequence[IRValue], rows: Sequence[IRValue]
    ) -> tuple[tuple[IRValue, ...], tuple[IRValue, ...]]:
        """The last states and rows of the whole loop.  states, rows: of what remains."""
        last_states = self._states | dict(zip(filter(self._is_inside, self._states), states, strict=True))
        of_all = self._sequences | dict(zip(self._rows, rows, strict=True))
        for state, terms in self._added_behind.items():
            sums = [self._sum_of_all(term, of_all) for term in terms]
            if self._is_inside(state) or not self._is_zero(last_states[state]):
                sums.insert(0, last_states[state])
            last_states[state] = sum(sums[1:], sums[0])
        made = [
            self._of_all_rows(self._last[row], row, of_all[self._last[row].a]) if row in self._last else of_all[row]
            for row in self._row_results
        ]
        return tuple(last_states.values()), tuple(made)

    def _is_zero(self, value: IRValue) -> bool:
        """Whether a value is zeros whatever it runs on."""
        node = value.node
        return node is not None and node.name == "Constant" and node.attributes["val"] is self._graph.constant(0.0)

    def _of_all_rows(self, product: _Product, row: IRValue, a: IRValue) -> IRValue:
        """A product with rows of all steps as a sequence.  row: of that."""
        graph = self._graph
        a = graph.reshape(a, (self._length * product.a_shape[0], product.a_shape[1]))
        b = graph.reshape(self._constants[product.b], product.b_shape)
        y = graph.op("BatchMatmul", a, b, transpose_b=product.transpose_b)
        if product.bias is not None:
            y = y + graph.reshape(self._constants[product.bias], (1, y.shape[1]))
        return graph.reshape(y, (self._length, *row.shape))

    def _sum_of_all(self, term: IRValue, of_all: Mapping[IRValue, IRValue]) -> IRValue:
        """The sum of what a term is in each step."""
        graph = self._graph
        node = self._read_once(term)
        assert node is not None
        product = _product(node)
        if product is not None:
            a, b = (
                graph.reshape(of_all[factor], (self._length * shape[0], shape[1]))
                for factor, shape in ((product.a, product.a_shape), (product.b, product.b_shape))
            )
            return graph.reshape(graph.op("BatchMatmul", a, b, transpose_a=True), term.shape)
        (x,) = node.inputs
        assert x is not None
        axes = (0, *(axis + 1 for axis in node.attributes["axes"]))
        rows = graph.reshape(of_all[_source(x)], (self._length, *x.shape))
        return graph.reshape(graph.op("Sum", rows, axes=axes), term.shape)


def _product(node: IRNode) -> _Product | None:
    """A node as a product of matrices; None if it is none."""
    if node.name not in _PRODUCTS:
        return None
    a, b, *rest = node.inputs
    bias = None if not rest or rest[0] is None else _source(rest[0])
    assert a is not None
    assert b is not None
    (y,) = node.outputs
    how = node.attributes
    a_axis, b_axis = a.ndim - 1, b.ndim - 1
    if node.name == "Affine":
        a_axis, b_axis = how["base_axis"], 1
    elif b.ndim != 2 or a.ndim < 1 or (a.ndim != 2 and node.name == "BatchMatmul"):
        return None
    a_shape, b_shape = (
        (math.prod(value.shape[:axis]), math.prod(value.shape[axis:])) for value, axis in ((a, a_axis), (b, b_axis))
    )
    transposes = bool(how.get("transpose_a")), bool(how.get("transpose_b"))
    return _Product(y, _source(a), a_shape, _source(b), b_shape, bias, *transposes)


def _source(value: IRValue) -> IRValue:
    """What a value is a reshape of."""
    while value.node is not None and value.node.name == "Reshape":
        assert value.node.inputs[0] is not None
        value = value.node.inputs[0]
    return value
