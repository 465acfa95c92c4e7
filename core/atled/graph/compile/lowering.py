"""Lowering: from a graph of nodes to the template of a plan."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Any

from atled.arrays.place import HOST
from atled.graph.compile.attachment import attach
from atled.graph.compile.fusion import fuse
from atled.graph.compile.memory import reuse_memory
from atled.graph.compile.narrowing import narrow_products
from atled.graph.compile.plan import Slot, Step, Template
from atled.graph.nodes.ir import FloatSlot, Graph, IRNode, IRValue
from atled.ops.spec import SPECS


def lower(
    graph: Graph,
    results: Sequence[IRValue],
    *,
    is_fused: bool = True,
    apart: Iterable[IRNode] = (),
    is_disjoint: bool = False,
) -> Template:
    """The template that computes `results`, one target each, and runs every step that changes an outside array.

    A result that is another result's memory or an outside array gets a copy of its own.
    is_fused: whether steps may be fused with elementwise neighbours, and products with slices of them.
    apart: nodes that are fused with each other only, because they must not run before others.
    is_disjoint: whether no result is an outside array that the plan reads, as a gradient is that is added to.
    """
    taken: set[IRValue] = set()
    values = []
    for value in results:
        values.append(_own_memory(graph, value, taken))
        taken.add(value.base)
    nodes = nodes_for(graph, values)
    if is_fused:
        nodes = narrow_products(graph, nodes, values)
        nodes = fuse(graph, nodes, values, apart)
    slots: list[Slot] = []
    slot_of: dict[IRValue, int] = {}
    memories = 0
    target_of = {value: index for index, value in enumerate(values)}

    def slot_for(value: IRValue) -> int:
        nonlocal memories
        found = slot_of.get(value)
        if found is not None:
            return found
        node = value.node
        if value.external < 0 and node is not None and node.spec is not None and node.spec.views:
            source = slots[slot_for(_first(node))]
            slot = Slot(value.desc, source.place, source.memory, source.source)
            if source.source[0] == "target":
                # A view of a result: readers of the view read the result's memory.
                slot.source = ("internal",)
        else:
            if value.external >= 0:
                origin: tuple[Any, ...] = ("external", value.external, value.base.external)
            elif value in target_of:
                origin = ("target", target_of[value])
            else:
                origin = ("internal",)
            slot = Slot(value.desc, value.place or HOST, memories, origin)
            memories += 1
        slots.append(slot)
        slot_of[value] = len(slots) - 1
        return len(slots) - 1

    steps: list[Step] = []
    for node in nodes:
        if node.spec is not None and node.spec.views:
            slot_for(node.outputs[0])
            continue
        steps.append(_step(node, slot_for, slot_of))
    targets = [slot_for(value) for value in values]
    if is_fused:
        steps = attach(slots, steps, is_disjoint=is_disjoint)
    reuse_memory(slots, steps)
    return Template(slots, steps, graph, targets)


def _first(node: IRNode) -> IRValue:
    value = node.inputs[0]
    assert value is not None
    return value


def _step(node: IRNode, slot_for: Callable[[IRValue], int], slot_of: dict[IRValue, int]) -> Step:
    inputs = tuple(-1 if value is None else slot_for(value) for value in node.inputs)
    if node.spec is None:
        return Step(node, None, (*inputs, slot_for(node.outputs[0])), ())
    outputs = []
    for position, value in enumerate(node.outputs):
        source = node.spec.inplace.get(position)
        if source is None:
            outputs.append(slot_for(value))
        else:
            slot_of[value] = inputs[source]
            outputs.append(inputs[source])
    assert node.decision is not None
    prepared = node.decision.implementation.prepare(node.decision.call)
    floats = tuple(_float_number(node.attributes, name) for name in node.spec.float_names)
    return Step(node, prepared, (*inputs, *outputs), floats)


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
