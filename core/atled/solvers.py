"""Solvers: how parameters move against their gradients. One program per device updates all parameters."""

from __future__ import annotations

import copy
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import compress
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from atled.arrays.array import NdArray
from atled.arrays.cell import ArrayCell
from atled.arrays.epoch import EPOCH
from atled.arrays.failures import EXPECTING
from atled.calling.finite import INF, INF_OR_NAN, NAN, Test, holds_any
from atled.calling.norms import norms_of
from atled.errors import RefusedError, four_parts, no_such, shortened
from atled.graph.compile.plans import PLANNING
from atled.graph.record.value import Value
from atled.graph.run.binding import Progress
from atled.graph.update.updates import Updated, UpdatePlans, run_updates
from atled.graph.update.waiting_changes import Change, change_gradients, common_changes, scale_gradients
from atled.ops.spec import SPECS
from atled.variable import Variable, check_by_name
from atled_contexts import context_in_force

if TYPE_CHECKING:
    from atled.files.solver_states import SolverState

__all__ = [
    "AMSGRAD",
    "Adadelta",
    "Adagrad",
    "Adam",
    "Adamax",
    "Momentum",
    "Nesterov",
    "RMSprop",
    "Sgd",
    "Solver",
    "SolverState",
]


def _single(name: str, value: float) -> float:
    """A hyper-parameter as the float32 that NNabla keeps: `learning_rate()` of 0.001 gives 0.0010000000474974513.

    TypeError if it is no number.
    """
    try:
        number = None if isinstance(value, str) else float(value)
    except (TypeError, ValueError):
        number = None
    except OverflowError as error:
        raise ValueError(
            four_parts(f"solver, {name}={shortened(value)}", f"{error}", "", f"pass {name} as a float")
        ) from error
    if number is None:
        asked = f"solver, {name}={shortened(value)}"
        raise TypeError(four_parts(asked, "that is not a number", "", f"pass {name} as a number"))
    with np.errstate(over="ignore"):  # beyond float32 it is infinite
        return float(np.float32(number))


class Tracked:
    """One parameter with what the solver keeps for it.

    states: moving averages and the like, zero at first.  steps: how often it was updated.
    """

    __slots__ = ("states", "steps", "variable")

    def __init__(self, variable: Variable, state_count: int) -> None:
        self.variable = variable
        self.states = [ArrayCell(variable.size) for _ in range(state_count)]
        self.steps = 0

    @property
    def gradient(self) -> ArrayCell:
        """The cell of its gradient."""
        return self.variable.value.grad.cell


def take_back(parameters: Iterable[Tracked], times: int) -> None:
    """Count so many updates less: they failed."""
    for parameter in parameters:
        parameter.steps -= times


