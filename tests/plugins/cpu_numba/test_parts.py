"""The first run of a graph, with formulas in parts, and the second, with whole ones, give the same bits."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled.graph.compile import fusion, parts, plans
from atled.graph.forward import plan_forward
from atled.graph.record.roots import roots_of
from atled.variable import Variable
from atled_cpu_numba import elementwise


@pytest.fixture(autouse=True)
def on_cpu() -> Iterator[None]:
    with nn.context_scope(nn.Context("cpu")):
        yield


@pytest.fixture(autouse=True)
def as_new(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """No plan or fusion is known, and plans may be in parts; the fixture says whether whole formulas have kernels."""

    def at_hand(flag: bool) -> None:
        monkeypatch.setattr(fusion, "_is_at_hand", lambda *arguments: flag)

    nn.clear_memory_cache()
    plans.PLANS.clear()
    monkeypatch.setattr(plans.PLANS, "_once", 0)
    monkeypatch.setattr(plans, "MAY_BE_IN_PARTS", True)
    monkeypatch.setattr(fusion, "looks_of", lambda *arguments: None)
    at_hand(False)
    return at_hand


def leaf(seed: int, shape: tuple[int, ...] = (5, 7)) -> Variable:
    values = np.random.default_rng(seed).normal(0, 1.5, shape).astype(np.float32)
    return nn.Variable.from_numpy_array(values, need_grad=True)


def step_names(y: Variable) -> list[str]:
    """Of the plan that ran in the forward that comes now."""
    y.forward()
    return [step.name for step in y.value.details.roots.forward.binding.plan.steps]


PROGRAMS: dict[str, Callable[[Variable, Variable, Variable], Variable]] = {
    "a product in a sum": lambda a, b, c: F.tanh(a * b + c),
    "two products in a sum": lambda a, b, c: F.sigmoid(a * b + F.exp(c) * a),
    "a product through neutral factors": lambda a, b, c: F.abs(a * b * 1.0 + 0.0) - c,
    "a product through a choice": lambda a, b, c: F.relu(a * b) + 1.0 - F.maximum2(a * c, b),
    "a product that several read": lambda a, b, c: F.tanh(a * b) * (a * b + c),
    "one product, read by several": lambda a, b, c: (lambda p: F.tanh(p) * (p + c) - F.cos(p))(a * b),
    "functions at the end of sums": lambda a, b, c: F.exp(a) + F.sin(b) - F.log(F.abs(c)) + F.swish(a),
    "functions of products": lambda a, b, c: F.cos(a * b) + F.asinh(b * c) + F.atan(a * c),
    "quotients": lambda a, b, c: a / 4.0 + b / 3.0 - 2.0 / c + a / b,
    "powers": lambda a, b, c: F.tanh(a**2 + b) - F.tanh(b) ** 3.0,
    "powers by arrays": lambda a, b, c: F.tanh(F.pow2(F.abs(c), b)) * F.sigmoid(a),
    "two products, one from afar": lambda a, b, c: F.tanh(a * b) + F.tanh(c) * 2.0 + a * c,
    "selections": lambda a, b, c: F.elu(a * b) * 0.3 + F.leaky_relu(c, 0.1) - F.minimum2(a, b),
    "rounding": lambda a, b, c: F.round(a * b) + F.floor(b + c) - F.sign(c) * a,
    "rows": lambda a, b, c: F.tanh(a) * F.sum(b, axis=1, keepdims=True) + F.mean(c, axis=0, keepdims=True) * a,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_both_runs_give_the_same_bits_with_gradients(name: str) -> None:
    leaves = leaf(1), leaf(2), leaf(3)
    y = PROGRAMS[name](*leaves)
    found = []
    for _ in range(3):
        y.forward()
        for each in leaves:
            each.grad.zero()
        y.backward()
        found.append([y.d.copy(), *(each.g.copy() for each in leaves)])
    for second in found[1:]:
        for one, other in zip(found[0], second, strict=True):
            np.testing.assert_array_equal(one.view(np.uint32), other.view(np.uint32))


def test_the_first_run_is_in_parts_and_further_ones_are_whole() -> None:
    a, b = leaf(1), leaf(2)
    y = F.tanh(F.sigmoid(a)) * b
    assert step_names(y) == ["Sigmoid", "Tanh", "Mul2"]
    whole = ["Sigmoid+Tanh+Mul2"]
    assert [step.name for step in y.plan.steps] == whole  # the one that runs next
    assert step_names(y) == whole
    bound = y.plan
    assert step_names(y) == whole and y.plan is bound


def test_a_product_stays_with_its_sum() -> None:
    a, b, c = leaf(1), leaf(2), leaf(3)
    assert step_names(F.tanh(F.sigmoid(a) * b + c)) == ["Sigmoid", "Mul2+Add2", "Tanh"]
    assert step_names(F.sigmoid(F.abs(a * b) + c)) == ["Mul2+Abs+Add2", "Sigmoid"]


def test_a_backward_is_in_parts_once() -> None:
    a = leaf(1)
    y = F.tanh(F.sigmoid(F.tanh(a)))
    y.forward()
    y.backward()
    found = []
    for _ in range(3):  # adds to the gradient, which is another plan
        y.forward()
        y.backward()
        found.append(y.value.details.roots.backward.bindings[True,].plan)
    assert found[0].is_in_parts and len(found[0].steps) > 1
    assert not found[1].is_in_parts and len(found[1].steps) == 1 and found[2] is found[1]


def test_what_is_looked_at_is_whole() -> None:
    a, b = leaf(1), leaf(2)
    y, z = F.tanh(F.sigmoid(a)), F.sigmoid(F.tanh(b))
    assert [step.name for step in y.plan.steps] == ["Sigmoid+Tanh"]
    assert step_names(y) == ["Sigmoid+Tanh"]
    with nn.trace() as trace:
        z.forward()
    assert [row.op for row in trace.rows()] == ["Tanh+Sigmoid"]


def test_what_was_planned_in_parts_and_is_looked_at_before_it_ran_is_whole() -> None:
    y = F.tanh(F.sigmoid(leaf(1)))
    roots = roots_of((y.value,))
    assert plan_forward(roots).plan.is_in_parts
    assert not y.plan.is_in_parts
    assert step_names(y) == ["Sigmoid+Tanh"]


def test_a_graph_that_is_recorded_anew_is_whole_the_second_time_and_found_the_third() -> None:
    a, b = leaf(1), leaf(2)
    results, made = [], []
    for _ in range(4):
        y = F.tanh(F.sigmoid(a) * 0.5) * b
        y.forward()
        y.backward()
        results.append((y.d.copy(), a.g.copy()))
        a.grad.zero()
        del y
        made.append(len(plans.PLANS))
    assert made[3] == made[2] > made[0]
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])


def test_what_has_a_kernel_is_whole(as_new: Callable[[bool], None]) -> None:
    as_new(True)
    assert step_names(F.tanh(F.sigmoid(leaf(1)))) == ["Sigmoid+Tanh"]


def test_what_a_backend_does_not_split_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fusion, "_splits", lambda member: False)
    assert step_names(F.tanh(F.sigmoid(leaf(1)))) == ["Sigmoid+Tanh"]


def test_a_step_whose_kernel_on_ranges_is_not_compiled_runs_by_itself_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elementwise._AtHand, "__call__", lambda each, on_ranges: not on_ranges)
    y = F.sum(F.tanh(leaf(1)), axis=1)
    found = []
    for is_alone in (True, False, False):
        y.forward()
        found.append(y.d.copy())
        plan = y.value.details.roots.forward.binding.plan
        assert plan.is_in_parts == is_alone
        assert [step.carrier is None for step in plan.steps if step.name == "Tanh"] == [is_alone]
    np.testing.assert_array_equal(found[0], found[1])


def test_formulas_of_large_arrays_are_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    a = leaf(1)
    a.need_grad = False  # else the sigmoid is stored for a backward
    monkeypatch.setattr(parts, "MOST_BYTES", a.d.nbytes - 1)
    names = step_names(F.tanh(F.sigmoid(a)))  # not in an assertion, of which pytest keeps the parts
    assert names == ["Sigmoid+Tanh"]
    monkeypatch.setattr(parts, "MOST_BYTES", a.d.nbytes)
    names = step_names(F.cos(F.sigmoid(a)))
    assert names == ["Sigmoid", "Cos"]


def test_formulas_of_other_dtypes_are_whole() -> None:
    with nn.context_scope(nn.Context("cpu:double")):
        assert step_names(F.tanh(F.sigmoid(leaf(1)))) == ["Cast", "Sigmoid+Tanh"]


def test_formulas_of_deterministic_contexts_are_whole() -> None:
    with nn.context_scope(nn.Context("cpu", deterministic=True)):
        assert step_names(F.tanh(F.sigmoid(leaf(1)))) == ["Sigmoid+Tanh"]


def test_what_two_ops_compute_both_is_whole() -> None:
    a, b, c = leaf(1), leaf(2), leaf(3)
    assert len(step_names(F.tanh(a * b) * (b * a + c))) == 1


@pytest.mark.parametrize("function", [lambda a: a**2 + 1.0, lambda a: a * 2.0 + F.exp(a), lambda a: F.exp(a) - a * a])
def test_formulas_that_are_rounded_by_what_is_beside_them_are_whole(function) -> None:
    assert len(step_names(F.tanh(function(leaf(1))))) == 1


def test_inferences_are_whole() -> None:
    a = leaf(1)
    infer = nn.inference(F.tanh(F.sigmoid(a)), a)
    infer(a.d)
    assert [step.name for step in infer.plan.steps] == ["Sigmoid+Tanh"]


def test_where_most_graphs_run_once_nobody_asks_for_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans.PLANS, "_once", plans._FEW)
    monkeypatch.setattr(fusion, "_is_at_hand", None)
    a = leaf(1)
    y = F.tanh(F.sigmoid(a))
    assert step_names(y) == ["Sigmoid", "Tanh"]
    assert step_names(y) == ["Sigmoid+Tanh"]
    assert plans.PLANS._once < plans._FEW  # what ran again says otherwise


def test_a_run_that_fails_in_parts_can_be_repeated() -> None:
    a = leaf(1)
    labels = nn.Variable.from_numpy_array(np.full((5, 1), 9))
    y = F.tanh(F.softmax_cross_entropy(F.tanh(F.sigmoid(a)), labels))
    for _ in range(2):
        with pytest.raises(IndexError, match="out of range"):
            y.forward()
    labels.d = 1
    y.forward()
    first = y.d.copy()
    y.forward()
    np.testing.assert_array_equal(y.d, first)
