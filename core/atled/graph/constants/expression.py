"""Expressions: what is computed of some outside arrays alone, as a key that says all of it and can be compiled."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from atled.array_desc import ArrayDesc
from atled.graph.compile.lower import lower
from atled.graph.compile.plan import Plan
from atled.graph.compile.plans import PLANS
from atled.graph.nodes.ir import FloatSlot, Graph, IRNode, IRValue, digits_of
from atled.named_tuple import NamedTuple
from atled.ops.spec import OpSpec
from atled_contexts import Context, plugin_generation


class _Call(NamedTuple):
    """One op call of an expression.

    attributes: by name, floats in hexadecimal: 0.0 equals -0.0, and NaN not itself.
    inputs: per input (-1, number of an array), (number of a call, position of its output), or None for an absent one.
    """

    spec: OpSpec
    attributes: tuple[tuple[str, Any], ...]
    context: Context
    inputs: tuple[tuple[int, int] | None, ...]


class Expression(NamedTuple):
    """Calls in order, of which the last makes the value; equal ones of the same arrays are equal arrays.

    arrays: what each outside array is.  position: of the value among the outputs of the last call.  desc: of the value.
    """

    calls: tuple[_Call, ...]
    arrays: tuple[ArrayDesc, ...]
    position: int
    desc: ArrayDesc

    @property
    def key(self) -> Hashable:
        """Everything that the values depend on, but for those of the arrays."""
        return "computed", plugin_generation(), self

    @property
    def plan(self) -> Plan:
        """The plan that computes it; outside arrays are numbered as in `arrays`."""
        plan: Plan = PLANS.get(self.key, self._compile)
        return plan

    def _compile(self) -> Plan:
        graph = Graph(self.calls[-1].context)
        given = [graph.external(number, desc) for number, desc in enumerate(self.arrays)]
        made: list[Sequence[IRValue]] = []
        for call in self.calls:
            graph.context = call.context
            inputs = [
                None if each is None else given[each[1]] if each[0] < 0 else made[each[0]][each[1]]
                for each in call.inputs
            ]
            attributes = dict(call.attributes)
            for name in call.spec.float_names:
                attributes[name] = graph.constant(float.fromhex(attributes[name]))
            made.append(graph.add(call.spec, inputs, attributes, call.context).outputs)
        return lower(graph, [made[-1][self.position]])


def expression_of(value: IRValue, floats: Sequence[float]) -> tuple[Expression, tuple[int, ...]]:
    """The expression of a value, and the numbers of the outside arrays that it is computed of.

    floats: the value of each float of the graph.
    """
    assert value.node is not None
    arrays: dict[int, tuple[int, ArrayDesc]] = {}
    numbers: dict[IRNode, int] = {}
    calls: list[_Call] = []
    for node in _nodes_of(value.node):
        assert node.spec is not None
        inputs = [None if each is None else _reference(each, arrays, numbers) for each in node.inputs]
        attributes = tuple(
            (name, digits_of(floats[given.index]) if isinstance(given, FloatSlot) else given)
            for name, given in sorted(node.attributes.items())
        )
        numbers[node] = len(calls)
        calls.append(_Call(node.spec, attributes, node.context, tuple(inputs)))
    descs = tuple(desc for _, desc in arrays.values())
    return Expression(tuple(calls), descs, value.position, value.desc), tuple(arrays)


def _nodes_of(last: IRNode) -> list[IRNode]:
    """The nodes that a node depends on, in order, itself the last."""
    order: dict[IRNode, None] = {}
    waiting = [last]
    while waiting:
        node = waiting[-1]
        makers = [value.node for value in node.inputs if value is not None and value.node is not None]
        missing = [maker for maker in makers if maker not in order]
        if missing and node not in order:
            waiting += missing
        else:
            order[waiting.pop()] = None
    return list(order)


def _reference(value: IRValue, arrays: dict[int, tuple[int, ArrayDesc]], numbers: dict[IRNode, int]) -> tuple[int, int]:
    if value.node is not None:
        return numbers[value.node], value.position
    number, _ = arrays.setdefault(value.external, (len(arrays), value.desc))
    return -1, number
