"""Groups: independent steps with one formula become one step, which costs one launch."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from atled.call import Call
from atled.graph.nodes.ir import IRNode
from atled.graph.nodes.order import Order
from atled.ops.spec import SPECS, Attribute, Input, OpSpec

MOST_MEMBERS = 64
"""Bound of one group, so that a table of its arrays fits into what a device passes to a kernel."""

LARGEST_MEMBER = 1 << 20
"""Elements of a larger array keep a device busy by themselves; waiting for others would only keep memory in use."""


class GroupOp(OpSpec, abstract=True):
    """Calls of one formula on arrays of their own; it exists only inside a plan.

    calls: the members.  Inputs, outputs and float attributes are those of the members, one member after the other.
    """

    def __init__(self, calls: Sequence[Call]) -> None:
        spec = calls[0].spec
        self.calls = tuple(calls)
        numbers = range(len(calls))
        self.inputs = tuple(Input(f"{item.name}_{n}", kind=item.kind) for n in numbers for item in spec.inputs)
        self.attributes = tuple(Attribute(f"{item}_{n}", "float") for n in numbers for item in spec.float_names)
        self.outputs = tuple(f"{y}_{n}" for n in numbers for y in spec.outputs)
        self.inplace = {
            n * len(spec.outputs) + output: n * len(spec.inputs) + source
            for n in numbers
            for output, source in spec.inplace.items()
        }
        self.tolerance = spec.tolerance
        super().__init__(f"{len(calls)}x{spec.name}", f"{len(calls)} independent calls of {spec.name}.")

    def reference(self, *inputs: Any, **attributes: Any) -> Sequence[np.ndarray]:
        width = len(self.calls[0].inputs)
        results: list[np.ndarray] = []
        for n, call in enumerate(self.calls):
            floats = {item: attributes[f"{item}_{n}"] for item in call.spec.float_names}
            values = call.spec.reference(*inputs[n * width : (n + 1) * width], **call.attributes, **floats)
            results += [values] if isinstance(values, np.ndarray | np.generic) else values
        return results


def group(nodes: Sequence[IRNode]) -> list[IRNode]:
    """The nodes to run instead of `nodes`: those with one formula together, as far as they depend on no other one.

    Members wait for each other. What changes an array in place never runs earlier than it stands, so that updates stay
    behind all that can fail.
    """
    keys = {node: key for node in nodes if (key := _key(node)) is not None}
    if len(set(keys.values())) == len(keys):
        return list(nodes)
    return [_grouped(members) for members in _Schedule(nodes, keys).batches()]


def _key(node: IRNode) -> Hashable:
    """Equal for nodes that may be in one group; None for one that goes alone."""
    spec, decision = node.spec, node.decision
    if spec is None or decision is None or node.computed or decision.implementation.prepare_group is None:
        return None
    if (spec.program is None and not spec.copies and spec is not SPECS["Cast"]) or node.mutated or spec.random:
        return None
    call: Call = decision.call
    shape = call.outputs[0].shape
    operands = (*call.inputs, *call.outputs)
    if any(desc is None or desc.shape != shape for desc in operands) or call.outputs[0].size > LARGEST_MEMBER:
        return None
    if any(value is not None and value.is_window for value in (*node.inputs, *node.outputs)):
        return None
    return (
        spec,
        tuple(desc.dtype for desc in operands if desc is not None),
        tuple(sorted(call.attributes.items())),
        decision.implementation.prepare_group,
        decision.backend,
        decision.plugin,
        decision.fallback,
        (call.device_id, call.type_config, call.deterministic, call.local_errors),
        node.outputs[0].place,
    )


class _Schedule:
    """An order in which nodes can run; those with keys wait until something needs them, then take along their like.

    Views take no step: each stands behind what makes it.
    """

    def __init__(self, nodes: Sequence[IRNode], keys: Mapping[IRNode, Hashable]) -> None:
        self._nodes = nodes
        self._keys = keys
        order, known = Order(nodes), set(nodes)
        self._before = {node: [n for n in dict.fromkeys(order.before(node)) if n in known] for node in nodes}
        self._missing = {node: len(before) for node, before in self._before.items()}
        self._behind: dict[IRNode, list[IRNode]] = {}
        for node, before in self._before.items():
            for other in before:
                self._behind.setdefault(other, []).append(node)
        self._position = {node: position for position, node in enumerate(nodes)}
        self._done: set[IRNode] = set()
        self._passed: set[IRNode] = set()  # those whose turn in the old order has come
        self._ready: dict[Hashable, dict[IRNode, None]] = {}

    def batches(self) -> Iterator[list[IRNode]]:
        """Nodes that run together, in order."""
        for node in [node for node in self._nodes if not self._missing[node]]:
            if _is_view(node):
                yield [node]
                yield from self._finish([node])
            else:
                self._note_ready(node)
        for node in self._nodes:
            self._passed.add(node)
            if node not in self._keys:
                if not _is_view(node):
                    yield from self._run(node)
            elif not self._missing[node]:
                self._note_ready(node)
                if len(self._ready.get(self._keys[node], ())) >= MOST_MEMBERS:
                    yield from self._run(node)
        for node in self._nodes:
            yield from self._run(node)

    def _run(self, wanted: IRNode) -> Iterator[list[IRNode]]:
        """Batches up to the one with a node, whatever that waits for first."""
        stack = [wanted]
        while stack:
            node = stack[-1]
            waiting = [other for other in self._before[node] if other not in self._done]
            if waiting and node not in self._done:
                stack += waiting
                continue
            stack.pop()
            if node not in self._done:
                members = self._with_its_like(node)
                yield members
                yield from self._finish(members)

    def _with_its_like(self, node: IRNode) -> list[IRNode]:
        """A node and those that are ready and go together with it."""
        if node not in self._keys:
            return [node]
        ready = self._ready.pop(self._keys[node], {})
        ready.pop(node, None)
        members = [node, *ready]
        self._ready[self._keys[node]] = dict.fromkeys(members[MOST_MEMBERS:])
        return sorted(members[:MOST_MEMBERS], key=self._position.__getitem__)

    def _finish(self, members: Iterable[IRNode]) -> list[list[IRNode]]:
        """Note that nodes ran; gives the views that are there with them."""
        views = []
        stack = list(members)
        while stack:
            node = stack.pop()
            self._done.add(node)
            for other in self._behind.get(node, ()):
                self._missing[other] -= 1
                if self._missing[other]:
                    continue
                if _is_view(other):
                    views.append([other])
                    stack.append(other)
                else:
                    self._note_ready(other)
        return views

    def _note_ready(self, node: IRNode) -> None:
        """Have a node that waits for no other one taken along, from its turn on if it changes an array."""
        if node in self._keys and node not in self._done and (not node.changed or node in self._passed):
            self._ready.setdefault(self._keys[node], {})[node] = None


def _is_view(node: IRNode) -> bool:
    return node.spec is not None and node.spec.views


def _grouped(members: Sequence[IRNode]) -> IRNode:
    first = members[0]
    if len(members) == 1:
        return first
    calls = [member.decision.call for member in members if member.decision is not None]
    spec = GroupOp(calls)
    old = calls[0]
    inputs = [value for member in members for value in member.inputs]
    outputs = [value for member in members for value in member.outputs]
    call = old.replaced_by(
        spec, (desc for call in calls for desc in call.inputs), (desc for call in calls for desc in call.outputs)
    )
    floats = [member.attributes[item] for member in members for item in old.spec.float_names]
    assert first.decision is not None
    prepare_group = first.decision.implementation.prepare_group
    assert prepare_group is not None
    decision = first.decision.made_for(spec.name, call, prepare=lambda _: prepare_group(calls))
    node = IRNode(spec, tuple(inputs), dict(zip(spec.float_names, floats, strict=True)), first.context, decision)
    node.make(outputs, {source: outputs[position] for position, source in spec.inplace.items()})
    return node
