"""Products that no step waits for are outside of loops: before them, behind them, and in gradients."""

import numpy as np
import pytest

from atled.graph.nodes.loops import loop
from graph_programs import Program, body_of, desc

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
    def build(builder, x, w, v, *_):
        gradient = builder.op("BatchMatmul", x, builder.op("Exp", x), transpose_a=True)
        return [w + (gradient + builder.op("Tanh", v))]

    rng = np.random.default_rng(5)
    x, w, v = rng.normal(size=(5, 4, 8)), rng.normal(size=(8, 8)), rng.normal(size=(8, 8))
    program = Program(x, w, v)
    x_in, w_in, v_in = program.inputs
    body = body_of([desc(4, 8), desc(8, 8), desc(8, 8)], build)
    made = loop(program.graph, body, sequences=[x_in], states=[w_in], constants=[v_in])
    assert names_inside(program) == [["Add2", "Exp", "Tanh"]]
    wanted = w + np.einsum("tij,tik->jk", x, np.exp(x)) + 5 * np.tanh(v)
    np.testing.assert_allclose(program.run(*made.states)[0], wanted)


def test_rows_too_large_to_be_kept_leave_products_inside():
    body = body_of([desc(4, 8), desc(4, 4096), desc(8, 4096)], lambda b, x, h, w: [h + b.op("BatchMatmul", x, w)])
    for length, inside in ((2, ["Add2"]), (10_000, ["Add2", "BatchMatmul"])):
        program = Program(np.zeros((4, 4096)), np.zeros((8, 4096)))
        h, w = program.inputs
        x = program.op("Constant", val=0.0, shape=(length, 4, 8))
        loop(program.graph, body, sequences=[x], states=[h], constants=[w])
        assert names_inside(program) == [inside]
