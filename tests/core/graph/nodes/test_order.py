"""What must have run before a node follows from the versions of arrays."""

import numpy as np
import pytest

import atled as nn
from atled.array_desc import ArrayDesc
from atled.graph.compile.fusion import fuse
from atled.graph.nodes.ir import Graph
from atled.graph.nodes.order import Order, nodes_for
from atled.graph.update.training_step import _move_forward

SHAPE = (2, 3)


@pytest.fixture
def graph():
    return Graph(nn.Context(["fusing:double"]))


def array(graph, number, shape=SHAPE):
    return graph.external(number, ArrayDesc(shape, np.float64))


def names(nodes):
    return [node.name for node in nodes]


def test_a_change_waits_for_the_readers_of_what_it_replaces(graph):
    w, g = array(graph, 0), array(graph, 1)
    read = graph.op("Abs", w)
    graph.op("Exp", graph.op("Exp", read))
    again = graph.op("Sin", graph.reshape(w, (3, 2)))
    moved = graph.op("SgdUpdate", w, g, lr=1.0)
    order = Order(graph.nodes)
    assert order.before(moved.node) == [read.node, again.node]


def test_what_reads_behind_a_change_waits_for_it(graph):
    w, g = array(graph, 0), array(graph, 1)
    moved = graph.op("SgdUpdate", w, g, lr=1.0)
    read, shown = graph.op("Abs", w), graph.op("Abs", graph.reshape(w, (3, 2)))
    order = Order(graph.nodes)
    assert read.node.inputs == (moved,)
    assert order.before(read.node) == [moved.node]
    assert shown.node.inputs[0].shows is moved


def test_two_results_in_one_array_are_written_in_turn(graph):
    w = array(graph, 0)
    first, second = graph.op("Abs", w), graph.op("Sin", w)
    graph.store(first, 5)
    read = graph.op("Exp", first)
    graph.store(second, 5)
    assert Order(graph.nodes).before(second.node) == [read.node, first.node]


def test_numbers_of_one_array_are_one(graph):
    graph = Graph(graph.context, aliases=(0, 1, 0))
    flat, g, w = array(graph, 2, (6,)), array(graph, 1), array(graph, 0)
    read = graph.op("Abs", flat)
    moved = graph.op("SgdUpdate", w, g, lr=1.0)
    late = graph.op("Sin", flat)
    assert Order(graph.nodes).before(moved.node) == [read.node]
    assert late.node.inputs[0].shows is moved
    assert late.node.inputs[0].known_as is flat


def test_a_reader_between_two_changes_keeps_them_apart(graph):
    w, g = array(graph, 0), array(graph, 1)
    graph.op("SgdUpdate", w, g, lr=1.0)
    total = graph.op("Sum", w, axes=(0, 1), keep_dims=True)
    graph.op("SgdUpdate", w, g, lr=2.0)
    nodes = nodes_for(graph, [total])
    assert names(fuse(graph, nodes, [total])) == ["SgdUpdate", "Sum", "SgdUpdate"]


def test_changes_that_nobody_reads_in_between_are_one_step(graph):
    w, g = array(graph, 0), array(graph, 1)
    graph.op("SgdUpdate", w, g, lr=1.0)
    doubled = graph.op("MulScalar", w, val=2.0)
    graph.op("SgdUpdate", w, g, lr=2.0)
    (node,) = fuse(graph, nodes_for(graph, [doubled]), [doubled])
    assert node.spec.names == ("SgdUpdate", "MulScalar", "SgdUpdate")
    assert node.spec.inplace == {0: 0}
    assert node.outputs[1] is doubled


def test_an_update_moves_behind_the_last_reader_of_its_parameter(graph):
    w, g = array(graph, 0), array(graph, 1)
    early = graph.op("Abs", w)
    other = graph.op("Exp", graph.op("Exp", early))
    late = graph.op("Mul2", w, early)
    rest = graph.op("Sin", graph.op("Sin", other))
    update = graph.op("SgdUpdate", w, g, lr=1.0).node
    _move_forward(graph, [[update]])
    place = graph.nodes.index(update)
    assert graph.nodes.index(late.node) < place < graph.nodes.index(rest.node)
