"""Solvers of the plain interpreter, and compiled steps, which are the steps one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

import atled.solvers as S
from atled.ops.spec import SPECS
from fuzzing_programs.plain.arrays import Cell
from fuzzing_programs.plain.gradients import backward
from fuzzing_programs.plain.graph import Value, Variable, calls_before
from fuzzing_programs.plain.state import STATE


class _Tracked:
    """A parameter with its states."""

    def __init__(self, variable: Variable, state_count: int) -> None:
        self.variable = variable
        self.states = [np.zeros(variable.shape) for _ in range(state_count)]
        self.steps = 0

    @property
    def gradient(self) -> Cell:
        return self.variable.grad.cell


class Solver:
    """A solver: the numbers come from one of the library, the updates are computed by references."""

    def __init__(self, real: S.Solver) -> None:
        self._real = real
        self._tracked: dict[str, _Tracked] = {}

    def set_parameters(
        self, parameters: Mapping[str, Variable], reset: bool = True, retain_state: bool = False
    ) -> None:
        before = self._tracked
        self._tracked = {} if reset else dict(before)
        for key, variable in parameters.items():
            known = before.get(key)
            if known is not None and retain_state and known.variable.value.arrays is variable.value.arrays:
                self._tracked[key] = known
            else:
                self._tracked[key] = _Tracked(variable, len(self._real._states))

    def set_learning_rate(self, learning_rate: float) -> None:
        self._real.set_learning_rate(learning_rate)

    @property
    def tracked(self) -> list[_Tracked]:
        return list(self._tracked.values())

    def active(self) -> list[_Tracked]:
        return [each for each in self.tracked if each.gradient.is_written]

    def zero_grad(self) -> None:
        for each in self.tracked:
            each.gradient.zero()

    def weight_decay(self, rate: float) -> None:
        for each in self.active():
            each.gradient.write(each.gradient.values + np.float32(rate) * each.variable.data.cell.values)

    def scale_grad(self, scale: float) -> None:
        for each in self.active():
            each.gradient.write(each.gradient.values * np.float32(scale))

    def check_inf_or_nan_grad(self) -> bool:
        return any(not np.isfinite(each.gradient.values).all() for each in self.active())

    def get_states(self) -> dict[str, Any]:
        return {
            key: SimpleNamespace(
                t=each.steps,
                pstate={
                    name: SimpleNamespace(d=state) for name, state in zip(self._real._states, each.states, strict=True)
                },
            )
            for key, each in self._tracked.items()
        }

    def update(self) -> None:
        spec = SPECS[self._real.update_op]
        for each in self.active():
            each.steps += 1
            data = each.variable.data
            arrays = [data.present, each.variable.grad.present, *each.states]
            with np.errstate(all="ignore"):
                made = spec.reference(*arrays, **self._real.hyper(each))  # type: ignore[arg-type]  # it reads `steps`
            results = [np.asarray(x).copy() for x in (made if isinstance(made, tuple | list) else (made,))]
            for output, position in spec.inplace.items():
                if position == 0:
                    data.cell.write(STATE.disturbed(results[output]))
                elif position == 1:
                    each.gradient.write(results[output])
                else:
                    each.states[position - 2] = results[output]


class CompiledStep:
    """`nn.compile_step`, as its docstring says."""

    def __init__(
        self,
        loss: Variable,
        solver: Solver,
        inputs: Sequence[Variable] = (),
        *,
        weight_decay: float = 0.0,
        scale_grad: float = 1.0,
    ) -> None:
        self.loss = loss
        self.solver = solver
        self.inputs = inputs
        self.weight_decay = weight_decay
        self.scale_grad = scale_grad

    def __call__(self, *batch: Any) -> Variable:
        for variable, values in zip(self.inputs, batch, strict=False):
            variable.d = values
        loss, solver = self.loss, self.solver
        loss.forward()
        solver.zero_grad()
        backward([loss.value], [1], {each.variable.data.cell for each in solver.tracked})
        if not solver.active() and any(each.variable.need_grad for each in solver.tracked):
            raise ValueError("the loss depends on no parameter of the solver")
        solver.scale_grad(self.scale_grad)
        solver.weight_decay(self.weight_decay)
        solver.update()
        solver.zero_grad()
        for value in _made_before(loss.value):
            value.is_moved = True
        return loss


def _made_before(root: Value) -> list[Value]:
    return [output for call in calls_before([root]) for output in call.outputs]
