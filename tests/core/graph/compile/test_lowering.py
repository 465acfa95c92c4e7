"""From graphs to plans: which arrays the results of a plan are."""

import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled.array_desc import ArrayDesc
from atled.arrays.array import NdArray
from atled.graph.compile import lowering
from atled.graph.compile.lowering import lower
from atled.graph.nodes.ir import Graph
from atled.graph.run.binding import Binding
from atled.preparing import prepare


@pytest.fixture(autouse=True)
def reference():
    with nn.context_scope(nn.Context(["reference:float"])):
        yield


def leaf(*shape):
    values = np.random.default_rng(sum(shape)).standard_normal(shape).astype("f")
    return nn.Variable.from_numpy_array(values, need_grad=True)


def backward(loss, *leaves):
    """Counts of the ops that the second backward runs; the first one may still allocate."""
    loss.forward()
    for _ in range(2):
        for v in leaves:
            v.grad.zero()
        with nn.trace() as trace:
            loss.backward()
    return {row.op: row.calls for row in trace.rows()}


def test_a_reshaped_gradient_is_not_copied():
    x, w = leaf(4, 6), leaf(6, 2, 3)
    ran = backward(F.sum(F.affine(x, w) ** 2), x, w)
    assert "Identity" not in ran
    y = x.d @ w.d.reshape(6, 6)
    np.testing.assert_allclose(w.g, (x.d.T @ (2 * y)).reshape(6, 2, 3), rtol=1e-4, atol=1e-5)


def test_leaves_with_one_gradient_in_two_shapes_have_arrays_of_their_own():
    a, b, c = leaf(2, 3), leaf(6), leaf(3, 2)
    flat = [F.reshape(v, (6,), inplace=False) for v in (a, c)]
    backward(F.sum((flat[0] + b + flat[1]) ** 2), a, b, c)
    expected = 2 * (a.d.ravel() + b.d + c.d.ravel())
    a.g += 1
    c.g -= 1
    np.testing.assert_allclose(b.g, expected, rtol=1e-5)
    np.testing.assert_allclose(a.g.ravel(), expected + 1, rtol=1e-5)
    np.testing.assert_allclose(c.g.ravel(), expected - 1, rtol=1e-5)


def test_results_that_change_places_are_computed_from_what_was_there():
    arrays = [NdArray.from_numpy_array(np.full(3, value)) for value in (2.0, 5.0)]
    graph = Graph(nn.Context(["reference:double"]))
    a, b = (graph.external(number, ArrayDesc((3,), np.float64)) for number in range(2))
    results = [graph.op("MulScalar", b, val=10.0), graph.op("MulScalar", a, val=10.0)]
    plan = lower(graph, results, into=[0, 1])
    cells = [array.cell for array in arrays]
    Binding(plan, cells, cells, [value for _, value in plan.floats]).run()
    np.testing.assert_array_equal([array.data for array in arrays], [[50] * 3, [20] * 3])
    assert [step.name for step in plan.steps].count("Identity") == 1


def test_a_gradient_that_is_added_to_needs_no_copy():
    graph = Graph(nn.Context(["reference:double"]))
    a, before = (graph.external(number, ArrayDesc((3,), np.float64)) for number in range(2))
    total = graph.op("Add2", before, graph.op("Exp", a))
    plan = lower(graph, [total], into=[1])
    assert [step.name for step in plan.steps] == ["Exp", "Add2"]
    (target,) = plan.targets
    assert plan.slots[target].memory == plan.slots[plan.steps[1].arguments[0]].memory


@pytest.mark.parametrize("is_shared", [False, True])
def test_gradients_may_be_given_the_arrays_of_the_data(is_shared):
    a, b = leaf(3), leaf(3)
    b.d = a.d + 1
    old = a.d.copy(), b.d.copy()
    y = a * b
    y.forward()
    y.g = 1
    if is_shared:
        a.grad, b.grad = a.data, b.data
    y.parent.backward([a, b], [y], accum=[False, False])
    np.testing.assert_array_equal(a.g, old[1])
    np.testing.assert_array_equal(b.g, old[0])


def test_the_gradient_of_a_leaf_may_be_where_a_backward_starts():
    a, b = leaf(3), leaf(3)
    b.d = a.d + 1
    y = a * b
    y.forward()
    start = np.array([10, 20, 30], np.float32)
    a.g, b.g = start, 0
    y.grad = a.grad
    y.backward(None)
    np.testing.assert_allclose(a.g, start + start * b.d, rtol=1e-6)
    np.testing.assert_allclose(b.g, start * a.d, rtol=1e-6)


@pytest.fixture
def prepared(monkeypatch):
    """The calls that implementations were asked to prepare."""
    calls = []
    monkeypatch.setattr(lowering, "prepare", lambda made, call: calls.append(call) or prepare(made, call))
    return calls


@pytest.mark.parametrize("backend", ["cpu", "reference", "fusing"])
def test_equal_calls_of_a_plan_are_prepared_once(backend, prepared):
    with nn.context_scope(nn.Context(backend, fallback="raise")), nn.auto_forward(False):
        x = leaf(3, 5)
        weights = [leaf(5, 5) for _ in range(4)]
        y, expected = x, x.d.copy()
        for number, weight in enumerate(weights):
            weight.d += number
            y = F.relu(F.affine(y, weight)) * 0.5
            expected = np.maximum(expected @ weight.d, 0) * 0.5
        y.forward()
        np.testing.assert_allclose(y.d, expected, rtol=1e-4, atol=1e-5)
    assert [call.spec.name for call in prepared].count("Affine") == 1
    assert len(prepared) == len({(call.spec, call) for call in prepared}) <= 3


@pytest.mark.parametrize("backend", ["cpu", "reference", "fusing"])
def test_fused_calls_of_one_name_and_shape_are_told_apart_by_their_formulas(backend):
    with nn.context_scope(nn.Context(backend, fallback="raise")), nn.auto_forward(False):
        x, y = leaf(5, 5), leaf(5, 5)
        a = F.flip((x + y) * y, axes=(0,))
        b = F.flip((a + y) * a, axes=(0,))
        c = F.flip((b + 2.0) * y, axes=(0,))
        d = F.flip((c + 3.0) * y, axes=(0,))
        d.forward()
    a = ((x.d + y.d) * y.d)[::-1]
    b = ((a + y.d) * a)[::-1]
    c = ((b + 2) * y.d)[::-1]
    np.testing.assert_allclose(d.d, ((c + 3) * y.d)[::-1], rtol=1e-4, atol=1e-4)


def test_calls_of_the_users_code_are_prepared_each():
    from atled.function import PythonFunction

    class Adding(PythonFunction):
        """Adds what it is given."""

        def __init__(self, array):
            super().__init__()
            self.array = array  # it has no hash

        @property
        def name(self):
            return "Adding"

        def min_outputs(self):
            return 1

        def setup_impl(self, inputs, outputs):
            outputs[0].reset_shape(inputs[0].shape, True)

        def forward_impl(self, inputs, outputs):
            outputs[0].data.data = inputs[0].data.data + self.array

    with nn.auto_forward(False):
        x = leaf(3)
        y = Adding(np.ones(3))(Adding(np.full(3, 2.0))(x))
        y.forward()
    np.testing.assert_allclose(y.d, x.d + 3, rtol=1e-6)
