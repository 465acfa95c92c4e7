"""Decay and scaling of gradients wait for the update, and nobody can tell."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import atled as nn
import atled.functions as F
import atled.solvers as S
from all_solvers import SOLVERS
from atled.arrays.watches import WATCHES

pytestmark = pytest.mark.usefixtures("backend")

DECAY, SCALE = ("weight_decay", 0.03), ("scale_grad", 0.7)
SEQUENCES: dict[str, Sequence[tuple[str, float]]] = {
    "decay": [DECAY],
    "scale": [SCALE],
    "scale, decay": [SCALE, DECAY],
    "decay, scale": [DECAY, SCALE],
    "twice": [DECAY, SCALE, DECAY, SCALE],
    "more than wait together": [DECAY, SCALE, DECAY] * 2,
}
SHAPES = [(5, 67), (3,), (), (2, 3, 4)]
# Where they are fused, a multiplication and an addition in one leave a rounding of the gradient out, or not.
ROUNDINGS = {"reference": 0.0, "cpu": 3e-7}


class Pair:
    """Two equal sets of parameters: those of `quiet` are left alone, those of `seen` looked at after every call."""

    def __init__(self, make: Callable[[], S.Solver], shapes: Sequence[tuple[int, ...]] = SHAPES) -> None:
        rng = np.random.default_rng(4)
        self.rng = rng
        self.start = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
        self.quiet, self.seen = (
            [nn.Variable.from_numpy_array(value, need_grad=True) for value in self.start] for _ in range(2)
        )
        self.solvers = make(), make()
        for solver, variables in zip(self.solvers, (self.quiet, self.seen), strict=True):
            solver.set_parameters({str(number): v for number, v in enumerate(variables)})

    def gradients(self) -> None:
        for one, other in zip(self.quiet, self.seen, strict=True):
            one.g = other.g = self.rng.standard_normal(one.shape)

    def call(self, name: str, *arguments: float) -> None:
        for solver in self.solvers:
            getattr(solver, name)(*arguments)
        for variable in self.seen:
            assert variable.g is not None

    def check(self, tolerance: float) -> None:
        for one, other in zip(self.quiet, self.seen, strict=True):
            assert_allclose(one.d, other.d, rtol=tolerance, atol=tolerance)
            assert_allclose(one.g, other.g, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("sequence", SEQUENCES.values(), ids=SEQUENCES.keys())
@pytest.mark.parametrize("make", SOLVERS)
def test_every_solver_takes_them_in(make: type[S.Solver], sequence: Sequence[tuple[str, float]], backend: str) -> None:
    # Adam and its kind divide small numbers by small ones: eps keeps a rounding from growing.
    pair = Pair(lambda: make(0.01, eps=1e-2) if "eps" in make().info else make(0.01))
    for _ in range(3):
        pair.gradients()
        for name, value in sequence:
            pair.call(name, value)
        pair.call("update")
    pair.check(ROUNDINGS[backend])


def test_one_pass_does_it_all_where_the_backend_fuses(backend: str) -> None:
    pair = Pair(lambda: S.Adam(0.01))
    for _ in range(2):
        pair.gradients()
        with nn.trace() as trace:
            pair.solvers[0].scale_grad(0.5)
            pair.solvers[0].weight_decay(0.1)
            assert not trace.rows()
            pair.solvers[0].update()
        fused = "ScaleGrad+WeightDecay+AdamUpdate"
        wanted = {fused} if backend == "cpu" else {"ScaleGrad", "WeightDecay", "AdamUpdate"}
        assert {row.op for row in trace.rows()} == wanted


def leaf(values: Any) -> nn.Variable:
    return nn.Variable.from_numpy_array(np.asarray(values, np.float32), need_grad=True)


def decayed(shape: tuple[int, ...] = (1,)) -> tuple[nn.Variable, S.Solver]:
    """w = 2, g = 3 that is to become 2 * 3 + 0.5 * 2 = 7."""
    w = leaf(np.full(shape, 2))
    solver = S.Sgd(1)
    solver.set_parameters({"w": w})
    w.g = 3
    solver.scale_grad(2)
    solver.weight_decay(0.5)
    return w, solver


def _copied(w: nn.Variable, solver: S.Solver) -> Any:
    array = nn.NdArray((1,))
    array.copy_from(w.grad)
    return array.data


def _by_graph(w: nn.Variable, solver: S.Solver) -> Any:
    x = nn.Variable((1,))
    x.data = w.grad
    y = x * 1
    y.forward()
    return y.d


LOOKS: dict[str, Callable[[nn.Variable, S.Solver], Any]] = {
    "g": lambda w, solver: w.g,
    "grad.data": lambda w, solver: w.grad.data,
    "asarray": lambda w, solver: np.asarray(w.grad),
    "from_dlpack": lambda w, solver: np.from_dlpack(w.grad),
    "cast": lambda w, solver: w.grad.cast(np.float64),
    "copy_from": _copied,
    "op": lambda w, solver: (w.grad + 0).data,
    "graph": _by_graph,
}


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS.keys())
def test_who_looks_in_between_sees_them_done(look: Callable[..., Any]) -> None:
    w, solver = decayed()
    assert_array_equal(look(w, solver), [7])
    solver.update()
    assert_array_equal(w.d, [-5])


def test_checks_look_at_what_gradients_will_be() -> None:
    _, solver = decayed()
    assert not solver.check_inf_or_nan_grad()
    solver.scale_grad(np.finfo(np.float32).max)
    assert solver.check_inf_grad()


def test_gradients_have_the_changes_after_the_update() -> None:
    w, solver = decayed()
    solver.update()
    assert_array_equal(w.d, [-5])
    assert_array_equal(w.g, [7])
    solver.update()
    assert_array_equal(w.d, [-12])


def _in_place(w: nn.Variable) -> None:
    w.d[...] = 10


def _by_another_solver(w: nn.Variable) -> None:
    u = nn.Variable((1, 1), need_grad=True)
    u.data = w.data
    u.g = -8
    other = S.Sgd(1)
    other.set_parameters({"u": u})
    other.update()


def _normalizing(w: nn.Variable) -> nn.Variable:
    """A normalization of tens that leaves their mean in w."""
    x, one = nn.Variable((4, 1)), leaf([[1]])
    x.d = 10
    return F.batch_normalization(x, one, one, w, leaf([[1]]), decay_rate=0.0)


def _by_state(w: nn.Variable) -> None:
    _normalizing(w).forward()


def _by_state_at_once(w: nn.Variable) -> None:
    with nn.auto_forward():
        for _ in range(3):
            _normalizing(w)


def _by_step(w: nn.Variable) -> None:
    u = nn.Variable((1, 1), need_grad=True)
    u.data = w.data
    solver = S.Sgd(1)
    solver.set_parameters({"u": u})
    nn.compile_step(F.sum(u * -8), solver)()


WRITES: dict[str, Callable[[nn.Variable], object]] = {
    "d": lambda w: setattr(w, "d", 10),
    "d in place": _in_place,
    "fill": lambda w: w.data.fill(10),
    "copy_from": lambda w: w.data.copy_from(nn.NdArray.from_numpy_array(np.float32([[10]]))),
    "another array": lambda w: setattr(w, "data", nn.NdArray.from_numpy_array(np.float32([[10]]))),
    "another solver": _by_another_solver,
    "state of a function": _by_state,
    "state of a function at once": _by_state_at_once,
    "compiled step": _by_step,
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES.keys())
def test_decay_is_of_the_parameter_as_it_was(write: Callable[[nn.Variable], object]) -> None:
    w, solver = decayed((1, 1))
    write(w)
    assert_array_equal(w.d, [[10]])
    solver.update()
    assert_array_equal(w.d, [[3]])
    assert_array_equal(w.g, [[7]])


def test_what_waited_for_an_array_and_what_comes_after_are_two_things() -> None:
    w, solver = decayed()
    w.data = nn.NdArray.from_numpy_array(np.float32([10]))
    view = w.g
    assert_array_equal(view, [7])
    solver.weight_decay(0.5)
    assert_array_equal(view, [12])


def test_a_parameter_that_was_zeroed_decays_by_what_it_was() -> None:
    w, solver = decayed()
    w.data.zero()
    solver.update()
    assert_array_equal(w.d, [-7])


def test_a_plan_bound_before_that_changes_the_parameter_lets_it_decay_first() -> None:
    w = leaf([[2]])
    y = _normalizing(w)
    y.forward()
    w.d = 2
    solver = S.Sgd(1)
    solver.set_parameters({"w": w})
    w.g = 6
    solver.weight_decay(0.5)
    y.forward()
    solver.update()
    assert_array_equal(w.d, [[3]])


@pytest.mark.parametrize("clear", [lambda w, solver: solver.zero_grad(), lambda w, solver: w.grad.zero()])
def test_a_gradient_that_is_cleared_waits_no_more(clear: Callable[..., object]) -> None:
    w, solver = decayed()
    assert any(id(w.value.data.cell) in reference().watched for reference in WATCHES.values())
    clear(w, solver)
    assert not any(id(w.value.data.cell) in reference().watched for reference in WATCHES.values())
    solver.update()
    assert_array_equal(w.d, [2])
    assert_array_equal(w.g, [0])


@pytest.mark.parametrize(
    "write", [lambda w: setattr(w, "g", 1), lambda w: w.grad.fill(1), lambda w: setattr(w.grad, "data", 1)]
)
def test_a_gradient_that_is_written_waits_no_more(write: Callable[..., object]) -> None:
    w, solver = decayed()
    write(w)
    solver.update()
    assert_array_equal(w.d, [1])


def test_a_held_view_of_a_gradient_shows_them_at_once() -> None:
    w = leaf([2])
    solver = S.Sgd(1)
    solver.set_parameters({"w": w})
    w.g = 3
    view = w.g
    solver.weight_decay(0.5)
    assert_array_equal(view, [4])


def test_a_held_view_of_a_parameter_may_be_written_before_the_update() -> None:
    w = leaf([2])
    solver = S.Sgd(1)
    solver.set_parameters({"w": w})
    w.g = 3
    view = w.d
    solver.weight_decay(0.5)
    view[...] = 10
    solver.update()
    assert_array_equal(w.d, [6])


def test_a_graph_that_reads_a_gradient_reads_them() -> None:
    w, x = leaf([2]), nn.Variable((1,))
    x.data = w.grad
    y = x * 1
    w.g = 3
    solver = S.Sgd(1)
    solver.set_parameters({"w": w})
    for expected in (4, 5):
        y.forward()
        solver.weight_decay(0.5)
        y.forward()
        assert_array_equal(y.d, [expected])


@pytest.mark.parametrize("dynamic", [False, True])
def test_another_backward_adds_to_what_was_changed(dynamic: bool) -> None:
    w = leaf([2])
    solver = S.Sgd(1)
    solver.set_parameters({"w": w})
    y = w * 3
    with nn.auto_forward(dynamic):
        for _ in range(3):
            solver.zero_grad()
            for _ in range(3):
                if dynamic:
                    y = w * 3
                else:
                    y.forward()
                y.backward()
                solver.scale_grad(2)
    # ((3 * 2) + 3) * 2 ...
    assert_array_equal(w.g, [42])


@pytest.mark.parametrize("dynamic", [False, True])
def test_another_backward_adds_to_what_was_changed_elsewhere(dynamic: bool) -> None:
    """The solver computes on a device, the graph in host memory: its plan is looked at again."""
    pytest.importorskip("atled_sim")
    w = leaf([2])
    solver = S.Sgd(1)
    solver.set_parameters({"w": w})
    y = w * 3
    with nn.auto_forward(dynamic):
        for number in range(5):
            if dynamic:
                y = w * 3
            else:
                y.forward()
            y.backward()
            if number == 3:
                with nn.context_scope(nn.get_extension_context("sim")):
                    solver.scale_grad(2)
    assert_array_equal(w.g, [27])  # 4 * 3 * 2 + 3


def test_backward_of_one_function_adds_to_what_was_changed() -> None:
    w, _ = decayed()
    y = w * 3
    y.forward()
    y.g = 1
    y.parent.backward([w], [y], [True])
    assert_array_equal(w.g, [10])


def test_only_some_parameters_may_wait() -> None:
    a, b = leaf([2]), leaf([2])
    both, one = S.Sgd(1), S.Sgd(1)
    both.set_parameters({"a": a, "b": b})
    one.set_parameters({"a": a})
    a.g = b.g = 3
    one.weight_decay(0.5)
    both.update()
    assert_array_equal([a.d, b.d], [[-2], [-1]])
    both.weight_decay(1)
    one.update()
    assert_array_equal(a.d, [-4])
    assert_array_equal([a.g, b.g], [[2], [2]])
    both.update()
    assert_array_equal([a.d, b.d], [[-6], [-3]])


def test_parameters_that_share_an_array_change_one_after_the_other() -> None:
    w = leaf([2])
    u = w.unlinked()
    solver = S.Sgd(1)
    solver.set_parameters({"w": w, "u": u})
    w.g = 3
    solver.weight_decay(0.5)
    assert_array_equal(w.g, [5])
    solver.update()
    assert_array_equal(w.d, [-8])


def test_another_context_sees_them_done(backend: str) -> None:
    w, solver = decayed()
    with nn.context_scope(nn.Context([f"{backend}:double"])):
        solver.update()
    assert_array_equal(w.d, [-5])


def test_a_gradient_of_another_dtype_is_changed_in_that_of_the_parameter() -> None:
    moved = []
    for looks in (False, True):
        w = nn.Variable.from_numpy_array(np.float32([2]), np.array([3.0]), need_grad=True)
        assert w.grad.dtype == np.float64
        solver = S.Sgd(1)
        solver.set_parameters({"w": w})
        solver.scale_grad(2)
        solver.weight_decay(0.5)
        if looks:
            assert_array_equal(w.g, [7])
        solver.update()
        moved.append(w.d.copy())
        assert_array_equal(w.g, [7])
    assert_array_equal(moved, [[-5], [-5]])


def test_float64_decays_in_float64() -> None:
    w = nn.Variable.from_numpy_array(np.array([1e-9]), np.array([1.0]), need_grad=True)
    solver = S.Sgd(1)
    solver.set_parameters({"w": w})
    solver.weight_decay(0.5)
    solver.update()
    assert w.d[0] == 1e-9 - (1 + 0.5e-9)


def test_an_update_that_fails_leaves_them_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    w, solver = decayed()

    def fail(*_: object) -> None:
        raise MemoryError("no room")

    with monkeypatch.context() as patch:
        patch.setattr("atled.graph.update.updates._bind", fail)
        with pytest.raises(MemoryError):
            solver.update()
        with pytest.raises(MemoryError):
            w.g  # noqa: B018
    solver.update()
    assert_array_equal(w.d, [-5])
    assert_array_equal(w.g, [7])


def test_a_change_that_fails_is_made_when_it_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    w, _ = decayed()
    from atled.graph.update import updates as updating

    bind, asked = updating._bind, []

    def fail_at_decay(ops: Sequence[str], *rest: Any) -> Any:
        asked.append(ops[0])
        if ops[0] == "WeightDecay":
            raise MemoryError("no room")
        return bind(ops, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(updating, "_bind", fail_at_decay)
        with pytest.raises(MemoryError):
            w.g  # noqa: B018
    assert asked == ["ScaleGrad", "WeightDecay"]
    assert_array_equal(w.g, [7])


def test_a_solver_that_is_gone_changes_them_nevertheless() -> None:
    w, solver = decayed()
    solver.set_parameters({})
    del solver
    gc.collect()
    assert_array_equal(w.g, [7])


def test_nothing_is_kept_alive_by_waiting() -> None:
    w, solver = decayed()
    gone = weakref.ref(w.value.grad.cell), weakref.ref(w.value.data.cell)
    del w, solver
    gc.collect()
    assert [reference() for reference in gone] == [None, None]


def test_threads_that_look_see_each_change_once() -> None:
    rng = np.random.default_rng(0)
    w = leaf(np.ones(50_000))
    solver = S.Sgd(0)
    solver.set_parameters({"w": w})
    for _ in range(20):
        values = rng.standard_normal(50_000).astype(np.float32)
        w.g = values
        solver.scale_grad(2)
        solver.weight_decay(1)
        start = threading.Barrier(4)
        seen: list[np.ndarray] = []

        def look(start: threading.Barrier = start, seen: list[np.ndarray] = seen) -> None:
            start.wait()
            seen.append(np.asarray(w.grad).copy())

        threads = [threading.Thread(target=look) for _ in range(3)]
        for thread in threads:
            thread.start()
        start.wait()
        solver.update()
        for thread in threads:
            thread.join()
        assert len(seen) == 3
        for found in [*seen, w.g]:
            assert_allclose(found, 2 * values + 1, rtol=1e-6, atol=1e-6)


# Whatever is done in whatever order: as if nothing ever waited.


class Program:
    """Random actions on three parameters, two solvers, a graph and a compiled step."""

    def __init__(self, seed: int) -> None:
        rng = self.rng = np.random.default_rng(seed)
        self.w = [leaf(rng.standard_normal((3, 3))) for _ in range(3)]
        self.solvers = [S.Momentum(0.1), S.Sgd(0.1)]
        self.solvers[0].set_parameters({"a": self.w[0], "b": self.w[1]})
        self.solvers[1].set_parameters({"b": self.w[1], "c": self.w[2]})
        self.loss = self.graph()
        self.step = nn.compile_step(self.loss, self.solvers[0], weight_decay=0.01)
        self.held: Any = None
        self.seen: list[np.ndarray] = []

    def graph(self) -> nn.Variable:
        a, b, c = self.w
        return F.sum(F.tanh(F.affine(a, b)) * c)

    def one(self) -> nn.Variable:
        return self.w[self.rng.integers(3)]

    def solver(self) -> S.Solver:
        return self.solvers[self.rng.integers(2)]

    def values(self) -> np.ndarray:
        return self.rng.standard_normal((3, 3)).astype(np.float32)

    def decay(self) -> None:
        self.solver().weight_decay(float(self.rng.uniform(0, 0.1)))

    def scale(self) -> None:
        self.solver().scale_grad(float(self.rng.uniform(0.5, 1.2)))

    def update(self) -> None:
        self.solver().update()

    def zero_grad(self) -> None:
        self.solver().zero_grad()

    def backward(self) -> None:
        self.loss.forward()
        self.loss.backward()

    def rebuild(self) -> None:
        with nn.auto_forward():
            self.graph().backward()

    def run_step(self) -> None:
        self.step()

    def look(self) -> None:
        self.seen.append(self.one().g.copy())

    def write(self) -> None:
        variable, values = self.one(), self.values()
        if self.rng.random() < 0.5:
            variable.d = values
        else:
            variable.g = values

    def replace(self) -> None:
        self.one().data = nn.NdArray.from_numpy_array(self.values())

    def hold(self) -> None:
        variable = self.one()
        self.held = variable.g if self.rng.random() < 0.5 else variable.d
        self.held *= 0.5

    def let_go(self) -> None:
        self.held = None

    def check(self) -> None:
        assert not self.solver().check_inf_or_nan_grad()

    def run(self, count: int) -> list[np.ndarray]:
        actions = [self.decay, self.decay, self.scale, self.scale, self.update, self.update, self.zero_grad]
        actions += [self.backward, self.backward, self.rebuild, self.run_step, self.look, self.write]
        actions += [self.hold, self.let_go, self.check, self.replace]
        for _ in range(count):
            actions[self.rng.integers(len(actions))]()
        return [*self.seen, *(v.d.copy() for v in self.w), *(v.g.copy() for v in self.w)]


@pytest.mark.usefixtures("poisoned")
@pytest.mark.parametrize("seed", range(40))
def test_no_order_of_calls_shows_that_anything_waits(seed: int, backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = Program(seed).run(60)
    monkeypatch.setattr("atled.graph.update.waiting_changes._may_wait", lambda values: False)
    wanted = Program(seed).run(60)
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        scale = max(1e-3, float(np.abs(other).max()))
        # Roundings differ where steps are fused; such programs enlarge them.
        assert_allclose(one / scale, other / scale, rtol=0, atol=0 if backend == "reference" else 2e-5)
