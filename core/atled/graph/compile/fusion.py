"""Fusion: neighbouring elementwise nodes become one node with one formula, which reads each array once."""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from atled.call import Call
from atled.dtypes import is_narrow
from atled.graph.compile.known_fusions import is_count, known_fusion, looks_of, note_fusion
from atled.graph.compile.parts import InParts, parts_of
from atled.graph.nodes.ir import FloatSlot, Graph, IRArray, IRNode, IRValue, WindowOp
from atled.graph.nodes.order import Order
from atled.limits.caches import Generations
from atled.named_tuple import NamedTuple
from atled.ops.elementwise import ProgramOp
from atled.ops.formula import Expr, Number, Program, name, number, postorder, substitute
from atled.ops.spec import SPECS, Attribute, Input
from atled.preparing import prepare
from atled_contexts import Decision

MOST_NODES = 40
MOST_OPERANDS = 24
"""Bounds of one fused node: compile time grows with it, and beyond some operands registers run out."""

MOST_ALIKE = 4
"""How many fused nodes may differ in numbers alone and have kernels of their own; more of them share one."""

_SEARCH_LIMIT = 256  # nodes and groups looked at for one question, so that large graphs compile in linear time
_SHOWN = 4  # names of different ops in the name of a fused one
_COPY = name("x")
_TRUTH: np.dtype[Any] = np.dtype(np.bool_)
_SINGLE: np.dtype[Any] = np.dtype(np.float32)


class FusedOp(ProgramOp, abstract=True):
    """An op that fusion made of several; it exists only inside a plan.

    names: of the ops in it, in the order in which they ran.
    compute: the dtype in which it is computed, where its operands may have others; None where they tell.
    """

    integers = "exact"  # where operands tell, those of integers are copies or assignments

    def __init__(self, program: Program, names: Sequence[str], compute: np.dtype | None = None) -> None:
        self.names = tuple(names)
        self.compute = compute
        self.inputs = tuple(Input(item) for item in program.inputs)
        self.attributes = tuple(Attribute(item, "float") for item in program.attributes)
        self.outputs = program.output_names
        vars(self).update(program=program, category="fused")
        self.inplace = dict(program.in_place)
        different = list(dict.fromkeys(names))
        shown = "+".join(different[:_SHOWN]) + ("+..." if len(different) > _SHOWN else "")
        super().__init__(shown, f"Fused: {', '.join(names)}.")

    def computed_in(self, inputs: Sequence[np.dtype]) -> np.dtype | None:
        return super().computed_in(inputs) if self.compute is None else self.compute

    def reference(self, *inputs: np.ndarray, **attributes: Any) -> Sequence[np.ndarray]:
        return super().reference(*inputs, **attributes) if self.compute is None else self.results(*inputs, **attributes)


def fuse(
    graph: Graph,
    nodes: Sequence[IRNode],
    results: Iterable[IRValue],
    apart: Iterable[IRNode] = (),
    again: Iterable[IRNode] = (),
    in_parts: InParts = InParts.NONE,
) -> list[IRNode]:
    """The nodes to run instead of `nodes`, in an order in which they can run.

    results: values that must exist afterwards although no node may read them.  apart: nodes that become one with each
    other only.  again: nodes that compute a value once more for those behind them, with which alone they become one:
    with the ones that computed it first they would store it.  in_parts: which formulas are cut into parts, where
    that changes no bit; then `graph.is_in_parts` says whether any was.
    """
    values = set(results)
    alone, once_more = set(apart), frozenset(again)
    looks = None if alone or once_more else looks_of(graph, nodes, values, (MOST_NODES, MOST_OPERANDS, MOST_ALIKE))
    known = None if looks is None else known_fusion(looks, nodes, _node)
    if known is not None:
        return known
    groups = _Groups(nodes, values, alone, once_more)
    made_of: dict[IRNode, IRNode] = {}
    fused = _rewrite(graph, nodes, groups, values, made_of, in_parts) if groups.any else list(nodes)
    if looks is not None and not graph.is_in_parts:
        note_fusion(looks, nodes, fused, made_of)
    return fused


