"""A compiled step does what forward, backward and update do one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import atled as nn
import atled.functions as F
import atled.parametric_functions as PF
import atled.solvers as S
from all_solvers import SOLVERS
from atled.calling.python_function import PythonFunction

Network = Callable[[nn.Variable, nn.Variable], nn.Variable]


@pytest.fixture(autouse=True)
def no_parameters() -> Iterator[None]:
    nn.clear_parameters()
    with nn.auto_forward(False):
        yield
    nn.clear_parameters()


def mlp(x: nn.Variable, t: nn.Variable) -> nn.Variable:
    h = F.tanh(PF.affine(x, 6, name="a"))
    return F.mean(F.softmax_cross_entropy(PF.affine(h, 3, name="b"), t))


def normalized(x: nn.Variable, t: nn.Variable) -> nn.Variable:
    h = F.reshape(x, (x.shape[0], 1, 2, 4))
    h = F.relu(PF.batch_normalization(PF.convolution(h, 4, (2, 2), name="c"), name="n"))
    h = F.dropout(F.max_pooling(h, (1, 2), stride=(1, 1)), 0.3, seed=5)
    return F.mean(F.softmax_cross_entropy(PF.affine(h, 3, name="d"), t))


def shared(x: nn.Variable, t: nn.Variable) -> nn.Variable:
    """One weight used twice, and a parameter that nothing uses."""
    w = nn.parameter.get_parameter_or_create("w", (8, 8), initializer=np.eye(8, dtype=np.float32))
    nn.parameter.get_parameter_or_create("unused", (3,))
    h = F.tanh(F.affine(F.tanh(F.affine(x, w)), w))
    return F.mean(F.softmax_cross_entropy(PF.affine(h, 3, name="d"), t))


def batches(count: int = 4) -> list[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(2)
    return [(rng.standard_normal((5, 8)).astype(np.float32), rng.integers(0, 3, (5, 1))) for _ in range(count)]


def fresh(network: Network) -> tuple[nn.Variable, nn.Variable, nn.Variable]:
    nn.clear_parameters()
    x, t = nn.Variable((5, 8)), nn.Variable((5, 1))
    loss = network(x, t)
    rng = np.random.default_rng(3)
    for variable in nn.get_parameters().values():
        variable.d = rng.standard_normal(variable.shape) * 0.3
    return x, t, loss


def values() -> dict[str, np.ndarray]:
    return {name: v.d.copy() for name, v in nn.get_parameters(grad_only=False).items()}


def by_calls(network: Network, solver: S.Solver, decay: float = 0.0, scale: float = 1.0) -> Any:
    x, t, loss = fresh(network)
    solver.set_parameters(nn.get_parameters())
    losses = []
    for images, labels in batches():
        x.d, t.d = images, labels
        loss.forward()
        solver.zero_grad()
        loss.backward()
        if scale != 1:
            solver.scale_grad(scale)
        if decay:
            solver.weight_decay(decay)
        solver.update()
        losses.append(float(loss.d))
    return losses, values()


def by_step(network: Network, solver: S.Solver, decay: float = 0.0, scale: float = 1.0) -> Any:
    x, t, loss = fresh(network)
    solver.set_parameters(nn.get_parameters())
    step = nn.compile_step(loss, solver, [x, t], weight_decay=decay, scale_grad=scale)
    return [float(step(images, labels).d) for images, labels in batches()], values()


def check_same(ours: Any, theirs: Any, tolerance: float = 2e-6) -> None:
    np.testing.assert_allclose(ours[0], theirs[0], rtol=tolerance)
    assert ours[1].keys() == theirs[1].keys()
    for name, value in ours[1].items():
        np.testing.assert_allclose(value, theirs[1][name], rtol=tolerance, atol=tolerance, err_msg=name)


@pytest.mark.parametrize("solver", SOLVERS)
def test_every_solver_moves_alike(solver: type[S.Solver]) -> None:
    check_same(by_step(mlp, solver(0.05)), by_calls(mlp, solver(0.05)), 1e-5)


@pytest.mark.parametrize("network", [normalized, shared])
def test_networks_with_state_and_shared_weights_move_alike(network: Network) -> None:
    check_same(by_step(network, S.Momentum(0.05)), by_calls(network, S.Momentum(0.05)), 1e-5)


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_parameter_that_nothing_uses_stays(solver: type[S.Solver]) -> None:
    check_same(by_step(shared, solver(0.05)), by_calls(shared, solver(0.05)), 1e-5)


def test_gradients_of_all_parameters_are_zero_afterwards() -> None:
    x, t, loss = fresh(shared)
    solver = S.Sgd(0.1)
    solver.set_parameters(nn.get_parameters())
    unused = nn.get_parameters()["unused"]
    unused.g = 1
    nn.compile_step(loss, solver, [x, t])(*batches()[0])
    assert not unused.g.any()
    before = unused.d.copy()
    solver.update()
    np.testing.assert_array_equal(unused.d, before)


@pytest.mark.parametrize("shares", ["values", "gradient", "both"])
@pytest.mark.parametrize("both_move", [True, False])
def test_leaves_that_have_one_array_in_common_move_alike(shares: str, both_move: bool) -> None:
    def moved(is_compiled: bool) -> list[np.ndarray]:
        w, u = (nn.Variable.from_numpy_array(np.float32([1, 2, 3]) * k, need_grad=True) for k in (1, 2))
        if shares != "gradient":
            u.data = w.data
        if shares != "values":
            u.grad = w.grad
        loss = F.sum(F.tanh(u)) + F.sum(w * w)
        solver = S.Momentum(0.1)
        solver.set_parameters({"w": w, "u": u} if both_move else {"w": w})
        step = nn.compile_step(loss, solver)
        for _ in range(3):
            if is_compiled:
                step()
                continue
            loss.forward()
            solver.zero_grad()
            loss.backward()
            solver.update()
        return [w.d.copy(), u.d.copy()]

    np.testing.assert_allclose(moved(True), moved(False), rtol=1e-5)


@pytest.mark.parametrize("inside_moves", [True, False])
@pytest.mark.parametrize("decay", [0.0, 0.5])
def test_a_parameter_outside_moves_by_the_gradient_that_a_leaf_leaves_in_its_array(
    inside_moves: bool, decay: float
) -> None:
    def moved(is_compiled: bool) -> list[np.ndarray]:
        w, other, outside = (nn.Variable.from_numpy_array(np.float32([1, 2, 3]) * k, need_grad=True) for k in (1, 5, 9))
        outside.grad = w.grad
        loss = F.sum(F.tanh(w) * other)
        solver = S.Momentum(0.1)
        solver.set_parameters({"outside": outside, "other": other, **({"w": w} if inside_moves else {})})
        step = nn.compile_step(loss, solver, weight_decay=decay, scale_grad=2.0)
        for _ in range(3):
            if is_compiled:
                step()
                continue
            loss.forward()
            solver.zero_grad()
            loss.backward()
            solver.scale_grad(2.0)
            if decay:
                solver.weight_decay(decay)
            solver.update()
            solver.zero_grad()
        return [w.d.copy(), other.d.copy(), outside.d.copy()]

    np.testing.assert_allclose(moved(True), moved(False), rtol=1e-5)


def test_a_parameter_outside_whose_array_the_graph_computes_into_is_refused() -> None:
    w, outside = (nn.Variable.from_numpy_array(np.float32([1, 2, 3]), need_grad=True) for _ in range(2))
    h = F.tanh(w)
    outside.data, outside.grad = h.data, w.grad
    solver = S.Sgd(0.1)
    solver.set_parameters({"outside": outside})
    with pytest.raises(ValueError, match=r"computes into its array\nWhat to do: call forward, backward and update one"):
        nn.compile_step(F.sum(h * h), solver)()


@pytest.mark.parametrize("context", ["cpu:float", "reference:float"])
def test_a_weight_that_is_read_unlinked_moves_after_the_last_read(context: str) -> None:
    def unlinked(x: nn.Variable, t: nn.Variable) -> nn.Variable:
        get = nn.parameter.get_parameter_or_create
        w, early = get("w", (8, 8)), get("early", (8, 8))
        # Gradients are computed from the last call to the first: that of `w` is there before `fixed` is read for it.
        fixed = F.affine(F.tanh(F.affine(x, early)), w.unlinked(need_grad=False))
        return F.mean(F.softmax_cross_entropy(F.tanh(fixed) * F.tanh(F.affine(x, w)), t))

    with nn.context_scope(nn.Context(context)):
        check_same(by_step(unlinked, S.Sgd(2.0)), by_calls(unlinked, S.Sgd(2.0)), 1e-5)


def test_decay_and_scale_are_part_of_the_step() -> None:
    check_same(by_step(mlp, S.Momentum(0.1), 0.02, 0.5), by_calls(mlp, S.Momentum(0.1), 0.02, 0.5))


@pytest.mark.parametrize(
    ("context", "tolerance"), [("reference:float", 1e-5), ("reference:double", 1e-6), ("cpu:half", 2e-3)]
)
def test_other_contexts_move_alike(context: str, tolerance: float) -> None:
    with nn.context_scope(nn.Context(context)):
        check_same(by_step(mlp, S.Adam(0.01)), by_calls(mlp, S.Adam(0.01)), tolerance)


def test_a_device_moves_alike() -> None:
    pytest.importorskip("atled_sim")
    with nn.context_scope(nn.get_extension_context("sim")):
        check_same(by_step(normalized, S.Momentum(0.05)), by_calls(normalized, S.Momentum(0.05)), 1e-5)


def test_a_weight_that_two_devices_read_moves_alike() -> None:
    pytest.importorskip("atled_sim")

    def network(x: nn.Variable, t: nn.Variable) -> nn.Variable:
        weight = nn.parameter.get_parameter_or_create("w", (8, 8))
        h = F.tanh(F.affine(x, weight))
        with nn.context_scope(nn.Context("reference:float")):
            h = F.tanh(F.affine(F.tanh(PF.affine(h, 8, name="a")), weight))
        return F.mean(F.softmax_cross_entropy(h, t))

    with nn.context_scope(nn.get_extension_context("sim")):
        check_same(by_step(network, S.Momentum(0.5)), by_calls(network, S.Momentum(0.5)), 1e-5)


def test_what_changes_between_steps_counts() -> None:
    x, t, loss = fresh(mlp)
    solver = S.Sgd(0.1)
    solver.set_parameters(nn.get_parameters())
    step = nn.compile_step(loss, solver, [x, t])
    images, labels = batches()[0]
    step(images, labels)
    before = values()
    solver.set_learning_rate(0.0)
    step()
    for name, value in values().items():
        np.testing.assert_array_equal(value, before[name])
    solver.set_learning_rate(0.1)
    weight = nn.get_parameters()["a/affine/W"]
    solver.set_parameters({"only": weight})
    step()
    changed = {name for name, value in values().items() if not np.array_equal(value, before[name])}
    assert changed == {"a/affine/W"}
    weight.need_grad = False
    step()
    step.weight_decay = 0.5
    after = values()
    step()
    np.testing.assert_array_equal(values()["a/affine/W"], after["a/affine/W"])


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_solver_that_forgets_its_states_starts_anew(count: int) -> None:
    def moved(*, compiled: bool) -> np.ndarray:
        w = nn.Variable.from_numpy_array(np.ones(3, np.float32), need_grad=True)
        loss = F.sum(w * w)
        solver = S.Momentum(0.125, 0.5)
        solver.set_parameters({"w": w})
        step = nn.compile_step(loss, solver)
        for _ in range(2):
            if compiled:
                step()
            else:
                loss.forward()
                solver.zero_grad()
                loss.backward()
                solver.update()
            for _ in range(count):
                solver.set_parameters({"w": w}, retain_state=False)
        return w.d.copy()

    np.testing.assert_array_equal(moved(compiled=True), moved(compiled=False))


def test_a_held_value_is_there_and_another_one_says_why_it_is_not() -> None:
    x, t = nn.Variable((5, 8)), nn.Variable((5, 1))
    a = PF.affine(x, 6, name="a")
    held = F.tanh(a)
    loss = F.mean(F.softmax_cross_entropy(PF.affine(held, 3, name="b"), t))
    del a
    solver = S.Sgd(0.1)
    solver.set_parameters(nn.get_parameters())
    images, labels = batches()[0]
    step = nn.compile_step(loss, solver, [x, t])
    step(images, labels)
    weight = nn.get_parameters()["a/affine/W"].d.copy()
    bias = nn.get_parameters()["a/affine/b"].d.copy()
    step()
    np.testing.assert_allclose(held.d, np.tanh(images @ weight + bias), rtol=1e-5)
    late = held.parent.inputs[0]
    with pytest.raises(RuntimeError, match=r"Affine[\s\S]*compiled step[\s\S]*run the step again"):
        late.d  # noqa: B018
    step()
    np.testing.assert_allclose(np.tanh(late.d), held.d, rtol=1e-5)


def test_a_value_that_rewiring_took_out_of_the_graph_of_a_step_says_why_it_is_not_there() -> None:
    x = nn.Variable.from_numpy_array(np.linspace(-1, 1, 6, dtype=np.float32))
    scale = nn.Variable.from_numpy_array(np.ones(1, np.float32), need_grad=True)
    cut = F.tanh(F.relu(x))
    loss = F.mean(F.exp(cut * scale))
    solver = S.Sgd(0.1)
    solver.set_parameters({"scale": scale})
    step = nn.compile_step(loss, solver, [])
    step()
    instead = nn.Variable((6,))
    instead.rewire_on(cut)
    late = instead.parent.inputs[0]
    with pytest.raises(RuntimeError, match=r"ReLU[\s\S]*compiled step[\s\S]*call forward on it"):
        late.d  # noqa: B018
    late.forward()
    np.testing.assert_array_equal(late.d, np.maximum(x.d, 0))


def test_calls_and_steps_may_be_mixed() -> None:
    x, t, loss = fresh(mlp)
    solver = S.Sgd(0.1)
    solver.set_parameters(nn.get_parameters())
    step = nn.compile_step(loss, solver, [x, t])
    for images, labels in batches(2):
        step(images, labels)
        x.d, t.d = images, labels
        loss.forward()
        solver.zero_grad()
        loss.backward()
        assert all(np.abs(v.g).max() > 0 for v in nn.get_parameters().values())
        solver.update()
    step()
    assert all(not v.g.any() for v in nn.get_parameters().values())
    mixed = values()
    x, t, loss = fresh(mlp)
    solver.set_parameters(nn.get_parameters())
    for images, labels in [b for b in batches(2) for _ in range(2)] + batches(2)[1:]:
        x.d, t.d = images, labels
        loss.forward()
        solver.zero_grad()
        loss.backward()
        solver.update()
    for name, value in values().items():
        np.testing.assert_allclose(mixed[name], value, rtol=1e-5, atol=1e-6)


def test_a_step_that_fails_leaves_the_parameters_as_they_were() -> None:
    x, t, loss = fresh(mlp)
    solver = S.Adam(0.1)
    solver.set_parameters(nn.get_parameters())
    step = nn.compile_step(loss, solver, [x, t])
    images, labels = batches()[0]
    step(images, labels)
    before = values()
    with pytest.raises(IndexError, match="out of range"):
        step(images, labels + 7)
    for name, value in values().items():
        np.testing.assert_array_equal(value, before[name])
    by_hand = [float(step(images, labels).d), values()]
    nn.clear_parameters()
    x, t, loss = fresh(mlp)
    solver = S.Adam(0.1)
    solver.set_parameters(nn.get_parameters())
    step = nn.compile_step(loss, solver, [x, t])
    step(images, labels)
    check_same([[float(step(images, labels).d)], values()], [[by_hand[0]], by_hand[1]])


class Doubled(PythonFunction):
    """y = 2 x in Python, whose gradient fails when asked to."""

    fails = False

    @property
    def name(self) -> str:
        return "Doubled"

    def min_outputs(self) -> int:
        return 1

    def setup_impl(self, inputs: Any, outputs: Any) -> None:
        outputs[0].reset_shape(inputs[0].shape, True)

    def forward_impl(self, inputs: Any, outputs: Any) -> None:
        outputs[0].data.copy_from(inputs[0].data * 2)

    def backward_impl(self, inputs: Any, outputs: Any, propagate_down: Any, accum: Any) -> None:
        if self.fails:
            raise ArithmeticError("asked to fail")
        gradient = outputs[0].grad * 2
        inputs[0].grad.copy_from(inputs[0].grad + gradient if accum[0] else gradient)


def test_code_of_the_user_runs_within_the_step_and_may_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    def network(x: nn.Variable, t: nn.Variable) -> nn.Variable:
        h = Doubled()(PF.affine(x, 6, name="a"))
        return F.mean(F.softmax_cross_entropy(PF.affine(h, 3, name="b"), t))

    check_same(by_step(network, S.Sgd(0.1)), by_calls(network, S.Sgd(0.1)), 1e-5)
    x, t, loss = fresh(network)
    solver = S.Sgd(0.1)
    solver.set_parameters(nn.get_parameters())
    step = nn.compile_step(loss, solver, [x, t])
    before = values()
    monkeypatch.setattr(Doubled, "fails", True)
    with pytest.raises(ArithmeticError):
        step(*batches()[0])
    for name, value in values().items():
        np.testing.assert_array_equal(value, before[name])


def test_no_update_runs_before_code_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also none whose gradient is made by an elementwise op, with which it becomes one kernel."""

    def network(x: nn.Variable, t: nn.Variable) -> nn.Variable:
        factor = nn.parameter.get_parameter_or_create("factor", (5, 6), initializer=np.ones((5, 6), np.float32))
        shift = nn.parameter.get_parameter_or_create("shift", (5, 3), initializer=np.ones((5, 3), np.float32))
        h = F.tanh(Doubled()(PF.affine(x, 6, name="a"))) * factor
        return F.mean(F.softmax_cross_entropy(PF.affine(h, 3, name="b") + shift, t))

    check_same(by_step(network, S.Adam(0.01), 0.1, 0.5), by_calls(network, S.Adam(0.01), 0.1, 0.5), 1e-5)
    x, t, loss = fresh(network)
    solver = S.Adam(0.1)
    solver.set_parameters(nn.get_parameters())
    step = nn.compile_step(loss, solver, [x, t], weight_decay=0.1)
    before = values()
    monkeypatch.setattr(Doubled, "fails", True)
    with pytest.raises(ArithmeticError):
        step(*batches()[0])
    for name, value in values().items():
        np.testing.assert_array_equal(value, before[name], err_msg=name)


