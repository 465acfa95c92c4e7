"""Rows of loops of which only the last is read: the loop keeps that one as a state, and no array of all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from atled.dtypes import is_float
from atled.graph.nodes.body import BodyBuilder
from atled.graph.nodes.ir import Graph, IRNode, IRValue
from atled.graph.nodes.loops import LoopOp


def keep_last_rows(graph: Graph, nodes: Sequence[IRNode], results: Iterable[IRValue]) -> list[IRNode]:
    """The nodes to run instead of `nodes`.

    results: values that must exist although no node may read them.
    """
    if not any(_may_be(node) for node in nodes):
        return list(nodes)
    readers: dict[IRValue, list[IRNode]] = {}
    for node in nodes:
        for value in node.inputs:
            if value is not None:
                readers.setdefault(value, []).append(node)
    kept = set(results)
    replaced: dict[IRNode, list[IRNode]] = {}
    outer_context = graph.context
    for node in nodes:
        if _may_be(node):
            found = _last_only(node, readers, kept)
            if found:
                graph.context = node.context
                replaced[node] = _with_states(graph, node, found)
                replaced |= {reader: [] for reader in found.values()}
    graph.context = outer_context
    return [made for node in nodes for made in replaced.get(node, [node])]


def _may_be(node: IRNode) -> bool:
    spec = node.spec
    return isinstance(spec, LoopOp) and not (spec.counted or spec.ended or node.computed) and bool(spec.length)


def _last_only(node: IRNode, readers: dict[IRValue, list[IRNode]], kept: set[IRValue]) -> dict[int, IRNode]:
    """By output of a loop the slice that is its only reader, and takes the row of the last step."""
    spec = node.spec
    assert isinstance(spec, LoopOp) and spec.length is not None
    last = 0 if spec.backwards else spec.length - 1
    found = {}
    for number in range(spec.first_row, len(node.outputs)):
        value = node.outputs[number]
        reading = readers.get(value, [])
        if len(reading) == 1 and value not in kept and is_float(value.dtype) and _takes(reading[0], value, last):
            found[number] = reading[0]
    return found


def _takes(node: IRNode, value: IRValue, row: int) -> bool:
    """Whether a node is the slice of a row of a value."""
    if node.name != "Slice" or node.computed:
        return False
    parts = zip(*(node.attributes[name] for name in ("start", "stop", "step")), value.shape, strict=True)
    first, *others = ((*slice(*bounds).indices(size), size) for *bounds, size in parts)
    return first[:3] == (row, row + 1, 1) and all(part[:3] == (0, part[3], 1) for part in others)


def _with_states(graph: Graph, node: IRNode, found: dict[int, IRNode]) -> list[IRNode]:
    """What runs in place of a loop: one whose new states are what the slices took."""
    spec = node.spec
    assert isinstance(spec, LoopOp)
    body, first_constant = spec.body, spec.sequence_count + spec.state_count
    builder = BodyBuilder(node.context, body.by_operands)
    given = [builder.input(desc) for desc in body.inputs]
    results = body.emit(builder, given, [builder.parameter() for _ in range(body.parameter_count)])
    taken = [reader.outputs[0] for reader in found.values()]
    inputs = [*given[:first_constant], *(builder.input(value.desc) for value in taken), *given[first_constant:]]
    new_results = [*results[: spec.state_count]]
    new_results += [builder.reshape(results[number], value.shape) for number, value in zip(found, taken, strict=True)]
    remaining = [number for number in range(spec.first_row, len(results)) if number not in found]
    new_results += [results[number] for number in remaining]
    made = LoopOp(
        builder.body(new_results, inputs),
        sequences=spec.sequence_count,
        states=spec.state_count + len(found),
        draws=spec.draw_count,
        length=spec.length,
        backwards=spec.backwards,
    )
    start = len(graph.nodes)
    zeros = [graph.op("Constant", val=0.0, shape=value.shape, dtype=value.dtype) for value in taken]
    zeros = [graph.coerce(value, None, wanted.dtype, node.context) for value, wanted in zip(zeros, taken, strict=True)]
    outside = [*node.inputs[:first_constant], *zeros, *node.inputs[first_constant:]]
    floats = dict(zip(made.float_names, (node.attributes[name] for name in spec.float_names), strict=True))
    new = graph.add(made, outside, floats, node.context)
    new.make([*node.outputs[: spec.state_count], *taken, *(node.outputs[number] for number in remaining)])
    return graph.nodes[start:]