def formulas_of(node: IRNode) -> Sequence[Expr] | None:
    """The formulas of a node, in the names of its inputs; None for one that its backend cannot fuse.

    One for its output, or one for each array that it changes in place.
    """
    spec, decision = node.spec, node.decision
    if spec is None or decision is None or not decision.implementation.fuses:
        return None
    if decision.implementation.strides is not True and any(map(_is_strided, (*node.inputs, *node.outputs))):
        return None
    if spec.copies or _is_read_cast(node):
        return (_COPY,)
    program = spec.program
    if program is None or (len(program.outputs) != 1 and not spec.inplace):
        return None
    changed = dict(program.in_place)
    if changed != spec.inplace or (changed and len(changed) != len(program.outputs)):
        return None
    if any(not _is_changeable(node.inputs[position]) for position in changed.values()):
        return None
    return program.expressions


def _is_read_cast(node: IRNode) -> bool:
    """Whether a node is a cast that a formula of its backend does as it reads or stores.

    Not behind another cast, whose result it would read before that is rounded.
    """
    decision, source = node.decision, node.inputs[0] if node.inputs else None
    if node.spec is not SPECS["Cast"] or decision is None or source is None:
        return False
    is_behind = source.node is not None and source.node.spec is SPECS["Cast"]
    return decision.call.by_operands and decision.implementation.integers and not is_behind


def _is_changeable(value: IRValue | None) -> bool:
    """Whether a value is an outside array itself, in any version, or a window on one."""
    if value is None or value.base.external < 0:
        return False
    return value.shows is value or (value.node is not None and isinstance(value.node.spec, WindowOp))


def _is_strided(value: IRValue | None) -> bool:
    return value is not None and not value.desc.is_contiguous


class _Group:
    """Nodes that become one.

    members: in the order of the nodes.  reads: per value that they read, how often.  changed: arrays that they change.
    outside: how many of the values that they read are made by none of them.
    written: how many of their results are stored or read by others, and so must be written.
    """

    __slots__ = ("changed", "members", "outside", "reads", "written")

    def __init__(self, node: IRNode, is_written: bool) -> None:
        self.members = [node]
        self.reads: dict[IRValue, int] = {}
        for value in node.inputs:
            if value is not None:
                self.reads[value] = self.reads.get(value, 0) + 1
        self.changed = {value.base.array for value in node.changed.values()}
        self.outside = len(self.reads)
        self.written = int(is_written)


