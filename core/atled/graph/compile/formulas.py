"""Formulas that an implementation compiles into its kernel: before an input is read, behind an output is made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from atled.array_desc import ArrayDesc
from atled.call import Call
from atled.dtypes import is_float
from atled.graph.compile.casting import CastingOp
from atled.graph.compile.fusion import FusedOp
from atled.graph.nodes.ir import IRNode, IRValue
from atled.graph.nodes.order import Order
from atled.named_tuple import NamedTuple
from atled.ops.formula import Program, name, substitute
from atled.ops.spec import SPECS, Attribute, Input, OpSpec


class AttachedOp(OpSpec, abstract=True):
    """An op with the formulas that are attached to its inputs and outputs; it exists only inside a plan.

    call: of the op, with its formulas.  Inputs, outputs and float attributes are those of the op, then of the formulas.
    """

    def __init__(self, call: Call) -> None:
        spec = call.spec
        self.call = call
        operands = range(len(call.reads) - len(call.inputs))
        self.inputs = (*spec.inputs, *(Input(f"operand{number}", kind="keep") for number in operands))
        self.attributes = tuple(Attribute(item, "float") for item in (*spec.float_names, *_float_names(call)))
        made = range(len(call.writes) - len(call.outputs))
        self.outputs = (*spec.outputs, *(f"result{number}" for number in made))
        self.mutates, self.mutates_if = spec.mutates, spec.mutates_if
        self.tolerance = spec.tolerance
        names = [formula.spec.name for _, formula in call.formulas]
        names.insert(len(call.before), spec.name)
        super().__init__("+".join(names), f"Attached: {', '.join(names)}.")

    def reference(self, *inputs: Any, **attributes: Any) -> Sequence[np.ndarray]:
        call, spec = self.call, self.call.spec
        given, operands = list(inputs[: len(call.inputs)]), iter(inputs[len(call.inputs) :])
        names = iter(_float_names(call))
        floats = [{item: attributes[next(names)] for item in formula.spec.float_names} for _, formula in call.formulas]
        early = len(call.before)
        for (position, formula), numbers in zip(call.formulas[:early], floats, strict=False):
            besides = islice(operands, len(formula.inputs))
            (value,) = formula.spec.reference(*besides, **formula.attributes, **numbers)
            given[position] = value.reshape(_shape_of(call.inputs[position]))
        own = {item: value for item, value in attributes.items() if item in spec.attribute_names}
        results = spec.reference(*given, **own)
        outputs = [results] if isinstance(results, np.ndarray | np.generic) else list(results)
        for (position, formula), numbers in zip(call.formulas[early:], floats[early:], strict=True):
            value = np.reshape(outputs[position], _shape_of(formula.inputs[0]))
            outputs += formula.spec.reference(value, *islice(operands, len(formula.inputs) - 1), **numbers)
        return outputs


def _float_names(call: Call) -> list[str]:
    """The names of the floats of all formulas of a call."""
    return [f"{item}_{n}" for n, (_, formula) in enumerate(call.formulas) for item in formula.spec.float_names]


def _shape_of(desc: ArrayDesc | None) -> tuple[int, ...]:
    assert desc is not None  # what a formula makes or reads is there
    return desc.shape


def attach_formulas(nodes: Sequence[IRNode], results: Iterable[IRValue]) -> list[IRNode]:
    """The nodes to run instead of `nodes`: formulas as parts of neighbours whose implementations compile them in.

    results: values that must exist afterwards although no node may read them.
    """
    attaching = _Attaching(nodes, results)
    for node in nodes:
        if _is_formula(node) and not attaching.attach_behind(node):
            attaching.attach_before(node)
    return attaching.nodes


def _is_formula(node: IRNode) -> bool:
    """Whether a node is a formula that can be a part of another one: it changes nothing, and all is floating-point.

    Kernels that take formulas in need not take windows, which a kernel of the formula alone may.
    """
    spec = node.spec
    if spec is None or node.decision is None or node.computed or spec.inplace or node.mutated or spec.program is None:
        return False
    if not node.decision.implementation.fuses or node.decision.fallback:
        return False
    values = (*node.inputs, *node.outputs)
    return all(value is not None and is_float(value.dtype) and not value.is_window for value in values)


def takes_formulas(spec: OpSpec) -> bool:
    """Whether formulas may be parts of calls of an op, if an implementation says so: it is no formula itself."""
    if spec.program is not None or spec.copies or spec is SPECS["Cast"]:
        return False
    return not (spec.views or spec.random or spec.opaque or spec.inplace or spec.variadic)


def _carries(node: IRNode) -> bool:
    """Whether formulas may be parts of a node."""
    decision = node.decision
    if node.spec is None or decision is None or node.computed or decision.fallback:
        return False
    return bool(decision.implementation.attaches) and takes_formulas(node.spec)


class _Part(NamedTuple):
    """A formula as a part of another node: its call, what it reads besides, what it makes, its floats."""

    call: Call
    operands: Sequence[IRValue]
    outputs: Sequence[IRValue]
    floats: Sequence[Any]  # FloatSlots


class _Unit:
    """What runs as one step: a node with the formulas that are parts of it.

    place: among the nodes.  before, after: the parts by position of input or output.  members: all nodes that it was.
    attached: its call, with the parts.
    """

    def __init__(self, node: IRNode, place: int) -> None:
        self.node = node
        self.place = place
        self.before: dict[int, _Part] = {}
        self.after: dict[int, _Part] = {}
        self.members = [node]
        self.attached: Any = None if node.decision is None else node.decision.call

    def call(self, before: Mapping[int, _Part], after: Mapping[int, _Part], wanted: Sequence[bool]) -> Call:
        """Its call with such parts."""
        assert self.node.decision is not None
        call: Call = self.node.decision.call
        early = {position: part.call for position, part in before.items()}
        late = {position: part.call for position, part in after.items()}
        return call.attached(early, late, tuple(wanted))

    @property
    def whole(self) -> IRNode:
        """One node for all of it."""
        if not self.before and not self.after:
            return self.node
        node, call, spec = self.node, self.attached, AttachedOp(self.attached)
        assert node.decision is not None
        parts = [part for some in (self.before, self.after) for _, part in sorted(some.items())]
        own = (None if position in self.before else value for position, value in enumerate(node.inputs))
        inputs = (*own, *(value for part in parts for value in part.operands))
        floats = (slot for part in parts for slot in part.floats)
        attributes = {**node.attributes, **dict(zip(_float_names(call), floats, strict=True))}
        made = IRNode(spec, inputs, attributes, node.context, node.decision.made_for(spec.name, call))
        made.make((*node.outputs, *(value for part in self.after_parts for value in part.outputs)), node.changed)
        return made

    @property
    def after_parts(self) -> list[_Part]:
        """Those behind outputs, in order."""
        return [part for _, part in sorted(self.after.items())]


class _Attaching:
    """Nodes of which formulas become parts of others, one after the other."""

    def __init__(self, nodes: Sequence[IRNode], results: Iterable[IRValue]) -> None:
        self._nodes = nodes
        self._unit_of = {node: _Unit(node, place) for place, node in enumerate(nodes)}
        self._results = {value.base for value in results}
        self._order = Order(nodes)
        self._readers: dict[IRValue, dict[IRNode, None]] = {}  # by base; views read nothing
        self._behind: dict[IRNode, list[IRNode]] = {}
        for node in nodes:
            if not _is_view(node):
                for value in node.inputs:
                    if value is not None:
                        self._readers.setdefault(value.base, {})[node] = None
                for earlier in self._before(node):
                    self._behind.setdefault(earlier, []).append(node)

    @property
    def nodes(self) -> list[IRNode]:
        """What is left, in order, without views that nobody needs any more."""
        units = sorted({id(unit): unit for unit in self._unit_of.values()}.values(), key=lambda unit: unit.place)
        needed = set(self._results)
        left = []
        for node in reversed([unit.whole for unit in units]):
            if not _is_view(node) or node.outputs[0] in needed:
                needed.update(value for value in node.inputs if value is not None)
                left.append(node)
        return left[::-1]

    def _before(self, node: IRNode) -> Iterator[IRNode]:
        """What must have run right before a node, views seen through."""
        for earlier in self._order.before(node):
            maker: IRNode | None = earlier
            while maker is not None and _is_view(maker):
                shown = maker.inputs[0]
                maker = None if shown is None else shown.node
            if maker in self._unit_of:
                yield maker

    def attach_behind(self, node: IRNode) -> bool:
        """Have what makes an input of a formula compute the formula on it."""
        found = [(value, unit) for value in node.inputs if value is not None and (unit := self._maker_of(value))]
        for value, unit in sorted(found, key=lambda pair: -pair[1].place):
            if self._attach_behind(node, value.base, unit):
                return True
        return False

    def _maker_of(self, value: IRValue) -> _Unit | None:
        """The unit that makes a value, if formulas may be attached there."""
        maker = None if value.is_window else value.base.node
        unit = None if maker is None else self._unit_of.get(maker)
        return unit if unit is not None and _carries(unit.node) else None

    def _attach_behind(self, node: IRNode, value: IRValue, unit: _Unit) -> bool:
        carrier, made = unit.node, node.outputs[0]
        if value not in carrier.outputs or not _is_alike(node, carrier) or value.size != made.size:
            return False
        if any(item is not None and item.base is value and item.is_window for item in node.inputs):
            return False
        others = (item.base.node for item in node.inputs if item is not None and item.base is not value)
        if any(other in unit.members for other in others):
            return False  # it reads what the unit makes besides, which is not there before that has run
        position = carrier.outputs.index(value)
        assert carrier.spec is not None and carrier.decision is not None
        names = carrier.spec.outputs
        is_named = position < len(names) and names[position] in carrier.decision.implementation.attaches
        if not is_named or position in unit.after or value.array is not None:
            return False
        place = self._meeting(unit, node)
        if place < 0:
            return False
        after = {**unit.after, position: _part_behind(node, value)}
        wanted = [*carrier.decision.call.wanted]
        for output in after:
            readers = set(self._readers[carrier.outputs[output]]) - {node, *unit.members}
            wanted[output] = bool(readers) or carrier.outputs[output] in self._results
        return self._join(unit, node, place, unit.before, after, wanted)

    def attach_before(self, node: IRNode) -> bool:
        """Have what reads the result of a formula, alone, compute it as it reads."""
        value = node.outputs[0]
        readers = list(self._readers.get(value, ()))
        if len(node.outputs) != 1 or len(readers) != 1 or value in self._results or value.array is not None:
            return False
        unit = self._unit_of[readers[0]]
        carrier = unit.node
        if carrier is not readers[0] or not _carries(carrier) or not _is_alike(node, carrier):
            return False
        positions = [n for n, item in enumerate(carrier.inputs) if item is not None and item.base is value]
        assert carrier.spec is not None and carrier.decision is not None and node.decision is not None
        named = carrier.decision.implementation.attaches
        if len(positions) != 1 or positions[0] in carrier.changed:
            return False
        read = carrier.inputs[positions[0]]
        if read is None or read.is_window:
            return False
        position = positions[0]
        if carrier.spec.input_names[position] not in named:
            return False
        if any(self._unit_of[later].place < unit.place for later in self._behind.get(node, ())):
            return False  # it changes what the formula reads
        assert node.spec is not None
        operands = [item for item in node.inputs if item is not None]
        floats = [node.attributes[item] for item in node.spec.float_names]
        before = {**unit.before, position: _Part(node.decision.call, operands, (), floats)}
        return self._join(unit, node, unit.place, before, unit.after, unit.attached.wanted)

    def _meeting(self, unit: _Unit, node: IRNode) -> int:
        """Where a unit and a formula that reads what it makes can run as one: at the place of either, or -1."""
        own = self._unit_of[node]
        if all(self._unit_of[other] is unit or self._unit_of[other].place < unit.place for other in self._before(node)):
            return unit.place
        later = (self._unit_of[other] for member in unit.members for other in self._behind.get(member, ()))
        return own.place if all(other in (unit, own) or other.place > own.place for other in later) else -1

    def _join(
        self,
        unit: _Unit,
        node: IRNode,
        place: int,
        before: Mapping[int, _Part],
        after: Mapping[int, _Part],
        wanted: Sequence[bool],
    ) -> bool:
        """Make a formula a part of a unit, if the implementation accepts that."""
        call = unit.call(before, after, wanted)
        assert unit.node.decision is not None
        accepts = unit.node.decision.implementation.accepts
        if accepts is not None and accepts(call) is not True:
            return False
        unit.before, unit.after, unit.attached, unit.place = dict(before), dict(after), call, place
        unit.members.append(node)
        self._unit_of[node] = unit
        return True


def _is_view(node: IRNode) -> bool:
    return node.spec is not None and node.spec.views


def _is_alike(node: IRNode, other: IRNode) -> bool:
    """Whether two nodes run at one place, by one backend or those of one device, under alike conditions."""
    mine, its = node.decision, other.decision
    assert mine is not None and its is not None
    place = node.outputs[0].place
    return (
        (mine.backend == its.backend or (place is not None and not place.is_host))
        and mine.device_id == its.device_id
        and place is other.outputs[0].place
        and node.context.deterministic == other.context.deterministic
        and node.context.local_errors == other.context.local_errors
    )


def _part_behind(node: IRNode, value: IRValue) -> _Part:
    """A formula as a part behind what makes one of the values that it reads, which becomes its first input."""
    spec, decision = node.spec, node.decision
    assert spec is not None and spec.program is not None and decision is not None
    program, old = spec.program, decision.call
    inputs = list(zip(program.inputs, (item for item in node.inputs if item is not None), strict=True))
    own = [(identifier, item) for identifier, item in inputs if item.base is value]
    operands = [(identifier, item) for identifier, item in inputs if item.base is not value]
    first = own[0][0]
    replaced = {identifier: name(first) for identifier, _ in own[1:]}
    written = [(output, substitute(expression, replaced)) for output, expression in program.outputs]
    made = Program((first, *(identifier for identifier, _ in operands)), program.attributes, written)
    names = spec.names if isinstance(spec, FusedOp) else (spec.name,)
    fused = CastingOp(made, names, [item.dtype for item in node.outputs])
    reads = (own[0][1].desc, *(item.desc for _, item in operands))
    call = old.replaced_by(fused, reads, (item.desc for item in node.outputs))
    floats = [node.attributes[item] for item in program.attributes]
    return _Part(call, [item for _, item in operands], node.outputs, floats)
