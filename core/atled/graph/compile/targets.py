"""Targets: what is made only to be assigned is made where it is assigned to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import count

import numpy as np

from atled.arrays.place import HOST
from atled.graph.compile.changes import Changes
from atled.graph.compile.fusion import FusedOp
from atled.graph.nodes.ir import IRNode, IRValue
from atled.ops.formula import Program
from atled.ops.spec import SPECS


def write_to_targets(nodes: Sequence[IRNode], results: Iterable[IRValue]) -> list[IRNode]:
    """The nodes to run instead of `nodes`: some write into the array that what they make is assigned to.

    So does a node whose implementation can write there, with the strides that a window has, if nobody else reads what
    it makes, and nothing that it reads changes up to the assignment, whose turn it takes; of several outputs it writes
    all, or none. A formula that does not look at what its target held has that for an output only; then others may
    compute it on the way.

    results: values that must exist although no node may read them.
    """
    assigning = [node for node in nodes if node.spec is SPECS["Assign"] and not node.computed]
    if assigning:
        targets = _Targets(nodes, set(results))
        for node in assigning:
            targets.write_at_once(node)
        nodes = [made for node in nodes if (made := targets.become.get(node, node)) is not None]
    return [_without_reading(node) if _overwrites(node) else node for node in nodes]


def _overwrites(node: IRNode) -> bool:
    """Whether a node in host memory is a formula that needs nothing of its targets, on arrays of one dtype."""
    spec, decision = node.spec, node.decision
    if not node.changed or node.computed or decision is None or not decision.implementation.fuses:
        return False
    if spec is None or spec.program is None or not (type(spec) is FusedOp or spec is SPECS["Assign"]):
        return False
    used = {identifier for expression in spec.program.expressions for identifier in expression.names}
    if used.intersection(spec.program.inputs[position] for position in node.changed):
        return False
    targets = [node.inputs[position] for position in node.changed]
    others = [value for position, value in enumerate(node.inputs) if position not in node.changed]
    made = node.outputs[0]
    read = [value for value in others if value is not None]
    if made.place is not HOST or any(value.dtype != made.dtype for value in (*read, *node.outputs)):
        return False
    if np.broadcast_shapes(*(value.shape for value in read)) != made.shape:
        return False  # only the target tells how often the formula is computed
    return not any(value.touches(target) for value in read for target in targets if target is not None)


def _without_reading(node: IRNode) -> IRNode:
    """The formula without its targets as inputs."""
    spec, decision = node.spec, node.decision
    assert spec is not None and spec.program is not None and decision is not None
    old = spec.program
    kept = [position for position in range(len(node.inputs)) if position not in node.changed]
    taken = {*old.inputs, *old.attributes, *old.output_names}
    free = (name for number in count() if (name := f"z{number}") not in taken)
    outputs = [(next(free) if name in old.inputs else name, expression) for name, expression in old.outputs]
    program = Program([old.inputs[position] for position in kept], old.attributes, outputs)
    names, compute = (spec.names, spec.compute) if isinstance(spec, FusedOp) else ((spec.name,), None)
    made = FusedOp(program, names, compute)
    inputs = tuple(node.inputs[position] for position in kept)
    call = decision.call.replaced_by(made, (decision.call.inputs[position] for position in kept), decision.call.outputs)
    new = IRNode(made, inputs, node.attributes, node.context, decision.made_for(made.name, call))
    new.make(node.outputs)
    return new


class _Targets:
    """become: what nodes are replaced by; None for one that is left out."""

    def __init__(self, nodes: Sequence[IRNode], results: set[IRValue]) -> None:
        self._results = results
        self._changes = Changes(nodes)
        self._position = self._changes.position
        self._readers: dict[IRValue, int] = {}  # of the value and of views of it
        self._assigning: dict[IRValue | None, IRNode] = {}  # the last assignment of a value
        for node in nodes:
            for value in node.inputs:
                if value is not None:
                    self._readers[value.shows] = self._readers.get(value.shows, 0) + 1
            if node.spec is SPECS["Assign"] and not node.computed:
                self._assigning[node.inputs[1]] = node
        self.become: dict[IRNode, IRNode | None] = {}

    def write_at_once(self, assigning: IRNode) -> None:
        """Have what makes the value of an assignment write it there, if it can: all that it makes at once."""
        target, value = assigning.inputs
        assert target is not None and value is not None
        maker = value.node
        if maker is None or value.is_view or maker not in self._position or maker in self.become:
            return
        assignments = self._assignments_of(maker)
        if assignments is None or not _may_write_elsewhere(maker):
            return
        last = max(assignments, key=self._position.__getitem__)
        if not self._reads_the_same(maker, last):
            return
        new = _written_to(maker, {each.inputs[1]: each.changed[0] for each in assignments}, last)
        if new is not None:
            self.become |= {maker: None, **dict.fromkeys(assignments, None), last: new}

    def _assignments_of(self, maker: IRNode) -> list[IRNode] | None:
        """One for each value that a node makes and somebody reads, one behind the other; None where others read it."""
        found: list[tuple[IRNode, IRValue, IRValue]] = []  # with what it holds before, and what it gets
        for value in maker.outputs:
            assigning = self._assigning.get(value)
            if value in self._results or self._readers.get(value, 0) != (assigning is not None):
                return None
            if assigning is not None:
                target = assigning.inputs[0]
                assert target is not None
                found.append((assigning, target, value))
        places = [self._position[each] for each, _, _ in found]
        if max(places) - min(places) >= len(places):
            return None  # what stands between might read a target, or write it
        for number, (_, target, value) in enumerate(found):
            if value.shape != target.shape or value.place is not target.place:
                return None
            others = (*maker.inputs, *(each for _, each, _ in found[:number]))
            if any(item is not None and item.touches(target) for item in others):
                return None
        return [each for each, _, _ in found]

    def _reads_the_same(self, maker: IRNode, assigning: IRNode) -> bool:
        """Whether what a node reads has not changed where the assignment stands."""
        return all(value is None or self._changes.spare(value, (assigning,)) for value in maker.inputs)


def _may_write_elsewhere(maker: IRNode) -> bool:
    spec, decision = maker.spec, maker.decision
    if spec is None or decision is None or maker.computed or len(maker.outputs) != len(spec.outputs):
        return False
    return not (spec.views or spec.by_engine or spec.random or maker.mutated or spec.inplace or decision.fallback)


def _written_to(maker: IRNode, written: Mapping[IRValue | None, IRValue], assigning: IRNode) -> IRNode | None:
    """The node with other outputs; None where its implementation does not write there.

    written: by value the one that takes its place.
    """
    spec, decision = maker.spec, maker.decision
    assert spec is not None and decision is not None
    outputs = [written.get(value, value) for value in maker.outputs]
    strided = [name for name, made in zip(spec.outputs, outputs, strict=True) if not _is_plain(made)]
    implementation = decision.implementation
    if strided and not implementation.takes_strides(strided):
        return None
    call = decision.call.on(decision.call.inputs, tuple(made.desc for made in outputs))
    if implementation.accepts is not None and implementation.accepts(call) is not True:
        return None
    new = IRNode(spec, maker.inputs, maker.attributes, assigning.context, decision.made_for(spec.name, call))
    new.is_sparing = maker.is_sparing
    new.make(outputs)
    return new


def _is_plain(made: IRValue) -> bool:
    """Whether a value is in C order, where kernels may begin."""
    place = made.place
    assert place is not None
    return made.desc.is_contiguous and place.begins_anywhere(made.offset * made.dtype.itemsize)
