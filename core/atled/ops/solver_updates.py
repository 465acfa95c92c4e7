"""Update rules of the solvers: elementwise programs that change weight, gradient and state in place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from atled.array_desc import ArrayDesc
from atled.ops.elementwise import MakeData, ProgramOp, within
from atled.ops.formula import Program
from atled.ops.samples import Normal, Refused, Sample
from atled.ops.spec import Attribute, Input, register


class Update(ProgramOp, abstract=True):
    """An update of arrays of equal shape and dtype in place.

    updates: for each array that changes, its name and its new value; every formula sees the old values.
    lets: values that several formulas share.
    """

    no_gradient = "raises"

    def __init__(
        self,
        name: str,
        inputs: Sequence[str],
        attributes: Sequence[str],
        updates: Mapping[str, str],
        lets: Sequence[tuple[str, str]] = (),
        *,
        doc: str,
        data: Mapping[str, MakeData] | None = None,
        tried: Mapping[str, float],
    ) -> None:
        vars(self).update(category="solver")  # by `vars`: category is a class variable elsewhere
        self.inputs = tuple(Input(x, gradient="none") for x in inputs)
        self.attributes = tuple(Attribute(attribute, "float") for attribute in attributes)
        self.outputs = tuple(updates)
        self.inplace = {output: inputs.index(x) for output, x in enumerate(updates)}
        self.updates = dict(updates)
        self.lets = tuple(lets)
        self.data = data or {}
        self.tried = tried
        super().__init__(name, self._describe_rule(doc))

    @cached_property
    def program(self) -> Program:  # type: ignore[override]  # computed, because tables must import quickly
        return Program(self.input_names, self.float_names, tuple(self.updates.items()), self.lets)

    def infer(self, *inputs: ArrayDesc, **attributes: Any) -> Sequence[ArrayDesc]:
        if any(x != inputs[0] for x in inputs):
            listed = ", ".join(map(repr, inputs))
            raise self.error(inputs, f"the arrays differ: {listed}", "give all the same shape and dtype")
        return tuple(inputs[position] for position in self.inplace.values())

    def _describe_rule(self, doc: str) -> str:
        rules = [f"    {name} = {formula}" for name, formula in (*self.lets, *self.updates.items())]
        arguments = [
            f"    {', '.join(x.name for x in self.inputs)}: (...) float, all of one shape and dtype.",
            f"    {', '.join(attribute.name for attribute in self.attributes)}: float.",
        ]
        returns = [f"    {', '.join(self.updates)}: (...) float; the inputs of these names, changed in place."]
        raises = ["    ValueError: shapes or dtypes differ."]
        return "\n".join([doc, "", *rules, "", "Args:", *arguments, "", "Returns:", *returns, "", "Raises:", *raises])

    def samples(self) -> Sequence[Sample]:
        shapes: tuple[tuple[int, ...], ...] = ((3, 4), (), (0,), (5, 67))
        return tuple(
            Sample(*(self.data.get(x, Normal)(shape) for x in self.input_names), **self.tried).no_gradient()
            for shape in shapes
        )

    def refused(self) -> Sequence[Refused]:
        good = [(3, 4)] * len(self.inputs)
        name = self.attributes[-1].name
        refused = [Refused(TypeError, name, *good, **{**self.tried, name: "much"})]
        if len(good) > 1:
            refused.append(Refused(ValueError, "the arrays differ", *good[1:], (1, 4), **self.tried))
        return refused


_SQUARES = within(0.1, 2.0)
_BETAS = ("beta1", "beta2", "eps")
_MOMENTS = (("m_next", "beta1 * m + (1 - beta1) * g"), ("v_next", "beta2 * v + (1 - beta2) * g * g"))

UPDATES = (
    Update(
        "SgdUpdate", ("w", "g"), ("lr",), {"w": "w - lr * g"},
        doc="Stochastic gradient descent.", tried={"lr": 0.1},
    ),
    Update(
        "MomentumUpdate", ("w", "g", "v"), ("lr", "momentum"), {"w": "w - v_next", "v": "v_next"},
        (("v_next", "momentum * v + lr * g"),),
        doc="Gradient descent with momentum. Source: Polyak 1964.", tried={"lr": 0.1, "momentum": 0.9},
    ),
    Update(
        "NesterovUpdate", ("w", "g", "v"), ("lr", "momentum"),
        {"w": "w - momentum * v + (1 + momentum) * v_next", "v": "v_next"},
        (("v_next", "momentum * v - lr * g"),),
        doc="Gradient descent with Nesterov's momentum.", tried={"lr": 0.1, "momentum": 0.9},
    ),
    Update(
        "AdadeltaUpdate", ("w", "g", "e", "d"), ("lr", "decay", "eps"),
        {"w": "w - lr * step", "e": "e_next", "d": "decay * d + (1 - decay) * step * step"},
        (("e_next", "decay * e + (1 - decay) * g * g"), ("step", "sqrt((d + eps) / (e_next + eps)) * g")),
        doc="Adadelta; e and d are moving averages of squared gradients and steps. Source: Zeiler, arXiv 1212.5701.",
        data={"e": _SQUARES, "d": _SQUARES}, tried={"lr": 1.0, "decay": 0.95, "eps": 1e-6},
    ),
    Update(
        "AdagradUpdate", ("w", "g", "v"), ("lr", "eps"), {"w": "w - lr * g / (sqrt(v_next) + eps)", "v": "v_next"},
        (("v_next", "v + g * g"),),
        doc="Adagrad; v is the sum of squared gradients. Source: Duchi, Hazan, Singer, JMLR 2011.",
        data={"v": _SQUARES}, tried={"lr": 0.1, "eps": 1e-8},
    ),
    Update(
        "RMSpropUpdate", ("w", "g", "v"), ("lr", "decay", "eps"),
        {"w": "w - lr * g / (sqrt(v_next) + eps)", "v": "v_next"},
        (("v_next", "decay * v + (1 - decay) * g * g"),),
        doc="RMSprop; v is the moving average of squared gradients. Source: Tieleman, Hinton 2012.",
        data={"v": _SQUARES}, tried={"lr": 0.1, "decay": 0.9, "eps": 1e-8},
    ),
    Update(
        "AdamUpdate", ("w", "g", "m", "v"), ("alpha_t", *_BETAS),
        {"w": "w - alpha_t * m_next / (sqrt(v_next) + eps)", "m": "m_next", "v": "v_next"}, _MOMENTS,
        doc="Adam; alpha_t = alpha sqrt(1 - beta2^t) / (1 - beta1^t). Source: Kingma, Ba, ICLR 2015, end of section 2.",
        data={"v": _SQUARES}, tried={"alpha_t": 0.1, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8},
    ),
    Update(
        "AdamaxUpdate", ("w", "g", "m", "u"), ("alpha_t", *_BETAS),
        {"w": "w - alpha_t * m_next / (u_next + eps)", "m": "m_next", "u": "u_next"},
        (_MOMENTS[0], ("u_next", "maximum(beta2 * u, abs(g))")),
        doc="Adamax; alpha_t = alpha / (1 - beta1^t). Source: Kingma, Ba, ICLR 2015, section 7.1.",
        data={"u": _SQUARES}, tried={"alpha_t": 0.1, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8},
    ),
    Update(
        "AMSGRADUpdate", ("w", "g", "m", "v", "v_max"), ("alpha_t", *_BETAS),
        {"w": "w - alpha_t * m_next / (sqrt(v_max_next) + eps)", "m": "m_next", "v": "v_next", "v_max": "v_max_next"},
        (*_MOMENTS, ("v_max_next", "maximum(v_max, v_next)")),
        doc="AMSGRAD; v_max is the largest v so far. Source: Reddi, Kale, Kumar, ICLR 2018.",
        data={"v": _SQUARES, "v_max": _SQUARES}, tried={"alpha_t": 0.1, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8},
    ),
    Update(
        "WeightDecay", ("w", "g"), ("rate",), {"g": "g + rate * w"},
        doc="Weight decay: adds the gradient of rate / 2 * |w|^2.", tried={"rate": 0.1},
    ),
    Update("ScaleGrad", ("g",), ("scale",), {"g": "scale * g"}, doc="Scales a gradient.", tried={"scale": 0.1}),
)  # fmt: skip  # a table, with the formulas side by side

for _update in UPDATES:
    register(_update)
