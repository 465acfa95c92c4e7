"""Compiling of an inference: from recorded calls, for inputs of some shapes and dtypes, to plans."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

from atled.array_desc import ArrayDesc
from atled.graph.compile.lowering import lower
from atled.graph.compile.plan import Plan
from atled.graph.inference.folding import PRODUCTS, Product, folded, scale_and_shift
from atled.graph.inference.recorded import OneCall, Operand, Recorded
from atled.graph.inference.sizes import attributes_for
from atled.graph.nodes.ir import Graph, IRValue

_SMALL_BYTES = 1 << 16  # of what is kept although it is larger than what it is computed from


class Compiled(NamedTuple):
    """A compiled inference.

    plan: its targets are the outputs.  shapes: of these.
    fixed: computes what depends on parameters alone; its targets are outside arrays of `plan`, behind inputs and
        parameters. None where there is nothing of that kind.
    keys: per target of `fixed` what it is; the same for inputs of other shapes.
    """

    plan: Plan
    shapes: tuple[tuple[int, ...], ...]
    fixed: Plan | None
    keys: tuple[Hashable, ...]


def compile_inference(
    recorded: Recorded, inputs: Sequence[ArrayDesc], parameters: Sequence[tuple[int, ArrayDesc]]
) -> Compiled:
    """The plans of an inference.

    inputs: outside arrays 0, 1, ... of its plan.
    parameters: per further leaf the number of its outside array, which is behind those of the inputs, and what it is.
    Raises what the ops raise for inputs that do not fit.
    """
    building = _Building(recorded, inputs, parameters)
    results = building.results()
    plan = lower(building.graph, results)
    keys = tuple(building.imported)
    fixed = lower(building.fixed, [building.imported[key] for key in keys]) if keys else None
    return Compiled(plan, tuple(value.shape for value in results), fixed, keys)


class _Building:
    """The nodes of the calls, in two graphs; normalization by running statistics goes into the product before it.

    graph: what is computed from inputs.  fixed: what depends on parameters alone.
    imported: by key what `graph` reads of `fixed`, in the order of its outside arrays.
    _values, _fixed: by leaf, and by call and output, the values of either graph.
    """

    def __init__(
        self, recorded: Recorded, inputs: Sequence[ArrayDesc], parameters: Sequence[tuple[int, ArrayDesc]]
    ) -> None:
        self.graph, self.fixed = Graph(recorded.context), Graph(recorded.context)
        self.imported: dict[Hashable, IRValue] = {}
        self._recorded = recorded
        self._first = 1 + max([len(inputs) - 1, *(number for number, _ in parameters)])
        self._values: dict[Operand, IRValue | None] = {None: None}
        self._fixed: dict[Operand, IRValue | None] = {None: None}
        for leaf, (number, desc) in enumerate([*enumerate(inputs), *parameters]):
            self._values[leaf] = self.graph.external(number, desc)
            if leaf >= len(inputs):
                self._fixed[leaf] = self.fixed.external(number, desc)

    def results(self) -> list[IRValue]:
        """The outputs."""
        for number, call in enumerate(self._recorded.calls):
            if self._is_fixed(call.operands):
                outputs = _added(self.fixed, call, [self._fixed[operand] for operand in call.operands])
                self._fixed.update(((number, position), value) for position, value in enumerate(outputs))
            else:
                self._add(number, call)
        return [self._present(self._value(output)) for output in self._recorded.outputs]

    def _is_fixed(self, operands: Sequence[Operand]) -> bool:
        return all(operand in self._fixed for operand in operands)

    @staticmethod
    def _present(value: IRValue | None) -> IRValue:
        assert value is not None
        return value

    def _value(self, operand: Operand) -> IRValue | None:
        """A value in the graph of what is computed from inputs."""
        if operand in self._values:
            return self._values[operand]
        assert isinstance(operand, tuple)
        call, fixed = self._recorded.calls[operand[0]], self._present(self._fixed[operand])
        if call.spec.views or fixed.desc.nbytes > max(_SMALL_BYTES, self._bytes_of(call)):
            # Memory of its own would cost more than it saves: a view has none, what is repeated reads less.
            outputs = _added(self.graph, call, [self._value(each) for each in call.operands])
            self._values.update(((operand[0], position), value) for position, value in enumerate(outputs))
        else:
            self._values[operand] = self._import(operand, fixed)
        return self._values[operand]

    def _bytes_of(self, call: OneCall) -> int:
        """The bytes of what a call reads."""
        values = (self._fixed[operand] for operand in call.operands)
        return sum(value.desc.nbytes for value in values if value is not None)

    def _import(self, key: Hashable, fixed: IRValue) -> IRValue:
        """What the graph of parameters computes, as an outside array of the other one."""
        number = self._first + len(self.imported)
        self.imported[key] = fixed
        return self.graph.external(number, ArrayDesc(fixed.shape, fixed.dtype))

    def _add(self, number: int, call: OneCall) -> None:
        is_plain = call.spec.name != "BatchNormalization" or call.attributes["batch_stat"]
        normalized = None if is_plain else self._normalized(number, call)
        if normalized is None:
            outputs: Sequence[IRValue] = _added(self.graph, call, [self._value(each) for each in call.operands])
        else:
            outputs = [normalized]
        self._values.update(((number, position), value) for position, value in enumerate(outputs))

    def _normalized(self, number: int, call: OneCall) -> IRValue | None:
        """Normalization by running statistics as a scale and a shift; None where it has to stay."""
        source, *statistics = call.operands
        if not self._is_fixed(statistics):
            return None
        x = self._present(self._value(source))
        self.fixed.context = call.context
        parameters = [self._present(self._fixed[operand]) for operand in statistics]
        found = scale_and_shift(self.fixed, x.dtype, parameters, call.attributes["eps"])
        if found is None:
            return None
        value = self._in_product(number, source, call.attributes["axes"][0], *found)
        if value is not None:
            return value
        scale, shift = (
            self._import((number, name), each) for name, each in zip(("scale", "shift"), found, strict=True)
        )
        self.graph.context = call.context
        return x * scale + shift

    def _in_product(self, number: int, source: Operand, axis: int, scale: IRValue, shift: IRValue) -> IRValue | None:
        """The product that makes a value, scaled and shifted; None where there is none, or others read the value."""
        if not isinstance(source, tuple) or self._recorded.reads[source] > 1:
            return None
        maker = self._recorded.calls[source[0]]
        if maker.spec.name not in PRODUCTS or not self._is_fixed(maker.operands[1:]):
            return None
        x = self._present(self._value(maker.operands[0]))
        self.fixed.context = maker.context
        weight, bias = (*(self._fixed[operand] for operand in maker.operands[1:]), None)[:2]
        product = Product(maker.spec.name, x.desc, self._present(weight), bias, maker.attributes)
        changed = folded(self.fixed, product, axis, scale, shift)
        if changed is None:
            return None
        weight, bias = self._import((number, "weight"), changed[0]), self._import((number, "bias"), changed[1])
        return _added(self.graph, maker, [x, weight, bias])[0]


def _added(graph: Graph, call: OneCall, inputs: Sequence[IRValue | None]) -> Sequence[IRValue]:
    """What a call makes of inputs of any shapes."""
    graph.context = call.context
    shapes = [None if value is None else value.shape for value in inputs]
    attributes: dict[str, Any] = dict(attributes_for(call, shapes))
    for name in call.spec.float_names:
        attributes[name] = graph.constant(attributes[name])
    return graph.add(call.spec, inputs, attributes, call.context).outputs
