"""Attachment: carriers compute what the steps compute one by one, and whoever looks sees all ops."""

from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import atled as nn
import atled.functions as F
import atled.solvers as S
from atled.array_desc import ArrayDesc
from atled.arrays.array import NdArray
from atled.arrays.place import HOST
from atled.function import PythonFunction
from atled.graph.compile import attachment
from atled.graph.compile.lowering import lower
from atled.graph.compile.memory import reuse_memory
from atled.graph.compile.step import Slot
from atled.graph.nodes.ir import Graph
from atled.graph.run.binding import Binding
from atled_contexts import verify

pytest.importorskip("atled_cpu_numba")  # the kernels that carry others are its

CPU = nn.Context(["cpu:float"], fallback="raise")
SHAPE = (4, 3, 6, 6)


def normalized(x, seed=0, shape=SHAPE):
    """Batch normalization of x with parameters of its own."""
    rng = np.random.default_rng(seed)
    channels = (1, shape[1], *[1] * (len(shape) - 2))
    beta, gamma = (nn.Variable.from_numpy_array(rng.uniform(0.5, 2, channels), need_grad=True) for _ in range(2))
    mean, variance = (nn.Variable.from_numpy_array(np.ones(channels), need_grad=False) for _ in range(2))
    return F.batch_normalization(x, beta, gamma, mean, variance)


def variable(seed=0, shape=SHAPE):
    return nn.Variable.from_numpy_array(np.random.default_rng(seed).normal(size=shape), need_grad=True)


def carried(plan):
    """Per step that carries others, what it is called."""
    return [step.label for step in plan.steps if step.carried]


def test_an_activation_is_computed_within_the_normalization():
    with nn.context_scope(CPU):
        y = F.relu(normalized(variable()))
        y.forward()
        assert carried(y.plan) == ["BatchNormalization+ReLU"]
        assert "computed within BatchNormalization+ReLU" in str(y.plan)


def test_a_normalized_value_that_nobody_holds_is_not_stored_and_comes_back_without_changing_the_statistics():
    with nn.context_scope(CPU):
        x = variable()
        held = normalized(x)
        held.forward()
        y = F.relu(normalized(x))
        y.forward()
        (carrier,) = (step for step in y.plan.steps if step.carried)
        normal, activated = carrier.arguments[5], carrier.carried[0].step.arguments[-1]
        assert y.plan.slots[normal].memory == y.plan.slots[activated].memory
        normalized_late = y.parent.inputs[0]
        np.testing.assert_array_equal(normalized_late.d, held.d)
        for late, once in zip(normalized_late.parent.inputs[3:], held.parent.inputs[3:], strict=True):
            np.testing.assert_array_equal(late.d, once.d)


def test_what_is_added_first_may_come_from_any_earlier_step():
    with nn.context_scope(CPU):
        y = normalized(variable())
        z = F.relu(y + F.transpose(variable(1), (0, 1, 3, 2)))
        z.forward()
        assert carried(z.plan) == ["BatchNormalization+Add2+ReLU"]


def test_a_reader_that_needs_all_of_the_value_keeps_the_steps_apart():
    with nn.context_scope(CPU):
        y = normalized(variable())
        z = F.relu(y * F.broadcast(F.sum(y, keepdims=True), SHAPE))
        z.forward()
        assert carried(z.plan) == ["Sum+Broadcast+Mul2+ReLU"]  # within the reader, not within the normalization


def test_a_reader_of_another_result_keeps_the_steps_apart():
    with nn.context_scope(CPU):
        parameters = [nn.Variable.from_numpy_array(np.ones((1, 1), np.float32)) for _ in range(4)]
        y, mean, _ = F.batch_normalization(variable(shape=(5, 1)), *parameters, output_stat=True)
        z = F.relu(y * mean)  # one channel: no broadcast along an outer axis forbids it
        z.forward()
        assert carried(z.plan) == []


def test_what_a_carried_step_writes_never_lies_in_what_its_carrier_reads():
    desc = ArrayDesc((8,))
    slots = [Slot(desc, HOST, number, ("internal",)) for number in range(4)]
    carrier, step = fake_step((0, 1), 1), fake_step((1, 2), 1)
    step.carrier = carrier
    last = fake_step((2, 3), 1)
    reuse_memory(slots, [carrier, step, last])
    assert slots[2].memory != slots[0].memory
    step.carrier = None
    reuse_memory(slots, [carrier, step, last])
    assert slots[2].memory == slots[0].memory


