"""Kullback-Leibler divergence of multinomial distributions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from atled.array_desc import ArrayDesc
from atled.ops.axes import base_axis_from_front
from atled.ops.elementwise import Row, define, within
from atled.ops.samples import Exact, Refused, Sample, Uniform
from atled.ops.spec import Attribute, Input, OpSpec

if TYPE_CHECKING:
    from atled.ops.rules import GradientCall, IRValue

_PROBABILITY = within(0.1, 1.0)

# 1e-8 keeps the logarithm of a probability of 0 finite.
define(
    __name__,
    "loss",
    (
        Row(
            "KLMultinomialTerm", "", "p * (log(p + 1e-8) - log(q + 1e-8))",
            {"p": "gy * (log(p + 1e-8) - log(q + 1e-8) + p / (p + 1e-8))", "q": "-gy * p / (q + 1e-8)"},
            doc="What one outcome adds to the divergence of p from q.", data={"p": _PROBABILITY, "q": _PROBABILITY},
        ),
    ),
)  # fmt: skip  # a table, with the formulas side by side


class KLMultinomial(OpSpec):
    """Kullback-Leibler divergence of multinomial distributions: `D = sum(p (log(p + 1e-8) - log(q + 1e-8)))`.

    The sum is over the axes from base_axis on; they are not checked to be distributions.

    Args:
        p, q: (B..., I...) float, same shape; probabilities, base_axis leading axes B.
        base_axis: how many leading axes count as the batch; negative counts from the end.

    Returns:
        D: (B..., 1) float.

    Raises:
        ValueError: p and q differ in shape, base_axis is out of range.
    """

    function = "kl_multinomial"
    category = "loss"
    inputs = (Input("p"), Input("q"))
    attributes = (Attribute("base_axis", "int", 1),)
    outputs = ("D",)

    def normalize(self, attributes: dict[str, Any], *inputs: Any) -> dict[str, Any]:
        return {"base_axis": base_axis_from_front(self, attributes, inputs)}

    def infer(self, p: ArrayDesc, q: ArrayDesc, *, base_axis: int) -> ArrayDesc:
        if p.shape != q.shape:
            raise self.error((p, q), "p and q differ in shape", "give them the same shape")
        return ArrayDesc((*p.shape[:base_axis], 1), p.dtype)

    def reference(self, p: np.ndarray, q: np.ndarray, *, base_axis: int) -> np.ndarray:
        # In float64: the terms of near distributions cancel.
        p, q, dtype = p.astype(np.float64), q.astype(np.float64), p.dtype
        terms = p * (np.log(p + 1e-8) - np.log(q + 1e-8))
        total = terms.reshape(math.prod(p.shape[:base_axis]), math.prod(p.shape[base_axis:])).sum(axis=1)
        return total.reshape(*p.shape[:base_axis], 1).astype(dtype)

    def gradient(self, g: GradientCall, p: IRValue, q: IRValue, *, base_axis: int) -> Sequence[IRValue | None]:
        def build(c: GradientCall, p: IRValue, q: IRValue) -> IRValue:
            total = c.op("Sum", c.op("KLMultinomialTerm", p, q), axes=tuple(range(base_axis, p.ndim)))
            return c.reshape(total, (*p.shape[:base_axis], 1))

        return g.by_composition(build)

    def samples(self) -> Sequence[Sample]:
        def probabilities(*shape: int) -> Uniform:
            return Uniform(shape, 0.1, 1.0)

        return (
            Sample(probabilities(3, 4), probabilities(3, 4)),
            Sample(probabilities(2, 3, 4), probabilities(2, 3, 4)),
            Sample(probabilities(2, 3, 4), probabilities(2, 3, 4), base_axis=2),
            Sample(probabilities(2, 3, 4), probabilities(2, 3, 4), base_axis=-3),
            Sample(probabilities(5), probabilities(5), base_axis=0),
            Sample(probabilities(0, 3), probabilities(0, 3)),
            Sample(probabilities(3, 0), probabilities(3, 0)),
            Sample(Exact([[0.0, 0.25, 0.75]]), Exact([[0.5, 0.0, 0.5]])).no_gradient(),
            Sample(probabilities(7, 130), probabilities(7, 130)).no_gradient(),
        )

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "differ in shape", (3, 4), (3, 1)),
            Refused(ValueError, "base_axis=2 is out of range", (3, 4), (3, 4), base_axis=2),
            Refused(ValueError, "without axes", (), ()),
            Refused(TypeError, "base_axis", (3, 4), (3, 4), base_axis=0.5),
        )