class _Groups:
    """Which nodes go together: per node the number of its group, which is the index of the group's first node."""

    def __init__(
        self, nodes: Sequence[IRNode], results: set[IRValue], apart: set[IRNode], again: frozenset[IRNode]
    ) -> None:
        self._index = {node: position for position, node in enumerate(nodes)}
        self._group_at = [-1] * len(nodes)  # as `group_of`, by position; -1 where a node has none
        self._before_at: list[list[int] | None] = [None] * len(nodes)  # see `_before`
        self._nodes = nodes
        self._results = results
        self._apart = apart
        self._again = again
        self._readers: dict[IRValue, int] = {}  # how many inputs of nodes a value is
        self._last_reader: dict[IRValue, IRNode] = {}  # of those that were looked at
        for node in nodes:
            for value in node.inputs:
                if value is not None:
                    self._readers[value] = self._readers.get(value, 0) + 1
        self.order = Order(nodes)
        self.group_of: dict[IRNode, int] = {}
        self.formulas: dict[IRNode, Sequence[Expr]] = {}
        self._computed: dict[IRNode, np.dtype] = {}  # the dtype in which a node's formula is computed
        self.groups: dict[int, _Group] = {}
        self._inside = bytearray(len(nodes))  # per node whether a group begins before it and ends with it or behind
        for position, node in enumerate(nodes):
            # Of an array that a step changes, what it holds in between is no result.
            is_asked_for = bool(node.changed) and any(value in results for value in node.outputs)
            formulas = None if is_asked_for or node.computed else formulas_of(node)
            if formulas is not None:
                self.formulas[node] = formulas
                self._place(position, node)
            for value in node.inputs:
                if value is not None:
                    self._last_reader[value] = node
        self.any = any(len(group.members) > 1 for group in self.groups.values())

    def _place(self, position: int, node: IRNode) -> None:
        """Put a node into the groups of its producers, made one, as far as they fit; else into a group of its own.

        Then into those that read an array which it reads, too, so that it is read once.
        """
        self.group_of[node] = self._group_at[position] = position
        self._computed[node] = self._dtype_of(node)
        made = node.outputs[0]
        is_written = not node.changed and (made in self._results or made in self._readers)
        self.groups[position] = _Group(node, is_written)
        group = position
        values = [value for value in node.inputs if value is not None]
        producers = [value.node for value in values if value.node is not None]
        # Only the latest other reader: those far away seldom fit, and to try all would take long.
        sharers = [self._last_reader.get(value) for value in values]
        for related in (*producers, *sharers):
            if node in self._again and related not in self._again:
                continue
            other = None if related is None else self.group_of.get(related)
            if other is not None and other != group:
                together = self._fit(other, group)
                if together is not None:
                    group = self._merge(other, group, together)

    def _dtype_of(self, node: IRNode) -> np.dtype:
        """The dtype of the values that a node computes with."""
        decision, spec = node.decision, node.spec
        assert decision is not None and spec is not None
        if not decision.call.by_operands:
            return node.outputs[0].dtype
        source = node.inputs[0]
        assert source is not None
        if spec is SPECS["Cast"]:
            # Behind a formula it is done as that is stored, else when one reads it.
            is_behind = source.node is not None and self._computed.get(source.node) == source.dtype
            return source.dtype if is_behind and not is_narrow(source.dtype) else node.outputs[0].dtype
        if not isinstance(spec, ProgramOp):
            return source.dtype
        own = decision.call.inputs[spec.leading].dtype
        if own != _TRUTH or not spec.predicate:
            return own
        # Truth values are 1 and 0 in whatever dtype they were found.
        makers = [value.node for value in node.inputs if value is not None and value.node is not None]
        judged = [maker for maker in makers if maker in self._computed and maker.spec is not None]
        found = {self._computed[maker] for maker in judged if maker.spec is not None and maker.spec.predicate}
        return found.pop() if len(found) == 1 and len(judged) == len(makers) else own

    def _merge(self, one: int, other: int, together: tuple[int, int]) -> int:
        """Make two groups one, named after the earlier; together: what `_fit` gave."""
        group, gone = min(one, other), max(one, other)
        whole, moved = self.groups[group], self.groups.pop(gone)
        whole.written, whole.outside = together
        is_behind = self._index[whole.members[-1]] < gone
        whole.members += moved.members
        if not is_behind:
            whole.members.sort(key=self._index.__getitem__)
        for value, count in moved.reads.items():
            whole.reads[value] = whole.reads.get(value, 0) + count
        whole.changed |= moved.changed
        for node in moved.members:
            self.group_of[node] = self._group_at[self._index[node]] = group
        last = self._index[whole.members[-1]]
        self._inside[group + 1 : last + 1] = bytes([1]) * (last - group)
        return group

    def compute_of(self, node: IRNode) -> np.dtype | None:
        """The dtype in which the group of a node is computed, where its operands do not tell."""
        assert node.decision is not None
        if not node.decision.call.by_operands:
            return None
        found = self._computed[node]
        return _SINGLE if is_narrow(found) else found

    def _fit(self, one: int, other: int) -> tuple[int, int] | None:
        """`written` and `outside` of two groups as one, None where they may not be; `other` holds the node in hand."""
        before, new = self.groups[one], self.groups[other]
        first, second = before.members[0], new.members[0]
        assert first.decision is not None and second.decision is not None
        # Dtypes that follow from operands are not those of a type config.
        is_free = first.decision.call.by_operands
        alike = (
            second.outputs[0].shape == first.outputs[0].shape
            and self._computed[second] == self._computed[first]
            and second.outputs[0].place is first.outputs[0].place
            and second.decision.backend == first.decision.backend
            and (is_free or second.decision.type_config == first.decision.type_config)
            and second.context.deterministic == first.context.deterministic
            and second.context.local_errors == first.context.local_errors
        )
        count = len(before.members) + len(new.members)
        if not alike or count > MOST_NODES or (first in self._apart) != (second in self._apart):
            return None
        together = self._written_and_outside(before, new)
        if sum(together) + len(before.changed | new.changed) > MOST_OPERANDS:
            return None
        if any(self._passes_outside(one, node) for node in new.members):
            return None
        if self._interferes(before, new):
            return None
        # No node depends on the one that is being placed.
        is_new = len(new.members) == 1
        if not is_new and any(self._passes_outside(other, node) for node in before.members):
            return None
        return together

    def _interferes(self, one: _Group, other: _Group) -> bool:
        """Whether an array is changed by one of two groups where it is read through another window."""
        arrays = one.changed | other.changed
        if not arrays:
            return False
        changed = [value for group in (one, other) for node in group.members for value in node.changed.values()]
        reads = [value for group in (one, other) for value in group.reads if value.base.array in arrays]
        return any(value.interferes(target) for value in reads for target in changed)

    def _written_and_outside(self, one: _Group, other: _Group) -> tuple[int, int]:
        """What `written` and `outside` of two groups would be together; looks only at what the smaller one touches."""
        small, large = sorted((one, other), key=lambda group: len(group.members))
        written, outside = small.written + large.written, small.outside + large.outside
        small_number, large_number = (self.group_of[group.members[0]] for group in (small, large))
        for value in small.reads:
            owner = None if value.node is None else self.group_of.get(value.node)
            if owner == large_number:
                outside -= 1
                written -= self._ends_inside(value, large, small)
            elif owner != small_number and value in large.reads:
                outside -= 1  # both read it
        for node in small.members:
            for value in node.outputs:
                if value in large.reads:
                    outside -= 1
                    written -= self._ends_inside(value, small, large)
        return written, outside

    def _ends_inside(self, value: IRValue, maker: _Group, reader: _Group) -> bool:
        """Whether a result of one group that another one reads need not be written where both are one."""
        is_first = value.node is not None and value is value.node.outputs[0]
        if not is_first or value.is_in_place or value in self._results:
            return False
        return self._readers[value] == maker.reads.get(value, 0) + reader.reads[value]

    def _passes_outside(self, group: int, node: IRNode) -> bool:
        """Whether the node must run after the group because of a node of neither: then they cannot be one."""
        index, group_at = self._index, self._group_at
        own = self.group_of[node]
        # No group reaches across this position: nodes before it depend on none behind it.
        earliest = self._inside.rfind(0, 0, group + 1)
        seen: set[int] = set()
        stack = [before for before in self._before(index[node]) if group_at[before] not in (group, own)]
        while stack:
            outside = stack.pop()
            if outside < earliest:
                continue
            found = group_at[outside]
            unit = outside if found < 0 else found  # a group has the number of a node that is in it
            if unit in seen:
                continue
            if unit == group:
                return True
            if len(seen) >= _SEARCH_LIMIT:
                return True  # not found out: they stay apart, which is always right
            seen.add(unit)
            if found < 0:
                stack += self._before(outside)
            else:
                for related in self.groups[unit].members:
                    stack += self._before(index[related])
        return False

    def _before(self, position: int) -> list[int]:
        """The positions of the nodes that must have run right before one."""
        found = self._before_at[position]
        if found is None:
            index = self._index
            before = self.order.before(self._nodes[position])
            found = self._before_at[position] = [index[node] for node in before if node in index]
        return found


