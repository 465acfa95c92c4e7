"""Backpropagation over nodes: gradients are nodes again, added to the same graph."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from atled.dtypes import is_float
from atled.errors import four_parts
from atled.graph.nodes.ir import Graph, IRNode, IRValue
from atled.graph.nodes.product_sums import is_short_product, sum_of_products
from atled.graph.nodes.slice_sums import is_part, join_parts
from atled.ops.spec import OpSpec
from atled_contexts import Context


class DifferentiatedNode:
    """A node whose gradient rule runs, as the rule sees it: the engine's `atled.ops.rules.GradientCall`."""

    def __init__(self, graph: Graph, node: IRNode, cotangents: Sequence[IRValue | None], needs: Sequence[bool]) -> None:
        self.graph = graph
        self.node = node
        self.inputs = node.inputs
        self.outputs = node.outputs
        self.cotangents = tuple(cotangents)
        self.needs = tuple(needs)

    @property
    def is_recorded(self) -> bool:
        return self.graph.is_recorded

    @property
    def is_sparing(self) -> bool:
        return self.node.is_sparing

    @property
    def y(self) -> IRValue:
        return self.outputs[0]

    @property
    def gy(self) -> IRValue:
        return self.cotangent(0)

    def cotangent(self, position: int) -> IRValue:
        value = self.cotangents[position]
        if value is None:
            output = self.outputs[position]
            value = self.op("Constant", val=0.0, shape=output.shape, dtype=output.dtype)
        return value

    def op(self, name: str, *inputs: IRValue | None, **attributes: Any) -> Any:
        return self.graph.op(name, *inputs, **attributes)

    def add(self, spec: OpSpec, inputs: Sequence[IRValue | None], attributes: Mapping[str, Any]) -> tuple[IRValue, ...]:
        return self.graph.add(spec, inputs, attributes, self.graph.context).outputs

    def with_inputs(self, inputs: Sequence[IRValue | None], needs: Sequence[bool]) -> DifferentiatedNode:
        call = copy.copy(self)
        call.inputs = tuple(inputs)
        call.needs = tuple(needs)
        return call

    def reshape(self, value: IRValue, shape: Sequence[int]) -> IRValue:
        return self.graph.reshape(value, shape)

    def sum_to(self, value: IRValue, shape: tuple[int, ...]) -> IRValue:
        return self.graph.sum_to(value, shape)

    def by_composition(self, build: Callable[..., IRValue | Sequence[IRValue]]) -> list[IRValue | None]:
        graph = self.graph
        # One name per position: an array given as two inputs has a gradient for each.
        inputs = [None if value is None else graph.alias(value) for value in self.inputs]
        start = len(graph.nodes)
        built = build(self, *inputs)
        outputs = (built,) if isinstance(built, IRValue) else tuple(built)
        seeds: dict[IRValue, IRValue] = {}
        for output, cotangent in zip(outputs, self.cotangents, strict=False):
            if cotangent is not None:
                seeds[output] = seeds[output] + cotangent if output in seeds else cotangent
        wanted = [value for value, need in zip(inputs, self.needs, strict=True) if need and value is not None]
        found = backpropagate(graph, graph.nodes[start:], seeds, wanted)
        return [
            found.get(value) if need and value is not None else None
            for value, need in zip(inputs, self.needs, strict=True)
        ]


