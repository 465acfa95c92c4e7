"""Scaling to a norm, and ops that pass their input on and clip the gradient that comes back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from atled.array_desc import ArrayDesc
from atled.ops.reduction import canonical_axes
from atled.ops.samples import Exact, Refused, Sample, Uniform
from atled.ops.spec import Attribute, Input, OpSpec

if TYPE_CHECKING:
    from atled.ops.rules import GradientCall, IRValue


class ClipGradByValue(OpSpec):
    """A copy whose gradient is clipped element by element: max where gy is above max, else `maximum(gy, min)`.

    Args:
        x: (...) float.
        min: (...) float; least gradient; broadcasts to the shape of x. It gets no gradient.
        max: (...) float; largest gradient, likewise.

    Returns:
        y: shape of x, float.

    Raises:
        ValueError: min or max does not broadcast to the shape of x.
    """

    function = "clip_grad_by_value"
    category = "normalization"
    inputs = (Input("x"), Input("min", gradient="none"), Input("max", gradient="none"))

    def infer(self, x: ArrayDesc, min: ArrayDesc, max: ArrayDesc) -> ArrayDesc:
        for name, bound in (("min", min), ("max", max)):
            if not _broadcasts(bound.shape, x.shape):
                raise self.error(
                    (x, min, max), f"{name} has shape {list(bound.shape)}", f"use {list(x.shape)}, or 1 on some axes"
                )
        return x

    def reference(self, x: np.ndarray, min: np.ndarray, max: np.ndarray) -> np.ndarray:
        return x.copy()

    def gradient(self, g: GradientCall, x: IRValue, min: IRValue, max: IRValue) -> Sequence[IRValue | None]:
        # The bounds get no gradient of gradients either.
        low, high = g.op("Unlink", min), g.op("Unlink", max)
        # No minimum of a maximum: where min is above max, only a gradient above max becomes max, as in NNabla.
        return g.op("SelectBySign", g.gy - high, high, -g.op("Maximum2", g.gy, low)), None, None

    def samples(self) -> Sequence[Sample]:
        def low(shape: tuple[int, ...]) -> Uniform:
            return Uniform(shape, -200.0, -100.0)

        def high(shape: tuple[int, ...]) -> Uniform:
            return Uniform(shape, 100.0, 200.0)

        # Far bounds, which leave the gradient as it is, can be compared with finite differences.
        return (
            Sample((3, 4), low((3, 4)), high((3, 4))),
            Sample((2, 3, 4), low((1, 3, 1)), high((1, 1, 1))),
            Sample((3, 4), low((4,)), high(())),
            Sample((), low(()), high(())),
            Sample((0, 3), low((0, 3)), high((1, 3))),
            Sample((3, 4), Uniform((3, 4), -0.5, 0.0), Uniform((3, 4), 0.0, 0.5)).no_gradient(),
        )

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "min has shape", (3, 4), (3, 5), (3, 4)),
            Refused(ValueError, "max has shape", (3, 4), (3, 4), (2, 3, 4)),
            Refused(ValueError, "max has shape", (1, 4), (1, 4), (3, 4)),
        )


def _broadcasts(shape: Sequence[int], wanted: Sequence[int]) -> bool:
    """Whether an array of a shape broadcasts to another shape without making it larger."""
    if len(shape) > len(wanted):
        return False
    trailing = wanted[len(wanted) - len(shape) :]
    return all(size in (1, full) for size, full in zip(shape, trailing, strict=True))


class _OverAxes(OpSpec, abstract=True):
    """What the ops that take norms share: the norm wanted, and the axes over which one is taken."""

    category = "normalization"
    inputs = (Input("x"),)
    attributes = (Attribute("clip_norm", "float", 1.0), Attribute("axes", "axes", None))

    def normalize(self, attributes: dict[str, Any], *inputs: Any) -> dict[str, Any]:
        return {**attributes, "axes": canonical_axes(self, attributes["axes"], inputs[0])}

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "axis 2 is out of range", (3, 4), axes=2),
            Refused(ValueError, "names an axis twice", (3, 4), axes=(1, -1)),
            Refused(TypeError, "clip_norm", (3, 4), clip_norm="1"),
        )


class ScaleToNorm(_OverAxes):
    """The direction of x with another length: `y = clip_norm x / norm`, `norm = sqrt(sum(x^2))`.

    One op, so that the squares neither overflow nor vanish where arrays are float16. Zeros have no direction and
    become NaN.

    Args:
        x: (...) float.
        clip_norm: the Euclidean norm that y gets.
        axes: over which one norm is taken; default all of them.

    Returns:
        y: shape of x, float.
        norm: (...) float, auxiliary; shape of x with 1 on the axes.

    Raises:
        ValueError: an axis is out of range or named twice.
    """

    outputs = ("y", "norm")
    auxiliary = ("norm",)

    def infer(self, x: ArrayDesc, *, axes: tuple[int, ...], **_: Any) -> Sequence[ArrayDesc]:
        return x, ArrayDesc(tuple(1 if axis in axes else size for axis, size in enumerate(x.shape)), x.dtype)

    def reference(self, x: np.ndarray, *, clip_norm: float, axes: tuple[int, ...]) -> Sequence[np.ndarray]:
        norm = np.sqrt(np.square(x, dtype=np.float64).sum(axis=axes, keepdims=True))
        with np.errstate(invalid="ignore"):  # 0 / 0 for zeros
            y = clip_norm * x / norm
        return y.astype(x.dtype), norm.astype(x.dtype)

    def gradient(
        self, g: GradientCall, x: IRValue, *, clip_norm: Any, axes: tuple[int, ...]
    ) -> Sequence[IRValue | None]:
        norm = g.outputs[1]
        direction = x / norm
        gx = None
        if g.cotangents[0] is not None:
            along = g.op("Sum", g.gy * direction, axes=axes, keep_dims=True)
            gx = g.op("MulScalar", g.gy - direction * along, val=clip_norm) / norm
        if g.cotangents[1] is not None:
            longer = direction * g.cotangents[1]
            gx = longer if gx is None else gx + longer
        return (gx,)

    def samples(self) -> Sequence[Sample]:
        return (
            Sample((3, 4)),
            Sample((3, 4), clip_norm=0.5, axes=1),
            Sample((2, 3, 4), clip_norm=2.0, axes=(-1, 0)),
            Sample((3, 4), axes=()).no_gradient(),  # a sign, whose slope is 0 in theory and rounding in practice
            Sample(Uniform((), 1.0, 2.0)).no_gradient(),
            Sample((0, 3)),
            Sample(Exact([[0.0, 0.0], [3.0, 4.0]]), axes=1).no_gradient(),
            Sample(Uniform((3, 40), 200.0, 300.0), clip_norm=5.0, axes=1).no_gradient(),
            Sample(Uniform((3, 40), 1e-4, 2e-4), axes=1).no_gradient(),
        )


class ClipGradByNorm(_OverAxes):
    """A copy, `y = x`, whose gradient is scaled to a norm: `gx = clip_norm gy / sqrt(sum(gy^2))`.

    Gradients that are smaller are scaled up, too. A gradient of zeros has no direction and becomes NaN.

    Args:
        x: (...) float.
        clip_norm: the Euclidean norm that gradients get.
        axes: over which one norm is taken; default all of them.

    Returns:
        y: shape of x, float.

    Raises:
        ValueError: an axis is out of range or named twice.
    """

    function = "clip_grad_by_norm"

    def infer(self, x: ArrayDesc, **_: Any) -> ArrayDesc:
        return x

    def reference(self, x: np.ndarray, **_: Any) -> np.ndarray:
        return x.copy()

    def gradient(
        self, g: GradientCall, x: IRValue, *, clip_norm: Any, axes: tuple[int, ...]
    ) -> Sequence[IRValue | None]:
        gx, _ = g.op("ScaleToNorm", g.gy, clip_norm=clip_norm, axes=axes)
        return (gx,)

    def samples(self) -> Sequence[Sample]:
        # The gradient is not that of a copy, so none of them compares it with finite differences.
        return (
            Sample((3, 4)).no_gradient(),
            Sample((3, 4), clip_norm=0.5, axes=1).no_gradient(),
            Sample((2, 3, 4), clip_norm=2.0, axes=(-1, 0)).no_gradient(),
            Sample((3, 4), axes=()).no_gradient(),
            Sample(()).no_gradient(),
            Sample((0, 3)).no_gradient(),
        )
