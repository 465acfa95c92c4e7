"""Gradients of an array that is cut into parts: the sum of what the parts give is these side by side."""

from __future__ import annotations

from collections.abc import Sequence

from atled.graph.nodes.dispatch import backend_for
from atled.graph.nodes.ir import Graph, IRNode, IRValue
from atled.named_tuple import NamedTuple
from atled.ops.spec import SPECS


class _Part(NamedTuple):
    """What a slice gives: from one element of an axis to another, all of the other axes."""

    value: IRValue
    axis: int
    start: int
    stop: int


def is_part(value: IRValue) -> bool:
    """Whether a value is the gradient of a slice along one axis: zeros but for that."""
    return _part(value) is not None


def join_parts(graph: Graph, values: Sequence[IRValue]) -> IRValue | None:
    """The sum of values for which `is_part` holds, if these make up the whole array; nodes are added to the graph.

    What fills them up with zeros stays in the graph; lowering drops it if nothing else reads it.
    """
    parts = sorted((part for value in values if (part := _part(value)) is not None), key=lambda part: part.start)
    axis, size = parts[0].axis, values[0].shape[parts[0].axis]
    bounds = [0, *(part.stop for part in parts)]
    if any(part.axis != axis or part.start != end for part, end in zip(parts, bounds, strict=False)):
        return None
    if bounds[-1] != size or len(parts) == 1:
        return None
    nodes = [_node(part.value) for part in parts]
    first = nodes[0]
    given = [node.inputs[0] for node in nodes]
    descs = [value.desc for value in given if value is not None]
    if first.decision is not None:
        backend = backend_for(SPECS["Concatenate"], descs, {"axis": axis}, first.context)
        if backend != first.decision.backend or any(node.context != first.context for node in nodes):
            return None
    joined: IRValue = graph.op("Concatenate", *given, axis=axis)
    return joined


def _node(value: IRValue) -> IRNode:
    assert value.node is not None
    return value.node


def _part(value: IRValue) -> _Part | None:
    node = value.node
    if node is None or node.name != "SliceGrad" or node.computed or node.inputs[0] is None:
        return None
    if any(step != 1 for step in node.attributes["step"]):
        return None
    slices = zip(node.attributes["start"], node.attributes["stop"], value.shape, strict=True)
    bounds = [slice(start, stop).indices(size)[:2] for start, stop, size in slices]
    cut = [axis for axis, size in enumerate(value.shape) if bounds[axis] != (0, size)]
    return _Part(value, cut[0], *bounds[cut[0]]) if len(cut) == 1 else None
