"""What a loop need not do step by step is done before or behind it, once for all steps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import atled as nn
from atled.array_desc import ArrayDesc
from atled.graph.nodes.body import Body, BodyBuilder
from atled.graph.nodes.gradient import backpropagate
from atled.graph.nodes.ir import IRValue
from atled.graph.nodes.loops import LoopOp, loop

CONTEXT = nn.Context(["cpu:double"])


class Built:
    """A graph that only describes, with one loop of a body."""

    def __init__(self, body: Body, sequences: int, states: int, length: int = 5, **settings: object) -> None:
        self.graph = BodyBuilder(CONTEXT)
        descs = [ArrayDesc((length, *desc.shape), desc.dtype) for desc in body.inputs[:sequences]]
        self.inputs = [self.graph.input(desc) for desc in (*descs, *body.inputs[sequences:])]
        rest = self.inputs[sequences:]
        given: dict[str, object] = {"sequences": self.inputs[:sequences], "states": rest[:states]}
        self.made = loop(self.graph, body, **given, constants=rest[states:], **settings)  # type: ignore[arg-type]

    @property
    def names(self) -> list[str]:
        return [node.name for node in self.graph.nodes if node.name not in ("Reshape", "Constant", "Broadcast")]

    @property
    def loops(self) -> list[list[str]]:
        """The names of the ops in the bodies of its loops."""
        specs = [node.spec for node in self.graph.nodes if isinstance(node.spec, LoopOp)]
        return [[node.spec.name for node in spec.body.nodes] for spec in specs]


def body_of(*shapes: tuple[int, ...], kind: str = "plain") -> Body:
    builder = BodyBuilder(CONTEXT)
    x, h, wx, wh, b = (builder.input(ArrayDesc(shape, np.float64)) for shape in shapes)
    total = builder.op("Add2", builder.op("BatchMatmul", x, wx), builder.op("BatchMatmul", h, wh))
    h = builder.op("Tanh", builder.op("Add2", total, b))
    results: Sequence[IRValue] = (h, builder.op("Sum", h, axes=(0, 1)), h) if kind == "ended" else (h, h)
    return builder.body(results)


SHAPES = (2, 4), (2, 3), (4, 3), (3, 3), (1, 3)


def test_products_of_rows_with_constants_are_one_product_before_the_loop() -> None:
    built = Built(body_of(*SHAPES), 1, 1)
    assert built.names == ["BatchMatmul", "Loop"]
    assert built.loops == [["BatchMatmul", "Add2", "Add2", "Tanh"]]


def test_gradients_of_constants_are_one_product_behind_the_loop() -> None:
    built = Built(body_of(*SHAPES), 1, 1)
    y = built.graph.op("Sum", built.made.rows[0], axes=(0, 1, 2))
    seed = built.graph.op("Constant", val=1.0, shape=())
    before = len(built.names)
    found = backpropagate(built.graph, list(built.graph.nodes), {y: seed}, built.inputs)
    assert [found[value].shape for value in built.inputs] == [value.shape for value in built.inputs]
    behind = built.names[before:]
    assert behind.count("Loop") == 1
    assert behind.count("BatchMatmul") == 3  # of x, wx and wh
    _, backward = built.loops
    assert backward.count("BatchMatmul") == 1
    assert "Sum" not in backward


@pytest.mark.parametrize("kind", ["counted", "ended", "many rows"])
def test_nothing_is_hoisted_where_the_steps_are_unknown_or_large(kind: str) -> None:
    shapes = ((300, 4), (300, 3), *SHAPES[2:]) if kind == "many rows" else SHAPES
    body = body_of(*shapes, kind=kind)
    if kind == "counted":
        graph = BodyBuilder(CONTEXT)
        count = graph.input(ArrayDesc((), np.int64))
        inputs = [graph.input(ArrayDesc((5, *desc.shape), desc.dtype)) for desc in body.inputs[:1]]
        inputs += [graph.input(desc) for desc in body.inputs[1:]]
        loop(graph, body, sequences=inputs[:1], states=inputs[1:2], constants=inputs[2:], count=count)
        assert [node.name for node in graph.nodes] == ["Loop"]
    else:
        assert Built(body, 1, 1, ended=kind == "ended").names == ["Loop"]


def test_a_sum_that_a_step_reads_stays_in_the_loop() -> None:
    builder = BodyBuilder(CONTEXT)
    x, s = builder.input(ArrayDesc((2, 3), np.float64)), builder.input(ArrayDesc((3, 3), np.float64))
    s = builder.op("Add2", s, builder.op("BatchMatmul", x, x, transpose_a=True))
    assert Built(builder.body([s]), 1, 1).names == ["BatchMatmul", "Add2"]
    assert Built(builder.body([s, s]), 1, 1).names == ["Loop"]
