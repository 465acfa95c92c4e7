"""Orders of axes in memory: what is made of strided arrays lies as they do, where all that read it take strides."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set

from atled.array_desc import ArrayDesc
from atled.arrays.place import HOST
from atled.call import Call
from atled.graph.compile.wanted import strided_images
from atled.graph.nodes.ir import Graph, IRNode, IRValue
from atled.strides import contiguous_strides
from atled_contexts import Decision

Axes = tuple[int, ...]


def keep_orders(graph: Graph, nodes: Sequence[IRNode], results: Iterable[IRValue]) -> None:
    """Give values in host memory the order of axes of what they are made of; changes values and decisions in place.

    So formulas behind an op that reads images (N, C, H, W) as they lie in memory, such as (C, H, W, N), do not
    transpose what it makes. Ops that read images follow the order of these, formulas what such ops made; others might
    lose more by it than they gain, such as reductions that have formulas computed on their way.

    results: values that must be in C order.
    """
    readers: dict[IRValue, list[IRNode]] = {}
    shown: set[IRValue] = set(results)  # what others know as it is
    for node in nodes:
        for value in node.inputs:
            if value is not None:
                readers.setdefault(value, []).append(node)
                if value.base is not value:
                    shown.add(value.base)
    followed: set[IRValue] = set()
    for node in nodes:
        operands = strided_images(node) or [value for value in node.inputs if value in followed]
        found = next((axes for value in operands if value is not None and (axes := _order(value.desc))), None)
        for value in node.outputs if found is not None else ():
            assert found is not None
            if _lay_out(graph, node, value, found, readers.get(value, ()), shown):
                followed.add(value)


def _order(desc: ArrayDesc) -> Axes | None:
    """The axes from the outermost to the innermost in memory; None for C order, and where elements are repeated."""
    steps = [abs(step) if size > 1 else 0 for size, step in zip(desc.shape, desc.written_strides, strict=True)]
    if any(step == 0 and size > 1 for size, step in zip(desc.shape, steps, strict=True)):
        return None
    # An axis of one element stays beside the one before it.
    for axis, size in enumerate(desc.shape):
        if size == 1:
            steps[axis] = steps[axis - 1] if axis else max(steps)
    axes = tuple(sorted(range(desc.ndim), key=lambda axis: -steps[axis]))
    return None if axes == tuple(range(desc.ndim)) else axes


def _lay_out(
    graph: Graph, maker: IRNode, value: IRValue, axes: Axes, readers: Sequence[IRNode], shown: Set[IRValue]
) -> bool:
    """Have a value lie in another order of axes, if its maker and its readers take that; whether it does."""
    if value.base is not value or value.array is not None or value in shown or value.place is not HOST or not readers:
        return False
    if value.ndim != len(axes) or not value.desc.is_contiguous or not value.size:
        return False
    memory = ArrayDesc(tuple(value.shape[axis] for axis in axes), value.dtype)
    strides = dict(zip(axes, contiguous_strides(memory.shape), strict=True))
    desc = ArrayDesc(value.shape, value.dtype, [strides[axis] for axis in range(value.ndim)])
    if desc.is_contiguous:
        return False
    decisions = {node: _with(node, value, desc) for node in dict.fromkeys((maker, *readers))}
    if any(decision is None for decision in decisions.values()):
        return False
    for node, decision in decisions.items():
        node.decision = decision
    value.base = IRValue(graph, memory, value.place)
    value.desc = desc
    return True


def _with(node: IRNode, value: IRValue, desc: ArrayDesc) -> Decision[Call] | None:
    """The decision of a node that makes or reads a value with these strides; None where it does not take them."""
    spec, decision = node.spec, node.decision
    if spec is None or decision is None or node.computed or spec.views or spec.opaque or spec.by_engine:
        return None
    if any(node.inputs[position] is value for position in node.changed) or decision.fallback:
        return None
    positions = [number for number, item in enumerate(node.inputs) if item is value]
    made = [number for number, item in enumerate(node.outputs) if item is value]
    names = [spec.input_at(number).name for number in positions]
    names += [spec.outputs[min(number, len(spec.outputs) - 1)] for number in made]
    implementation, call = decision.implementation, decision.call
    if call.before or call.after or not implementation.takes_strides(names):
        return None
    inputs = tuple(desc if number in positions else item for number, item in enumerate(call.inputs))
    outputs = tuple(desc if number in made else item for number, item in enumerate(call.outputs))
    call = call.on(inputs, outputs)
    if implementation.accepts is not None and implementation.accepts(call) is not True:
        return None
    return decision.made_for(decision.op, call)
