"""Compiling of descriptions: to a plan whose assignments happen all, or not at all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Sequence

from atled.arrays.place import HOST
from atled.graph.compile.lowering import lower
from atled.graph.compile.plan import Plan
from atled.graph.compile.step import Step
from atled.graph.keyed.entries import Assigned, Described, Entry, Leaves, Number
from atled.graph.nodes.ir import ChangedElsewhereError, Graph, IRNode, IRValue
from atled.named_tuple import NamedTuple
from atled.ops.spec import SPECS
from atled_contexts import Context


class Compiled(NamedTuple):
    """A compiled description.

    plan: its targets are the results, then the new values of arrays that are swapped.
    shapes: of the results.  swapped: the numbers of those arrays.  changed: of those that steps change.
    lows: per array where the plan has it begin, in elements from the first one of its first leaf on.
    fits_addresses: whether it may run on addresses to which a run adds where views begin.
    """

    plan: Plan
    shapes: tuple[tuple[int, ...], ...]
    swapped: tuple[int, ...]
    changed: tuple[int, ...]
    lows: tuple[int, ...]
    fits_addresses: bool = True


def compile_entries(entries: Sequence[Entry], leaves: Leaves, context: Context) -> Compiled:
    """The plan of a description.

    What is assigned is written in place, by the step that makes it, where that is elementwise, or makes it for that
    array only and does not read it. Else it is made in new memory, which the array has from then on. Views are written
    in place; but nothing that may fail runs behind the first step that writes one: then they are written in a copy of
    their array, which that has from then on.
    """
    described = Described(entries, leaves, context)
    views = frozenset(n for n, each in enumerate(described.assigned) if not each.is_whole)
    elementwise = frozenset(n for n, each in enumerate(described.assigned) if _is_elementwise(each))
    direct = views | elementwise | _made_for_one(described)
    tried = dict.fromkeys(((direct, False), (views | elementwise, False), (views, False), (views, True)))
    if described.reads_first and not views and _is_elsewhere(described):
        tried = {(frozenset(), False): None}  # to fetch results may fail
    whole = {each.number for each in described.assigned if each.is_whole}
    compiled = None
    for number, (in_place, is_apart) in enumerate(tried):
        try:
            compiled = _lowered(Described(entries, leaves, context) if number else described, in_place, is_apart)
        except ChangedElsewhereError:  # by several backends, each a part: then on a copy, which goes to each
            continue
        if _is_safe(compiled) and not _copies(compiled, whole):
            return compiled
    if leaves.begins is None and compiled is not None:
        return compiled._replace(fits_addresses=False)
    compiled = _lowered(Described(entries, leaves, context), frozenset(), False)
    return compiled._replace(fits_addresses=leaves.begins is not None)


def _is_elsewhere(described: Described) -> bool:
    """Whether some of what is computed is not in host memory."""
    values = [*described.results, *(each.value for each in described.assigned if not isinstance(each.value, Number))]
    return any(value.place is not HOST for value in values)


def _is_elementwise(assigned: Assigned) -> bool:
    value = assigned.value
    if isinstance(value, Number) or value.node is None or value.node.spec is None:
        return False
    spec = value.node.spec
    return value.shape == assigned.target.shape and (spec.program is not None or spec.copies)


def _made_for_one(described: Described) -> frozenset[int]:
    """The assignments to whole arrays that nothing reads, of what a node makes in host memory for nobody else.

    It may write that there; where it does not, a copy is found (`_copies`).
    """
    assigned = described.assigned
    read = Counter(value.base for node in described.graph.nodes for value in node.inputs if value is not None)
    read.update(value.base for value in described.results)
    read.update(each.value.base for each in assigned if not isinstance(each.value, Number))
    return frozenset(n for n, each in enumerate(assigned) if each.is_whole and _is_only_for(each, read))


def _is_only_for(assigned: Assigned, read: Counter[IRValue]) -> bool:
    """Whether a node makes all that an array is to hold, which nothing else reads, nor what the array holds."""
    target, value = assigned.target, assigned.value
    if isinstance(value, Number) or value.node is None or value.is_view or value.place is not HOST:
        return False
    fits = (value.shape, value.dtype) == (target.shape, target.dtype)
    return fits and read[target.base] == 0 and read[value] == 1


def _lowered(described: Described, in_place: frozenset[int], is_apart: bool) -> Compiled:
    """The plan where some of what is assigned is written in place.

    is_apart: whether that is behind all else, or as soon as it is made.
    """
    graph, assigned = described.graph, described.assigned
    results = [_apart(graph, value) if in_place else value for value in described.results]
    values = [described.new_value(each, is_full=n not in in_place) for n, each in enumerate(assigned)]
    if len(assigned) > 1:  # else the graph itself knows what it has to copy before
        values = [_apart(graph, value) if in_place else value for value in values]
    writes: list[IRNode] = []
    for number in sorted(in_place):
        graph.assign(assigned[number].target, values[number])
        writes.append(graph.nodes[-1])
    swapped = {each.number: values[n] for n, each in enumerate(assigned) if each.is_whole and n not in in_place}
    for n, each in enumerate(assigned):
        if not each.is_whole and n not in in_place:
            if each.number not in swapped:
                swapped[each.number] = graph.op("Identity", each.target.base)
            swapped[each.number] = graph.assign_within(swapped[each.number], each.target.window, values[n])
    plan = lower(graph, [*results, *swapped.values()], apart=writes if is_apart else ())
    changed = tuple(sorted({number for number, _, _ in plan.written}))
    shapes = tuple(value.shape for value in described.results)
    return Compiled(plan, shapes, tuple(swapped), changed, tuple(described.lows))


def _apart(graph: Graph, value: IRValue) -> IRValue:
    """The value in memory that no assignment changes."""
    if value.base.external < 0:
        return value
    copy: IRValue = graph.op("Identity", value)
    return copy


def _is_safe(compiled: Compiled) -> bool:
    """Whether a step that fails leaves every array as it was.

    So it is where nothing that may fail runs from the first step on that changes one, which begins with its carrier.
    Elementwise kernels on the host do not fail; one launch in Python happens or does not, if it is the last.
    """
    steps, slots = compiled.plan.steps, compiled.plan.slots
    changes = [any(slots[number].source[0] == "external" for number in step.written) for step in steps]
    if True not in changes:
        return True
    if any(step.culprit is not None for step in steps) and not _sees_failures(steps, changes):
        return False
    first = [min(number, steps.index(step.carrier or step)) for number, step in enumerate(steps) if changes[number]]
    rest = steps[min(first) :]
    if len(rest) == 1 and rest[0].native is None:
        return True
    return all(step.native is not None and not step.native.errors for step in rest)


def _sees_failures(steps: Sequence[Step], changes: Sequence[bool]) -> bool:
    """Whether no step changes arrays behind one that fails on its device."""
    return all(step.changes_arrays for step, is_change in zip(steps, changes, strict=True) if is_change)


def _copies(compiled: Compiled, whole: Container[int]) -> bool:
    """Whether a step does nothing but assign a whole array: to swap it costs less."""
    plan = compiled.plan
    copies = [slot for step in plan.steps if step.node.spec is SPECS["Assign"] for slot in step.written]
    return any(kind == "external" and number[0] in whole for kind, *number in (plan.slots[n].source for n in copies))