def _rewrite(
    graph: Graph,
    nodes: Sequence[IRNode],
    groups: _Groups,
    results: set[IRValue],
    made_of: dict[IRNode, IRNode],
    in_parts: InParts,
) -> list[IRNode]:
    """The nodes with one for each group; made_of: receives of each of these the one that it is decided like."""
    readers: dict[IRValue, set[int | IRNode]] = {}
    for node in nodes:
        for value in node.inputs:
            if value is not None:
                readers.setdefault(value, set()).add(groups.group_of.get(node, node))
    units: dict[int | IRNode, list[IRNode]] = {}
    for node in nodes:
        units.setdefault(groups.group_of.get(node, node), []).append(node)
    order = _ordered(units, groups.order)
    wired = {unit: _Wires(graph, members, groups.formulas) for unit, members in units.items() if len(members) > 1}
    for unit, given in _differing(wired).items():
        wired[unit] = _Wires(graph, units[unit], groups.formulas, given)
    result = []
    at_hand: dict[Hashable, bool] = {}
    for unit in order:
        members = units[unit]
        if len(members) == 1:
            result.append(members[0])
            continue
        outputs = [
            member.outputs[0]
            for member in members
            if not member.changed
            and (member.outputs[0] in results or any(reader != unit for reader in readers.get(member.outputs[0], ())))
        ]
        compute = groups.compute_of(members[0])
        parts = None
        may_split = in_parts and compute is None and not wired[unit].changed and all(map(_splits, members))
        if may_split and (in_parts is InParts.ALL or not _is_at_hand(members, wired[unit], outputs, at_hand)):
            parts = _parts(graph, members, wired[unit], outputs, groups.formulas)
        if parts is not None:
            graph.is_in_parts = True
            result += parts
            continue
        made = _fused_node(members, wired[unit], outputs, compute)
        made_of[made] = _first_of(members)
        result.append(made)
    return result


