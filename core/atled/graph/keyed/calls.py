"""Calls read back: how values of a description are computed, gradients too, for front ends with words of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from atled.array_desc import ArrayDesc
from atled.graph.keyed.entries import Described, Entry, Leaves
from atled.graph.nodes.body import BodyBuilder
from atled.graph.nodes.ir import FloatSlot, IRNode, IRValue
from atled.named_tuple import NamedTuple
from atled.ops.spec import OpSpec
from atled_contexts import Context


class CallMade(NamedTuple):
    """One call of an op.

    inputs: numbers of values, None for an absent one.  attributes: checked, run-time floats by their values.
    outputs: shapes and dtypes.  number: of its first output; the others follow.
    """

    spec: OpSpec
    inputs: tuple[int | None, ...]
    attributes: Mapping[str, Any]
    outputs: tuple[ArrayDesc, ...]
    number: int


class Calls(NamedTuple):
    """Calls in an order in which they can run.

    Below the count of entries a number is that of a given value of the description, from there on that of what a call
    makes.

    values: the numbers of what was asked for.
    """

    made: list[CallMade]
    values: list[int]


def calls_of(
    entries: Sequence[Entry],
    leaves: Leaves,
    context: Context,
    floats: Sequence[float],
    values: Sequence[int],
    given: Sequence[int],
) -> Calls:
    """The calls that make values of a description from given ones.

    The same call on the same values is one. Raises what compiling the description does.
    """
    described = Described(entries, leaves, context, BodyBuilder)
    reader = _Reader(described, len(entries), floats)
    for number in given:
        reader.numbers.setdefault(described.value(number), number)
    return Calls(reader.made, [reader.number(described.value(number)) for number in values])


class _Reader:
    """Numbers values, and with them the calls that make them."""

    def __init__(self, described: Described, first: int, floats: Sequence[float]) -> None:
        self.numbers: dict[IRValue, int] = {}
        self.made: list[CallMade] = []
        self._next = first
        self._sources = described.graph.floats
        self._floats = floats
        self._known: dict[object, int] = {}

    def number(self, value: IRValue) -> int:
        """The number of a value; the calls before it are read."""
        stack = [value]
        while stack:
            node = stack[-1].node
            if stack[-1] in self.numbers:
                stack.pop()
                continue
            assert node is not None, "arrays are among what is given"
            missing = [each for each in node.inputs if each is not None and each not in self.numbers]
            if not missing:
                self._take(node)
            stack += missing
        return self.numbers[value]

    def _take(self, node: IRNode) -> None:
        assert node.spec is not None, "a graph that describes has no transfers"
        inputs = tuple(None if each is None else self.numbers[each] for each in node.inputs)
        attributes = {name: self._resolved(each) for name, each in node.attributes.items()}
        # With types: 1, 1.0 and True are equal, but not the same attribute.
        key = node.spec, inputs, tuple((name, type(each), repr(each)) for name, each in attributes.items())
        first = self._known.get(key)
        if first is None:
            first = self._known[key] = self._next
            self.made.append(CallMade(node.spec, inputs, attributes, tuple(v.desc for v in node.outputs), first))
            self._next += len(node.outputs)
        for position, output in enumerate(node.outputs):
            self.numbers.setdefault(output, first + position)

    def _resolved(self, attribute: Any) -> Any:
        """The number that a slot stands for; other attributes as they are."""
        if not isinstance(attribute, FloatSlot):
            return attribute
        kind, value = self._sources[attribute.index]
        return self._floats[value] if kind == "call" else value
