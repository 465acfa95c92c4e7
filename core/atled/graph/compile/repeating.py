"""Repeating later: what only chooses elements of a repeated array repeats the elements that it chooses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from atled.graph.compile.changes import Changes
from atled.graph.compile.wanted import is_repeated, only_chooses
from atled.graph.nodes.ir import Graph, IRNode, IRValue
from atled.ops.spec import SPECS
from atled.strides import Window


def repeat_chosen(graph: Graph, nodes: Sequence[IRNode], results: Iterable[IRValue]) -> list[IRNode]:
    """The nodes to run instead of `nodes`: repetitions in the place of slices and transposes of repeated arrays.

    So it is where nothing else reads the repeated array, which then is not made at all, and where not more elements are
    chosen than that has. Gradients of sums over such choices are an example.

    results: values that must exist although no node may read them.
    """
    kept, readers = {value.base for value in results}, _readers(nodes)
    changes = Changes(nodes)
    become: dict[IRNode, list[IRNode]] = {}
    for node in nodes:
        # What it reads may itself be repeated later by now.
        repeating = become.get(node, [node])[-1]
        if not is_repeated(repeating):
            continue
        (source,), (made,) = repeating.inputs, repeating.outputs
        assert source is not None
        choosing = readers.get(made, [])
        if made in kept or not choosing or not all(map(only_chooses, choosing)):
            continue
        if sum(each.outputs[0].size for each in choosing) > made.size or not changes.spare(source, choosing):
            continue
        later = [_repeated_later(graph, repeating, each) for each in choosing]
        found = [each for each in later if each is not None]
        if len(found) < len(choosing):
            continue
        for each, instead in zip(choosing, found, strict=True):
            instead[-1].make(each.outputs)
            become[each] = instead
        become[node] = []
    return [instead for node in nodes for instead in become.get(node, [node])]


def _readers(nodes: Sequence[IRNode]) -> dict[IRValue, list[IRNode]]:
    readers: dict[IRValue, list[IRNode]] = {}
    for node in nodes:
        for value in node.inputs:
            if value is not None:
                readers.setdefault(value, []).append(node)
                if value.is_view:
                    readers.setdefault(value.shows, []).append(node)
    return readers


def _repeated_later(graph: Graph, repeating: IRNode, choosing: IRNode) -> list[IRNode] | None:
    """The nodes of a view of what is repeated, if it takes one, and of its repetition; None where there are none."""
    (source,), (made,), (chosen,) = repeating.inputs, repeating.outputs, choosing.outputs
    assert source is not None and choosing.spec is not None and repeating.decision is not None
    if chosen.place is not made.place or chosen.dtype != made.dtype or source.touches(chosen):
        return None
    strides = [0 if size == 1 else step for size, step in zip(source.shape, source.window.strides, strict=True)]
    window = choosing.spec.window(Window(made.shape, tuple(strides), source.offset), choosing.attributes)
    if window is None or not window.size:
        return None
    shape = tuple(1 if step == 0 else size for size, step in zip(window.shape, window.strides, strict=True))
    view = graph.window(source, Window(shape, window.strides, window.offset))
    implementation = repeating.decision.implementation
    if not (view.desc.is_contiguous and not view.offset) and not implementation.takes_strides(["x"]):
        return None
    attributes = {"shape": window.shape}
    call = repeating.decision.call.on((view.desc,), (chosen.desc,), attributes)
    if implementation.accepts is not None and implementation.accepts(call) is not True:
        return None
    decision = repeating.decision.made_for("Broadcast", call)
    new = IRNode(SPECS["Broadcast"], (view,), attributes, choosing.context, decision)
    return [new] if view is source or view.node is None else [view.node, new]