def _parts(
    graph: Graph,
    members: Sequence[IRNode],
    wires: _Wires,
    outputs: Sequence[IRValue],
    formulas: Mapping[IRNode, Sequence[Expr]],
) -> list[IRNode] | None:
    """What computes a group in parts, which are short formulas or single ops; None where there are none."""
    read, results = wires.formulas()
    parts = parts_of(members, read, [each for (each,) in results], outputs)
    if parts is None:
        return None
    made = []
    for part in parts:
        if len(part) == 1:
            made += part
            continue
        own = set(part)
        needed = set(outputs).union(
            value for member in members if member not in own for value in member.inputs if value is not None
        )
        written = [member.outputs[0] for member in part if member.outputs[0] in needed]
        made.append(_fused_node(part, _Wires(graph, part, formulas), written, None))
    return made


def _splits(member: IRNode) -> bool:
    return member.decision is not None and member.decision.implementation.splits


def _is_at_hand(
    members: Sequence[IRNode], wires: _Wires, outputs: Sequence[IRValue], known: dict[Hashable, bool]
) -> bool:
    """Whether a group that changes no array has a kernel that needs not be compiled; known: the answers so far."""
    spec = _spec_of(wires, outputs, None)
    call, decision = _call_of(members, spec, wires.inputs, outputs)
    key = decision.implementation, spec, call
    if key not in known:
        native = prepare(decision.implementation, call).native
        asks = None if native is None else native.is_at_hand
        known[key] = asks is None or asks(None)
    return known[key]


def _differing(wired: Mapping[int | IRNode, _Wires]) -> dict[int | IRNode, frozenset[tuple[int, int]]]:
    """Of many groups that are alike but for numbers: which floats, by row and position, have not one value in all.

    As literals those would be another kernel for each group: thousands in a long chain of steps with numbers of their
    own. Exponents stay literals, of which formulas have quicker forms.
    """
    if len(wired) <= MOST_ALIKE:
        return {}
    alike: dict[tuple[object, ...], dict[int | IRNode, Mapping[tuple[int, int], Expr]]] = {}
    for unit, wires in wired.items():
        literals = wires.literals()
        alike.setdefault(wires.without(literals), {})[unit] = literals
    found: dict[int | IRNode, frozenset[tuple[int, int]]] = {}
    for same in alike.values():
        numbers = list(same.values())
        if len({tuple(each.values()) for each in numbers}) > MOST_ALIKE:
            given = frozenset(place for place in numbers[0] if len({each[place] for each in numbers}) > 1)
            found.update(dict.fromkeys(same, given))
    return found


def _ordered(units: dict[int | IRNode, list[IRNode]], order: Order) -> list[int | IRNode]:
    """The units in an order in which they can run."""
    unit_of = {member: unit for unit, members in units.items() for member in members}
    result: list[int | IRNode] = []
    done: set[int | IRNode] = set()
    for start in units:
        stack: list[tuple[int | IRNode, bool]] = [(start, False)]
        while stack:
            unit, expanded = stack.pop()
            if unit in done:
                continue
            if expanded:
                done.add(unit)
                result.append(unit)
                continue
            stack.append((unit, True))
            for member in units[unit]:
                for node in order.before(member):
                    before = unit_of.get(node)
                    if before is not None and before != unit and before not in done:
                        stack.append((before, False))
    return result