def backpropagate(
    graph: Graph,
    nodes: Sequence[IRNode],
    seeds: Mapping[IRValue, IRValue],
    wanted: Iterable[IRValue],
    blocked: frozenset[IRValue] | set[IRValue] = frozenset(),
) -> dict[IRValue, IRValue]:
    """Cotangents of all values on the paths from `wanted` to the seeds, as nodes added to the graph.

    nodes: the nodes to go through, in order.  seeds: value -> its cotangent.
    blocked: values at which gradients stop.
    Raises RuntimeError if a path leads through an op or input that has no gradient.
    """
    needing = set(wanted) - set(blocked)
    for node in nodes:
        flows = any(value is not None and value.known_as in needing for value in node.inputs)
        if flows and (node.spec is None or node.spec.no_gradient != "stops"):
            # By operands truth values and integers are constants to those behind them.
            passing = (output for output in node.outputs if not graph.by_operands or is_float(output.dtype))
            needing.update(output for output in passing if output not in blocked)
    cotangents = dict(seeds)
    products: dict[IRValue, list[IRValue]] = {}
    parts: dict[IRValue, list[IRValue]] = {}
    outer_context = graph.context
    try:
        for node in reversed(nodes):
            for output in node.outputs:
                _add_products(graph, cotangents, output, products.pop(output, ()))
                _add_parts(graph, cotangents, output, parts.pop(output, ()))
            arriving = [cotangents.get(output) if output in needing else None for output in node.outputs]
            needs = [value is not None and value.known_as in needing for value in node.inputs]
            if not any(needs) or all(value is None for value in arriving):
                continue
            graph.context = node.context
            for given, gradient in zip(node.inputs, _pull_back(graph, node, arriving, needs), strict=True):
                if given is None or gradient is None or given.known_as not in needing:
                    continue
                value = given.known_as
                # Cast to the value's dtype, but not to one of whole numbers. Not moved to the value's place: its reader
                # may be where it was computed.
                if is_float(value.dtype):
                    gradient = graph.coerce(gradient, None, value.dtype, node.context)
                assert gradient.shape == value.shape, f"{node}: gradient of shape {gradient.shape}"
                if is_short_product(gradient):
                    products.setdefault(value, []).append(gradient)  # until all have arrived
                elif is_part(gradient):
                    parts.setdefault(value, []).append(gradient)  # likewise
                else:
                    _add(graph, cotangents, value, gradient)
        for value, held in products.items():
            _add_products(graph, cotangents, value, held)
        for value, held in parts.items():
            _add_parts(graph, cotangents, value, held)
    finally:
        graph.context = outer_context
    return cotangents


def _add(graph: Graph, cotangents: dict[IRValue, IRValue], value: IRValue, gradient: IRValue) -> None:
    before = cotangents.get(value)
    if before is not None:
        context = graph.context
        graph.context = _context_there(value, (before, gradient)) or context
        gradient = graph.op("Add2", before, gradient)
        if is_float(value.dtype):
            gradient = graph.coerce(gradient, None, value.dtype, graph.context)
        graph.context = context
    cotangents[value] = gradient


def _add_products(graph: Graph, cotangents: dict[IRValue, IRValue], value: IRValue, held: Sequence[IRValue]) -> None:
    if held:
        gradient = sum_of_products(graph, held)
        assert gradient.node is not None
        graph.context = gradient.node.context
        _add(graph, cotangents, value, gradient)


def _add_parts(graph: Graph, cotangents: dict[IRValue, IRValue], value: IRValue, held: Sequence[IRValue]) -> None:
    if held:
        assert held[0].node is not None
        graph.context = held[0].node.context
        joined = join_parts(graph, held)
        for gradient in held if joined is None else [joined]:
            _add(graph, cotangents, value, gradient)


def _context_there(value: IRValue, summands: Sequence[IRValue]) -> Context | None:
    """The Context of an op that computed a summand where the value is: their sum is best made there, too."""
    for summand in summands:
        node = summand.node
        if node is not None and node.spec is not None and summand.place is value.place:
            return node.context
    return None


def _pull_back(
    graph: Graph, node: IRNode, arriving: Sequence[IRValue | None], needs: Sequence[bool]
) -> Sequence[IRValue | None]:
    spec = node.spec
    if spec is None:
        return (arriving[0],)  # a copy between memories
    if spec.no_gradient == "raises":
        raise RuntimeError(
            four_parts(
                f"backward through {spec.name}", "the op has no gradient", "", "cut the graph with F.unlink before it"
            )
        )
    if spec.no_gradient == "stops":
        return [None] * len(node.inputs)
    asked = []
    for position, need in enumerate(needs):
        kind = spec.input_at(position).gradient
        if need and kind == "raises":
            raise RuntimeError(
                four_parts(
                    f"backward through {spec.name}",
                    f"its input {spec.input_at(position).name} has no gradient",
                    "",
                    f"set need_grad=False on the Variable given as {spec.input_at(position).name}",
                )
            )
        asked.append(need and kind == "flows")
    if not any(asked):
        return [None] * len(node.inputs)
    inputs = node.inputs[:-1] if spec.random else node.inputs
    call = DifferentiatedNode(graph, node, arriving, asked)
    gradients: list[Any] = list(spec.gradient(call, *inputs, **node.attributes))
    return gradients + [None] * (len(node.inputs) - len(gradients))
