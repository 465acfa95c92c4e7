"""Nodes recorded as calls: what gradient rules compose becomes part of the user's graph, as `nn.grad` wants it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from atled.array_desc import ArrayDesc
from atled.graph.nodes.describing import DescribingGraph
from atled.graph.nodes.dispatch import choose, describe_call, is_sparing
from atled.graph.nodes.ir import FloatSlot, Graph, IRNode, IRValue
from atled.graph.record.traversal import functions_before
from atled.graph.record.value import RecordedCall, Value
from atled.graph.run.one_call import call_function
from atled.ops.spec import OpSpec
from atled.type_configs import compute_dtype
from atled_contexts import Context


class FromNodes(DescribingGraph):
    """A graph whose nodes are recorded as calls when they are added, each IRValue standing for a Value.

    Nothing is compiled here: places do not matter, and dtypes are those of the first type config.

    at_once: whether functions compute when they are recorded, as under `auto_forward`.
    """

    def __init__(self, context: Context, at_once: bool) -> None:
        super().__init__(context)
        self._at_once = at_once
        self._values: dict[IRValue, Value] = {}
        self._known: dict[Hashable, IRValue] = {}

    def follow(self, roots: Sequence[Value]) -> None:
        """Take in the recorded functions that lead to values, as nodes."""
        seen: set[RecordedCall] = set()
        for root in roots:
            for function in functions_before(root):
                if function not in seen:
                    seen.add(function)
                    function.refresh()
                    self._take_in(function)

    def cut(self) -> set[IRValue]:
        """Results at which gradients stop, because the user said so."""
        return {known for known, value in self._values.items() if value.parent is not None and value.need_grad is False}

    def value_of(self, value: IRValue) -> Value:
        """The recorded value that a value of this graph stands for."""
        return self._values[value]

    def of(self, value: Value) -> IRValue:
        """What stands for a recorded value; a new leaf where nothing does yet."""
        key = _identity(value)
        found = self._known.get(key)
        if found is None:
            dtype = value.data.cell.dtype or compute_dtype(self.context.backends[0][1])
            found = self._known[key] = IRValue(self, ArrayDesc(value.shape, dtype), None)
            self._values[found] = value
        return found

    def _take_in(self, function: RecordedCall) -> None:
        inputs = [None if value is None else self.of(value) for value in function.inputs]
        attributes = dict(function.attributes)
        for name in function.spec.float_names:
            attributes[name] = self.float_from("recorded", attributes[name])
        node = self._node(function, inputs, attributes)
        for position, (output, value) in enumerate(zip(node.outputs, function.live_outputs(), strict=False)):
            if value is not None:
                self._values[output] = value
                self._known[_identity(value)] = node.outputs[position]

    def _node(self, function: RecordedCall, inputs: Sequence[IRValue | None], attributes: Mapping[str, Any]) -> IRNode:
        """The node of a recorded function."""
        spec, context = function.spec, function.context
        given = list(inputs)
        if spec.random:
            given.append(IRValue(self, ArrayDesc((2,), np.int64), None))
        node = IRNode(spec, tuple(given), attributes, context, None)
        descs = tuple(None if value is None else value.desc for value in given)
        call = describe_call(spec, descs, attributes, context, context.backends[0][1], context.device_id)
        if spec.may_spare:
            node.is_sparing = is_sparing(choose(spec, descs, attributes, context), context)
        node.outputs = tuple(
            _Output(self, desc, node, position, function) for position, desc in enumerate(call.outputs)
        )
        self.nodes.append(node)
        return node

    def add(
        self,
        spec: OpSpec,
        inputs: Sequence[IRValue | None],
        attributes: Mapping[str, Any],
        context: Context,
        computed: bool = False,
    ) -> IRNode:
        """Record a function."""
        values = [None if value is None else self._value(value) for value in inputs]
        function = RecordedCall(spec, values, self._resolved(attributes), context)
        made = function.make_outputs()
        if self._at_once:
            call_function(function, function.inputs, made)
        node = self._node(function, inputs, attributes)
        self._values.update(zip(node.outputs, made, strict=False))
        return node

    def _value(self, value: IRValue) -> Value:
        found = self._values.get(value)
        if found is None:
            assert isinstance(value, _Output), "every other value is entered when it is made"
            found = self._values[value] = value.function.output_value(value.position)
        return found

    def _resolved(self, attributes: Mapping[str, Any]) -> dict[str, Any]:
        """The attributes with the numbers for which slots stand."""
        return {
            name: self.floats[value.index][1] if isinstance(value, FloatSlot) else value
            for name, value in attributes.items()
        }


class _Output(IRValue):
    """An output of a recorded function; its Value is made when a gradient asks for it."""

    __slots__ = ("function",)

    def __init__(self, graph: Graph, desc: ArrayDesc, node: IRNode, position: int, function: RecordedCall) -> None:
        super().__init__(graph, desc, None, node, position)
        self.function = function


def _identity(value: Value) -> Hashable:
    """A key that is equal for values which share their arrays: they are one to the user.

    Leaves go by their arrays, as backward takes them: `unlinked()` gives a second value over the same arrays.
    """
    return id(value) if value.parent is not None else (id(value.data.cell), bool(value.need_grad), value.shape)
