"""What no step need do is outside of loops: before them, behind them, and in gradients."""

import numpy as np
import pytest

from atled.graph.nodes.loops import loop
from graph_programs import Program, body_of, desc, differences

SHAPES = [(5, 4, 8), (4, 8), (8, 8), (8, 8), (1, 8)]
DESCS = [desc(4, 8), *(desc(*shape) for shape in SHAPES[1:])]


def step(builder, x, h, wx, wh, b):
    h = builder.op("Tanh", builder.op("BatchMatmul", x, wx) + builder.op("BatchMatmul", h, wh) + b)
    return h, h


def programmed(build=step, arrays=None):
    rng = np.random.default_rng(3)
    arrays = [rng.normal(scale=0.3, size=shape) for shape in SHAPES] if arrays is None else arrays
    program = Program(*arrays)
    x, h, *constants = program.inputs
    made = loop(program.graph, body_of(DESCS, build), sequences=[x], states=[h], constants=constants)
    return program, made, arrays


def names_inside(program):
    """Per loop of a graph the ops in its body."""
    loops = [node.spec for node in program.graph.nodes if node.name == "Loop"]
    return [sorted(node.spec.name for node in spec.body.nodes) for spec in loops]


@pytest.mark.parametrize("kind", ["counted", "ended", "many rows"])
def test_where_steps_are_unknown_or_large_nothing_is_outside(kind):
    count = 300 if kind == "many rows" else 4
    descs = [desc(count, 8), desc(count, 8), *DESCS[2:]]

    def build(builder, x, h, *constants):
        h, row = step(builder, x, h, *constants)
        return [h, *([builder.op("Sum", h, axes=(0, 1))] if kind == "ended" else []), row]

    program = Program(*(np.zeros(shape) for shape in ((5, count, 8), (count, 8), *SHAPES[2:])), np.array(5))
    x, h, *constants, steps = program.inputs
    how = {"count": steps} if kind == "counted" else {"ended": kind == "ended"}
    loop(program.graph, body_of(descs, build), sequences=[x], states=[h], constants=constants, **how)
    assert [node.name for node in program.graph.nodes] == ["Loop"]


def test_a_sum_that_a_step_reads_stays_inside():
    def build(builder, x, w):
        w = w + builder.op("BatchMatmul", x, x, transpose_a=True)
        return w, w

    program = Program(np.zeros((5, 4, 8)), np.zeros((8, 8)))
    x, w = program.inputs
    loop(program.graph, body_of([desc(4, 8), desc(8, 8)], build), sequences=[x], states=[w])
    assert names_inside(program) == [["Add2", "BatchMatmul"]]


def test_of_a_recurrent_step_and_its_gradient_one_product_each_stays_inside():
    program, made, _ = programmed()
    program.gradients(program.total(*made.rows), program.inputs)
    forward, backward = names_inside(program)
    assert forward.count("BatchMatmul") == backward.count("BatchMatmul") == 1
    assert "Sum" not in backward  # the gradient of the bias


def test_a_product_that_is_only_an_output_is_behind_the_loop():
    def build(builder, x, h, wx, wh, b):
        h = builder.op("Tanh", x + h)
        return h, builder.op("Affine", h, wh, builder.reshape(b, (8,)), base_axis=1)

    program, made, (x, h, _, wh, b) = programmed(build)
    assert names_inside(program) == [["Add2", "Tanh"]]
    (rows,) = program.run(*made.rows)
    for row, got in zip(x, rows, strict=True):
        h = np.tanh(row + h)
        np.testing.assert_allclose(got, h @ wh + b)


def test_a_state_that_only_adds_products_takes_no_loop():
    def build(builder, x, w, *_):
        return [w + builder.op("BatchMatmul", x, x, transpose_a=True)]

    rng = np.random.default_rng(4)
    x, w = rng.normal(size=(5, 4, 8)), rng.normal(size=(8, 8))
    program = Program(x, w)
    made = loop(
        program.graph, body_of([desc(4, 8), desc(8, 8)], build), sequences=program.inputs[:1], states=program.inputs[1:]
    )
    assert not names_inside(program)
    np.testing.assert_allclose(program.run(*made.states)[0], w + np.einsum("tij,tik->jk", x, x))


def test_what_is_added_to_a_state_and_is_no_product_stays_inside():
    def build(builder, x, w, v):
        gradient = builder.op("BatchMatmul", x, builder.op("Exp", x), transpose_a=True)
        return [w + (gradient + builder.op("Tanh", v)), v + v]

    rng = np.random.default_rng(5)
    x, w, v = rng.normal(size=(5, 4, 8)), rng.normal(size=(8, 8)), rng.normal(size=(8, 8))
    program = Program(x, w, v)
    rows, *states = program.inputs
    body = body_of([desc(4, 8), desc(8, 8), desc(8, 8)], build)
    made = loop(program.graph, body, sequences=[rows], states=states)
    assert names_inside(program) == [["Add2", "Add2", "Exp", "Tanh"]]
    wanted = w + np.einsum("tij,tik->jk", x, np.exp(x)) + sum(np.tanh(2**step * v) for step in range(5))
    np.testing.assert_allclose(program.run(*made.states)[0], wanted)


@pytest.mark.parametrize("counted", [False, True])
def test_what_is_made_of_constants_alone_is_made_once(counted):
    def build(builder, h, w, b, factor):
        w = builder.op("Transpose", builder.op("MulScalar", w, val=factor), axes=(1, 0))
        spread = builder.op("Broadcast", builder.op("Exp", b), shape=(4, 8))
        return [builder.op("BatchMatmul", h, w) + spread]

    rng = np.random.default_rng(6)
    h, w, b = rng.normal(size=(4, 8)), rng.normal(size=(8, 8)) / 3, rng.normal(size=(1, 8))
    program = Program(h, w, b, np.array(3))
    state, *constants, count = program.inputs
    factor = program.graph.float_from("given", 0)
    body = body_of([desc(4, 8), desc(8, 8), desc(1, 8)], build, parameters=1)
    how = {"count": count} if counted else {}
    made = loop(program.graph, body, states=[state], constants=constants, length=3, parameters=[factor], **how)
    assert names_inside(program) == [["Add2", "BatchMatmul", "Broadcast"]]
    gradients = program.gradients(program.total(*made.states), program.inputs[:3])

    def last(h, w, b):
        for _ in range(3):
            h = h @ (0.7 * w).T + np.exp(b)
        return h

    found, *gradients = program.run(*made.states, *gradients, floats=[0.7])
    np.testing.assert_allclose(found, last(h, w, b))
    for number, gradient in enumerate(gradients):
        wanted = differences(lambda *given: last(*given).sum(), [h, w, b], number)
        np.testing.assert_allclose(gradient, wanted, rtol=1e-6, atol=1e-8)


def test_rows_too_large_to_be_kept_leave_products_inside():
    body = body_of([desc(4, 8), desc(4, 4096), desc(8, 4096)], lambda b, x, h, w: [h + b.op("BatchMatmul", x, w)])
    for length, inside in ((2, ["Add2"]), (10_000, ["Add2", "BatchMatmul"])):
        program = Program(np.zeros((4, 4096)), np.zeros((8, 4096)))
        h, w = program.inputs
        x = program.op("Constant", val=0.0, shape=(length, 4, 8))
        loop(program.graph, body, sequences=[x], states=[h], constants=[w])
        assert names_inside(program) == [inside]
