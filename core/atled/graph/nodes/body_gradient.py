"""The gradient of a body: nodes behind its own, and what of the body's values these are computed from."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from atled.array_desc import ArrayDesc
from atled.dtypes import is_float
from atled.graph.nodes.body import Body, BodyBuilder
from atled.graph.nodes.gradient import backpropagate
from atled.graph.nodes.ir import IRNode, IRValue
from atled.ops.formula_work import work_of
from atled.ops.spec import OpSpec
from atled_contexts import Context

_MOST_CALLS = 12
"""By which one value is computed again: they run whenever the gradient does."""

_MOST_WORK = 1
"""Of one of these calls, as `work_of` has it: what was stored in the last steps is in a cache as a rule."""


class DifferentiatedBody:
    """A body in a builder of its own, behind whose nodes those of its gradient are added.

    given, results: the values of its inputs and results.
    """

    def __init__(self, body: Body, context: Context) -> None:
        self.builder = BodyBuilder(context, body.by_operands)
        self.given = [self.builder.input(desc) for desc in body.inputs]
        parameters = [self.builder.parameter() for _ in range(body.parameter_count)]
        self.results = body.emit(self.builder, self.given, parameters)
        self._nodes = list(self.builder.nodes)
        self._reached = self._find_reached()

    def _find_reached(self) -> dict[IRValue, frozenset[int]]:
        reached = {
            value: frozenset([number] if is_float(value.dtype) else []) for number, value in enumerate(self.given)
        }
        for node in self._nodes:
            assert node.spec is not None
            flows = [] if node.spec.no_gradient == "stops" else [value for value in node.inputs if value is not None]
            numbers = frozenset[int]().union(*(reached[value] for value in flows))
            reached.update((output, numbers) for output in node.outputs)
        return reached

    def reached(self, result: int) -> frozenset[int]:
        """The inputs that the gradient of a result may reach, all by number."""
        return self._reached[self.results[result]]

    def pull_back(self, seeds: Iterable[tuple[int, IRValue]], wanted: Collection[int]) -> dict[int, IRValue]:
        """The gradients of the wanted inputs, by number, as far as any arrives.  seeds: those of results, by number."""
        sums: dict[IRValue, IRValue] = {}
        for number, seed in seeds:
            result = self.results[number]
            sums[result] = sums[result] + seed if result in sums else seed
        values = {number: self.given[number] for number in sorted(wanted) if is_float(self.given[number].dtype)}
        found = backpropagate(self.builder, self._nodes, sums, values.values())
        return {number: found[value] for number, value in values.items() if value in found}

    def zeros(self, desc: ArrayDesc) -> IRValue:
        """What stands for a gradient that does not arrive."""
        made = self.builder.op("Constant", val=0.0, shape=desc.shape, dtype=desc.dtype)
        return self.builder.coerce(made, None, desc.dtype, self.builder.context)

    def sources(self, gradients: Sequence[IRValue], free: Iterable[IRValue]) -> list[IRValue]:
        """The values of the body from which to compute gradients: inputs, then what nodes make, in their order.

        free: those that are there anyway. What short formulas make of values that are there is computed again; the rest
        has to be stored: products, draws, and all else that takes longer than to read it.
        """
        own = dict.fromkeys([*self.given, *(output for node in self._nodes for output in node.outputs)])
        there = set(free)
        for value in _ends(gradients, own):
            if value not in there and not _is_quick(value, there):
                there.add(value)
        return _ends(gradients, {value: None for value in own if value in there})


def _ends(gradients: Sequence[IRValue], known: dict[IRValue, None]) -> list[IRValue]:
    """Those of some known values from which gradients are computed, in their order."""
    found: set[IRValue] = set()
    seen: set[IRNode] = set()
    stack = list(gradients)
    while stack:
        value = stack.pop()
        if value in known:
            found.add(value)
        elif value.node is not None and value.node not in seen:
            seen.add(value.node)
            stack += [item for item in value.node.inputs if item is not None]
    return [value for value in known if value in found]


def _is_quick(value: IRValue, there: Collection[IRValue]) -> bool:
    """Whether few quick calls compute a value from values that are there."""
    calls: set[IRNode] = set()
    stack = [value]
    while stack:
        value = stack.pop()
        if value in there or value.node in calls:
            continue
        node = value.node
        if node is None or node.spec is None or not _is_quick_op(node.spec) or len(calls) == _MOST_CALLS:
            return False
        calls.add(node)
        stack += [item for item in node.inputs if item is not None]
    return True


def _is_quick_op(spec: OpSpec) -> bool:
    if spec.program is not None:
        return not spec.random and all(work_of(formula) <= _MOST_WORK for formula in spec.program.expressions)
    is_window = type(spec).window is not OpSpec.window
    return is_window or spec.views or spec.copies or spec.name in ("Cast", "Constant")
