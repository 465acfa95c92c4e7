"""A handler of a signal that raises amid a training step: all that the step moves has moved then, or nothing has."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import atled as nn
import atled.functions as F
import atled.parametric_functions as PF
import atled.random
import atled.solvers as S
from atled.ops.spec import SPECS
from atled.plugin import RowWord
from atled_cpu_numba import pool, pool_ir
from atled_cpu_numba.store import IRKernel

# Raises SIGINT, then does what the kernel does in whose place it is.
INTERRUPT = """
declare i32 @raise(i32)
define i64 @{name}(i64 %block, i64 %part, i64 %parts) {{
  %ignored = call i32 @raise(i32 2)
  %kernel = inttoptr i64 {kernel} to ptr
  %result = call i64 %kernel(i64 %block, i64 %part, i64 %parts)
  ret i64 %result
}}
"""

DATA = np.random.default_rng(0).standard_normal((8, 6)).astype(np.float32)


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(atled.random, "_SEEDS", atled.random._Seeds())
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    nn.clear_parameters()
    with nn.auto_forward(False), nn.context_scope(nn.Context(["cpu:float", "reference:float"])):
        yield
    nn.clear_parameters()
    signal.signal(signal.SIGINT, former)


@pytest.fixture(params=["turns at once", "no turns"])
def turns(request: pytest.FixtureRequest) -> Iterator[bool]:
    """Programs give the interpreter a turn after every row, or at their ends alone."""
    native = pool._load()
    is_at_once = request.param == "turns at once"
    native.pool._write(pool_ir.TURN, 0 if is_at_once else 1 << 62)
    yield is_at_once
    native.pool._write(pool_ir.TURN, native.turn)


def interrupting(kernel: int) -> int:
    name = f"interrupt_{kernel}"
    return IRKernel(name, INTERRUPT.format(name=name, kernel=kernel)).address()


class Training:
    """A small network with running statistics and numbers drawn; `run` does a step by one plan or by three."""

    def __init__(self, is_compiled: bool, decay: float = 0.0) -> None:
        nn.clear_parameters()
        nn.seed(5)
        np.random.seed(7)
        x = nn.Variable.from_numpy_array(DATA)
        h = F.dropout(F.tanh(PF.batch_normalization(PF.affine(x, 5, name="a"), name="b")), 0.3)
        self.loss = F.mean(F.squared_error(PF.affine(h, 3, name="c"), nn.Variable.from_numpy_array(DATA[:, :3])))
        self.solver = S.Adam(0.1)
        self.solver.set_parameters(nn.get_parameters())
        self.decay = decay
        self.step: Any = nn.compile_step(self.loss, self.solver, weight_decay=decay) if is_compiled else None
        self.run = self.step or self.run_apart

    def run_apart(self) -> None:
        self.loss.forward()
        self.solver.zero_grad()
        self.loss.backward()
        self.solver.weight_decay(self.decay)
        self.solver.update()

    def state(self) -> dict[str, np.ndarray]:
        found = {name: variable.d.copy() for name, variable in nn.get_parameters(grad_only=False).items()}
        for name, state in self.solver.get_states().items():
            found[f"{name} t"] = np.array(state.t)
            found.update((f"{name} {each}", array.d.copy()) for each, array in state.pstate.items())
        return found


def is_same(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> bool:
    return all(np.array_equal(value, other[name]) for name, value in one.items())


def interrupt(run: Callable[[], object], rows: np.ndarray, row: int) -> None:
    kernel = rows[row, RowWord.KERNEL]
    rows[row, RowWord.KERNEL] = interrupting(int(kernel))
    with pytest.raises(KeyboardInterrupt):
        run()
    rows[row, RowWord.KERNEL] = kernel


def test_an_interrupted_step_has_moved_all_or_nothing(turns: bool) -> None:
    plain = Training(True)
    states = [plain.state()]
    for _ in range(40):
        plain.run()
        states.append(plain.state())
    training = Training(True)
    training.run()
    rows = training.step._training._binding._rows
    done, found = 1, []
    for row in range(len(rows)):
        interrupt(training.run, rows, row)
        state = training.state()
        is_moved = is_same(state, states[done + 1])
        assert is_moved or is_same(state, states[done]), f"row {row}"
        done += is_moved
        found.append(is_moved)
        training.run()
        done += 1
        assert is_same(training.state(), states[done])
    first = training.step.plan.moving[1]
    assert found == ([row >= first - 1 for row in range(len(rows))] if turns else [True] * len(rows))
    assert 1 < first < len(rows) - 1


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_an_interrupted_update_has_moved_all(turns: bool, decay: float) -> None:
    wanted, training = Training(False, decay), Training(False, decay)
    for each in (wanted, training):
        each.run()
    (binding,) = training.solver._plans.values()
    for row in range(len(binding._rows)):
        wanted.run()
        interrupt(training.run, binding._rows, row)
        assert is_same(training.state(), wanted.state())
        training.run()
        wanted.run()
        assert is_same(training.state(), wanted.state())


def test_a_scaled_gradient_that_was_interrupted_is_not_scaled_again(turns: bool) -> None:
    v = nn.Variable.from_numpy_array(DATA, need_grad=True)
    solver = S.Sgd(0.1)
    solver.set_parameters({"v": v})
    for is_interrupted in (False, True):
        v.grad.copy_from(nn.NdArray.from_numpy_array(DATA))
        solver.scale_grad(3.0)
        if is_interrupted:
            (binding,) = (
                each for key, each in solver._plans.items() if isinstance(key, tuple) and key[0] == ("ScaleGrad",)
            )
            interrupt(lambda: v.g, binding._rows, 0)
        np.testing.assert_array_equal(v.g, DATA * np.float32(3))


def test_updates_behind_an_interrupt_between_two_programs_are_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """As plans have that are native programs of several executors: here the first program ends amid the updates."""
    wanted, training = Training(False), Training(False)
    for each in (wanted, training):
        each.run()
    (binding,) = training.solver._plans.values()
    assert len(binding._rows) > 1
    ((executor, first, _),) = binding._counted

    def half() -> None:
        executor.run_program(binding.rows_address, first, first + 1)
        raise KeyboardInterrupt

    wanted.run()
    with monkeypatch.context() as patch:
        patch.setattr(binding, "_segments", [half])
        with pytest.raises(KeyboardInterrupt):
            training.run()
    assert is_same(training.state(), wanted.state())


def test_counts_go_back_where_an_interrupt_comes_while_they_are_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    for is_compiled in (False, True):
        training = Training(is_compiled)
        training.run()
        before = training.state()

        def interrupt_hyper(*_: object) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(training.solver, "_hyper", interrupt_hyper)
            with pytest.raises(KeyboardInterrupt):
                training.step() if training.step else training.solver.update()
        assert is_same(training.state(), before)


@pytest.mark.parametrize("is_traced", [False, True])
def test_updates_that_python_launches_are_not_interrupted(monkeypatch: pytest.MonkeyPatch, is_traced: bool) -> None:
    spec = type(SPECS["AdamUpdate"])
    reference = spec.reference

    def interrupted(*given: Any, **how: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        return reference(*given, **how)

    def run(training: Training) -> None:
        with nn.trace() if is_traced else nn.auto_forward(False):
            training.run()

    with nn.context_scope(nn.Context(["reference:float"])):
        for is_compiled in (False, True):
            wanted, training = Training(is_compiled), Training(is_compiled)
            for each in (wanted, training):
                run(each)
            run(wanted)
            with monkeypatch.context() as patch:
                patch.setattr(spec, "reference", interrupted)
                with pytest.raises(KeyboardInterrupt):
                    run(training)
            assert is_same(training.state(), wanted.state())