class Solver:
    """Base of all solvers. A subclass of your own, which has no update op, defines `update`.

    A parameter whose gradient was not written since `zero_grad` is skipped by every method. Parameters are updated
    in float32, also under a half Context, and in float64 where they hold float64.
    """

    _op: ClassVar[str] = ""  # of subclasses here
    _states: ClassVar[tuple[str, ...]] = ()  # names, those of NNabla, in the order of the op's arrays

    def __init__(self) -> None:
        self._parameters: dict[str, Tracked] = {}  # replaced, never changed
        self._plans = UpdatePlans()

    @property
    def name(self) -> str:
        """The class name."""
        return type(self).__name__

    @property
    def info(self) -> dict[str, float]:
        """Hyper-parameters by name."""
        return dict(self._hyper(Tracked(Variable(()), 0)))

    def setup(self, params: Mapping[str, Variable]) -> None:
        """Not part of the API any more; raises RuntimeError."""
        raise RuntimeError(four_parts("Solver.setup", "replaced long ago", "", "call set_parameters"))

    # Parameters.

    def set_parameters(
        self, param_dict: Mapping[str, Variable], reset: bool = True, retain_state: bool = False
    ) -> None:
        """Say which parameters to update.

        reset: forget those set before, with their states.
        retain_state: without reset, a parameter that takes the place of another of its name takes over its state;
            otherwise states start from zero.

        TypeError: not Variables by name.  ValueError, and nothing is changed: a state to be retained has another shape.
        """
        check_by_name(f"{self.name}.set_parameters", param_dict)
        before = self._parameters
        after = {} if reset else dict(before)
        for key, variable in param_dict.items():
            known = before.get(key)
            retained = known if retain_state and not reset else None
            if known is not None and known.variable == variable and (retained or not self._states):
                after[key] = known
                if retained is None:
                    known.steps = 0
            elif retained is not None:
                after[key] = self._successor(key, retained, variable)
            else:
                after[key] = Tracked(variable, len(self._states))
        if list(after.items()) != list(before.items()):
            self._parameters = after
            self._plans.clear()

    def _successor(self, key: str, known: Tracked, variable: Variable) -> Tracked:
        """What is kept for a Variable that takes the place of another one; ValueError if the state does not fit."""
        if variable.shape != known.variable.shape:
            raise RefusedError(
                four_parts(
                    f"{self.name}.set_parameters, {key!r}, retain_state=True",
                    f"the state is that of a parameter of shape {known.variable.shape}, this one has {variable.shape}",
                    "",
                    "use another name, or leave out retain_state",
                )
            )
        successor = Tracked(variable, 0)
        successor.states, successor.steps = known.states, known.steps
        return successor

    def remove_parameters(self, keys: Iterable[str]) -> None:
        """Stop updating the named parameters and forget their states; names of no parameter are passed over."""
        removed = frozenset(keys)
        self._parameters = {key: known for key, known in self._parameters.items() if key not in removed}
        self._plans.clear()

    def clear_parameters(self) -> None:
        """Stop updating all parameters and forget their states."""
        self._parameters = {}
        self._plans.clear()

    def get_parameters(self) -> dict[str, Variable]:
        """The parameters by name."""
        return {key: parameter.variable for key, parameter in self._parameters.items()}

    # States.

    def get_states(self) -> dict[str, SolverState]:
        """What is kept for each parameter, by its name; `pstate` holds the arrays themselves, not copies."""
        return {key: self._state(parameter) for key, parameter in self._parameters.items()}

    def set_states(self, states: Mapping[str, SolverState]) -> None:
        """Take over states, such as those of a training that was interrupted: values are copied, all or none.

        Parameters that are not named keep theirs. Call `set_parameters` before.

        TypeError: no mapping from names to states.  ValueError: states of an unknown parameter, of another class of
            solver, or of another shape.
        """
        from atled.files.solver_states import check  # with the formats of files, which few trainings need

        asked = f"{self.name}.set_states"
        check(asked, states, {key: p.variable.shape for key, p in self._parameters.items()}, self._states)
        for key, state in states.items():
            parameter = self._parameters[key]
            for name, variable in self._state(parameter).pstate.items():
                variable.data.copy_from(state.pstate[name].data)
            parameter.steps = int(state.t)

    def save_states(self, path: str | os.PathLike[str]) -> None:
        """Write all states to a file, `.h5` or `.protobuf`, as NNabla does; beside and renamed.

        ValueError: another suffix.  OSError: the file cannot be written.  ImportError: h5py or protobuf is missing.
        """
        from atled.files.solver_states import save  # as above

        save(f"{self.name}.save_states({os.fspath(path)!r})", path, self.get_states())

    def load_states(self, path: str | os.PathLike[str]) -> None:
        """Take over states from a file that `save_states` wrote, or NNabla; see `set_states`.

        ValueError: another suffix, a damaged file, or states that do not fit.  OSError: the file cannot be read.
        """
        from atled.files.solver_states import load  # as above

        self.set_states(load(f"{self.name}.load_states({os.fspath(path)!r})", path))

    def _state(self, parameter: Tracked) -> SolverState:
        from atled.files.solver_states import SolverState  # as above

        shape = parameter.variable.shape
        arrays = {
            name: Variable.on(Value(shape, False, data=NdArray.over(cell, shape)))
            for name, cell in zip(self._states, parameter.states, strict=True)
        }
        return SolverState(arrays, parameter.steps)

    # Gradients.

    def zero_grad(self) -> None:
        """Mark all gradients as not written and zero; the next backward overwrites them."""
        for gradient in self._gradients():
            gradient.zero()

    def update(self) -> None:
        """Move every parameter whose gradient was written; none, as in NNabla, where there is no such one.

        What fails, or is interrupted, has moved none of them or all: see `compile_step`.
        """
        gradients = self._gradients()
        # As a rule all were written, and wait for nothing: then there is no more to look at.
        ready = [cell.pending is None and not cell.zeroed for cell in gradients]
        if False in ready:
            active, gradients = self._written()
            waiting = any(cell.pending is not None for cell in gradients)
        else:
            active, waiting = list(self._parameters.values()), False
        progress = Progress()
        counted = 0
        interruption: BaseException | None = None
        try:
            for parameter in active:
                parameter.steps += 1
                counted += 1  # CPython looks for signals between two rounds of a loop
            if waiting:
                self._take_changes_in(active, progress)
            else:
                self._move(active, progress)
        except BaseException as error:
            if not progress.is_complete:
                take_back(active[:counted], 1)
                raise
            interruption = error
        if EXPECTING:
            places = {p.variable.value.data.cell.place for p in active}
            for failures in EXPECTING.intersection(place.failures for place in places):
                failures.remember(tuple(map(id, active)), partial(take_back, active))
        if interruption is not None:
            raise interruption

    def weight_decay(self, decay_rate: float) -> None:
        """Add `decay_rate * w` to the gradients; call it after backward and before update.

        As a rule it costs nothing but one more term in the update.
        """
        self._change("WeightDecay", _single("decay_rate", decay_rate))

    def scale_grad(self, scale: float) -> None:
        """Multiply the gradients by a number; as a rule it costs nothing but one more factor in the update."""
        self._change("ScaleGrad", _single("scale", scale))

    def clip_grad_by_norm(self, clip_norm: float) -> None:
        """Scale each gradient whose Euclidean norm is above `clip_norm` to that norm: `g *= clip_norm / |g|`.

        Each has a norm of its own. One that holds a NaN stays as it is; of one that holds an infinity, that becomes NaN
        and the rest 0.

        ValueError: clip_norm is not above 0.
        """
        limit = _single("clip_norm", clip_norm)
        if not limit > 0:
            asked = f"{self.name}.clip_grad_by_norm({clip_norm!r})"
            raise RefusedError(four_parts(asked, "the norm is not above 0", "", "use a number above 0"))
        values = [parameter.variable.value for parameter in self._active()]
        norms = norms_of([value.grad.cell for value in values])
        if any(norm > limit for norm in norms):
            factors = [limit / norm if norm > limit else 1.0 for norm in norms]
            scale_gradients(factors, values, context_in_force(), self._plans)

    def check_inf_grad(self) -> bool:
        """Whether any gradient holds an infinity."""
        return self._any_gradient(INF)

    def check_nan_grad(self) -> bool:
        """Whether any gradient holds a NaN."""
        return self._any_gradient(NAN)

    def check_inf_or_nan_grad(self) -> bool:
        """Whether any gradient holds an infinity or a NaN."""
        return self._any_gradient(INF_OR_NAN)

    def _any_gradient(self, test: Test) -> bool:
        return holds_any([parameter.gradient for parameter in self._active()], test)

    # Hyper-parameters.

    def learning_rate(self) -> float:
        """The present learning rate."""
        raise self._lacks("learning_rate")

    def set_learning_rate(self, learning_rate: float) -> None:
        """Change the learning rate."""
        raise self._lacks("set_learning_rate")

    def _hyper(self, parameter: Tracked) -> Mapping[str, float]:
        """The float attributes of the update op for one parameter."""
        return {}

    def _lacks(self, method: str) -> NotImplementedError:
        return NotImplementedError(
            four_parts(
                f"{self.name}.{method}",
                "the class does not define it, and has none from a solver of atled",
                "",
                f"define {method}, or begin with a solver such as Sgd; in update, arrays compute at once: "
                "w.data.copy_from(w.data - rate * w.grad)",
            )
        )

    # Execution.

    @property
    def update_op(self) -> str:
        """Name of the op that moves a parameter: of its array, its gradient and its states."""
        if not self._op:
            raise self._lacks("update")
        return self._op

    def tracked(self) -> list[Tracked]:
        """The parameters with what is kept for each."""
        return list(self._parameters.values())

    def hyper(self, parameter: Tracked) -> Mapping[str, float]:
        """The float attributes of the update op for a parameter at its present step."""
        return self._hyper(parameter)

    def _gradients(self) -> Sequence[ArrayCell]:
        """The cells of all gradients."""
        epoch, parameters, found = self._plans.gradients
        if epoch != EPOCH.value or parameters is not self._parameters:
            epoch, parameters = EPOCH.value, self._parameters  # before the look
            found = [parameter.gradient for parameter in parameters.values()]
            self._plans.gradients = epoch, parameters, found
        return found

    def _written(self) -> tuple[list[Tracked], Sequence[ArrayCell]]:
        """The parameters whose gradients were written, and the cells of these."""
        gradients = self._gradients()
        # As a rule without a call.
        written = [(cell.pending is None and not cell.zeroed) or cell.is_written for cell in gradients]
        active = list(compress(self._parameters.values(), written))
        return active, gradients if all(written) else list(compress(gradients, written))

    def _active(self) -> list[Tracked]:
        return self._written()[0]

    def _change(self, op: str, value: float) -> None:
        """Change all gradients that were written, before they are read the next time."""
        values = [parameter.variable.value for parameter in self._active()]
        if values:
            change_gradients(Change(op, value), values, context_in_force(), self._plans)

    def _take_changes_in(self, active: Sequence[Tracked], progress: Progress) -> None:
        """Update from gradients some of which wait for changes: in the same pass, if all wait for the same ones."""
        values = [parameter.variable.value for parameter in active]
        gradients = [value.grad.cell for value in values]
        with PLANNING:  # others who look at a gradient must see it before or after all this
            waiting = common_changes(values, gradients, context_in_force())
            if waiting is not None:
                with waiting.taken(gradients, progress):
                    self._move(active, progress, waiting.changes)
                return
            for cell in gradients:
                cell.settle()
        self._move(active, progress)

    def _move(self, active: Sequence[Tracked], progress: Progress, changes: Sequence[Change] = ()) -> None:
        """Run the update op on every parameter, after changes of its gradient."""
        if not active:
            return
        names = SPECS[self.update_op].float_names
        given = [change.value for change in changes]
        by_steps: dict[int, list[float]] = {}  # the same for all parameters that have moved equally often
        for parameter in {parameter.steps: parameter for parameter in active}.values():
            hyper = self._hyper(parameter)
            by_steps[parameter.steps] = [*given, *(hyper[name] for name in names)]
        if len(by_steps) == 1:
            (floats,) = by_steps.values()
        else:
            floats = [number for parameter in active for number in by_steps[parameter.steps]]

        def arrays() -> list[Updated]:
            return [Updated(p.variable.shape, (p.variable.value.data.cell, p.gradient, *p.states)) for p in active]

        ops = [*(change.op for change in changes), self.update_op]
        identities = self._plans.identities(active)
        run_updates(ops, identities, arrays, floats, context_in_force(), self._plans, progress)

    def __getstate__(self) -> dict[str, Any]:
        """For pickle and `copy`: a solver without parameters is one with hyper-parameters of its own.

        TypeError: it has parameters; a copy would move others.
        """
        if self._parameters:
            raise TypeError(
                four_parts(
                    f"a pickle or a copy by `copy` of {self!r}",
                    "it moves parameters and keeps states of them, of which a copy would have others",
                    "solvers without parameters are pickled and copied",
                    "make another solver, and give it its parameters by set_parameters; save_states and load_states, "
                    "or get_states and set_states, take the states over",
                )
            )
        own = {name: value for name, value in vars(self).items() if name not in ("_parameters", "_plans")}
        return copy.deepcopy(own)

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        Solver.__init__(self)
        vars(self).update(state)

    def __repr__(self) -> str:
        return f"<{self.name} {self.info} on {len(self._parameters)} parameters>"


