"""What an inference was made from: the calls before its outputs, and the arrays that these read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from atled.array_desc import ArrayDesc
from atled.arrays.cell import ArrayCell
from atled.errors import four_parts
from atled.graph.record.traversal import functions_before
from atled.graph.record.value import RecordedCall, Value
from atled.type_configs import compute_dtype
from atled_contexts import Context

Made = tuple[int, int]
"""A value that a call makes: the number of the call, and which of its outputs it is."""

Operand = Made | int | None
"""What a call reads: what another one makes, a leaf by its number, or nothing."""


class OneCall:
    """A call as it was recorded; what the user does to the graph afterwards changes nothing.

    shapes: of the inputs, for which the attributes hold.  output_shapes: of the outputs, auxiliary ones included.
    """

    __slots__ = ("attributes", "context", "operands", "output_shapes", "shapes", "spec")

    def __init__(self, call: RecordedCall, operands: Sequence[Operand]) -> None:
        self.spec = call.spec
        self.context: Context = call.context
        self.attributes: Mapping[str, Any] = dict(call.attributes)
        self.shapes = call.shapes
        self.operands = tuple(operands)
        self.output_shapes = tuple(desc.shape for desc in call.output_descs)


class Recorded:
    """Calls in an order in which they can run, and numbered leaves: first the inputs, then all others.

    functions: the calls, as the user's graph has them.
    outputs: what is computed.  reads: how often each value is read, outputs included.
    input_dtypes: of the inputs, None for one that holds no values.
    """

    def __init__(self, outputs: Sequence[Value], inputs: Sequence[Value]) -> None:
        self.inputs = tuple(inputs)
        self.input_shapes = [value.shape for value in inputs]
        self.input_dtypes = [value.data.cell.dtype for value in inputs]
        self._leaves: list[Value] = list(inputs)
        self._numbers = {id(value): number for number, value in enumerate(inputs)}
        self.functions = found = functions_before(*outputs)
        self._calls = {call: number for number, call in enumerate(found)}
        self.calls = [OneCall(call, [self._operand(value, call) for value in call.inputs]) for call in found]
        self.outputs = [self._made(value) for value in outputs]
        self.reads = Counter(self.outputs)
        for call in self.calls:
            self.reads.update(operand for operand in call.operands if isinstance(operand, tuple))
            _refuse_effects(call)

    def _operand(self, value: Value | None, call: RecordedCall) -> Operand:
        if value is None:
            return None
        if value.parent is not None:
            return self._made(value)
        number = self._numbers.get(id(value))
        if number is None:
            number = self._numbers[id(value)] = len(self._leaves)
            self._leaves.append(value)
            value.data.cell.settle(compute_dtype(call.context.backends[0][1]))
        return number

    def _made(self, value: Value) -> Made:
        assert value.parent is not None, "no leaf"
        return self._calls[value.parent], value.position

    def unread_input(self) -> int | None:
        """The number of an input on which no output depends; None where there is none."""
        read = {operand for call in self.calls for operand in call.operands}
        return next((number for number in range(len(self.inputs)) if number not in read), None)

    def parameters(self) -> list[tuple[ArrayCell, tuple[int, ...]]]:
        """The arrays of the leaves that are no inputs, as they are now, and their shapes."""
        return [(value.data.cell, value.shape) for value in self._leaves[len(self.inputs) :]]

    @property
    def context(self) -> Context:
        """That of the last call."""
        return self.calls[-1].context

    def compute_dtype(self, number: int) -> np.dtype:
        """In which floats the first reader of an input computes."""
        reader = next(call for call in self.calls if number in call.operands)
        return compute_dtype(reader.context.backends[0][1])

    def takes_integers(self, number: int) -> bool:
        """Whether an input may be any integers as they are: it holds nothing by itself, or is read as indices only."""
        return self.input_dtypes[number] is None or all(
            call.spec.input_at(position).kind == "index"
            for call in self.calls
            for position, operand in enumerate(call.operands)
            if operand == number
        )

    def input_desc(self, number: int) -> ArrayDesc:
        """What an input is by itself; one that holds nothing has the dtype in which its first reader computes."""
        return ArrayDesc(self.input_shapes[number], self.input_dtypes[number] or self.compute_dtype(number))


def _refuse_effects(call: OneCall) -> None:
    spec = call.spec
    if spec.category == "python":
        raise ValueError(
            four_parts(
                f"inference of a graph with {spec.name}, a PythonFunction",
                "it works on Variables and keeps what it likes in itself, so that threads would meet there",
                "",
                "compute with forward(), or write it as an op of your own, by atled.op_spec, which runs anywhere",
            )
        )
    if spec.random:
        raise ValueError(
            four_parts(
                f"inference of a graph with {spec.name}",
                "it draws random numbers, whose state belongs to the graph",
                "",
                "record the graph without it for inference, or draw in NumPy and give the numbers as an input",
            )
        )
    if spec.inplace or spec.mutated_with(call.attributes):
        names = ", ".join(spec.mutates) or "its input"
        raise ValueError(
            four_parts(
                f"inference of a graph with {spec.name}",
                f"it changes arrays of the graph: {names}",
                "an inference changes nothing, so that several can run at once",
                "record the graph for inference without it; normalization with batch_stat=False changes nothing",
            )
        )
