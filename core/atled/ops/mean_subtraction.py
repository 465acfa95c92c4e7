"""Mean subtraction: input minus its running mean."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from atled.array_desc import ArrayDesc
from atled.ops.axes import base_axis_from_front
from atled.ops.samples import Exact, Refused, Sample
from atled.ops.spec import Attribute, Input, OpSpec

if TYPE_CHECKING:
    from atled.ops.rules import GradientCall, IRValue


class MeanSubtraction(OpSpec):
    """Input minus its running mean: `y = x - mean`.

    With update_running_mean the mean moves first: `mean <- mean + (m - mean) / (t + 1)` and then `t <- t + 1`, with m
    the mean of x over the axes before base_axis, N elements of x for each of m. So after t calls on equally large
    batches it is the mean of all of them.

    The gradient is `gx = gy (1 - 1 / (t N))` with t as the call left it, `gx = gy` without the update. As in NNabla,
    it counts the effect that an element has on itself through the mean, not that on the other elements.

    Args:
        x: (B..., S...) float; base_axis leading axes B are averaged over.
        mean: (S...) float; running mean, changed in place with update_running_mean; float32 under half. It gets no
            gradient.
        t: (1,) whole number, or another shape of one element; how many calls the mean is made of, changed in place
            with update_running_mean.
        base_axis: how many leading axes of x count as the batch; negative counts from the end.
        update_running_mean: whether mean and t move.

    Returns:
        y: shape of x, float.
        scale: (1...) float, auxiliary; as many axes as x; what the gradient multiplies gy with.

    Raises:
        ValueError: mean has not the shape S, t is not one number, base_axis is out of range, an empty batch with
            update_running_mean.
    """

    function = "mean_subtraction"
    category = "normalization"
    inputs = (Input("x"), Input("mean", kind="precise", gradient="none"), Input("t", kind="index", gradient="none"))
    attributes = (Attribute("base_axis", "int", 1), Attribute("update_running_mean", "bool", True))
    outputs = ("y", "scale")
    auxiliary = ("scale",)
    mutates = ("mean", "t")
    mutates_if = "update_running_mean"

    def normalize(self, attributes: dict[str, Any], *inputs: Any) -> dict[str, Any]:
        return {**attributes, "base_axis": base_axis_from_front(self, attributes, inputs)}

    def infer(
        self, x: ArrayDesc, mean: ArrayDesc, t: ArrayDesc, *, base_axis: int, update_running_mean: bool
    ) -> Sequence[ArrayDesc]:
        inputs = (x, mean, t)
        if mean.shape != x.shape[base_axis:]:
            raise self.error(inputs, f"mean has shape {list(mean.shape)}", f"use {list(x.shape[base_axis:])}")
        if t.size != 1:
            raise self.error(inputs, f"t has {t.size} elements", "use one number, such as shape (1,)")
        if update_running_mean and not math.prod(x.shape[:base_axis]):
            raise self.error(inputs, "an empty batch has no mean", "use update_running_mean=False or a full batch")
        return x, ArrayDesc((1,) * x.ndim, x.dtype)

    def reference(
        self, x: np.ndarray, mean: np.ndarray, t: np.ndarray, *, base_axis: int, update_running_mean: bool
    ) -> Sequence[np.ndarray]:
        scale = np.ones((1,) * x.ndim, x.dtype)
        if update_running_mean:
            batch = tuple(range(base_axis))
            t += 1
            # Summed in float64: the mean of a large batch must not depend on the order of the sum.
            mean += (x.mean(axis=batch, dtype=np.float64) - mean) / t.item()
            scale -= 1 / (t.item() * math.prod(x.shape[:base_axis]))
        return x - mean, scale

    def gradient(
        self, g: GradientCall, x: IRValue, mean: IRValue, t: IRValue, *, update_running_mean: bool, **_: Any
    ) -> Sequence[IRValue | None]:
        if g.cotangents[0] is None:
            return None, None, None  # only scale was used, which does not depend on x
        return (g.gy * g.outputs[1] if update_running_mean else g.gy), None, None

    def samples(self) -> Sequence[Sample]:
        return (
            Sample((4, 3, 2), (3, 2), Exact([0])).no_gradient(),
            Sample((4, 3, 2), (3, 2), Exact([5])).no_gradient(),
            Sample((4, 3, 2), (3, 2), Exact([5]), update_running_mean=False),
            Sample((4, 3, 2), (2,), Exact(1), base_axis=2).no_gradient(),
            Sample((4, 3, 2), (2,), Exact([[1]]), base_axis=-1).no_gradient(),
            Sample((4, 3), (4, 3), Exact([2]), base_axis=0).no_gradient(),
            Sample((5,), (5,), Exact([2]), base_axis=0, update_running_mean=False),
            Sample((0, 3), (3,), Exact([2]), update_running_mean=False),
            Sample((4, 0), (0,), Exact([2])).no_gradient(),
            Sample((33, 7, 9), (7, 9), Exact([3])).no_gradient(),
        )

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "mean has shape", (4, 3, 2), (6,), Exact([0])),
            Refused(ValueError, "t has 2 elements", (4, 3, 2), (3, 2), Exact([0, 0])),
            Refused(ValueError, "base_axis=3 is out of range", (4, 3, 2), (3, 2), Exact([0]), base_axis=3),
            Refused(ValueError, "an empty batch", (0, 3), (3,), Exact([0])),
            Refused(ValueError, "without axes", (), (), Exact([0])),
        )
