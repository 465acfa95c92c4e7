"""Fusion: neighbouring elementwise nodes become one node with one formula, which reads each array once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from atled.call import Call
from atled.graph.ir import FloatSlot, Graph, IRNode, IRValue
from atled.ops.elementwise import ProgramOp
from atled.ops.formula import Expr, Program, name, number, substitute
from atled.ops.spec import Attribute, Input

MOST_NODES = 40
MOST_OPERANDS = 24
"""Bounds of one fused node: compile time grows with it, and beyond some operands registers run out."""

_SEARCH_LIMIT = 256  # nodes and groups looked at for one question, so that large graphs compile in linear time
_SHOWN = 4  # names of different ops in the name of a fused one
_COPY = name("x")


class FusedOp(ProgramOp, abstract=True):
    """An op that fusion made of several; it exists only inside a plan.

    names: of the ops in it, in the order in which they ran.
    """

    def __init__(self, program: Program, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self.inputs = tuple(Input(item) for item in program.inputs)
        self.attributes = tuple(Attribute(item, "float") for item in program.attributes)
        self.outputs = program.output_names
        vars(self).update(program=program, category="fused")
        self.inplace = dict(program.in_place)
        different = list(dict.fromkeys(names))
        shown = "+".join(different[:_SHOWN]) + ("+..." if len(different) > _SHOWN else "")
        super().__init__(shown, f"Fused: {', '.join(names)}.")


def fuse(graph: Graph, nodes: Sequence[IRNode], kept: Iterable[IRValue], apart: Iterable[IRNode] = ()) -> list[IRNode]:
    """The nodes to run instead of `nodes`, in an order in which they can run.

    kept: values that must exist afterwards although no node may read them.  apart: nodes that become one with each
    other only.
    """
    values = set(kept)
    groups = _Groups(nodes, values, set(apart))
    if not groups.any:
        return list(nodes)
    return _rewrite(graph, nodes, groups, values)


def _formulas(node: IRNode) -> Sequence[Expr] | None:
    """The formulas of a node that may be fused; None for other nodes."""
    return None if node.computed else formulas_of(node)


def formulas_of(node: IRNode) -> Sequence[Expr] | None:
    """The formulas of a node that could be fused where it is to run, in the names of its inputs; None for others.

    One for its output, or one for each array that it changes in place.
    """
    spec, decision = node.spec, node.decision
    if spec is None or decision is None or not decision.implementation.fuses:
        return None
    if spec.copies:
        return (_COPY,)
    program = spec.program
    if program is None or (len(program.outputs) != 1 and not spec.inplace):
        return None
    changed = dict(program.in_place)
    if changed != spec.inplace or (changed and len(changed) != len(program.outputs)):
        return None
    if any(not _is_whole(node.inputs[position]) for position in changed.values()):
        return None
    return program.expressions


def _is_whole(value: IRValue | None) -> bool:
    """Whether a value is an outside array as it is there, no view of one and no second number of it."""
    return value is not None and value.external >= 0 and value.base is value


def _changed(node: IRNode) -> list[IRValue]:
    """The arrays that a node changes in place, in the order of its outputs."""
    sources = () if node.spec is None else node.spec.inplace.values()
    return [value for value in map(node.inputs.__getitem__, sources) if value is not None]


def _is_in_place(node: IRNode) -> bool:
    return node.spec is not None and bool(node.spec.inplace)


def _turns(nodes: Sequence[IRNode]) -> dict[IRNode, IRNode]:
    """Per node that reads or changes an outside array which some node changes, the one before it that does.

    These must run in the order in which they are: what a node changes in place is no value that others depend on.
    """
    changed = {
        value.base.external
        for node in nodes
        if node.spec is not None
        for position, value in enumerate(node.inputs)
        if value is not None and (position in node.spec.mutated or position in node.spec.inplace.values())
    }
    turns: dict[IRNode, IRNode] = {}
    last: IRNode | None = None
    for node in nodes:
        values = [*node.inputs, *node.outputs]
        if changed and any(v is not None and v.base.external >= 0 and v.base.external in changed for v in values):
            if last is not None:
                turns[node] = last
            last = node
    return turns


class _Groups:
    """Which nodes go together: per node the number of its group, which is the index of the group's first node."""

    def __init__(self, nodes: Sequence[IRNode], kept: set[IRValue], apart: set[IRNode]) -> None:
        self._index = {node: position for position, node in enumerate(nodes)}
        self._kept = kept
        self._apart = apart
        self._readers: dict[IRValue, list[IRNode]] = {}
        for node in nodes:
            for value in node.inputs:
                if value is not None:
                    self._readers.setdefault(value, []).append(node)
        self._turns = _turns(nodes)
        self.group_of: dict[IRNode, int] = {}
        self.members: dict[int, list[IRNode]] = {}
        self._inside = bytearray(len(nodes))  # per node whether a group begins before it and ends with it or behind
        for position, node in enumerate(nodes):
            # What was changed is read as the array, as a rule: one who reads it as the result of the change is served.
            is_read = _is_in_place(node) and any(v in self._readers or v in kept for v in node.outputs)
            if not is_read and _formulas(node) is not None:
                self._place(position, node)
        self.any = any(len(members) > 1 for members in self.members.values())

    def nodes_before(self, node: IRNode) -> list[IRNode]:
        """The nodes that must have run before a node: those that make its inputs, and the one whose turn is before."""
        before = [value.node for value in node.inputs if value is not None and value.node is not None]
        turn = self._turns.get(node)
        return before if turn is None else [*before, turn]

    def _place(self, position: int, node: IRNode) -> None:
        """Put a node into the groups of its producers, made one, as far as they fit; else into a group of its own.

        Then into those that read an array which it reads, too, so that it is read once.
        """
        self.group_of[node] = position
        self.members[position] = [node]
        group = position
        values = [value for value in node.inputs if value is not None]
        producers = [value.node for value in values if value.node is not None]
        # The latest of the other readers: one that is far away seldom fits, and all would be many.
        sharers = [self._reader_before(value, node) for value in values]
        for related in (*producers, *sharers):
            other = None if related is None else self.group_of.get(related)
            if other is not None and other != group and self._fit(other, group):
                group = self._merge(other, group)

    def _reader_before(self, value: IRValue, node: IRNode) -> IRNode | None:
        """The reader of a value that was placed last before a node."""
        readers = self._readers[value]
        position = readers.index(node)
        return readers[position - 1] if position else None

    def _merge(self, one: int, other: int) -> int:
        """Make two groups one, named after the earlier."""
        group, gone = min(one, other), max(one, other)
        moved = self.members.pop(gone)
        self.members[group] = sorted([*self.members[group], *moved], key=self._index.__getitem__)
        for node in moved:
            self.group_of[node] = group
        last = self._index[self.members[group][-1]]
        self._inside[group + 1 : last + 1] = bytes([1]) * (last - group)
        return group

    def _fit(self, one: int, other: int) -> bool:
        """Whether two groups may become one; `other` holds the node that is being placed."""
        first, second = self.members[one][0], self.members[other][0]
        assert first.decision is not None and second.decision is not None
        alike = (
            second.outputs[0].shape == first.outputs[0].shape
            and second.outputs[0].dtype == first.outputs[0].dtype
            and second.outputs[0].place is first.outputs[0].place
            and second.decision.backend == first.decision.backend
            and second.decision.type_config == first.decision.type_config
            and second.context.deterministic == first.context.deterministic
            and second.context.local_errors == first.context.local_errors
        )
        members = [*self.members[one], *self.members[other]]
        if not alike or len(members) > MOST_NODES or (first in self._apart) != (second in self._apart):
            return False
        if self._operand_count(members) > MOST_OPERANDS:
            return False
        if not _agree_on_changed(members):
            return False
        if any(self._passes_outside(one, node) for node in self.members[other]):
            return False
        # Nothing depends yet on a node that was placed just now.
        is_new = len(self.members[other]) == 1
        return is_new or not any(self._passes_outside(other, node) for node in self.members[one])

    def _operand_count(self, members: Sequence[IRNode]) -> int:
        """How many arrays one node for these members would read and write."""
        inside = set(members)
        read = {value for member in members for value in member.inputs if value is not None}
        written = [
            member
            for member in members
            if member.outputs[0] in self._kept
            or any(reader not in inside for reader in self._readers.get(member.outputs[0], ()))
        ]
        changed = {value for member in members for value in _changed(member)}
        return len(written) + len(changed) + sum(1 for value in read if value.node not in inside)

    def _passes_outside(self, group: int, node: IRNode) -> bool:
        """Whether the node must run after the group because of a node of neither: then they cannot be one."""
        own = self.group_of[node]
        # No group reaches across this place in the order: what is before it depends on nothing behind it.
        earliest = self._inside.rfind(0, 0, group + 1)
        seen: set[int | IRNode] = set()
        stack = [before for before in self.nodes_before(node) if self.group_of.get(before) not in (group, own)]
        while stack:
            outside = stack.pop()
            unit = self.group_of.get(outside, outside)
            if unit in seen or self._index.get(outside, -1) < earliest:
                continue
            if unit == group:
                return True
            if len(seen) >= _SEARCH_LIMIT:
                return True  # not known: then they stay apart, which is never wrong
            seen.add(unit)
            for related in self.members[unit] if isinstance(unit, int) else [unit]:
                stack += self.nodes_before(related)
        return False


