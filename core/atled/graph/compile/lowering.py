"""Lowering: from a graph of nodes to a plan."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence, Set
from typing import Any

from atled.arrays.place import HOST
from atled.call import Call, Prepared
from atled.graph.compile.attachment import attach
from atled.graph.compile.fusion import fuse
from atled.graph.compile.grouping import group
from atled.graph.compile.memory import reuse_memory
from atled.graph.compile.parts import InParts
from atled.graph.compile.plan import Plan
from atled.graph.compile.step import Slot, Step
from atled.graph.compile.targets import write_to_targets
from atled.graph.compile.wanted import (
    has_read_parts,
    is_float_cast,
    is_repeated,
    only_chooses,
    strided_images,
    takes_formulas_in,
    wants_other_layout,
)
from atled.graph.nodes.dispatch import has_bodies
from atled.graph.nodes.ir import FloatSlot, Graph, IRArray, IRNode, IRValue
from atled.graph.nodes.order import nodes_for
from atled.ops.spec import SPECS
from atled.preparing import prepare
from atled_contexts import Implementation


def lower(
    graph: Graph,
    results: Sequence[IRValue | None],
    *,
    apart: Iterable[IRNode] = (),
    again: Iterable[IRNode] = (),
    into: Sequence[int] = (),
    in_parts: InParts = InParts.NONE,
) -> Plan:
    """The plan that computes `results`, one target each, and runs every step that changes an outside array.

    A result that is another result's memory or an outside array gets a copy of its own.
    results: None for one that nobody needs; nothing is stored there then.
    apart: nodes that are fused with each other only, because they must not run before others.
    again: nodes that are fused with readers of what they make only; see `fuse`.
    into: per result the outside array that it becomes in the end; may be left out where the plan does not read these
        and each is another one, or where the graph was told (`Graph.store`).
    in_parts: of a plan that may be for one run, `Plan.is_in_parts`: which formulas are cut into parts.
    """
    values = _with_own_memory(graph, [value for value in results if value is not None])
    if into:
        values = _stored(graph, values, into)
    graph.reads_latest = False
    nodes = nodes_for(graph, values)
    if any(has_bodies(node.spec) for node in nodes):
        from atled.graph.compile.last_rows import keep_last_rows  # lazy: few graphs have loops

        nodes = keep_last_rows(graph, nodes, values)
    nodes, values = _laid_out(graph, nodes, values, apart)
    nodes = _repeated_later(graph, nodes, values)
    nodes = fuse(graph, _narrowed(graph, nodes, values), values, apart, again, in_parts)
    nodes = _with_views(graph, _without_casts(nodes, values), values)
    nodes = write_to_targets(nodes, values)
    _keep_orders(graph, nodes, values)
    _leave_out_unread(nodes, values)
    nodes = group(_with_formulas(nodes, values))
    slots = _Slots(values)
    steps = [step for node in nodes if (step := slots.step_of(node)) is not None]
    numbers = map(slots.number_of, values)
    targets = [-1 if value is None else next(numbers) for value in results]
    alone: set[Step] | None = set() if in_parts else None
    steps = attach(slots.made, steps, changing=not set(apart), alone=alone)
    graph.is_in_parts |= bool(alone)
    reuse_memory(slots.made, steps)
    return Plan(slots.made, steps, graph, targets)


# Each of these looks first whether a graph asks for the pass, which is imported then: few graphs do.


def _laid_out(
    graph: Graph, nodes: list[IRNode], values: list[IRValue], apart: Iterable[IRNode]
) -> tuple[list[IRNode], list[IRValue]]:
    if not any(map(wants_other_layout, nodes)):
        return nodes, values
    from atled.graph.compile.layout import lay_out

    return lay_out(graph, nodes, values, apart)


def _repeated_later(graph: Graph, nodes: list[IRNode], values: list[IRValue]) -> list[IRNode]:
    if not (any(map(is_repeated, nodes)) and any(map(only_chooses, nodes))):
        return nodes
    from atled.graph.compile.repeating import repeat_chosen

    return repeat_chosen(graph, nodes, values)


def _narrowed(graph: Graph, nodes: list[IRNode], values: list[IRValue]) -> list[IRNode]:
    if not has_read_parts(nodes):
        return nodes
    from atled.graph.compile.narrowing import narrow_products

    return narrow_products(graph, nodes, values)


def _without_casts(nodes: list[IRNode], values: list[IRValue]) -> list[IRNode]:
    if not any(map(is_float_cast, nodes)):
        return nodes
    from atled.graph.compile.casting import fuse_casts

    return fuse_casts(nodes, values)


def _with_views(graph: Graph, nodes: list[IRNode], values: list[IRValue]) -> list[IRNode]:
    if not any(map(only_chooses, nodes)):
        return nodes
    from atled.graph.compile.views import read_views

    return read_views(graph, nodes, values)


def _keep_orders(graph: Graph, nodes: list[IRNode], values: list[IRValue]) -> None:
    if any(map(strided_images, nodes)):
        from atled.graph.compile.orders import keep_orders

        keep_orders(graph, nodes, values)


def _with_formulas(nodes: list[IRNode], values: list[IRValue]) -> list[IRNode]:
    if not any(map(takes_formulas_in, nodes)):
        return nodes
    from atled.graph.compile.formulas import attach_formulas

    return attach_formulas(nodes, values)


def _leave_out_unread(nodes: Sequence[IRNode], values: Sequence[IRValue]) -> None:
    """Ask no implementation for outputs that nobody reads, if it can do without them."""
    asked = [node for node in nodes if node.decision is not None and node.decision.implementation.omits]
    if not asked:
        return
    read = {value.base for node in nodes for value in node.inputs if value is not None}
    read.update(value.base for value in values)
    for node in asked:
        decision, spec = node.decision, node.spec
        assert decision is not None and spec is not None
        first = len(node.outputs) - len(spec.auxiliary)
        unread = [
            position
            for position, name in enumerate(spec.auxiliary, first)
            if name in decision.implementation.omits and node.outputs[position] not in read
        ]
        if unread:
            node.decision = decision.made_for(decision.op, decision.call.without(unread))


def _stored(graph: Graph, values: Sequence[IRValue], into: Sequence[int]) -> list[IRValue]:
    """The results as the last versions of outside arrays, or copies of them."""
    last_read: dict[IRArray, int] = {}
    for number, node in enumerate(graph.nodes):
        if not node.computed and not (node.spec is not None and node.spec.views):
            for value in node.inputs:
                array = None if value is None else value.base.array
                if value is not None and array is not None and value.shows.version == array.version:
                    last_read[array] = number
    position = {node: number for number, node in enumerate(graph.nodes)} if last_read else {}
    stored = []
    for value, outside in zip(values, into, strict=True):
        maker, read = value.node, last_read.get(graph.array(outside))
        assert maker is not None
        # Where what the array held is read behind the node, what that makes waits elsewhere for its turn.
        if value.array is not None or (read is not None and read > position[maker]):
            value = graph.add(SPECS["Identity"], (value,), {}, maker.context).outputs[0]
        graph.store(value, outside)
        stored.append(value)
    return stored


class _Slots:
    """The slots of a plan, made as its steps name their values; views have the memory of what they show.

    made: all so far.
    """

    def __init__(self, results: Sequence[IRValue]) -> None:
        self.made: list[Slot] = []
        self._targets = {value: index for index, value in enumerate(results)}
        self._numbers: dict[IRValue, int] = {}
        self._memories: dict[object, int] = {}
        self._prepared: dict[Hashable, Prepared] = {}

    def number_of(self, value: IRValue) -> int:
        """The number of a value's slot."""
        found = self._numbers.get(value)
        if found is None:
            slot = self._array(value) if value.base is value else self._view(value)
            found = self._numbers[value] = len(self.made)
            self.made.append(slot)
        return found

    def _view(self, value: IRValue) -> Slot:
        """A view, or what a node makes in the memory of a value that it does not read."""
        assert value.node is not None
        memory_of = value.node.inputs[0] if value.is_view else value.base
        assert memory_of is not None
        shown = self.made[self.number_of(memory_of)]
        # Readers of a view of a result read the result's memory.
        source = ("internal",) if shown.source[0] == "target" else shown.source
        return Slot(value.desc, shown.place, shown.memory, source, value.offset, value.is_window)

    def _array(self, value: IRValue) -> Slot:
        place, array = value.place or HOST, value.array
        source: tuple[Any, ...] = ("internal",)
        if value.external >= 0:
            source = ("external", value.external)
        elif value in self._targets and (array is None or array.values[-1].base is value):
            source = ("target", self._targets[value])
        # All versions of an array are in one memory.
        alias_set: object = value if array is None else (array, place, value.dtype)
        memory = self._memories.setdefault(alias_set, len(self._memories))
        return Slot(value.desc, place, memory, source)

    def _shown(self, number: int, value: IRValue) -> int:
        """The slot of what a node made of that of its input: the same, unless the node knows it in another shape."""
        slot = self.made[number]
        if slot.desc.shape == value.shape:
            return number
        self.made.append(Slot(value.desc, slot.place, slot.memory, slot.source, value.offset, value.is_window))
        return len(self.made) - 1

    def step_of(self, node: IRNode) -> Step | None:
        """The step of a node; None for a view, which takes none."""
        if node.spec is not None and node.spec.views:
            self.number_of(node.outputs[0])
            return None
        inputs = tuple(-1 if value is None else self.number_of(value) for value in node.inputs)
        if node.spec is None:
            return Step(node, None, (*inputs, self.number_of(node.outputs[0])), ())
        for position, value in node.changed.items():
            self._numbers[value] = self._shown(inputs[position], value)
        assert node.decision is not None
        call = node.decision.call
        made = zip(node.outputs, call.writes, strict=True)
        outputs = tuple(-1 if desc is None else self.number_of(value) for value, desc in made)
        prepared = self._prepared_for(node.decision.implementation, call)
        floats = tuple(_float_number(node.attributes, name) for name in node.spec.float_names)
        step = Step(node, prepared, (*inputs, *outputs), floats)
        if has_bodies(node.spec):
            from atled.graph.compile.loops import make_native  # as above

            make_native(step, lower)
        return step

    def _prepared_for(self, made: Implementation, call: Call) -> Prepared:
        """What an implementation makes of a call, asked once for all equal ones: networks repeat their blocks."""
        if call.spec.by_engine:  # attributes of the user's code need not have a hash, and its own spec is one call's
            return prepare(made, call)
        # A fused op has its formula in the spec, of which the call itself compares the name only.
        key = made, call.spec, call, call.by_operands
        found = self._prepared.get(key)
        if found is None:
            found = self._prepared[key] = prepare(made, call)
        return found


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
    if not value.is_window:
        if value.is_in_place or _is_own(value, taken):
            return value
        if _is_own(value.base, taken):
            return value.base
    context = graph.context if value.node is None else value.node.context
    return graph.add(SPECS["Identity"], (value,), {}, context).outputs[0]
