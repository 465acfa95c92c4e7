"""Products of which only some columns are read."""

import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled.array_desc import ArrayDesc
from atled.arrays.array import NdArray
from atled.arrays.cell import ArrayCell
from atled.graph.compile.lowering import lower
from atled.graph.nodes.ir import Graph
from atled.graph.run.binding import Binding

ROWS, INNER, COLUMNS = 50, 6, 9
SLICE = {"start": (0, 2), "stop": (ROWS, 5), "step": (1, 1)}


def computed(build, arrays):
    """What `build(graph, *values)` gives for arrays, and the (name, shape of the first output) of each step."""
    graph = Graph(nn.Context(["reference:double"]))
    values = [graph.external(number, ArrayDesc(a.shape, np.float64)) for number, a in enumerate(arrays)]
    results = build(graph, *values)
    plan = lower(graph, results)
    made = [ArrayCell(value.desc.size) for value in results]
    floats = [value for _, value in plan.floats]
    Binding(plan, [NdArray.from_numpy_array(a).cell for a in arrays], made, floats).run()
    steps = [(step.name, plan.slots[step.arguments[step.input_count]].desc.shape) for step in plan.steps]
    return [NdArray.over(cell, value.shape).data for cell, value in zip(made, results, strict=True)], steps


def arrays(*shapes):
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape) for shape in shapes]


@pytest.mark.parametrize("transpose_b", [False, True])
def test_products_are_as_wide_as_they_are_read(transpose_b):
    a, b = arrays((ROWS, INNER), (COLUMNS, INNER) if transpose_b else (INNER, COLUMNS))
    product = a @ (b.T if transpose_b else b)

    def build(graph, a, b):
        inputs = [graph.op("Abs", a), a]
        made = [graph.op("BatchMatmul", x, graph.alias(b), transpose_b=transpose_b) for x in inputs]
        return [graph.op("Exp", graph.op("Slice", value, **SLICE)) for value in made]

    (other, found), steps = computed(build, (a, b))
    np.testing.assert_allclose(found, np.exp(product[:, 2:5]))
    np.testing.assert_allclose(other, np.exp((np.abs(a) @ (b.T if transpose_b else b))[:, 2:5]))
    slices = [("Slice", (3, INNER) if transpose_b else (INNER, 3))]  # of the factor, once for both
    assert [step for step in steps if step[0] == "Slice"] == slices
    assert [step for step in steps if step[0] == "BatchMatmul"] == [("BatchMatmul", (ROWS, 3))] * 2


def test_a_factor_that_changes_on_the_way_is_copied_again():
    a, b = arrays((ROWS, INNER), (INNER, COLUMNS))
    start = b.copy()

    def build(graph, a, b):
        product = graph.op("Slice", graph.op("BatchMatmul", a, b), **SLICE)
        graph.op("SgdUpdate", b, graph.op("Abs", b), lr=1.0)
        return [product, graph.op("Slice", graph.op("BatchMatmul", a, b), **SLICE)]

    (before, after), steps = computed(build, (a, b))
    np.testing.assert_allclose(before, (a @ start)[:, 2:5])
    np.testing.assert_allclose(after, (a @ (start - np.abs(start)))[:, 2:5])
    assert [name for name, _ in steps].count("Slice") == 2


def read_twice(graph, a, b):
    product = graph.op("BatchMatmul", a, b)
    return [graph.op("Slice", product, **SLICE), graph.op("Exp", product)]


def kept(graph, a, b):
    product = graph.op("BatchMatmul", a, b)
    return [graph.op("Slice", product, **SLICE), product]


def of_rows(graph, a, b):
    product = graph.op("BatchMatmul", a, b)
    return [graph.op("Slice", product, start=(1, 2), stop=(ROWS, 5), step=(1, 1))]


def with_steps(graph, a, b):
    product = graph.op("BatchMatmul", a, b)
    return [graph.op("Slice", product, start=(0, 0), stop=(ROWS, 8), step=(1, 2))]


@pytest.mark.parametrize("build", [read_twice, kept, of_rows, with_steps])
def test_products_of_which_more_is_read_stay(build):
    a, b = arrays((ROWS, INNER), (INNER, COLUMNS))
    _, steps = computed(build, (a, b))
    assert ("BatchMatmul", (ROWS, COLUMNS)) in steps


def of_few_rows(graph, a, b):
    few = graph.op("Slice", a, start=(0, 0), stop=(2, INNER), step=(1, 1))
    return [graph.op("Slice", graph.op("BatchMatmul", few, b), start=(0, 2), stop=(2, 5), step=(1, 1))]


def test_products_of_few_rows_stay():
    _, steps = computed(of_few_rows, arrays((ROWS, INNER), (INNER, COLUMNS)))
    assert ("BatchMatmul", (2, COLUMNS)) in steps


def test_the_gradient_of_one_of_two_arrays_beside_each_other():
    x, h, w = (
        nn.Variable.from_numpy_array(a, need_grad=n > 0) for n, a in enumerate(arrays((200, 3), (200, 4), (7, 5)))
    )
    loss = F.sum(F.affine(F.concatenate(x, h, axis=1), w) ** 2)
    loss.forward()
    for v in (h, w):
        v.g = 0
    loss.backward()
    joined = np.concatenate((x.d, h.d), axis=1)
    gy = 2 * joined @ w.d
    np.testing.assert_allclose(h.g, gy @ w.d[3:].T, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(w.g, joined.T @ gy, rtol=1e-4, atol=1e-3)
