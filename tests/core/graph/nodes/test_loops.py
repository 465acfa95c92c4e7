"""Loops compute what a loop in Python over NumPy computes, and so do their gradients, of both orders."""

import numpy as np
import pytest

import atled as nn
from atled.array_desc import ArrayDesc
from atled.arrays.array import NdArray
from atled.graph.compile.lowering import lower
from atled.graph.nodes.body import BodyBuilder
from atled.graph.nodes.gradient import backpropagate
from atled.graph.nodes.ir import Graph
from atled.graph.nodes.loops import loop
from atled.graph.run.binding import Binding

CONTEXT = nn.Context(["cpu:double"])


def desc(*shape, dtype=np.float64):
    return ArrayDesc(shape, dtype)


def body_of(descs, build):
    """The body that `build(builder, *inputs)` makes."""
    builder = BodyBuilder(CONTEXT)
    return builder.body(build(builder, *[builder.input(item) for item in descs]))


class Program:
    """A graph on arrays that are given as NumPy's, with what it computes as NumPy's."""

    def __init__(self, *arrays):
        self.graph = Graph(CONTEXT)
        self.arrays = [NdArray.from_numpy_array(np.asarray(array)) for array in arrays]
        self.inputs = [
            self.graph.external(number, ArrayDesc(array.shape, array.dtype)) for number, array in enumerate(self.arrays)
        ]

    def gradients(self, y, wanted):
        """Gradients of the sum of a value."""
        graph = self.graph
        seed = graph.op("Constant", val=1.0, shape=y.shape)
        found = backpropagate(graph, list(graph.nodes), {y: seed}, wanted)
        return [found[value] for value in wanted]

    def run(self, *values):
        self.plan = lower(self.graph, values)
        results = [NdArray(value.shape) for value in values]
        floats = [source[1] for source in self.plan.floats]
        self.binding = Binding(self.plan, [array.cell for array in self.arrays], [r.cell for r in results], floats)
        self.binding.run()
        return [result.data for result in results]


def rnn(builder, x, h, w, b):
    h = builder.op("Tanh", builder.op("Add2", builder.op("Add2", builder.op("BatchMatmul", h, w), x), b))
    return h, h * h


DESCS = [desc(2, 3), desc(2, 3), desc(3, 3), desc(1, 3)]


@pytest.fixture
def arrays():
    rng = np.random.default_rng(1)
    return [rng.normal(size=shape) for shape in ((4, 2, 3), (2, 3), (3, 3), (1, 3))]


def test_states_and_rows_are_those_of_a_loop_in_python(arrays):
    program = Program(*arrays)
    x, h, w, b = program.inputs
    made = loop(program.graph, body_of(DESCS, rnn), sequences=[x], states=[h], constants=[w, b])
    last, rows = program.run(*made.states, *made.rows)
    x, h, w, b = arrays
    wanted = []
    for row in x:
        h = np.tanh(h @ w + row + b)
        wanted.append(h * h)
    np.testing.assert_allclose(last, h)
    np.testing.assert_allclose(rows, wanted)


def differences(function, arrays, number, step=1e-6):
    """The gradient of a scalar function in one of its arrays, by central differences."""
    found = np.empty_like(arrays[number])
    for place in np.ndindex(found.shape):
        sides = []
        for sign in (1, -1):
            moved = [array.copy() for array in arrays]
            moved[number][place] += sign * step
            sides.append(function(*moved))
        found[place] = (sides[0] - sides[1]) / (2 * step)
    return found


def rnn_sum(x, h, w, b):
    """Of all that the loop above gives."""
    total = 0.0
    for row in x:
        h = np.tanh(h @ w + row + b)
        total += (h * h).sum()
    return total + (h * h * h).sum()


def summed(program):
    """The same as a value of a graph."""
    x, h, w, b = program.inputs
    made = loop(program.graph, body_of(DESCS, rnn), sequences=[x], states=[h], constants=[w, b])
    (last,), (rows,) = made.states, made.rows
    op = program.graph.op
    return op("Add2", op("Sum", rows, axes=(0, 1, 2)), op("Sum", last * last * last, axes=(0, 1)))


def test_gradients_are_those_of_finite_differences(arrays):
    program = Program(*arrays)
    found = program.run(*program.gradients(summed(program), program.inputs))
    for number, gradient in enumerate(found):
        np.testing.assert_allclose(gradient, differences(rnn_sum, arrays, number), rtol=1e-6, atol=1e-8)


def test_gradients_of_gradients_are_those_of_finite_differences(arrays):
    def gradient_norm(*given):
        program = Program(*given)
        gradients = program.gradients(summed(program), program.inputs)
        return program, [program.graph.op("Sum", g * g, axes=tuple(range(g.ndim))) for g in gradients]

    def total(*given):
        program, norms = gradient_norm(*given)
        return sum(float(norm) for norm in program.run(*norms))

    program, norms = gradient_norm(*arrays)
    value = norms[0]
    for norm in norms[1:]:
        value = value + norm
    found = program.run(*program.gradients(value, program.inputs))
    for number, gradient in enumerate(found):
        np.testing.assert_allclose(gradient, differences(total, arrays, number), rtol=1e-5, atol=1e-7)
