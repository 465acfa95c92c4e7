"""Bodies: pure graphs as immutable descriptions, from which nodes are made as often as they are wanted."""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterable, Mapping, Sequence, Set
from typing import Any

from atled.array_desc import ArrayDesc
from atled.graph.nodes.describing import DescribingGraph
from atled.graph.nodes.dispatch import describe_call
from atled.graph.nodes.ir import FloatSlot, Graph, IRNode, IRValue
from atled.named_tuple import NamedTuple
from atled.ops.spec import OpSpec
from atled_contexts import Context

ABSENT = -1
"""Stands for an absent optional input among the operands of a node."""


class BodyNode(NamedTuple):
    """One op call of a body.

    attributes: checked ones with their values, but for the floats.
    floats: per float attribute of the spec its number among the floats of the body.
    operands: per input the number of a value, or ABSENT.
    """

    spec: OpSpec
    attributes: tuple[tuple[str, Any], ...]
    floats: tuple[int, ...]
    operands: tuple[int, ...]


class Body:
    """A graph without effects, as a value: what a loop does in each step, or what a program computes.

    Its values are numbered: the inputs, then the outputs of each node in turn, auxiliary ones included.

    inputs: what it reads; a random state is an input, too.  descs: of all values.
    nodes: in an order in which they can run; two that compute the same are one.
    results: numbers of the values that it gives.
    by_operands: whether its nodes take their dtypes from their inputs, not from type configs.
    floats: values of the float attributes; first the parameters, None, whose values are known only when it runs.
    key: equal for bodies that compute the same.
    """

    __slots__ = ("by_operands", "descs", "floats", "inputs", "key", "nodes", "results")

    def __init__(
        self,
        inputs: Sequence[ArrayDesc],
        descs: Sequence[ArrayDesc],
        nodes: Sequence[BodyNode],
        results: Sequence[int],
        floats: Sequence[float | None],
        by_operands: bool = False,
    ) -> None:
        self.inputs = tuple(inputs)
        self.descs = tuple(descs)
        self.nodes = tuple(nodes)
        self.results = tuple(results)
        self.floats = tuple(floats)
        self.by_operands = by_operands
        # By repr: 0.0 and -0.0 are equal, but not the same number, and nan is not equal to itself.
        self.key: Hashable = self.inputs, self.nodes, self.results, tuple(map(repr, self.floats)), by_operands

    @property
    def result_descs(self) -> tuple[ArrayDesc, ...]:
        """Shapes and dtypes of the results."""
        return tuple(self.descs[number] for number in self.results)

    @property
    def read_inputs(self) -> Set[int]:
        """The numbers of the inputs that nodes read, or that are results."""
        read = {number for node in self.nodes for number in node.operands}.union(self.results)
        return read.intersection(range(len(self.inputs)))

    @property
    def parameter_count(self) -> int:
        """How many of its floats are known only when it runs."""
        return sum(value is None for value in self.floats)

    def emit(
        self, graph: Graph, values: Sequence[IRValue], parameters: Sequence[FloatSlot] = ()
    ) -> tuple[IRValue, ...]:
        """Add its nodes to a graph, in the graph's Context; the values of its results.

        values: what its inputs are there.  parameters: the floats that are known only when the graph runs.
        """
        assert len(values) == len(self.inputs) and len(parameters) == self.parameter_count
        assert graph.by_operands == self.by_operands, "its descriptions hold by one rule of dtypes"
        rest = iter(parameters)
        slots = [next(rest) if value is None else graph.constant(value) for value in self.floats]
        made = list(values)
        for node in self.nodes:
            floats = {name: slots[number] for name, number in zip(node.spec.float_names, node.floats, strict=True)}
            operands = [None if number == ABSENT else made[number] for number in node.operands]
            made += graph.add(node.spec, operands, {**dict(node.attributes), **floats}, graph.context).outputs
        return tuple(made[number] for number in self.results)

    def __eq__(self, other: object) -> bool:
        return self.key == other.key if isinstance(other, Body) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        names = ", ".join(node.spec.name for node in self.nodes)
        return f"Body({list(self.inputs)} -> {list(self.result_descs)}: {names})"