class _WithLearningRate(Solver):
    """Solvers whose learning rate is called lr."""

    def __init__(self, lr: float, **others: float) -> None:
        super().__init__()
        self._values = {name: _single(name, value) for name, value in {"lr": lr, **others}.items()}

    def learning_rate(self) -> float:
        return self._values["lr"]

    def set_learning_rate(self, learning_rate: float) -> None:
        self._values["lr"] = _single("learning_rate", learning_rate)

    def _hyper(self, parameter: Tracked) -> Mapping[str, float]:
        return self._values


class Sgd(_WithLearningRate):
    """Stochastic gradient descent: `w -= lr g`."""

    _op = "SgdUpdate"

    def __init__(self, lr: float = 1e-3) -> None:
        super().__init__(lr)


class Momentum(_WithLearningRate):
    """Gradient descent with momentum: `v = momentum v + lr g; w -= v`."""

    _op = "MomentumUpdate"
    _states = ("m",)

    def __init__(self, lr: float = 1e-3, momentum: float = 0.9) -> None:
        super().__init__(lr, momentum=momentum)


class Nesterov(_WithLearningRate):
    """Nesterov's accelerated gradient: `u = v; v = momentum v - lr g; w += -momentum u + (1 + momentum) v`."""

    _op = "NesterovUpdate"
    _states = ("m",)

    def __init__(self, lr: float = 1e-3, momentum: float = 0.9) -> None:
        super().__init__(lr, momentum=momentum)


