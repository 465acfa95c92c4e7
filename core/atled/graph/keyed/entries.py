"""Entries: what a description of a program consists of, and the graph that they stand for."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from atled.array_desc import ArrayDesc
from atled.errors import RefusedError, did_you_mean, four_parts
from atled.graph.nodes.gradient import backpropagate
from atled.graph.nodes.ir import Graph, IRValue
from atled.ops.spec import SPECS, Attribute, OpSpec
from atled_contexts import Context

VIEW, OUTPUT, RESULT, ASSIGN, GRADIENTS = -1, -2, -3, -4, -5
"""What an entry begins with: one of these, an op, or, where a leaf is a whole array, the sizes of that."""

Entry = tuple[Any, ...]
"""`(op, operands)`, for a call with attributes `(op, operands, attributes)`; the shape of a leaf; or one of

    (VIEW, leaf, shape), (OUTPUT, call, position), (RESULT, value), (ASSIGN, leaf, value), (GRADIENTS, value, values)

Values are the numbers of their entries. An attribute is (name, value); of a run-time float (name,), unless the op
refuses some values of it.
"""


class Assigned(NamedTuple):
    """A new value of an outside array.

    number: of the array.  target: what it holds before.  value: what it holds then.
    """

    number: int
    target: IRValue
    value: IRValue


class Described:
    """The graph of a description.

    results, assigned: what it is computed for.
    """

    def __init__(self, entries: Sequence[Entry], dtypes: Sequence[np.dtype], context: Context) -> None:
        """dtypes: of the outside arrays, in the order in which the entries name them first."""
        self.graph = Graph(context)
        self.results: list[IRValue] = []
        self.assigned: list[Assigned] = []
        self._values: list[Sequence[IRValue]] = []
        self._dtypes = dtypes
        self._leaves: dict[int, int] = {}  # by entry the number of the array
        self._array_count = self._float_count = 0
        for entry in entries:
            self._values.append(self._made(entry))

    def _made(self, entry: Entry) -> Sequence[IRValue]:
        """The values of one entry."""
        kind = entry[0] if entry else 0
        if isinstance(kind, str | OpSpec):
            return self._called(*entry)
        if kind == OUTPUT:
            return (self._output(entry[1], entry[2]),)
        if kind == RESULT:
            self.results.append(self.value(entry[1]))
        elif kind == ASSIGN:
            self._assign(entry[1], entry[2])
        elif kind == GRADIENTS:
            return self._gradients(self.value(entry[1]), [self.value(number) for number in entry[2]])
        elif kind == VIEW:
            number = self._leaves[len(self._values)] = self._leaves[entry[1]]
            return (self.graph.external(number, ArrayDesc(entry[2], self._dtypes[number])),)
        else:
            return (self._leaf(entry),)
        return ()

    def value(self, number: Any) -> IRValue:
        """The value of an entry, of a call its first output."""
        if type(number) is not int or not 0 <= number < len(self._values) or not self._values[number]:
            raise TypeError(
                four_parts(
                    f"{number!r} as a value of a program",
                    "it is none",
                    "",
                    "pass what leaf, number, call, output or gradients of this description gave",
                )
            )
        return self._values[number][0]

    def _leaf(self, shape: tuple[int, ...]) -> IRValue:
        number = self._leaves[len(self._values)] = self._array_count
        self._array_count += 1
        return self.graph.external(number, ArrayDesc(shape, self._dtypes[number]))

    def _called(
        self, op: str | OpSpec, operands: Sequence[int | None], attributes: Sequence[tuple[str, Any]] = ()
    ) -> Sequence[IRValue]:
        spec, graph = spec_of(op), self.graph
        inputs = [None if number is None else self.value(number) for number in operands]
        if not spec.variadic:
            inputs += [None] * (len(spec.inputs) - len(inputs))
        descs = [None if value is None else value.desc for value in inputs]
        floats = {name: self._float() for name, *_ in attributes if name in spec.float_names}
        given = {name: value[0] if value else 0.0 for name, *value in attributes}
        checked = spec.check_attributes(given, descs)
        if spec.checks_values:
            spec.check_values(checked)
        for name in spec.float_names:
            checked[name] = floats[name] if name in floats else graph.constant(checked[name])
        return graph.add(spec, inputs, checked, graph.context).outputs

    def _float(self) -> Any:
        self._float_count += 1
        return self.graph.float_from("call", self._float_count - 1)

    def _output(self, number: int, position: int) -> IRValue:
        self.value(number)
        outputs = self._values[number]
        if not 0 <= position < len(outputs):
            raise IndexError(
                four_parts(f"output {position} of value {number}", f"it has {len(outputs)}", "", "ask for one of them")
            )
        return outputs[position]

    def _assign(self, leaf: int, value: int) -> None:
        number = self._leaves.get(leaf)
        if number is None:
            raise TypeError(
                four_parts(
                    f"an assignment to value {leaf!r}", "it is no array outside of the program", "", "assign to a leaf"
                )
            )
        target, new = self.value(leaf), self.value(value)
        asked = f"an assignment of {new.desc} to an array of {target.desc}"
        if any(before.number == number for before in self.assigned):
            raise ValueError(
                four_parts(asked, "the program assigns to it already", "", "assign once, what it is to hold in the end")
            )
        if not _broadcasts(new.shape, target.shape):
            raise RefusedError(
                four_parts(asked, "the value does not broadcast to the array", "", "assign a value of its shape")
            )
        self.assigned.append(Assigned(number, target, new))

    def _gradients(self, value: IRValue, wanted: Sequence[IRValue]) -> Sequence[IRValue]:
        graph = self.graph
        start = graph.op("Constant", val=1.0, shape=value.shape, dtype=value.dtype)
        found = backpropagate(graph, list(graph.nodes), {value: start}, wanted)
        return [found[each] if each in found else self._zeros(each.desc) for each in wanted]

    def _zeros(self, desc: ArrayDesc) -> IRValue:
        made: IRValue = self.graph.op("Constant", val=0.0, shape=desc.shape, dtype=desc.dtype)
        return made


def spec_of(op: str | OpSpec) -> OpSpec:
    """The op spec of a name; ValueError for one that there is not."""
    spec = op if isinstance(op, OpSpec) else SPECS.get(op)
    if spec is None:
        raise ValueError(
            four_parts(f"a call of {op!r}", "no op has that name", "", did_you_mean(str(op), SPECS, "look at SPECS"))
        )
    return spec


def attribute_of(spec: OpSpec, name: str) -> Attribute:
    """An attribute of an op by name."""
    return spec.attributes[spec.attribute_names.index(name)]


def hashable(spec: OpSpec, name: str, value: Any) -> Hashable:
    """The value of an attribute as a key has it; TypeError for one that no key can have."""
    if isinstance(value, list):
        return tuple(value)
    try:
        hash(value)
    except TypeError as error:
        raise TypeError(
            four_parts(
                f"{spec.name}: attribute {name} of type {type(value).__name__}",
                f"it cannot be part of a key ({error})",
                "",
                "pass numbers, texts, or tuples of them",
            )
        ) from error
    found: Hashable = value
    return found


def _broadcasts(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    """Whether NumPy would broadcast a shape to another."""
    behind = target[len(target) - len(shape) :]
    return len(shape) <= len(target) and all(a in (1, b) for a, b in zip(shape, behind, strict=True))