class BodyBuilder(DescribingGraph):
    """A graph whose nodes only describe: no implementation is chosen, so places do not matter.

    Gradient rules compose on it as on any graph: so the gradient of a body becomes a body.
    """

    def __init__(self, context: Context, by_operands: bool = False) -> None:
        super().__init__(context, by_operands=by_operands)
        self.inputs: list[IRValue] = []

    def input(self, desc: ArrayDesc) -> IRValue:
        """One more input."""
        value = IRValue(self, desc, None)
        self.inputs.append(value)
        return value

    def parameter(self) -> FloatSlot:
        """A float that is known only when the body runs."""
        return self.float_from("parameter")

    def add(
        self,
        spec: OpSpec,
        inputs: Sequence[IRValue | None],
        attributes: Mapping[str, Any],
        context: Context,
        computed: bool = False,
    ) -> IRNode:
        """Add a node with checked attributes."""
        has_effects = spec.mutated_with(attributes) or spec.inplace or spec.opaque
        assert not has_effects, f"a body has no effects, as {spec.name} has"
        descs = tuple(None if value is None else value.desc for value in inputs)
        node = IRNode(spec, tuple(inputs), attributes, context, None)
        config = context.backends[0][1]
        call = describe_call(spec, descs, attributes, context, config, context.device_id, self.by_operands)
        node.outputs = tuple(IRValue(self, desc, None, node, position) for position, desc in enumerate(call.outputs))
        self.nodes.append(node)
        return node

    def body(self, results: Iterable[IRValue], inputs: Iterable[IRValue] | None = None) -> Body:
        """The nodes that some results depend on, as a body.

        inputs: None for those of the builder. What nodes make may be an input instead, and these are left out then.
        """
        return _Numbering(self, tuple(results), tuple(self.inputs if inputs is None else inputs)).body


class _Numbering:
    """The values and floats of a body, numbered as its results need them."""

    def __init__(self, builder: BodyBuilder, results: Sequence[IRValue], inputs: Sequence[IRValue]) -> None:
        self._sources = builder.floats
        parameters = (("parameter", n) for n, source in enumerate(builder.floats) if source[0] == "parameter")
        self._floats: dict[tuple[Any, ...], int] = {key: number for number, key in enumerate(parameters)}
        self._numbers: dict[IRValue, int] = {value: number for number, value in enumerate(inputs)}
        self._known: dict[BodyNode, int] = {}
        self._descs = [value.desc for value in inputs]
        self._nodes: list[BodyNode] = []
        needed = _nodes_before(results, self._numbers)
        for node in builder.nodes:
            if node in needed:
                self._take(node)
        floats = [None if kind == "parameter" else value for kind, value, *_ in self._floats]
        numbers = [self._numbers[value] for value in results]
        self.body = Body(self._descs[: len(inputs)], self._descs, self._nodes, numbers, floats, builder.by_operands)

    def _take(self, node: IRNode) -> None:
        """Number a node's outputs, as those of an equal node before it if there is one."""
        spec = node.spec
        assert spec is not None
        attributes = tuple((name, value) for name, value in node.attributes.items() if name not in spec.float_names)
        floats = tuple(self._float(node.attributes[name]) for name in spec.float_names)
        operands = tuple(ABSENT if value is None else self._numbers[value] for value in node.inputs)
        described = BodyNode(spec, attributes, floats, operands)
        first = self._known.get(described)
        if first is None:
            first = self._known[described] = len(self._descs)
            self._descs += [output.desc for output in node.outputs]
            self._nodes.append(described)
        for position, output in enumerate(node.outputs):
            self._numbers.setdefault(output, first + position)  # it may be an input

    def _float(self, slot: FloatSlot) -> int:
        source = self._sources[slot.index]
        key = ("parameter", slot.index) if source[0] == "parameter" else ("constant", source[1], repr(source[1]))
        return self._floats.setdefault(key, len(self._floats))


def _nodes_before(results: Iterable[IRValue], given: Container[IRValue]) -> set[IRNode]:
    """The nodes that make what some values depend on, of what is given."""
    needed: set[IRNode] = set()
    stack = list(results)
    while stack:
        value = stack.pop()
        if value not in given and value.node is not None and value.node not in needed:
            needed.add(value.node)
            stack += [item for item in value.node.inputs if item is not None]
    return needed