class Adadelta(_WithLearningRate):
    """Zeiler 2012: `E = decay E + (1-decay) g^2; d = sqrt((D+eps)/(E+eps)) g; D likewise of d; w -= lr d`."""

    _op = "AdadeltaUpdate"
    _states = ("e_sqr_grad", "e_sqr_delta")

    def __init__(self, lr: float = 1.0, decay: float = 0.95, eps: float = 1e-6) -> None:
        super().__init__(lr, decay=decay, eps=eps)


class Adagrad(_WithLearningRate):
    """Duchi et al. 2011: `G += g^2; w -= lr g / (sqrt(G) + eps)`."""

    _op = "AdagradUpdate"
    _states = ("v",)

    def __init__(self, lr: float = 1e-2, eps: float = 1e-8) -> None:
        super().__init__(lr, eps=eps)


class RMSprop(_WithLearningRate):
    """Tieleman and Hinton 2012: `E = decay E + (1-decay) g^2; w -= lr g / (sqrt(E) + eps)`."""

    _op = "RMSpropUpdate"
    _states = ("v",)

    def __init__(self, lr: float = 1e-3, decay: float = 0.9, eps: float = 1e-8) -> None:
        super().__init__(lr, decay=decay, eps=eps)


class _WithMoments(Solver):
    """Solvers of the Adam family, whose step size alpha carries a bias factor that depends on the step."""

    def __init__(self, alpha: float, beta1: float, beta2: float, eps: float) -> None:
        super().__init__()
        self._alpha = _single("alpha", alpha)
        self._betas = {name: _single(name, value) for name, value in (("beta1", beta1), ("beta2", beta2), ("eps", eps))}
        for name in ("beta1", "beta2"):
            if not 0 <= self._betas[name] < 1:
                raise ValueError(
                    four_parts(
                        f"solver, {name}={self._betas[name]}",
                        "a moving average has a factor of 0 or more and below 1",
                        "",
                        f"use 0 <= {name} < 1, such as 0.9 or 0.999",
                    )
                )

    def learning_rate(self) -> float:
        return self._alpha

    def set_learning_rate(self, learning_rate: float) -> None:
        self._alpha = _single("learning_rate", learning_rate)

    @property
    def info(self) -> dict[str, float]:
        """Hyper-parameters by name."""
        return {"alpha": self._alpha, **self._betas}

    def _bias_factor(self, step: int) -> float:
        return math.sqrt(1 - self._betas["beta2"] ** step) / (1 - self._betas["beta1"] ** step)

    def _hyper(self, parameter: Tracked) -> Mapping[str, float]:
        return {"alpha_t": self._alpha * self._bias_factor(parameter.steps), **self._betas}


