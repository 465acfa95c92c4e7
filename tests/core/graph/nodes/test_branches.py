"""Branches compute the side that the condition says, and so do their gradients."""

import numpy as np
import pytest

from atled.errors import RefusedError
from atled.graph.nodes.branches import branch
from atled.graph.nodes.loops import loop
from graph_programs import Program, body_of, desc, differences

DESCS = [desc(2, 2), desc(2, 2)]


def product(builder, a, b):
    y = builder.op("Tanh", builder.op("BatchMatmul", a, b))
    return y, y * a


def quotient(builder, a, b):
    return a, builder.op("Exp", a) / b


def numpy_total(chosen, a, b):
    if chosen:
        y = np.tanh(a @ b)
        return (y * y).sum() + (y * a).sum()
    return (a * a).sum() + (np.exp(a) / b).sum()


@pytest.fixture
def arrays():
    rng = np.random.default_rng(2)
    return [rng.normal(size=(2, 2)), rng.uniform(1, 2, size=(2, 2))]


def branch_total(program):
    condition, a, b = program.inputs
    first, second = branch(program.graph, condition, [body_of(DESCS, product), body_of(DESCS, quotient)], [a, b])
    return program.total(first * first, second)


@pytest.mark.parametrize("condition", [True, False, np.float64(0.5), np.int32(0)])
def test_values_and_gradients_are_those_of_the_side_that_runs(arrays, condition):
    program = Program(np.asarray(condition), *arrays)
    value = branch_total(program)
    found, *gradients = program.run(value, *program.gradients(value, program.inputs[1:]))
    np.testing.assert_allclose(found, numpy_total(condition, *arrays))
    for number, gradient in enumerate(gradients):
        wanted = differences(lambda *given: numpy_total(condition, *given), arrays, number)
        np.testing.assert_allclose(gradient, wanted, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("condition", [True, False])
def test_gradients_of_gradients_are_those_of_finite_differences(arrays, condition):
    def of_gradients(*given):
        program = Program(np.array(condition), *given)
        gradients = program.gradients(branch_total(program), program.inputs[1:])
        return program, program.total(*(gradient * gradient for gradient in gradients))

    def total(*given):
        program, value = of_gradients(*given)
        return program.run(value)[0]

    program, value = of_gradients(*arrays)
    found = program.run(*program.gradients(value, program.inputs[1:]))
    for number, gradient in enumerate(found):
        np.testing.assert_allclose(gradient, differences(total, arrays, number), rtol=1e-5, atol=1e-7)


def test_only_the_side_that_runs_draws():
    def draw(builder, x, one, other):
        return [x * builder.op("Rand", one, shape=(2,))]

    def draw_other(builder, x, one, other):
        return [x * builder.op("Rand", other, shape=(2,))]

    state = desc(2, dtype=np.int64)
    bodies = [body_of([desc(2), state, state], build) for build in (draw, draw_other)]
    for condition, counts in ((True, [0, -1]), (False, [-1, 0])):
        program = Program(np.array(condition), np.ones(2), np.array([3, -1]), np.array([4, -1]))
        condition, x, *states = program.inputs
        (y,) = branch(program.graph, condition, bodies, [x], draws=states)
        (gradient,) = program.gradients(program.total(y), [x])
        noise, gradient = program.run(y, gradient)
        np.testing.assert_allclose(gradient, noise)
        assert [array.data[1] for array in program.arrays[2:]] == counts


def test_a_branch_in_a_loop_has_a_gradient(arrays):
    def step(builder, flag, a, b):
        first, second = branch(builder, flag, [body_of(DESCS, product), body_of(DESCS, quotient)], [a, b])
        return first, second

    flags = np.array([True, False, True])

    def total(a, b):
        value = 0.0
        for flag in flags:
            y = np.tanh(a @ b) if flag else a
            value += (y * a if flag else np.exp(a) / b).sum()
            a = y
        return value + a.sum()

    program = Program(flags, *arrays)
    x, a, b = program.inputs
    body = body_of([desc(dtype=np.bool_), *DESCS], step)
    made = loop(program.graph, body, sequences=[x], states=[a], constants=[b])
    value = program.total(*made.states, *made.rows)
    found, *gradients = program.run(value, *program.gradients(value, [a, b]))
    np.testing.assert_allclose(found, total(*arrays))
    for number, gradient in enumerate(gradients):
        np.testing.assert_allclose(gradient, differences(total, arrays, number), rtol=1e-6, atol=1e-8)


def test_sides_and_conditions_that_do_not_fit_are_refused(arrays):
    program = Program(np.ones(2), *arrays)
    condition, a, b = program.inputs
    body, other = body_of(DESCS, product), body_of(DESCS, lambda builder, a, b: [a, builder.op("Sum", b, axes=(0,))])
    with pytest.raises(RefusedError, match="its sides have other results"):
        branch(program.graph, condition, [body, other], [a, b])
    with pytest.raises(RefusedError, match=r"its condition is no scalar: float64\[2\]"):
        branch(program.graph, condition, [body, body], [a, b])
