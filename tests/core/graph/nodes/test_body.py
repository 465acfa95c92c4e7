"""Bodies describe a graph once and make its nodes in any other, gradients included."""

import numpy as np
import pytest

import atled as nn
from atled.array_desc import ArrayDesc
from atled.arrays.array import NdArray
from atled.graph.compile.lowering import lower
from atled.graph.nodes.body import BodyBuilder
from atled.graph.nodes.gradient import backpropagate
from atled.graph.nodes.ir import Graph
from atled.graph.run.binding import Binding

CONTEXT = nn.Context(["cpu:float"])
DESC = ArrayDesc((2, 3), np.float32)


def computed(body, arrays, parameters=()):
    """The results of a body on arrays, as a plan computes them."""
    graph = Graph(CONTEXT)
    given = [graph.external(number, desc) for number, desc in enumerate(body.inputs)]
    slots = [graph.float_from("constant", value) for value in parameters]
    plan = lower(graph, body.emit(graph, given, slots))
    results = [NdArray(desc.shape) for desc in body.result_descs]
    cells = [NdArray.from_numpy_array(array).cell for array in arrays]
    Binding(plan, cells, [result.cell for result in results], [source[1] for source in plan.floats]).run()
    return [result.data for result in results]


@pytest.fixture
def x():
    return np.random.default_rng(0).normal(size=DESC.shape).astype(np.float32)


def test_emitted_nodes_compute_what_was_described(x):
    builder = BodyBuilder(CONTEXT)
    a, b = builder.input(DESC), builder.input(DESC)
    body = builder.body([builder.op("Tanh", a * b) + 1.0, b])
    y, same = computed(body, [x, x + 1])
    np.testing.assert_allclose(y, np.tanh(x * (x + 1)) + 1, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(same, x + 1)


def test_equal_nodes_are_one_and_unread_ones_none():
    builder = BodyBuilder(CONTEXT)
    a = builder.input(DESC)
    builder.op("Exp", a)
    body = builder.body([builder.op("Tanh", a), builder.op("Tanh", a)])
    assert [node.spec.name for node in body.nodes] == ["Tanh"]
    assert body.results[0] == body.results[1]


def test_parameters_are_given_when_it_runs(x):
    builder = BodyBuilder(CONTEXT)
    a, _, scale = builder.input(DESC), builder.parameter(), builder.parameter()
    body = builder.body([builder.op("MulScalar", a, val=scale)])
    assert body.parameter_count == 2
    np.testing.assert_array_equal(computed(body, [x], [7.0, 2.0])[0], 2 * x)


def test_equal_bodies_have_equal_keys_and_zeros_of_two_signs_differ():
    def body(value):
        builder = BodyBuilder(CONTEXT)
        return builder.body([builder.op("MulScalar", builder.input(DESC), val=value)])

    assert body(0.5) == body(0.5) and hash(body(0.5)) == hash(body(0.5))
    assert body(0.0) != body(-0.0)


def test_the_gradient_of_a_body_is_a_body(x):
    builder = BodyBuilder(CONTEXT)
    a = builder.input(DESC)
    forward = builder.body([builder.op("Tanh", a)])
    builder = BodyBuilder(CONTEXT)
    a, gy = builder.input(DESC), builder.input(DESC)
    (y,) = forward.emit(builder, [a])
    backward = builder.body([backpropagate(builder, builder.nodes, {y: gy}, [a])[a]])
    np.testing.assert_allclose(computed(backward, [x, x])[0], x * (1 - np.tanh(x) ** 2), rtol=1e-4, atol=1e-6)


def test_effects_are_refused():
    builder = BodyBuilder(CONTEXT)
    with pytest.raises(AssertionError, match="no effects"):
        builder.op("SgdUpdate", builder.input(DESC), builder.input(DESC), lr=1.0)


def test_zeros_of_two_signs_are_two_numbers_in_one_graph(x):
    builder = BodyBuilder(CONTEXT)
    a = builder.input(DESC)
    body = builder.body([builder.op("MulScalar", a, val=zero) for zero in (0.0, -0.0)])
    positive, negative = computed(body, [abs(x)])
    assert not np.signbit(positive).any() and np.signbit(negative).all()