class Adam(_WithMoments):
    """Kingma and Ba 2015: `w -= alpha sqrt(1-beta2^t)/(1-beta1^t) m / (sqrt(v) + eps)`; m, v average g, g^2."""

    _op = "AdamUpdate"
    _states = ("mean", "var")

    def __init__(self, alpha: float = 1e-3, beta1: float = 0.9, beta2: float = 0.999, eps: float = 1e-8) -> None:
        super().__init__(alpha, beta1, beta2, eps)


class Adamax(_WithMoments):
    """Kingma and Ba 2015, section 7: `u = max(beta2 u, |g|); w -= alpha/(1-beta1^t) m / (u + eps)`."""

    _op = "AdamaxUpdate"
    _states = ("m", "u")

    def __init__(self, alpha: float = 2e-3, beta1: float = 0.9, beta2: float = 0.999, eps: float = 1e-8) -> None:
        super().__init__(alpha, beta1, beta2, eps)

    def _bias_factor(self, step: int) -> float:
        return 1 / (1 - self._betas["beta1"] ** step)


class AMSGRAD(_WithMoments):
    """Reddi et al. 2018: Adam with the running maximum of v; without bias correction unless asked for."""

    _op = "AMSGRADUpdate"
    _states = ("m", "v", "v_hat")

    def __init__(
        self,
        alpha: float = 1e-3,
        beta1: float = 0.9,
        beta2: float = 0.999,
        eps: float = 1e-8,
        bias_correction: bool = False,
    ) -> None:
        super().__init__(alpha, beta1, beta2, eps)
        self._bias_correction = bool(bias_correction)

    @property
    def info(self) -> dict[str, float]:
        """Hyper-parameters by name."""
        return {**super().info, "bias_correction": self._bias_correction}

    def _bias_factor(self, step: int) -> float:
        return super()._bias_factor(step) if self._bias_correction else 1.0


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name != "SolverState":
        raise no_such(__name__, "solver", name, __all__)
    from atled.files.solver_states import SolverState  # as above

    return SolverState