def test_decay_and_scale_are_read_into_the_updates() -> None:
    x, t, loss = fresh(mlp)
    solver = S.Adam(0.1)
    solver.set_parameters(nn.get_parameters())
    plain = nn.compile_step(loss, solver, [x, t]).plan
    decayed = nn.compile_step(loss, solver, [x, t], weight_decay=0.1, scale_grad=0.5).plan
    names = [[step.name for step in plan.steps] for plan in (plain, decayed)]
    assert [name.replace("MulScalar+Add2+AdamUpdate", "AdamUpdate") for name in names[1]] == names[0]
    assert names[0] != names[1]


def test_verification_and_trace_see_the_step() -> None:
    x, t, loss = fresh(mlp)
    solver = S.Momentum(0.1)
    solver.set_parameters(nn.get_parameters())
    step = nn.compile_step(loss, solver, [x, t])
    with nn.trace() as trace, nn.verify(1.0):
        step(*batches()[0])
    assert "MomentumUpdate" in str(trace) and "Affine" in str(trace)
    assert "MomentumUpdate" in str(step.plan)


def test_wrong_arguments_are_refused() -> None:
    x, t, loss = fresh(mlp)
    solver = S.Sgd()
    solver.set_parameters(nn.get_parameters())
    with pytest.raises(TypeError, match="loss is int"):
        nn.compile_step(3, solver)
    with pytest.raises(TypeError, match="solver is Variable"):
        nn.compile_step(loss, x)
    with pytest.raises(ValueError, match="leaf"):
        nn.compile_step(x, solver)
    with pytest.raises(TypeError, match=r"inputs\[1\] is ndarray"):
        nn.compile_step(loss, solver, [x, np.zeros(3)])
    with pytest.raises(ValueError, match=r"inputs\[0\] is a result"):
        nn.compile_step(loss, solver, [loss])
    with pytest.raises(TypeError, match="2 inputs"):
        nn.compile_step(loss, solver, [x, t])(np.zeros((5, 8)))


