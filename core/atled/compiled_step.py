"""Training steps in one call: feeding, forward, backward and the update of the parameters as one plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NoReturn

from atled.arrays.cell import UNWRITTEN, ArrayCell
from atled.arrays.failures import EXPECTING
from atled.arrays.watches import WATCHES, announce
from atled.errors import four_parts
from atled.graph.compile.plan import Plan
from atled.graph.record.traversal import functions_before
from atled.graph.run.binding import Progress
from atled.graph.update.training_step import Moved, Rule, Training
from atled.solvers import Solver, Tracked, take_back
from atled.variable import Variable
from atled_contexts import context_in_force, lock_across_forks

__all__ = ["CompiledStep", "compile_step"]


def compile_step(
    loss: Variable,
    solver: Solver,
    inputs: Sequence[Variable] = (),
    *,
    weight_decay: float = 0.0,
    scale_grad: float = 1.0,
) -> CompiledStep:
    """A function that does a whole training step.

        step = nn.compile_step(loss, solver, inputs=[x, t])
        for images, labels in batches:
            step(images, labels)

    does what the following does, as one plan: what only the step needs is never stored, and memory of one layer
    serves the next.

        x.d, t.d = images, labels
        loss.forward()
        solver.zero_grad()
        loss.backward()
        solver.scale_grad(scale_grad)
        solver.weight_decay(weight_decay)
        solver.update()
        solver.zero_grad()

    Afterwards only values whose Variables are held, or that are persistent, can be read; gradients are zero. Only
    gradients of the solver's parameters are computed.

    Args:
        loss: what to minimize, of any shape; its gradient is one for every element.
        solver: with its parameters set. Their number and its learning rate may change between steps. A step that can
            move none of them is refused, unless all are frozen (need_grad=False).
        inputs: leaves that a call of the step fills, in this order.
        weight_decay: times the parameter is added to its gradient.
        scale_grad: times the gradient, before that.

    Raises:
        TypeError: an argument is of another type.
        ValueError: the loss is a leaf; an input is none, or not read by it; the solver has no parameters.
    """
    return CompiledStep(loss, solver, inputs, weight_decay, scale_grad)


class CompiledStep:
    """A training step, made by `compile_step`; call it with one array per input.

    weight_decay, scale_grad: may be changed between steps.
    """

    def __init__(
        self, loss: Variable, solver: Solver, inputs: Sequence[Variable], weight_decay: float, scale_grad: float
    ) -> None:
        _check(loss, solver, inputs)
        self.loss = loss
        self.solver = solver
        self.inputs = tuple(inputs)
        self.weight_decay = float(weight_decay)
        self.scale_grad = float(scale_grad)
        self._training: Training | None = None
        self._rule: Rule | None = None
        self._known: Sequence[Tracked] = ()
        self._gradients: Sequence[ArrayCell] = ()
        # Threads that call one step take whole steps, each on its own batch.
        self._lock = lock_across_forks()

    @property
    def plan(self) -> Plan:
        """The plan that a call runs, to be printed."""
        return self._current().plan

    def __call__(self, *batch: Any) -> Variable:
        """Fill the inputs and do a step; returns the loss, whose `d` has its value.

        batch: per input what can be assigned to its `d`, which repeats axes of size 1, so that a last batch of one
            sample counts as many; none at all leaves the inputs as they are.

        Raises:
            TypeError: the number of arrays is another.  ValueError: the solver has no parameters any more, or the loss
                depends on none of those that are not frozen.  What forward and backward raise; parameters, states of
                the solver and running statistics in host memory are as they were then, the inputs are filled.
        """
        if batch and len(batch) != len(self.inputs):
            raise TypeError(
                four_parts(
                    f"a compiled step of {len(self.inputs)} inputs",
                    f"{len(batch)} arrays were given",
                    "",
                    "give one per input of compile_step, in their order, or none",
                )
            )
        with self._lock:
            return self._run(batch)

    def _run(self, batch: Sequence[Any]) -> Variable:
        for variable, values in zip(self.inputs, batch, strict=False):
            variable.d = values
        training = self._current()
        if WATCHES:
            announce(training.writes)
            training = self._current()  # what others have stored because of this run is what it has to store, too
        active = [self._known[index] for index in training.moved]
        progress = Progress()
        counted = 0
        interruption: BaseException | None = None
        try:
            for parameter in active:
                parameter.steps += 1
                counted += 1  # CPython looks for signals between two rounds of a loop
            training.run(self._floats(active), progress)
        except BaseException as error:
            if not progress.is_complete:
                take_back(active[:counted], 1)
                raise
            interruption = error  # of a handler of a signal: the step is done
        if EXPECTING:
            training.remember(tuple(map(id, active)), partial(take_back, active))
        for gradient in self._gradients:
            if gradient.pending is not UNWRITTEN:
                gradient.zero()
        if interruption is not None:
            raise interruption
        return self.loss

    def _floats(self, parameters: Sequence[Tracked]) -> dict[str, float] | list[Mapping[str, float]]:
        """What the updates of parameters depend on: one for all that have moved equally often, else one for each."""
        decay = {"scale": self.scale_grad, "rate": self.weight_decay}
        if len({parameter.steps for parameter in parameters}) == 1:
            return {**self.solver.hyper(parameters[0]), **decay}
        by_steps: dict[int, Mapping[str, float]] = {}
        result = []
        for parameter in parameters:
            found = by_steps.get(parameter.steps)
            if found is None:
                found = by_steps[parameter.steps] = {**self.solver.hyper(parameter), **decay}
            result.append(found)
        return result

    def _current(self) -> Training:
        """The plan; a new one after a change of what it was made from."""
        parameters = self.solver.tracked()
        if not parameters:
            raise _without_parameters(self.solver)
        context = context_in_force()
        is_decayed = self.weight_decay != 0.0 or self.scale_grad != 1.0
        rule = self._rule
        if rule is None or rule.context is not context or rule.is_decayed != is_decayed:
            rule = self._rule = Rule(self.solver.update_op, context, is_decayed)
            self._training = None
        training = self._training
        if training is None or not training.is_current or parameters != self._known:
            moved = [Moved(p.variable.value.data.cell, p.gradient, p.variable.shape, p.states) for p in parameters]
            training = Training(self.loss.value, rule, moved, training)
            if not training.moved and any(p.variable.need_grad for p in parameters):  # some are not frozen
                raise _without_gradients(self.solver, len(parameters))
            self._training = training
            self._gradients = [one.gradient for one in moved]
            self._known = parameters  # the objects: the number of one that is gone may be given again
        return training

    def __reduce__(self) -> NoReturn:
        """TypeError: a compiled step is neither pickled nor copied."""
        raise TypeError(
            four_parts(
                f"a pickle or a copy by `copy` of {self!r}",
                "it is a recorded graph with a plan for this machine, which are neither pickled nor copied",
                "several threads may call one step",
                "record the graph in each process and call nn.compile_step there, with the parameters of "
                "nn.get_parameters(), which are pickled, or of a file of nn.save_parameters",
            )
        )

    def __repr__(self) -> str:
        return f"<step of {self.solver!r}, weight_decay={self.weight_decay}, scale_grad={self.scale_grad}>"


def _check(loss: object, solver: object, inputs: Sequence[Variable]) -> None:
    asked = "compile_step"
    if not isinstance(loss, Variable):
        raise TypeError(
            four_parts(asked, f"loss is {type(loss).__name__}", "", "give the Variable that is to be minimized")
        )
    if not isinstance(solver, Solver):
        raise TypeError(
            four_parts(asked, f"solver is {type(solver).__name__}", "", "give a solver, such as atled.solvers.Adam()")
        )
    if not solver.tracked():
        raise _without_parameters(solver)
    if loss.parent is None:
        raise ValueError(four_parts(asked, "the loss is a leaf: nothing computed it", "", "give a function's result"))
    for position, variable in enumerate(inputs):
        if not isinstance(variable, Variable):
            raise TypeError(
                four_parts(asked, f"inputs[{position}] is {type(variable).__name__}", "", "give Variables as inputs")
            )
        if variable.parent is not None:
            raise ValueError(
                four_parts(asked, f"inputs[{position}] is a result, not a leaf", "", "give Variables that were created")
            )
    # By their arrays: the graph may read a leaf unlinked. A leaf of another graph would be filled, and training go on
    # with the values that this one was recorded with.
    read = {value.data.cell for call in functions_before(loss.value) for value in call.inputs if value is not None}
    for position, variable in enumerate(inputs):
        if variable.value.data.cell not in read:
            raise ValueError(
                four_parts(
                    asked,
                    f"inputs[{position}] is not read by the loss",
                    f"its shape is {variable.shape}",
                    "give the Variables that the loss was computed from; assign others to their `d`",
                )
            )


def _without_parameters(solver: Solver) -> ValueError:
    return ValueError(
        four_parts(
            f"a compiled step of {solver.name}",
            "the solver has no parameters: a step would train nothing",
            "",
            "call solver.set_parameters(nn.get_parameters()) when all layers are there, or loss.forward() alone",
        )
    )


def _without_gradients(solver: Solver, count: int) -> ValueError:
    return ValueError(
        four_parts(
            f"a compiled step of {solver.name}",
            f"no gradient of the loss reaches any of the solver's {count} parameters: a step would train nothing",
            "",
            "give set_parameters those that the loss is made of, with need_grad=True, or call loss.forward()",
        )
    )


def __dir__() -> list[str]:
    return sorted(__all__)
