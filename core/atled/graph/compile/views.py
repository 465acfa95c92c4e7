"""Views: slices and transposes that are only read are read where they are cut from, by strides."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from atled.arrays.place import HOST
from atled.graph.compile.changes import Changes
from atled.graph.compile.wanted import only_chooses
from atled.graph.nodes.dispatch import EngineOp
from atled.graph.nodes.ir import Graph, IRNode, IRValue
from atled.ops.reduction import Reduction
from atled.reference import prepare_reference

_ROW = 16
"""Elements one behind the other that are read as quickly from anywhere."""


def read_views(graph: Graph, nodes: Sequence[IRNode], results: Iterable[IRValue]) -> list[IRNode]:
    """The nodes to run instead of `nodes`: views in the place of some that only choose elements (`OpSpec.window`).

    So it is where all that read them take strides, and nothing changes the array before that. Views whose elements do
    not lie in rows take longer to read than a copy, but the copy, too, has to be made: they are for one reader. That
    must have no neighbour that might carry it (`Native.after`, `Native.before`): it would not be computed by ranges.
    Reductions read an array without gaps as it lies in memory, so that the order of its axes is nothing to them.

    results: values that must exist although no node may read them.
    """
    choosing = [node for node in nodes if only_chooses(node)]
    views = _Views(graph, nodes, set(results))
    for node in choosing:
        views.replace(node)
    return [made for node in nodes if (made := views.become.get(node, node)) is not None]


class _Views:
    """become: what nodes are replaced by; None for one that chooses all, as it is."""

    def __init__(self, graph: Graph, nodes: Sequence[IRNode], results: set[IRValue]) -> None:
        self._graph = graph
        self._kept = {value.base for value in results}
        self._changes = Changes(nodes)
        self._readers: dict[IRValue, list[IRNode]] = {}
        for node in nodes:
            for value in node.inputs:
                if value is not None:
                    self._readers.setdefault(value, []).append(node)
        self.become: dict[IRNode, IRNode | None] = {}

    def replace(self, node: IRNode) -> None:
        """Put a view in the place of a node, if all that read it can read that."""
        # What it reads may itself be a view by now.
        now = self.become.get(node, node)  # it may read a view already
        assert now is not None and node.spec is not None
        (source,), (made,) = now.inputs, node.outputs
        assert source is not None
        readers = self._readers.get(made, [])
        if not readers or made in self._kept or made.base.array is not None:
            return
        if source.dtype != made.dtype or source.place is not made.place:
            return
        window = node.spec.window(source.window, node.attributes)
        if window is None:
            return
        view = self._graph.window(source, window)
        if not (_is_in_rows(view) or (view.place is HOST and self._reads_in_any_order(readers, made, view))):
            return
        if not self._changes.spare(source, readers):
            return
        changed = {}
        for reader in dict.fromkeys(readers):
            present = self.become.get(reader, reader)
            new = None if present is None else _reading(present, made, view)
            if new is None:
                return
            changed[reader] = new
        for reader, new in changed.items():
            new.make(new.outputs, new.changed)
            self.become[reader] = new
        self.become[node] = None if view is source else view.node

    def _reads_in_any_order(self, readers: Sequence[IRNode], made: IRValue, view: IRValue) -> bool:
        """Whether readers lose nothing by a view whose elements do not lie in rows."""
        are_reductions = all(isinstance(reader.spec, Reduction) for reader in readers)
        return (are_reductions and _has_no_gaps(view)) or self._is_alone(readers, made)

    def _is_alone(self, readers: Sequence[IRNode], made: IRValue) -> bool:
        """Whether there is one reader, a formula, beside which only formulas stand, and what chooses elements."""
        (reader, *further) = readers
        if further or not _is_formula(reader):
            return False
        others = [value.node for value in reader.inputs if value not in (None, made) and value.node is not None]
        others += [after for value in reader.outputs for after in self._readers.get(value, ())]
        return all(_is_formula(other) or only_chooses(other) for other in others if other in self._changes.position)


def _is_formula(node: IRNode) -> bool:
    spec = node.spec
    return spec is not None and (node.computed or spec.program is not None or spec.copies)


def _is_in_rows(view: IRValue) -> bool:
    row = 1
    for size, step in zip(reversed(view.shape), reversed(view.desc.written_strides), strict=True):
        if size > 1 and step != row:
            break
        row *= size
    return row >= min(_ROW, view.size)


def _has_no_gaps(view: IRValue) -> bool:
    """Whether the elements lie one behind the other in some order of the axes."""
    step = 1
    for stride, size in sorted(zip(view.desc.written_strides, view.shape, strict=True)):
        if size > 1 and stride != step:
            return False
        step *= size
    return True


def _reading(node: IRNode, made: IRValue, view: IRValue) -> IRNode | None:
    """A node that reads a view in the place of a copy; None where its implementation does not."""
    spec, decision, place = node.spec, node.decision, view.place
    if spec is None or decision is None or node.computed or spec.views or spec.opaque or place is None:
        return None
    implementation = decision.implementation
    positions = [position for position, value in enumerate(node.inputs) if value is made]
    if isinstance(spec, EngineOp) and any(spec.taken(position, view.desc) != view.desc for position in positions):
        return None
    names = [spec.input_at(position).name for position in positions]
    is_plain = view.desc.is_contiguous and place.begins_anywhere(view.offset * view.dtype.itemsize)
    if implementation.prepare is prepare_reference or not (is_plain or implementation.takes_strides(names)):
        return None
    if any(position in node.changed for position in positions):
        return None
    if any(view.touches(value) for value in node.changed.values()):
        return None
    inputs = tuple(view if value is made else value for value in node.inputs)
    call = decision.call
    descs = zip(node.inputs, call.inputs, strict=True)
    call = call.on(tuple(view.desc if value is made else desc for value, desc in descs), call.outputs)
    if implementation.accepts is not None and implementation.accepts(call) is not True:
        return None
    new = IRNode(spec, inputs, node.attributes, node.context, decision.made_for(spec.name, call))
    new.is_sparing = node.is_sparing
    new.outputs, new.changed = node.outputs, node.changed
    return new
