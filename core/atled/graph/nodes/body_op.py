"""Ops that hold bodies: what loops and branches share."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import ClassVar

from atled.array_desc import ArrayDesc
from atled.call import Call, Prepared
from atled.dtypes import is_float
from atled.errors import RefusedError, four_parts, shortened
from atled.graph.nodes.body import Body
from atled.graph.nodes.dispatch import EngineOp, choose, place_of
from atled.graph.nodes.ir import IRNode, IRValue
from atled.ops.spec import Attribute, Input


class BodyOp(EngineOp, abstract=True):
    """An op that is made per body, as a fused op is per formula; the engine runs the plan of the body.

    bodies: all of equal inputs, the last of which are random states. The float attributes p0, p1, ... are their
        parameters.
    draw_count: how many random states.
    key: equal for ops that compute the same.
    """

    kind: ClassVar[str]
    category = "control"

    def __init__(self, bodies: Sequence[Body], names: Sequence[str], draws: int, *how: Hashable) -> None:
        """names: of the inputs of the bodies, without random states.  how: what else is part of the key."""
        self.bodies = tuple(bodies)
        self.draw_count = draws
        self.key: Hashable = (self.kind, *(body.key for body in bodies), draws, *how)
        self._hash = hash(self.key)
        own = [
            Input(name, kind="keep", gradient="flows" if is_float(desc.dtype) else "none")
            for name, desc in zip(names, bodies[0].inputs, strict=False)
        ]
        states = [Input(f"draw{number}", kind="random_state", gradient="none") for number in range(draws)]
        self.inputs = (*self.inputs, *own, *states)
        count = max(body.parameter_count for body in bodies)
        self.attributes = tuple(Attribute(f"p{number}", "float") for number in range(count))
        self.note = f"bodies of {' and '.join(str(len(body.nodes)) for body in bodies)} ops"
        super().__init__(self.kind)

    def prepare(self, call: Call) -> Prepared:
        return Prepared(_is_run_by_bodies)

    def refusal(self, wrong: str, remedy: str) -> RefusedError:
        """The error for bodies that do not fit."""
        return RefusedError(four_parts(f"a {self.kind.lower()} of {shortened(self.bodies)}", wrong, "", remedy))

    def require(self, given: Sequence[ArrayDesc], wanted: Sequence[ArrayDesc]) -> None:
        """Refuse inputs of other shapes or dtypes than wanted."""
        for name, desc, want in zip(self.input_names, given, wanted, strict=True):
            if desc.contiguous != want:
                raise self.error(given, f"{name} is {desc}, not {want}", "give each input as its body was described")

    def __eq__(self, other: object) -> bool:
        return self.key == other.key if isinstance(other, BodyOp) else NotImplemented

    def __hash__(self) -> int:
        return self._hash


def _is_run_by_bodies(*_: object) -> None:
    raise AssertionError("the engine runs the bodies")


def extend(node: IRNode, spec: BodyOp) -> None:
    """Have a node that is in a graph make more outputs, which its spec has behind those it made so far."""
    assert not node.computed, "what was computed before cannot be had of it again"
    graph = node.outputs[0].graph
    descs = tuple(None if value is None else value.desc for value in node.inputs)
    place = None
    if node.decision is not None:
        node.decision = choose(spec, descs, node.attributes, node.context)
        place = place_of(node.decision, node.context)
    node.spec = spec
    added = list(enumerate(spec.infer_outputs(descs, {})))[len(node.outputs) :]
    node.outputs += tuple(IRValue(graph, desc, place, node, position) for position, desc in added)