class _Wires:
    """Which numbers the values and run-time floats of a group have, in the order in which its members meet them.

    given: by row and position the floats that are run-time floats although their values are known.

    inputs: values that come from outside.  floats: indices of the graph's run-time floats.  rows: what each member
    computes from which numbers.  changed: per array that is changed, its first version here and its last.
    """

    def __init__(
        self,
        graph: Graph,
        members: Sequence[IRNode],
        formulas: Mapping[IRNode, Sequence[Expr]],
        given: frozenset[tuple[int, int]] = frozenset(),
    ) -> None:
        self.inputs: list[IRValue] = []
        self.floats: list[int] = []
        self.changed: dict[IRArray | None, tuple[IRValue, IRValue]] = {}
        self.numbers: dict[IRValue, int] = {}
        self.rows: list[_Row] = []
        self._names: dict[int, Expr] = {}  # by index of a run-time float
        for row, member in enumerate(members):
            assert member.spec is not None
            read = tuple(self._number(value, True) for value in member.inputs if value is not None)
            floats = tuple(
                self._float(graph, member.attributes[item], (row, position) in given)
                for position, item in enumerate(member.spec.float_names)
            )
            for position, last in member.changed.items():
                first = member.inputs[position]
                assert first is not None
                array = last.base.array
                self.changed[array] = self.changed.get(array, (first,))[0], last
            written = tuple(self._number(value, False) for value in member.outputs)
            self.rows.append(_Row(member.name, tuple(formulas[member]), _names(member), read, floats, written))

    def literals(self) -> dict[tuple[int, int], Expr]:
        """By row and position the floats that are numbers in the formulas and could as well be run-time floats."""
        return {
            (place, position): value
            for place, row in enumerate(self.rows)
            for position, value in enumerate(row.floats)
            if isinstance(value, Number) and not _is_exponent(row.names[position - len(row.floats)], row.formulas)
        }

    def formulas(self) -> tuple[list[dict[str, Expr]], list[list[Expr]]]:
        """Per row what the names in its formulas stand for, and its formulas, in the names of what all of them read."""
        expressions = {self.numbers[value]: name(f"x{position}") for position, value in enumerate(self.inputs)}
        read: list[dict[str, Expr]] = []
        results: list[list[Expr]] = []
        for row in self.rows:
            replaced = dict(zip(row.names, (*(expressions[value] for value in row.read), *row.floats), strict=True))
            formulas = [substitute(formula, replaced) for formula in row.formulas]
            expressions.update(zip(row.written, formulas, strict=True))
            read.append(replaced)
            results.append(formulas)
        return read, results

    def without(self, literals: Container[tuple[int, int]]) -> tuple[object, ...]:
        """The rows without some of their floats: equal for groups that differ in those alone."""
        gone = name("")  # no float has an empty name
        return tuple(
            row._replace(floats=tuple(gone if (place, at) in literals else it for at, it in enumerate(row.floats)))
            for place, row in enumerate(self.rows)
        )

    def _number(self, value: IRValue, is_input: bool) -> int:
        number = self.numbers.get(value)
        if number is None:
            number = self.numbers[value] = len(self.numbers)
            if is_input:
                self.inputs.append(value)
        return number

    def _float(self, graph: Graph, slot: object, is_given: bool) -> Expr:
        assert isinstance(slot, FloatSlot)
        if is_given:
            # Not shared with an equal float: in the next group that is alike they may differ.
            return self._new_float(slot.index)
        kind, *source = graph.floats[slot.index]
        # Numbers of gradient rules are part of the structure; those of users are run-time values, and counts of
        # elements are, which would be another kernel for each size of a batch.
        if kind == "constant" and not is_count(source[0]):
            return number(source[0])
        found = self._names.get(slot.index)
        if found is None:
            found = self._names[slot.index] = self._new_float(slot.index)
        return found

    def _new_float(self, index: int) -> Expr:
        self.floats.append(index)
        return name(f"f{len(self.floats) - 1}")


def _is_exponent(float_name: str, formulas: Sequence[Expr]) -> bool:
    """Whether a float is in an exponent of the formulas."""
    powers = [each for each in postorder(formulas) if each.op == "**"]
    return any(float_name in power.args[1].names for power in powers)


