"""Optimizer, and what those have in common that update each parameter by a rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from atled.errors import four_parts, shortened
from atled.neon.nervana_object import NervanaObject
from atled.neon.optimizers.checks import check_finite, check_positive, refused_layer
from atled.neon.optimizers.programs import Group, Parameter, Programs
from atled.neon.optimizers.schedules import Schedule


class Optimizer(NervanaObject):
    """Changes the parameters of layers, given their gradients."""

    def optimize(self, layer_list: Sequence[Any], epoch: int) -> None:
        """Change the parameters of layers.  NotImplementedError: the class has no way to.

        layer_list: layers, whose `get_params` gives ((parameter, gradient), states), a list of such, or ().
        epoch: from 0 on.
        """
        name = self.classnm
        remedy = f"define optimize in {name}, or use GradientDescentMomentum"
        raise NotImplementedError(four_parts(f"optimize of {name}", "the class has no such method", "", remedy))

    @classmethod
    def gen_class(cls, pdict: dict[str, Any]) -> Any:
        """An object of the class, with the schedule that its description describes."""
        given = dict(pdict)
        if "schedule" in given:
            cls.recursive_gen(given, "schedule")
        return cls(**given)


def get_param_list(layer_list: Sequence[Any]) -> list[Parameter]:
    """((parameter, gradient), states) of all parameters of layers, in their order.

    TypeError: one that has no `get_params`.
    """
    found: list[Parameter] = []
    for layer in layer_list:
        try:
            get_params = layer.get_params
        except AttributeError:
            raise refused_layer("get_param_list", layer) from None
        parameters = get_params()
        if type(parameters) is list:
            found += parameters
        elif parameters:
            found.append(parameters)
    return found


class RuleOptimizer(Optimizer):
    """Updates each parameter by itself, by a rule, all of them by one program, or none.

    Of the gradients, which sum over the batch, it takes the means: divided by `be.bsz`. They are then clipped by their
    norm, and then by value, before the rule sees them. States are appended to the list of a parameter at its first
    step. Attributes may be changed between steps.

    gradient_clip_norm: largest norm of all gradients of a call together; None for any.
    gradient_clip_value: largest absolute value of a gradient's elements.  param_clip_value: of a parameter's.
    stochastic_round: for programs that read it; no effect.
    schedule: what gives the rate of an epoch: a `get_learning_rate(learning_rate, epoch)`.
    """

    state_count = 0

    def __init__(
        self,
        name: str | None,
        learning_rate: float,
        stochastic_round: Any = False,
        gradient_clip_norm: float | None = None,
        gradient_clip_value: float | None = None,
        param_clip_value: float | None = None,
        schedule: Any = None,
    ) -> None:
        super().__init__(name)
        clips = {
            "gradient_clip_norm": gradient_clip_norm,
            "gradient_clip_value": gradient_clip_value,
            "param_clip_value": param_clip_value,
        }
        check_finite(self.classnm, learning_rate=learning_rate)
        check_positive(self.classnm, **{of: clip for of, clip in clips.items() if clip is not None})
        if schedule is not None and not callable(getattr(schedule, "get_learning_rate", None)):
            asked = f"{self.classnm} with schedule={shortened(schedule)}"
            wrong = f"{type(schedule).__name__} has no get_learning_rate"
            raise TypeError(four_parts(asked, wrong, "", "pass a Schedule, such as Schedule([10, 20], 0.1)"))
        self.learning_rate = learning_rate
        self.stochastic_round = stochastic_round
        self.gradient_clip_norm = gradient_clip_norm
        self.gradient_clip_value = gradient_clip_value
        self.param_clip_value = param_clip_value
        self.schedule = Schedule() if schedule is None else schedule
        self._programs = Programs()

    def optimize(self, layer_list: Sequence[Any], epoch: int) -> None:
        """Update the parameters of layers. Where it fails, parameters and states are as they were.

        TypeError: one that is no layer.  ValueError: one that was not allocated, whose parameters are gone with their
        backend, or have states of another optimizer; a backend without a batch size.
        """
        self._programs.step(self._present, [self.group(layer_list)], epoch)
        self.stepped()

    def group(self, layer_list: Sequence[Any]) -> Group:
        """The parameters of layers, for this rule."""
        return Group(self, get_param_list(layer_list), layer_list)

    def stepped(self) -> None:
        """Take note that a step was made."""

    def rate(self, epoch: int) -> float:
        """The learning rate of an epoch."""
        return float(self.schedule.get_learning_rate(self.learning_rate, epoch))

    def numbers(self, epoch: int) -> dict[str, float]:
        """What may be another number in each step: of all rules; each adds its own."""
        batch = self._present.bsz
        if not batch > 0:
            remedy = "pass batch_size to gen_backend, or set be.bsz"
            raise ValueError(four_parts(f"optimize of {self.classnm} {self.name}", "be.bsz is 0", "", remedy))
        found = {"batch": float(batch)}
        if self.gradient_clip_norm is not None:
            found["clip_norm"] = float(self.gradient_clip_norm)
        if self.gradient_clip_value is not None:
            found["lowest_gradient"] = -float(self.gradient_clip_value)
            found["highest_gradient"] = float(self.gradient_clip_value)
        if self.param_clip_value is not None:
            found["lowest"] = -float(self.param_clip_value)
            found["highest"] = float(self.param_clip_value)
        return found

    def gradients(self, gradients: Sequence[Any], n: Mapping[str, Any]) -> list[Any]:
        """Means over the batch, clipped."""
        be = self._present
        means = [g / n["batch"] for g in gradients]
        if "clip_norm" in n and means:
            squares = be.sum(be.square(means[0]))
            for each in means[1:]:
                squares = squares + be.sum(be.square(each))
            factor = n["clip_norm"] / be.maximum(be.sqrt(squares), n["clip_norm"])
            means = [factor * each for each in means]
        if "lowest_gradient" in n:
            means = [be.clip(each, n["lowest_gradient"], n["highest_gradient"]) for each in means]
        return means

    def updated(self, p: Any, g: Any, states: Sequence[Any], n: Mapping[str, Any]) -> tuple[Any, Sequence[Any]]:
        """Op-trees of the new parameter, clipped, and of its new states."""
        new, new_states = self.update(p, g, states, n)
        return (self._present.clip(new, n["lowest"], n["highest"]) if "lowest" in n else new), new_states

    def update(self, p: Any, g: Any, states: Sequence[Any], n: Mapping[str, Any]) -> tuple[Any, Sequence[Any]]:
        """The rule."""
        wrong, remedy = "the class has no such method", f"define the rule in {self.classnm}"
        raise NotImplementedError(four_parts(f"update of {self.classnm}", wrong, "", remedy))

    def refused(self, layers: Sequence[Any], parameter: Any, wrong: str, remedy: str) -> ValueError:
        """The error of a parameter; it names its layer."""
        asked = f"optimize of {self.classnm} {self.name}"
        for layer in layers:
            if any(each[0][0] is parameter for each in get_param_list([layer])):
                asked += f": a parameter of layer {getattr(layer, 'name', type(layer).__name__)!r}"
                break
        return ValueError(four_parts(asked, wrong, "", remedy))