def fake_step(arguments, input_count):
    """A step as the reuse of memory sees it; not elementwise."""
    spec = SimpleNamespace(program=None, opaque=False)
    return SimpleNamespace(
        arguments=arguments, input_count=input_count, carrier=None, node=SimpleNamespace(spec=spec), carried=[]
    )


def test_a_trace_lists_what_a_step_carried():
    with nn.context_scope(CPU):
        y = F.relu(normalized(variable()))
        y.forward()
        with nn.trace() as trace:
            y.forward()
    assert {row.op for row in trace.rows()} == {"Cast", "BatchNormalization+ReLU"}


def test_verification_sees_each_op_by_itself():
    with nn.context_scope(CPU):
        x = variable()
        y = F.relu(normalized(x))
        with verify(1.0), nn.trace() as trace:
            y.forward()
            y.backward()
    names = {row.op for row in trace.rows()}
    assert {"BatchNormalization", "ReLU", "BatchNormalizationGrad"} <= names
    assert not any("Normalization" in name and "+" in name for name in names)


UNARY = (F.tanh, F.relu, F.sigmoid, F.identity, lambda x: F.mul_scalar(x, -0.5))
BINARY = (F.add2, F.mul2, F.sub2)
# Of any axes, with what reads them or something in between.
REDUCTIONS = (
    lambda x: F.broadcast(F.mean(x, keepdims=True), x.shape),
    lambda x: F.mean(x, axis=3, keepdims=True),
    lambda x: F.sigmoid(F.sum(x, axis=(2, 3), keepdims=True)),
    lambda x: F.tanh(F.mean(x, axis=(0, 2, 3), keepdims=True)),
    lambda x: F.mean(F.sigmoid(x), axis=0, keepdims=True),
    lambda x: F.tanh(F.max(F.sigmoid(x), axis=(1, 2, 3), keepdims=True)),
)


@st.composite
def programs(draw):
    """A graph as a list of steps: (kind, which function, which earlier values)."""
    steps = []
    for count in range(2, 2 + draw(st.integers(2, 10))):
        kind = draw(st.sampled_from(("normalize", "unary", "unary", "binary", "reduce", "reduce", "softmax")))
        choices = {"unary": len(UNARY), "binary": len(BINARY), "reduce": len(REDUCTIONS), "softmax": 4}
        function = draw(st.integers(0, choices.get(kind, 1) - 1))
        steps.append((kind, function, draw(st.integers(0, count - 1)), draw(st.integers(0, count - 1))))
    return steps


