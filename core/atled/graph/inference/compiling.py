"""Compiling of an inference: from recorded calls, for inputs of some shapes and dtypes, to a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from atled.array_desc import ArrayDesc
from atled.graph.compile.lowering import lower
from atled.graph.compile.plan import Plan
from atled.graph.inference.folding import PRODUCTS, Product, folded, scale_and_shift
from atled.graph.inference.recorded import OneCall, Operand, Recorded
from atled.graph.inference.sizes import attributes_for
from atled.graph.nodes.ir import Graph, IRValue


def compile_inference(
    recorded: Recorded, inputs: Sequence[ArrayDesc], constants: Sequence[tuple[int, ArrayDesc]]
) -> tuple[Plan, list[tuple[int, ...]]]:
    """The plan of an inference, whose targets are the outputs in their order, and the shapes of these.

    inputs: outside arrays 0, 1, ...  constants: per further leaf the number of its outside array, and what it is.
    Raises what the ops raise for inputs that do not fit.
    """
    leaves = [*enumerate(inputs), *constants]
    numbers = frozenset(number for number, _ in constants)
    building = _Building(recorded, Graph(recorded.context), leaves, numbers)
    results = building.results()
    plan = lower(building.graph, results)
    return plan, [value.shape for value in results]


class _Building:
    """The nodes of the calls; normalization by running statistics goes into the product before it.

    values: by leaf, and by call and output.  _constant: what depends on constants alone.
    """

    def __init__(
        self, recorded: Recorded, graph: Graph, leaves: Sequence[tuple[int, ArrayDesc]], constants: frozenset[int]
    ) -> None:
        self.graph = graph
        self._recorded = recorded
        self._values: dict[Operand, IRValue | None] = {None: None}
        self._constant: set[Operand] = {None}
        for leaf, (number, desc) in enumerate(leaves):
            self._values[leaf] = graph.external(number, desc)
            if leaf >= len(recorded.inputs):
                self._constant.add(leaf)

    def results(self) -> list[IRValue]:
        """The outputs."""
        for number, call in enumerate(self._recorded.calls):
            self._add(number, call)
        found = [self._values[output] for output in self._recorded.outputs]
        return [value for value in found if value is not None]

    def _add(self, number: int, call: OneCall) -> None:
        graph = self.graph
        graph.context = call.context
        inputs = [self._values[operand] for operand in call.operands]
        if call.spec.name == "BatchNormalization" and not call.attributes["batch_stat"]:
            normalized = self._normalized(call, inputs)
            if normalized is not None:
                self._enter(number, call, [normalized])
                return
        attributes = dict(attributes_for(call, [None if value is None else value.shape for value in inputs]))
        for name in call.spec.float_names:
            attributes[name] = graph.constant(attributes[name])
        self._enter(number, call, graph.add(call.spec, inputs, attributes, call.context).outputs)

    def _enter(self, number: int, call: OneCall, outputs: Sequence[IRValue]) -> None:
        is_constant = self._constant.issuperset(call.operands)
        for position, value in enumerate(outputs):
            self._values[number, position] = value
            if is_constant:
                self._constant.add((number, position))

    def _normalized(self, call: OneCall, inputs: Sequence[IRValue | None]) -> IRValue | None:
        """Normalization by running statistics as a scale and a shift; None where it has to stay."""
        graph = self.graph
        source, *statistics = call.operands
        found = scale_and_shift(graph, inputs, graph.constant(call.attributes["eps"]))
        if found is None or not self._constant.issuperset(statistics):
            return None
        scale, shift = found
        value = self._in_product(source, call.attributes["axes"][0], scale, shift)
        x = inputs[0]
        assert x is not None
        return x * scale + shift if value is None else value

    def _in_product(self, source: Operand, axis: int, scale: IRValue, shift: IRValue) -> IRValue | None:
        """The product that makes a value, scaled and shifted; None where there is none, or others read the value."""
        if not isinstance(source, tuple) or self._recorded.reads[source] > 1:
            return None
        maker = self._recorded.calls[source[0]]
        if maker.spec.name not in PRODUCTS or not self._constant.issuperset(maker.operands[1:]):
            return None
        inputs = tuple(self._values[operand] for operand in maker.operands)
        product = Product(maker.spec.name, inputs, maker.attributes)
        changed = folded(self.graph, product, axis, scale, shift)
        if changed is None:
            return None
        graph = self.graph
        graph.context = maker.context
        attributes: Mapping[str, object] = {
            **maker.attributes,
            **{name: graph.constant(maker.attributes[name]) for name in maker.spec.float_names},
        }
        made: IRValue = graph.add(maker.spec, changed, attributes, maker.context).outputs[0]
        return made