def _agree_on_changed(members: Sequence[IRNode]) -> bool:
    """Whether all members know each array that one of them changes in place as the same value."""
    changed = {value.external: value for member in members for value in _changed(member)}
    if not changed:
        return True
    values = [value for member in members for value in member.inputs if value is not None]
    return all(changed.get(value.base.external, value) is value for value in values if value.base.external >= 0)


def _rewrite(graph: Graph, nodes: Sequence[IRNode], groups: _Groups, kept: set[IRValue]) -> list[IRNode]:
    readers: dict[IRValue, set[int | IRNode]] = {}
    for node in nodes:
        for value in node.inputs:
            if value is not None:
                readers.setdefault(value, set()).add(groups.group_of.get(node, node))
    units: dict[int | IRNode, list[IRNode]] = {}
    for node in nodes:
        units.setdefault(groups.group_of.get(node, node), []).append(node)
    order = _ordered(units, groups)
    result = []
    for unit in order:
        members = units[unit]
        if len(members) == 1:
            result.append(members[0])
        else:
            outputs = [
                member.outputs[0]
                for member in members
                if not _is_in_place(member)
                and (member.outputs[0] in kept or any(reader != unit for reader in readers.get(member.outputs[0], ())))
            ]
            result.append(_fused_node(graph, members, outputs))
    return result