def run(program, context, shape, held):
    """The result, the values that are held, and the gradients of the leaves after two steps."""
    with nn.context_scope(context), mock.patch("atled_cpu_numba.kernels.reduction.any_axes._RANGE", 64):
        leaves = [variable(seed, shape) for seed in (0, 1)]
        values = list(leaves)
        for number, (kind, function, first, second) in enumerate(program):
            x = values[first]
            if kind == "normalize":
                values.append(normalized(x, number, shape))
            elif kind == "unary":
                values.append(UNARY[function](x))
            elif kind == "binary":
                values.append(BINARY[function](x, values[second]))
            elif kind == "softmax":
                values.append(F.softmax(x, axis=function) * values[second])
            else:
                values.append(x * REDUCTIONS[function](values[second]))
        loss = F.sum(values[-1] * values[len(values) // 2])
        kept = values[2:] if held else []
        del values, x
        for _ in range(2):
            loss.forward()
            for leaf in leaves:
                leaf.grad.zero()
            loss.backward()
    return [loss.d.copy(), *(leaf.g.copy() for leaf in leaves), *(value.d.copy() for value in kept)]


@settings(max_examples=80, deadline=None, derandomize=True)
@given(programs(), st.sampled_from((SHAPE, (5, 4, 2, 2), (8, 6, 6, 6))), st.booleans())
def test_carried_steps_give_what_single_ones_give(program, shape, held):
    wanted = run(program, nn.Context(["reference:double"]), shape, held)
    found = run(program, nn.Context(["cpu:double"], fallback="raise"), shape, held)
    for want, got in zip(wanted, found, strict=True):
        scale = max(1.0, float(np.abs(want).max()))
        np.testing.assert_allclose(got / scale, want / scale, rtol=1e-6, atol=1e-8)


def test_what_is_added_to_a_gradient_does_not_overwrite_it_first():
    with nn.context_scope(CPU):
        leaves = x, w, v = variable(1, (6, 10)), variable(2, (10, 32)), variable(3, (10, 32))
        for leaf in leaves:
            leaf.data.cast(np.float32)
        y = F.tanh(F.affine(x, w)) * F.affine(x, v)
        y.forward()
        for leaf in leaves:
            leaf.grad.zero()
        y.backward()
        once = [leaf.g.copy() for leaf in leaves]
        for times in (2, 3):
            y.backward()
            for leaf, gradient in zip(leaves, once, strict=True):
                np.testing.assert_allclose(leaf.g, times * gradient, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("into", [2, 3])
def test_which_array_a_result_becomes_decides_whether_it_may_be_overwritten_early_not_its_size(into):
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in ((10, 6), (6, 32), (10, 32), (10, 32))]
    graph = Graph(CPU)
    a, b, c = (graph.external(number, ArrayDesc(x.shape, np.float32)) for number, x in enumerate(arrays[:3]))
    plan = lower(graph, [graph.op("Add2", c, graph.op("BatchMatmul", a, b))], into=[into])
    carrier, step = plan.steps
    assert step.carrier is carrier
    product, result = plan.slots[carrier.arguments[2]], plan.slots[step.arguments[2]]
    is_one_with_c = result.memory == plan.slots[step.arguments[0]].memory
    assert is_one_with_c == (into == 2)
    assert (product.memory == result.memory) == (into == 3)
    cells = [NdArray.from_numpy_array(x.copy()).cell for x in arrays]
    Binding(plan, cells, [cells[into]], []).run()
    expected = arrays[2] + arrays[0] @ arrays[1]
    np.testing.assert_allclose(NdArray.over(cells[into], (10, 32)).data, expected, rtol=1e-5, atol=1e-5)


def step_of_a_chain(count):
    """A compiled step of a chain of `count` elements and its mean, the step's plan, and the parameters."""
    rng = np.random.default_rng(0)
    leaves = [nn.Variable.from_numpy_array(rng.standard_normal(count, "f"), need_grad=True) for _ in range(3)]
    a, b, c = leaves
    loss = F.mean(F.tanh(a * b + c))
    solver = S.Momentum(100.0)
    solver.set_parameters(dict(zip("abc", leaves, strict=True)))
    return nn.compile_step(loss, solver), loss, leaves


def carried_updates(step):
    steps = step._training.plan.steps
    return [one for one in steps if one.node.spec.inplace and one.carrier is not None]


def test_an_update_that_makes_what_a_large_sum_reads_is_computed_within_that_once_per_element():
    nn.clear_memory_cache()
    count = 300_001
    with mock.patch.object(attachment, "_LEAST_BYTES", 1 << 40):
        alone, expected, whole = step_of_a_chain(count)
        for _ in range(3):
            alone()
    assert not carried_updates(alone)
    nn.clear_memory_cache()
    step, loss, leaves = step_of_a_chain(count)
    for _ in range(3):
        step()
    (carried,) = carried_updates(step)
    assert carried.carrier.node.spec.name == "Mean"
    np.testing.assert_array_equal(loss.d, expected.d)
    for one, other in zip(leaves, whole, strict=True):
        np.testing.assert_array_equal(one.d, other.d)


def test_a_trace_and_a_verification_see_such_an_update_once():
    nn.clear_memory_cache()
    step, loss, leaves = step_of_a_chain(300_001)
    other, expected, whole = step_of_a_chain(300_001)
    step()
    assert carried_updates(step)
    with nn.trace():
        step()
    with verify():
        step()
    for _ in range(3):
        other()
    np.testing.assert_allclose(loss.d, expected.d, rtol=1e-5)
    for one, another in zip(leaves, whole, strict=True):
        np.testing.assert_allclose(one.d, another.d, rtol=1e-5, atol=1e-5)


class Failing(PythonFunction):
    """Identity, whose backward fails."""

    def min_outputs(self):
        return 1

    def setup_impl(self, inputs, outputs):
        outputs[0].reset_shape(inputs[0].shape, True)

    def forward_impl(self, inputs, outputs):
        outputs[0].d = inputs[0].d

    def backward_impl(self, inputs, outputs, propagate_down, accum):
        raise ValueError("no gradient today")


def test_an_update_that_waits_for_what_may_fail_is_not_attached():
    x, z = (nn.Variable.from_numpy_array(np.ones(300_001, "f"), need_grad=True) for _ in range(2))
    loss = F.mean(Failing()(z)) + F.mean(F.tanh(x) * x)
    solver = S.Sgd(1.0)
    solver.set_parameters({"x": x, "z": z})
    step = nn.compile_step(loss, solver)
    for _ in range(2):
        with pytest.raises(ValueError, match="no gradient today"):
            step()
    assert not carried_updates(step)
    assert (x.d == 1).all()