def test_a_solver_without_parameters_is_refused() -> None:
    x, t, loss = fresh(mlp)
    solver = S.Sgd()
    with pytest.raises(ValueError, match=r"no parameters[\s\S]*set_parameters"):
        nn.compile_step(loss, solver, [x, t])
    solver.set_parameters(nn.get_parameters())
    step = nn.compile_step(loss, solver, [x, t])
    solver.clear_parameters()
    with pytest.raises(ValueError, match=r"no parameters[\s\S]*set_parameters"):
        step()


def test_a_step_whose_loss_depends_on_no_parameter_is_refused() -> None:
    x, t, loss = fresh(mlp)
    x.d, t.d = batches()[0]
    solver = S.Sgd()
    other = nn.Variable((3,), need_grad=True)
    solver.set_parameters({"other": other})
    step = nn.compile_step(loss, solver)
    with pytest.raises(ValueError, match=r"no gradient of the loss reaches any of the solver's 1 parameters"):
        step()
    w = next(iter(nn.get_parameters().values()))
    solver.set_parameters({"w": w}, reset=False)
    before = w.d.copy()
    step()
    assert not np.array_equal(w.d, before)
    other.need_grad = w.need_grad = False  # frozen, as was asked for
    before = w.d.copy()
    step()
    np.testing.assert_array_equal(w.d, before)


