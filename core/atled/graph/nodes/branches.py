"""Branches: nodes that run one of two bodies, and their gradients, which are branches again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from atled.array_desc import ArrayDesc
from atled.graph.nodes.body import Body
from atled.graph.nodes.body_gradient import DifferentiatedBody
from atled.graph.nodes.body_op import BodyOp, extend
from atled.graph.nodes.gradient import DifferentiatedNode
from atled.graph.nodes.ir import FloatSlot, Graph, IRValue
from atled.ops.spec import Input


class BranchOp(BodyOp, abstract=True):
    """One of two bodies on the same inputs: the first one if a condition is true, else the second one.

    Args:
        condition: () of any dtype; 0 is false.
        inputs: those of the bodies.
        random states: (2,) int64 each; those from which the body draws that runs go on.

    Returns:
        outputs: the results of the body that runs.
    """

    kind = "Branch"
    inputs = (Input("condition", kind="keep", gradient="none", on_host=True),)

    def __init__(self, bodies: Sequence[Body], *, draws: int = 0) -> None:
        if_true, if_false = bodies
        self.outputs = tuple(f"y{number}" for number in range(len(if_true.results)))
        super().__init__(bodies, [f"x{number}" for number in range(len(if_true.inputs) - draws)], draws)
        for what, one, other in (
            ("inputs", if_true.inputs, if_false.inputs),
            ("results", if_true.result_descs, if_false.result_descs),
        ):
            if one != other:
                raise self.refusal(
                    f"its sides have other {what}: {list(one)} and {list(other)}",
                    f"give both sides {what} of the same shapes and dtypes, by a cast or a broadcast for example",
                )

    def infer(self, condition: ArrayDesc, *given: ArrayDesc, **_: Any) -> Sequence[ArrayDesc]:
        descs = (condition, *given)
        if condition.shape != ():
            raise self.error(descs, f"its condition is no scalar: {condition}", "reduce it, for example by any or all")
        self.require(descs, (condition, *self.bodies[0].inputs))
        return self.bodies[0].result_descs

    def gradient(self, g: Any, *_: Any, **parameters: Any) -> Sequence[IRValue | None]:  # Any: the engine's own classes
        return _BranchGradient(self, g, list(parameters.values())).of_inputs()


def branch(
    graph: Graph,
    condition: IRValue,
    bodies: Sequence[Body],
    inputs: Sequence[IRValue],
    *,
    draws: Sequence[IRValue] = (),
    parameters: Sequence[FloatSlot] = (),
) -> tuple[IRValue, ...]:
    """Add a branch to a graph: what the first of two bodies gives if a condition is true, else the second one.

    draws: the random states, which are the last inputs of the bodies.

    Raises RefusedError for bodies that do not fit each other, or inputs that do not fit them.
    """
    spec = BranchOp(bodies, draws=len(draws))
    floats = dict(zip(spec.float_names, parameters, strict=True))
    return graph.add(spec, [condition, *inputs, *draws], floats, graph.context).outputs


class _Side(DifferentiatedBody):
    """One body of a branch with its gradient.

    seeds: the cotangents of those results that have one.  found: gradients by number of the input.
    """

    def __init__(self, body: Body, g: DifferentiatedNode) -> None:
        super().__init__(body, g.graph.context)
        seeds = {
            number: self.builder.input(self.results[number].desc)
            for number, cotangent in enumerate(g.cotangents)
            if cotangent is not None
        }
        self.seeds = list(seeds.values())
        self.found = self.pull_back(seeds.items(), {number for number, need in enumerate(g.needs[1:]) if need})

    def choose(self, numbers: Iterable[int], free: int) -> None:
        """Decide what the gradients of some inputs are computed from.  free: how many inputs are there anyway.

        read: the numbers of those that are read.  stored: what the body stores.  missing: of that, what is no result.
        """
        self.gradients = [self.found.get(number) or self.zeros(self.given[number].desc) for number in numbers]
        sources = self.sources(self.gradients, self.given[:free])
        self.read = {number for number, value in enumerate(self.given[:free]) if value in sources}
        self.stored = [value for value in sources if value not in self.given[:free]]
        self.missing = [value for value in self.stored if value not in self.results]


class _BranchGradient:
    """The gradient of one branch: a branch by the same condition, between the gradients of its bodies.

    What one body stores for its gradient are zeros where the other one runs.
    """

    def __init__(self, spec: BranchOp, g: DifferentiatedNode, parameters: Sequence[FloatSlot]) -> None:
        self._spec = spec
        self._g = g
        self._parameters = parameters
        self._sides = [_Side(body, g) for body in spec.bodies]

    def of_inputs(self) -> list[IRValue | None]:
        """Per input of the node its gradient."""
        numbers = sorted(set[int]().union(*(side.found for side in self._sides)))
        gradients: list[IRValue | None] = [None] * len(self._g.inputs)
        if numbers:
            for number, gradient in zip(numbers, self._add(numbers), strict=True):
                gradients[1 + number] = gradient
        return gradients

    def _add(self, numbers: Sequence[int]) -> Sequence[IRValue]:
        """Add the branch that makes the gradients of some inputs of the bodies."""
        g, sides = self._g, self._sides
        given = [value for value in g.inputs if value is not None]
        for side in sides:
            side.choose(numbers, len(side.given) - self._spec.draw_count)
        read = sorted(set[int]().union(*(side.read for side in sides)))
        bodies = []
        for side in sides:
            stored = [
                value if owner is side else side.builder.input(value.desc) for owner in sides for value in owner.stored
            ]
            inputs = [*(side.given[number] for number in read), *side.seeds, *stored]
            bodies.append(side.builder.body(side.gradients, inputs))
        cotangents = [
            g.graph.coerce(value, None, output.dtype, g.graph.context)
            for value, output in zip(g.cotangents, g.outputs, strict=True)
            if value is not None
        ]
        outside = [*(given[1 + number] for number in read), *cotangents, *self._stored()]
        return branch(g.graph, given[0], bodies, outside, parameters=self._parameters)

    def _stored(self) -> list[IRValue]:
        """What the sides store, first one side, then the other: outputs that the branch has, else it gets more."""
        node, sides = self._g.node, self._sides
        missing = [(side, value) for side in sides for value in side.missing]
        if missing:
            bodies = [
                side.builder.body(
                    [*side.results, *(value if owner is side else side.zeros(value.desc) for owner, value in missing)],
                    side.given,
                )
                for side in sides
            ]
            extend(node, BranchOp(bodies, draws=self._spec.draw_count))
        added = [value for _, value in missing]
        return [node.outputs[[*side.results, *added].index(value)] for side in sides for value in side.stored]