def _ordered(units: dict[int | IRNode, list[IRNode]], groups: _Groups) -> list[int | IRNode]:
    """The units in an order in which they can run."""
    unit_of = {member: unit for unit, members in units.items() for member in members}
    order: list[int | IRNode] = []
    done: set[int | IRNode] = set()
    for start in units:
        stack: list[tuple[int | IRNode, bool]] = [(start, False)]
        while stack:
            unit, expanded = stack.pop()
            if unit in done:
                continue
            if expanded:
                done.add(unit)
                order.append(unit)
                continue
            stack.append((unit, True))
            for member in units[unit]:
                for node in groups.nodes_before(member):
                    before = unit_of.get(node)
                    if before is not None and before != unit and before not in done:
                        stack.append((before, False))
    return order


def _fused_node(graph: Graph, members: Sequence[IRNode], outputs: Sequence[IRValue]) -> IRNode:
    """One node for the members of a group; the given values become its outputs, behind the arrays that it changes."""
    inputs: dict[IRValue, str] = {}
    floats: dict[int, str] = {}
    expressions: dict[IRValue, Expr] = {}  # of an array that is changed: what it holds after the last member so far
    changed: dict[IRValue, IRValue] = {}  # per such array the value that stands for what it holds in the end
    for member in members:
        formulas = _formulas(member)
        assert formulas is not None and member.spec is not None
        names = ("x",) if member.spec.copies else member.spec.program.inputs  # type: ignore[union-attr]  # has a formula
        replaced: dict[str, Expr] = {}
        for item, value in zip(names, member.inputs, strict=True):
            assert value is not None
            if value not in expressions:
                expressions[value] = name(inputs.setdefault(value, f"x{len(inputs)}"))
            replaced[item] = expressions[value]
        for item in member.spec.float_names:
            slot = member.attributes[item]
            assert isinstance(slot, FloatSlot)
            kind, *source = graph.floats[slot.index]
            # Numbers of gradient rules are part of the structure; those of users are run-time values.
            replaced[item] = (
                number(source[0]) if kind == "constant" else name(floats.setdefault(slot.index, f"f{len(floats)}"))
            )
        made = _changed(member)
        changed.update(zip(made, member.outputs, strict=False))
        results = [substitute(formula, replaced) for formula in formulas]
        expressions.update(zip(made or member.outputs, results, strict=True))
    program = Program(
        tuple(inputs.values()),
        tuple(floats.values()),
        (
            *((inputs[value], expressions[value]) for value in changed),
            *((f"y{position}", expressions[value]) for position, value in enumerate(outputs)),
        ),
    )
    return _node(members, program, list(inputs), list(floats), [*changed.values(), *outputs])


def _node(
    members: Sequence[IRNode], program: Program, inputs: list[IRValue], floats: list[int], outputs: Sequence[IRValue]
) -> IRNode:
    first = members[0]
    assert first.decision is not None
    spec = FusedOp(program, [member.name for member in members])
    old: Call = first.decision.call
    call = Call(
        spec,
        tuple(value.desc for value in inputs),
        tuple(value.desc for value in outputs),
        {},
        device_id=old.device_id,
        type_config=old.type_config,
        deterministic=old.deterministic,
        local_errors=old.local_errors,
    )
    attributes = {item: FloatSlot(index) for item, index in zip(program.attributes, floats, strict=True)}
    node = IRNode(spec, tuple(inputs), attributes, first.context, first.decision.made_for(spec.name, call))
    node.outputs = tuple(outputs)
    for position, value in enumerate(outputs):
        value.node = node
        value.position = position
    return node