def test_an_input_that_the_loss_does_not_read_is_refused() -> None:
    x, t, loss = fresh(mlp)
    solver = S.Sgd()
    solver.set_parameters(nn.get_parameters())
    with pytest.raises(ValueError, match=r"inputs\[1\] is not read by the loss\nConsidered: its shape is \(5, 1\)"):
        nn.compile_step(loss, solver, [x, nn.Variable((5, 1)), t])


def test_an_input_may_be_read_through_its_array() -> None:
    x = nn.Variable((2, 3))
    loss = F.mean(PF.affine(x.unlinked(), 2, name="a", with_bias=False) ** 2)
    solver = S.Sgd()
    solver.set_parameters(nn.get_parameters())
    step = nn.compile_step(loss, solver, [x])
    assert step(np.ones((2, 3))).d > 0
    assert step(np.zeros((2, 3))).d == 0


def test_hyper_parameters_that_change_to_and_fro_between_steps_are_those_of_each_step():
    def trained(is_compiled: bool) -> dict[str, np.ndarray]:
        x, t, loss = fresh(mlp)
        solver = S.Momentum(0.1)
        solver.set_parameters(nn.get_parameters())
        step = nn.compile_step(loss, solver, inputs=[x, t], weight_decay=0.1)
        before = step.plan if is_compiled else None
        numbers = [(0.1, 0.1, 1.0), (0.1, 0.2, 1.0), (0.3, 0.1, 0.5), (0.1, 0.1, 1.0), (0.1, 0.1, 0.5)]
        for (images, labels), (rate, decay, scale) in zip(batches(len(numbers)), numbers, strict=True):
            solver.set_learning_rate(rate)
            if is_compiled:
                step.weight_decay, step.scale_grad = decay, scale
                step(images, labels)
            else:
                x.d, t.d = images, labels
                loss.forward()
                solver.zero_grad()
                loss.backward()
                solver.scale_grad(scale)
                solver.weight_decay(decay)
                solver.update()
        assert not is_compiled or step.plan is before
        return values()

    expected = trained(False)
    for name, found in trained(True).items():
        np.testing.assert_allclose(found, expected[name], rtol=1e-5, atol=1e-6)
