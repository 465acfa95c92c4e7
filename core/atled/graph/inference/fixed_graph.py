"""Graphs of what depends on parameters alone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Generic

import numpy as np

from atled.array_desc import ArrayDesc
from atled.graph.inference.recorded import OneCall, Operand, Recorded
from atled.graph.inference.sizes import attributes_for
from atled.graph.nodes.folding import PRODUCTS, Product, Shapes, V, folded, scale_and_shift, shifted
from atled.graph.nodes.ir import Graph, IRValue

Leaves = Mapping[int, tuple[int, ArrayDesc]]
"""The number of the outside array of a leaf that is no input, and what it is."""


class Folds(ABC, Generic[V]):
    """What normalization and sums with a number per channel are in products; see `folding`.

    shapes: the graph in which, or NumPy by which it is computed.
    """

    shapes: Shapes[V]

    @abstractmethod
    def value(self, operand: Operand) -> V | None:
        """A value; None for an absent one."""

    @abstractmethod
    def _begin(self, call: OneCall) -> None:
        """What follows is computed for a call."""

    @abstractmethod
    def _times(self, weight: V, factor: V) -> V:
        """A weight with another scale per channel."""

    def present(self, operand: Operand) -> V:
        """A value that is not absent."""
        found = self.value(operand)
        assert found is not None
        return found

    def scale_and_shift(self, call: OneCall, dtype: np.dtype) -> tuple[V, V] | None:
        """Of normalization of x of this dtype."""
        parameters = [self.present(operand) for operand in call.operands[1:]]
        self._begin(call)
        return scale_and_shift(dtype, parameters, call.attributes["eps"])

    def folded(self, call: OneCall, maker: OneCall, x: ArrayDesc) -> tuple[V, V] | None:
        """Weight and bias of a product of x that gives what normalization behind it gives."""
        scale = self.scale_and_shift(call, x.dtype) if maker.spec.name in PRODUCTS else None
        if scale is None:
            return None
        product = self._product(maker, x)
        found = folded(self.shapes, product, call.attributes["axes"][0], *scale)
        return None if found is None else (self._times(product.weight, found[0]), found[1])

    def shifted(self, maker: OneCall, x: ArrayDesc, shape: Sequence[int], shift: Operand) -> V | None:
        """The bias of a product of x, of a shape, that gives what is left to add `shift` to."""
        return shifted(self.shapes, self._product(maker, x), shape, self.present(shift))

    def _product(self, maker: OneCall, x: ArrayDesc) -> Product:
        weight, bias = (*(self.value(operand) for operand in maker.operands[1:]), None)[:2]
        assert weight is not None
        self._begin(maker)
        return Product(maker.spec.name, x, weight, bias, maker.attributes)


class FixedGraph(Folds[IRValue]):
    """The recorded calls that depend on parameters alone, each as a node once it is asked for.

    parameters: the leaves that these read, or more.
    """

    def __init__(self, recorded: Recorded, parameters: Leaves) -> None:
        self.shapes = self.graph = Graph(recorded.context)
        self._recorded = recorded
        self._leaves = parameters
        self._values: dict[Operand, IRValue | None] = {None: None}
        self._folded: dict[OneCall, tuple[IRValue, IRValue] | None] = {}

    def value(self, operand: Operand) -> IRValue | None:
        """See Folds."""
        waiting = [operand]
        while waiting:
            last = waiting[-1]
            if last in self._values:
                waiting.pop()
                continue
            if isinstance(last, int):
                number, desc = self._leaves[last]
                self._values[last] = self.graph.external(number, desc)
                continue
            assert last is not None
            call = self._recorded.calls[last[0]]
            missing = [each for each in call.operands if each not in self._values]
            waiting += missing
            if not missing:
                made = added(self.graph, call, [self._values[each] for each in call.operands])
                self._values.update(((last[0], position), value) for position, value in enumerate(made))
        return self._values[operand]

    def folded(self, call: OneCall, maker: OneCall, x: ArrayDesc) -> tuple[IRValue, IRValue] | None:
        """See Folds."""
        if call not in self._folded:
            self._folded[call] = super().folded(call, maker, x)
        return self._folded[call]

    def _begin(self, call: OneCall) -> None:
        self.graph.context = call.context

    def _times(self, weight: IRValue, factor: IRValue) -> IRValue:
        return weight * factor


def fixed_values_of(recorded: Recorded) -> frozenset[Operand]:
    """The leaves and the values that depend on parameters alone; None, what is absent, among them."""
    found: set[Operand] = {None}
    leaves = {operand for call in recorded.calls for operand in call.operands if isinstance(operand, int)}
    found.update(leaf for leaf in leaves if leaf >= len(recorded.inputs))
    for number, call in enumerate(recorded.calls):
        if found.issuperset(call.operands):
            found.update((number, position) for position in range(len(call.output_shapes)))
    return frozenset(found)


def added(
    graph: Graph, call: OneCall, inputs: Sequence[IRValue | None], attributes: Mapping[str, Any] | None = None
) -> Sequence[IRValue]:
    """What a call makes of inputs of any shapes, added to a graph.

    attributes: for these shapes; None: those that the call says by itself.
    """
    graph.context = call.context
    if attributes is None:
        attributes = attributes_for(call, [None if value is None else value.shape for value in inputs])
    attributes = dict(attributes)
    for name in call.spec.float_names:
        attributes[name] = graph.constant(attributes[name])
    return graph.add(call.spec, inputs, attributes, call.context).outputs
