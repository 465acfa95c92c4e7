"""Lowering: from a graph of nodes to a plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

from atled.arrays.place import HOST
from atled.graph.compile.attachment import attach
from atled.graph.compile.fusion import fuse
from atled.graph.compile.memory import reuse_memory
from atled.graph.compile.narrowing import narrow_products
from atled.graph.compile.plan import Plan
from atled.graph.compile.step import Slot, Step
from atled.graph.nodes.ir import FloatSlot, Graph, IRNode, IRValue
from atled.ops.spec import SPECS


def lower(
    graph: Graph,
    results: Sequence[IRValue],
    *,
    is_fused: bool = True,
    apart: Iterable[IRNode] = (),
    is_disjoint: bool = False,
) -> Plan:
    """The plan that computes `results`, one target each, and runs every step that changes an outside array.

    A result that is another result's memory or an outside array gets a copy of its own.
    is_fused: whether steps may be fused with elementwise neighbours, and products with slices of them.
    apart: nodes that are fused with each other only, because they must not run before others.
    is_disjoint: whether no result is an outside array that the plan reads, as a gradient is that is added to.
    """
    values = _with_own_memory(graph, results)
    nodes = nodes_for(graph, values)
    if is_fused:
        nodes = narrow_products(graph, nodes, values)
        nodes = fuse(graph, nodes, values, apart)
    slots = _Slots(values)
    steps = [step for node in nodes if (step := slots.step_of(node)) is not None]
    targets = [slots.number_of(value) for value in values]
    if is_fused:
        steps = attach(slots.made, steps, is_disjoint=is_disjoint)
    reuse_memory(slots.made, steps)
    return Plan(slots.made, steps, graph, targets)


class _Slots:
    """The slots of a plan, made as its steps name their values; views have the memory of what they show.

    made: all so far.
    """

    def __init__(self, results: Sequence[IRValue]) -> None:
        self.made: list[Slot] = []
        self._targets = {value: index for index, value in enumerate(results)}
        self._numbers: dict[IRValue, int] = {}
        self._memory_count = 0

    def number_of(self, value: IRValue) -> int:
        """The number of a value's slot."""
        found = self._numbers.get(value)
        if found is None:
            slot = self._view(value) if _is_view(value) else self._array(value)
            found = self._numbers[value] = len(self.made)
            self.made.append(slot)
        return found

    def _view(self, value: IRValue) -> Slot:
        assert value.node is not None and value.node.inputs[0] is not None
        shown = self.made[self.number_of(value.node.inputs[0])]
        # Readers of a view of a result read the result's memory.
        source = ("internal",) if shown.source[0] == "target" else shown.source
        return Slot(value.desc, shown.place, shown.memory, source)

    def _array(self, value: IRValue) -> Slot:
        source: tuple[Any, ...] = ("internal",)
        if value.external >= 0:
            source = ("external", value.external, value.base.external)
        elif value in self._targets:
            source = ("target", self._targets[value])
        self._memory_count += 1
        return Slot(value.desc, value.place or HOST, self._memory_count - 1, source)

    def step_of(self, node: IRNode) -> Step | None:
        """The step of a node; None for a view, which takes none."""
        if node.spec is not None and node.spec.views:
            self.number_of(node.outputs[0])
            return None
        inputs = tuple(-1 if value is None else self.number_of(value) for value in node.inputs)
        if node.spec is None:
            return Step(node, None, (*inputs, self.number_of(node.outputs[0])), ())
        for position, source in node.spec.inplace.items():
            self._numbers[node.outputs[position]] = inputs[source]
        outputs = tuple(map(self.number_of, node.outputs))
        assert node.decision is not None
        prepared = node.decision.implementation.prepare(node.decision.call)
        floats = tuple(_float_number(node.attributes, name) for name in node.spec.float_names)
        return Step(node, prepared, (*inputs, *outputs), floats)


def _is_view(value: IRValue) -> bool:
    node = value.node
    return value.external < 0 and node is not None and node.spec is not None and node.spec.views


def _float_number(attributes: Mapping[str, Any], name: str) -> int:
    slot = attributes[name]
    assert isinstance(slot, FloatSlot)
    return slot.index


def _is_own(value: IRValue, taken: Set[IRValue]) -> bool:
    """Whether a value can be a result as it is: made by a step of the plan, no view, and not a result already.

    taken: the arrays of the results before.
    """
    if value.external >= 0 or value.base is not value or (value.node is not None and value.node.computed):
        return False
    return value not in taken


def _with_own_memory(graph: Graph, results: Iterable[IRValue]) -> list[IRValue]:
    """The results, each in memory of its own."""
    taken: set[IRValue] = set()
    values = []
    for value in results:
        values.append(_own_memory(graph, value, taken))
        taken.add(value.base)
    return values


def _own_memory(graph: Graph, value: IRValue, taken: Set[IRValue]) -> IRValue:
    """The value, or what it is a view of, or a copy of it: whichever can be a result; taken as in `_is_own`."""
    if value.is_in_place or _is_own(value, taken):
        return value
    if _is_own(value.base, taken) and not value.base.is_in_place:
        return value.base
    context = graph.context if value.node is None else value.node.context
    return graph.add(SPECS["Identity"], (value,), {}, context).outputs[0]


def nodes_for(graph: Graph, values: Sequence[IRValue]) -> list[IRNode]:
    """The nodes to run, in order: those that results depend on, and those that change outside arrays."""
    needed: set[IRNode] = set()
    stack = [value.node for value in values if value.external < 0 and value.node is not None]
    stack += [
        node
        for node in graph.nodes
        if node.spec is not None and (node.spec.mutated or node.spec.inplace) and not node.computed
    ]
    while stack:
        node = stack.pop()
        if node in needed:
            continue
        needed.add(node)
        stack += [
            value.node for value in node.inputs if value is not None and value.external < 0 and value.node is not None
        ]
    return [node for node in graph.nodes if node in needed]