class _Row(NamedTuple):
    """A member of a group: its formulas in `names`, inputs first, the numbers that it reads and writes, its floats."""

    op: str
    formulas: tuple[Expr, ...]
    names: tuple[str, ...]
    read: tuple[int, ...]
    floats: tuple[Expr, ...]
    written: tuple[int, ...]


Wiring = tuple[tuple[_Row, ...], tuple[tuple[int, int], ...], tuple[int, ...], int, np.dtype | None]
"""What the op of a group depends on.

Rows, first and last version of changed arrays, the outputs, how many floats, the dtype in which it is computed.
"""

_OPS: Generations[FusedOp] = Generations("fused ops", 1024)
"""Ops of groups: those of the loops and layers of a network are often alike, and of plans for other sizes they are."""


def _names(node: IRNode) -> tuple[str, ...]:
    """The names of a node's inputs and run-time floats in its formulas."""
    assert node.spec is not None
    inputs = ("x",) if node.spec.program is None else node.spec.program.inputs
    return (*inputs, *node.spec.float_names)


def _fused_node(
    members: Sequence[IRNode],
    wires: _Wires,
    outputs: Sequence[IRValue],
    compute: np.dtype | None,
) -> IRNode:
    """One node for the members of a group; the given values become its outputs, behind the arrays that it changes."""
    spec = _spec_of(wires, outputs, compute)
    made = [*(last for _, last in wires.changed.values()), *outputs]
    return _node(members, spec, wires.inputs, wires.floats, made)


def _spec_of(wires: _Wires, outputs: Sequence[IRValue], compute: np.dtype | None) -> FusedOp:
    """The op of a group, whose outputs are the arrays that it changes, and the given values."""
    numbers = wires.numbers
    changed = tuple((numbers[first], numbers[last]) for first, last in wires.changed.values())
    written = tuple(numbers[value] for value in outputs)
    wiring: Wiring = tuple(wires.rows), changed, written, len(wires.floats), compute
    spec = _OPS.get(wiring) or _OPS.find_old(wiring)
    if spec is None:
        spec = _OPS.add(wiring, _fused_op(wires, changed, written, compute))
    return spec


def _fused_op(
    wires: _Wires, changed: Sequence[tuple[int, int]], written: Sequence[int], compute: np.dtype | None
) -> FusedOp:
    """The op that computes all rows, with the arrays that are changed and then the written values as its outputs."""
    inputs = {wires.numbers[value]: f"x{position}" for position, value in enumerate(wires.inputs)}
    expressions = {value: name(identifier) for value, identifier in inputs.items()}
    for row, results in zip(wires.rows, wires.formulas()[1], strict=True):
        expressions.update(zip(row.written, results, strict=True))
    program = Program(
        tuple(inputs.values()),
        tuple(f"f{position}" for position in range(len(wires.floats))),
        (
            *((inputs[first], expressions[last]) for first, last in changed),
            *((f"y{position}", expressions[value]) for position, value in enumerate(written)),
        ),
    )
    return FusedOp(program, [row.op for row in wires.rows], compute)


def _first_of(members: Sequence[IRNode]) -> IRNode:
    """The member of which a fused node has decision and Context."""
    # A cast is not decided by the dtype that it is computed in.
    return next((member for member in members if member.spec is not SPECS["Cast"]), members[0])


def _node(
    members: Sequence[IRNode],
    spec: FusedOp,
    inputs: Sequence[IRValue],
    floats: Sequence[int],
    outputs: Sequence[IRValue],
) -> IRNode:
    assert spec.program is not None
    call, decision = _call_of(members, spec, inputs, outputs)
    attributes = {item: FloatSlot(index) for item, index in zip(spec.program.attributes, floats, strict=True)}
    context = _first_of(members).context
    node = IRNode(spec, tuple(inputs), attributes, context, decision.made_for(spec.name, call))
    node.make(outputs, {source: outputs[position] for position, source in spec.inplace.items()})
    return node


def _call_of(
    members: Sequence[IRNode], spec: FusedOp, inputs: Sequence[IRValue], outputs: Sequence[IRValue]
) -> tuple[Call, Decision]:
    """The call of a fused op, and the decision on one of its members."""
    decision = _first_of(members).decision
    assert decision is not None
    call = decision.call.replaced_by(spec, (value.desc for value in inputs), (value.desc for value in outputs))
    return call, decision
