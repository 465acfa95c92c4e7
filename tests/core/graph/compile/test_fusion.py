"""Fusion and reuse of memory: whatever a plan fuses, results and gradients are those of the unfused plan."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import atled as nn
import atled.functions as F
from atled.graph.compile.fusion import FusedOp
from atled.keyed import Description, NdArray
from atled.ops.formula import postorder

UNARY = (F.tanh, F.sigmoid, F.relu, lambda x: F.mul_scalar(x, -0.7), lambda x: F.add_scalar(x, 0.3), F.identity)
BINARY = (F.add2, F.sub2, F.mul2, F.maximum2)
REDUCING = (lambda x: F.sum(x, axis=1, keepdims=True), lambda x: F.mean(x, axis=0, keepdims=True))


@st.composite
def programs(draw):
    """A graph as a list of steps: (kind, which function, which earlier values)."""
    steps = []
    for count in range(3, 3 + draw(st.integers(1, 14))):
        kind = draw(st.sampled_from(("unary", "unary", "binary", "binary", "binary", "reducing")))
        function = draw(
            st.integers(0, {"unary": len(UNARY), "binary": len(BINARY), "reducing": len(REDUCING)}[kind] - 1)
        )
        steps.append((kind, function, draw(st.integers(0, count - 1)), draw(st.integers(0, count - 1))))
    return steps


def run(program, backend, held):
    """Results and leaf gradients of a program; `held` says whether handles on values in the middle are kept."""
    rng = np.random.default_rng(0)
    with nn.context_scope(nn.Context([f"{backend}:double"], fallback="raise")):
        leaves = [
            nn.Variable.from_numpy_array(rng.uniform(-1, 1, shape), need_grad=True)
            for shape in ((3, 4), (1, 4), (3, 1))
        ]
        values = list(leaves)
        for kind, function, first, second in program:
            if kind == "unary":
                values.append(UNARY[function](values[first]))
            elif kind == "binary":
                values.append(BINARY[function](values[first], values[second]))
            else:
                values.append(REDUCING[function](values[first]))
        loss = F.sum(F.add2(values[-1], F.mul2(values[len(values) // 2], values[-1])))
        kept = values[3:] if held else []
        del values
        for _ in range(2):
            loss.forward()
            for leaf in leaves:
                leaf.grad.zero()
            loss.backward()
        steps = len(loss.plan.steps)
    results = [loss.d.copy(), *(leaf.g.copy() for leaf in leaves)]
    return results + [array for value in kept for array in (value.d.copy(), value.g.copy())], steps


@settings(max_examples=150, deadline=None, derandomize=True)
@given(programs(), st.booleans(), st.sampled_from(("fusing", "compiling", "attaching")))
def test_a_fused_plan_gives_what_the_unfused_one_gives(program, held, backend):
    expected, _ = run(program, "reference", held)
    found, _ = run(program, backend, held)
    for want, got in zip(expected, found, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)


def test_a_chain_becomes_one_step():
    with nn.context_scope(nn.Context(["fusing:float"])):
        x = nn.Variable((3, 4))
        y = F.tanh(x * 2.0 + 1.0) * F.sigmoid(x)
        y.forward()
        (step,) = y.plan.steps
    assert step.node.spec.names == ("MulScalar", "AddScalar", "Tanh", "Sigmoid", "Mul2")


def test_chains_that_read_one_array_become_one_step():
    with nn.context_scope(nn.Context(["fusing:float"])):
        x = nn.Variable((3, 4))
        y = F.concatenate(F.tanh(x * 2.0), F.exp(x + 1.0), axis=1)
        assert [step.name for step in y.plan.steps] == ["MulScalar+Tanh+AddScalar+Exp", "Concatenate"]


def test_a_long_gradient_fuses_into_few_steps():
    with nn.context_scope(nn.Context(["fusing:float"])):
        x, w = nn.Variable((4,), need_grad=True), nn.Variable((4,), need_grad=True)
        h = x
        for _ in range(50):
            h = F.tanh(h + w) * x - w
        h.forward()
        h.backward()
        (bound,) = h.value.roots.backward.bindings.values()
    # 350 nodes, of which one step takes up to 40.
    assert len(bound.plan.steps) < 12


def test_what_depends_on_the_chain_through_another_op_does_not_join_it():
    with nn.context_scope(nn.Context(["fusing:float"])):
        x = nn.Variable((3, 4))
        y = F.tanh(x)
        z = y * F.broadcast(F.sum(y, axis=1, keepdims=True), (3, 4))
        z.forward()
        names = [step.name for step in z.plan.steps]
    assert names[:2] == ["Tanh", "Sum"]


def test_a_long_graph_is_fused_to_its_end():
    with nn.context_scope(nn.Context(["fusing:float"])):
        h = nn.Variable((4, 4))
        for _ in range(100):
            turned = F.transpose(h, (1, 0))
            h = F.tanh(turned) * F.sigmoid(F.transpose(turned, (1, 0)))
        h.forward()
        names = [step.name for step in h.plan.steps]
    assert names == ["Transpose", "Transpose", "Tanh+Sigmoid+Mul2"] * 100


def test_values_in_the_middle_of_a_backward_share_memory():
    with nn.context_scope(nn.Context(["reference:float"])):
        x = nn.Variable((50, 40), need_grad=True)
        h = x
        for _ in range(20):
            h = F.transpose(F.tanh(F.transpose(h, (1, 0))), (1, 0))
        loss = F.sum(h)
        del h
        loss.forward()
        x.grad.zero()
        loss.backward()
        (bound,) = loss.value.roots.backward.bindings.values()
    plan = bound.plan
    inside = {slot.memory for slot in plan.slots if slot.source[0] == "internal"}
    assert len(inside) <= 4


def statistics_of(shape, *values):
    return [nn.Variable.from_numpy_array(np.full(shape, value, np.float32)) for value in values]


@pytest.mark.parametrize("backend", ["fusing", "reference"])
def test_statistics_that_two_ops_change_are_changed_in_the_order_of_the_calls(backend):
    with nn.context_scope(nn.Context([f"{backend}:float"])):
        x = nn.Variable.from_numpy_array(np.linspace(0, 1, 24, dtype=np.float32).reshape(2, 3, 4))
        beta, gamma, mean, variance = statistics_of((1, 3, 1), 0, 1, 0, 1)
        first = F.tanh(x)
        normalized = [
            F.batch_normalization(y, beta, gamma, mean, variance, decay_rate=0.5) for y in (first, F.add_scalar(x, 5))
        ]
        # One step for the first op and the last would run the second normalization before the first.
        F.concatenate(normalized[0], first + normalized[1], axis=1).forward()
    batches = [np.tanh(x.d).mean((0, 2)), x.d.mean((0, 2)) + 5]
    np.testing.assert_allclose(mean.d.ravel(), 0.25 * batches[0] + 0.5 * batches[1], rtol=1e-5)


def test_what_is_read_before_and_after_a_change_is_read_then():
    with nn.context_scope(nn.Context(["fusing:float"])):
        x = nn.Variable.from_numpy_array(np.full((2, 3, 4), 2, np.float32))
        beta, gamma, mean, variance = statistics_of((1, 3, 1), 0, 1, 0, 1)
        before = F.tanh(mean)
        normalized = F.batch_normalization(x, beta, gamma, mean, variance, decay_rate=0.5)
        after = F.tanh(mean)
        parts = [F.reshape(y, (y.size,)) for y in (before, normalized, before + after)]
        F.concatenate(*parts, axis=0).forward()
    np.testing.assert_allclose(before.d, 0)
    np.testing.assert_allclose(after.d, np.tanh(1), rtol=1e-6)


def test_counts_of_elements_are_no_part_of_a_formula():
    made = set()
    for count in (100, 99, 64):
        d = Description(nn.Context(["cpu:float"]))
        x = d.leaf(NdArray((count, 3)))
        mean = d.call("Mean", d.call("Exp", d.call("Neg", x)))
        d.result(d.gradients(mean, [x])[0])
        made |= {step.node.spec.program for step in d.plan.steps if isinstance(step.node.spec, FusedOp)}
    assert len(made) == 1


STEPS = np.random.default_rng(0).uniform(0.5, 1.5, (80, 2))


def inference_of_steps(numbers, power=None):
    """A line of calls that become several fused nodes, each step with numbers of its own."""
    x = nn.Variable.from_numpy_array(np.linspace(-1, 1, 5).astype(np.float32))
    y = x
    for factor, term in numbers:
        y = F.tanh(y) if power is None else F.tanh(y) ** power
        y = y * float(factor) + float(term)
    return nn.inference(y, x), x.d


def fused_programs(infer):
    return [step.node.spec.program for step in infer.plan.steps if isinstance(step.node.spec, FusedOp)]


@pytest.mark.parametrize("backend", ["cpu", "fusing", "reference"])
def test_many_fused_nodes_that_differ_in_numbers_alone_share_programs(backend, monkeypatch):
    with nn.context_scope(nn.Context([f"{backend}:float"])):
        infer, x = inference_of_steps(STEPS)
        result = infer(x)
        if backend != "reference":
            programs = fused_programs(infer)
            monkeypatch.setattr("atled.graph.compile.fusion.MOST_NODES", 8)
            infer, _ = inference_of_steps(STEPS)
            shorter = fused_programs(infer)
            assert len(programs) < len(shorter) and len(shorter) > 20 and len(set(shorter)) <= 8
            np.testing.assert_array_equal(infer(x), result)
    expected = x.astype(np.float64)
    for factor, term in STEPS:
        expected = np.tanh(expected) * factor + term
    np.testing.assert_allclose(result, expected, rtol=1e-4)


def test_of_equal_numbers_in_one_fused_node_others_may_differ_in_the_next(monkeypatch):
    monkeypatch.setattr("atled.graph.compile.fusion.MOST_NODES", 6)
    numbers = STEPS.copy()
    numbers[::4, 1] = numbers[::4, 0]
    with nn.context_scope(nn.Context(["cpu:float"])):
        infer, x = inference_of_steps(numbers)
        assert len(set(fused_programs(infer))) <= 8
        expected = x.astype(np.float64)
        for factor, term in numbers:
            expected = np.tanh(expected) * factor + term
        np.testing.assert_allclose(infer(x), expected, rtol=1e-4)


def test_what_few_fused_nodes_differ_in_and_what_all_have_are_literals(monkeypatch):
    monkeypatch.setattr("atled.graph.compile.fusion.MOST_NODES", 8)
    with nn.context_scope(nn.Context(["fusing:float"])):
        few, _ = inference_of_steps(STEPS[:6])
        same, _ = inference_of_steps([(0.75, 0.3125)] * 80)
        half_same, _ = inference_of_steps([(0.75, term) for _, term in STEPS])
        assert not any(program.attributes for program in (*fused_programs(few), *fused_programs(same)))
        assert all("0.75" in str(program.expressions[-1]) for program in fused_programs(half_same))
        assert any(program.attributes for program in fused_programs(half_same))


def test_exponents_stay_literals(monkeypatch):
    monkeypatch.setattr("atled.graph.compile.fusion.MOST_NODES", 8)
    with nn.context_scope(nn.Context(["fusing:float"])):
        infer, _ = inference_of_steps(STEPS, power=3.0)
        powers = [
            each for program in fused_programs(infer) for each in postorder(program.expressions) if each.op == "**"
        ]
        assert powers and not any(each.args[1].names for each in powers)
