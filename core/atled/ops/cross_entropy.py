"""Cross entropies of class labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from atled.array_desc import ArrayDesc
from atled.ops.axes import axis_or_last
from atled.ops.indices import check_range, check_target
from atled.ops.samples import Exact, Ints, Refused, Sample, Uniform
from atled.ops.softmax import softmax, softmax_backward
from atled.ops.spec import Attribute, Input, OpSpec

if TYPE_CHECKING:
    from atled.ops.rules import GradientCall, IRValue

# Probabilities are clipped here before the logarithm, in every dtype, as NNabla does; the loss is at most 87.34.
SMALLEST = float(np.finfo(np.float32).tiny)


class _Labelled(OpSpec, abstract=True):
    """What the ops with one label per position share: `axis`, the shape of target, the check of the labels."""

    category = "loss"
    attributes = (Attribute("axis", "int", None),)

    def normalize(self, attributes: dict[str, Any], *inputs: Any) -> dict[str, Any]:
        scores = inputs[self.input_names.index(self._scores)]
        return {"axis": axis_or_last(self, attributes, (scores,))}

    _scores = "x"  # the input with one entry per class along the axis

    def _check_gy(self, inputs: Sequence[ArrayDesc], gy: ArrayDesc, target: ArrayDesc) -> None:
        if gy.shape != target.shape:
            raise self.error(inputs, f"gy has shape {list(gy.shape)}", f"use {list(target.shape)}, that of target")

    def _one_hot(self, target: np.ndarray, like: np.ndarray, axis: int) -> np.ndarray:
        """1 at the label, 0 elsewhere, shape of `like`; IndexError for a label that is none of its entries."""
        check_range(self.name, "target", target, like.shape[axis])
        shape = [1] * like.ndim
        shape[axis] = like.shape[axis]
        return (target == np.arange(like.shape[axis]).reshape(shape)).astype(like.dtype)


def _refused_losses() -> Sequence[Refused]:
    """Calls that both losses refuse."""
    return (
        Refused(ValueError, "target has shape", (3, 4), Ints((3,), 4)),
        Refused(ValueError, "target has shape", (3, 4), Ints((1, 4), 3)),
        Refused(ValueError, "axis=2 is out of range", (3, 4), Ints((3, 1), 4), axis=2),
        Refused(IndexError, "out of range", (2, 4), Exact([[1], [4]])),
        Refused(IndexError, "out of range", (2, 4), Exact([[-1], [0]])),
    )


class SoftmaxCrossEntropy(_Labelled):
    """Softmax followed by the cross entropy with a label: `y = -log(max(softmax(x)[target], tiny))`.

    tiny is the smallest normal float32 (1.18e-38), in every dtype. The gradient is that of the loss without the
    clipping, so a hopeless score still moves.

    Args:
        x: (..., C, ...) float; scores, one per class along axis.
        target: (..., 1, ...) whole numbers in [0, C), 1 being the size of axis; gets no gradient.
        axis: of the classes, of size C; default the last one.

    Returns:
        y: shape of target, float.
        p: shape of x, float, auxiliary; softmax(x).

    Raises:
        ValueError: target has another shape, axis is out of range.
        IndexError: a label is out of range.
    """

    function = "softmax_cross_entropy"
    inputs = (Input("x"), Input("target", kind="index", gradient="raises"))
    outputs = ("y", "p")
    auxiliary = ("p",)

    def infer(self, x: ArrayDesc, target: ArrayDesc, *, axis: int) -> Sequence[ArrayDesc]:
        check_target(self, (x, target), x, target, axis)
        return ArrayDesc(target.shape, x.dtype), x

    def reference(self, x: np.ndarray, target: np.ndarray, *, axis: int) -> Sequence[np.ndarray]:
        hit = self._one_hot(target, x, axis)
        p = softmax(x, axis)
        # log p as a difference of scores: p itself has lost its digits, or is 0, far below the maximum.
        shifted = x - x.max(axis=axis, keepdims=True, initial=-np.inf)
        log_sum = np.log(np.exp(shifted).sum(axis=axis, keepdims=True))
        log_p = np.where(hit == 1, shifted, 0).sum(axis=axis, keepdims=True) - log_sum
        return -np.maximum(log_p, np.log(SMALLEST)).astype(x.dtype), p

    def gradient(self, g: GradientCall, x: IRValue, target: IRValue, *, axis: int) -> Sequence[IRValue | None]:
        gx = None
        p = g.outputs[1]
        if g.cotangents[0] is not None:
            gx = g.op("SoftmaxCrossEntropyGrad", g.gy, p, target, axis=axis)
        if g.cotangents[1] is not None:
            through_p = softmax_backward(g, p, g.cotangents[1], axis)
            gx = through_p if gx is None else gx + through_p
        return gx, None

    def samples(self) -> Sequence[Sample]:
        return (
            Sample((3, 4), Ints((3, 1), 4)),
            Sample((2, 3, 4), Ints((2, 1, 4), 3), axis=1),
            Sample((3, 2), Ints((1, 2), 3), axis=-2),
            Sample((4,), Ints((1,), 4)),
            Sample((3, 1), Ints((3, 1), 1)),
            Sample((0, 4), Ints((0, 1), 4)),
            Sample(Exact([[1000.0, 0.0], [0.0, 50.0]]), Exact([[1], [0]])).no_gradient(),
            Sample((33, 70), Ints((33, 1), 70)).no_gradient(),
        )

    def refused(self) -> Sequence[Refused]:
        return _refused_losses()


class SoftmaxCrossEntropyGrad(_Labelled):
    """Gradient of softmax cross entropy: `gx = gy (p - onehot(target))`.

    Args:
        gy: shape of target, float.
        p: (..., C, ...) float; softmax(x).
        target: (..., 1, ...) whole numbers in [0, C), 1 being the size of axis.
        axis: of the classes, of size C; default the last one.

    Returns:
        gx: shape of p, float.

    Raises:
        ValueError: shapes that do not match.
        IndexError: a label is out of range.
    """

    inputs = (Input("gy"), Input("p"), Input("target", kind="index", gradient="none"))
    outputs = ("gx",)
    _scores = "p"

    def infer(self, gy: ArrayDesc, p: ArrayDesc, target: ArrayDesc, *, axis: int) -> ArrayDesc:
        inputs = (gy, p, target)
        check_target(self, inputs, p, target, axis)
        self._check_gy(inputs, gy, target)
        return ArrayDesc(p.shape, gy.dtype)

    def reference(self, gy: np.ndarray, p: np.ndarray, target: np.ndarray, *, axis: int) -> np.ndarray:
        return gy * (p - self._one_hot(target, p, axis))

    def gradient(
        self, g: GradientCall, gy: IRValue, p: IRValue, target: IRValue, *, axis: int
    ) -> Sequence[IRValue | None]:
        ggy = None
        if g.needs[0]:
            slope = _slope(g, self.name, gy, p, target, axis)
            ggy = g.op("Sum", g.gy * slope, axes=(axis,), keep_dims=True)
        gp = g.gy * gy if g.needs[1] else None
        return ggy, gp, None

    def samples(self) -> Sequence[Sample]:
        return (
            Sample((3, 1), Uniform((3, 4), 0.1, 0.9), Ints((3, 1), 4)),
            Sample((2, 1, 4), Uniform((2, 3, 4), 0.1, 0.9), Ints((2, 1, 4), 3), axis=1),
            Sample((0, 1), (0, 4), Ints((0, 1), 4)),
            Sample((33, 1), Uniform((33, 70), 0.0, 1.0), Ints((33, 1), 70)).no_gradient(),
        )

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "gy has shape", (3,), (3, 4), Ints((3, 1), 4)),
            Refused(ValueError, "target has shape", (3, 1), (3, 4), Ints((3, 4), 4)),
            Refused(IndexError, "out of range", (1, 1), (1, 4), Exact([[4]])),
        )


class CategoricalCrossEntropy(_Labelled):
    """Cross entropy of given probabilities with a label: `y = -log(max(x[target], tiny))`.

    tiny is the smallest normal float32 (1.18e-38), in every dtype.

    Args:
        x: (..., C, ...) float; probabilities, one per class along axis.
        target: (..., 1, ...) whole numbers in [0, C), 1 being the size of axis; gets no gradient.
        axis: of the classes, of size C; default the last one.

    Returns:
        y: shape of target, float.

    Raises:
        ValueError: target has another shape, axis is out of range.
        IndexError: a label is out of range.
    """

    function = "categorical_cross_entropy"
    inputs = (Input("x"), Input("target", kind="index", gradient="raises"))

    def infer(self, x: ArrayDesc, target: ArrayDesc, *, axis: int) -> ArrayDesc:
        check_target(self, (x, target), x, target, axis)
        return ArrayDesc(target.shape, x.dtype)

    def reference(self, x: np.ndarray, target: np.ndarray, *, axis: int) -> np.ndarray:
        check_range(self.name, "target", target, x.shape[axis])
        return -np.log(np.maximum(np.take_along_axis(x, target, axis), x.dtype.type(SMALLEST)))

    def gradient(self, g: GradientCall, x: IRValue, target: IRValue, *, axis: int) -> Sequence[IRValue | None]:
        return g.op("CategoricalCrossEntropyGrad", g.gy, x, target, axis=axis), None

    def samples(self) -> Sequence[Sample]:
        return (
            Sample(Uniform((3, 4), 0.1, 1.0), Ints((3, 1), 4)),
            Sample(Uniform((2, 3, 4), 0.1, 1.0), Ints((2, 1, 4), 3), axis=1),
            Sample(Uniform((3, 2), 0.1, 1.0), Ints((1, 2), 3), axis=-2),
            Sample(Uniform((0, 4), 0.1, 1.0), Ints((0, 1), 4)),
            Sample(Exact([[0.0, 1.0]]), Exact([[0]])).no_gradient(),
        )

    def refused(self) -> Sequence[Refused]:
        return _refused_losses()


class CategoricalCrossEntropyGrad(_Labelled):
    """Gradient of categorical cross entropy: `gx = -gy onehot(target) / max(x, tiny)`.

    Args:
        gy: shape of target, float.
        x: (..., C, ...) float; probabilities.
        target: (..., 1, ...) whole numbers in [0, C), 1 being the size of axis.
        axis: of the classes, of size C; default the last one.

    Returns:
        gx: shape of x, float.

    Raises:
        ValueError: shapes that do not match.
        IndexError: a label is out of range.
    """

    inputs = (Input("gy"), Input("x"), Input("target", kind="index", gradient="none"))
    outputs = ("gx",)

    def infer(self, gy: ArrayDesc, x: ArrayDesc, target: ArrayDesc, *, axis: int) -> ArrayDesc:
        inputs = (gy, x, target)
        check_target(self, inputs, x, target, axis)
        self._check_gy(inputs, gy, target)
        return ArrayDesc(x.shape, gy.dtype)

    def reference(self, gy: np.ndarray, x: np.ndarray, target: np.ndarray, *, axis: int) -> np.ndarray:
        return -gy * self._one_hot(target, x, axis) / np.maximum(x, x.dtype.type(SMALLEST))

    def gradient(
        self, g: GradientCall, gy: IRValue, x: IRValue, target: IRValue, *, axis: int
    ) -> Sequence[IRValue | None]:
        slope = _slope(g, self.name, gy, x, target, axis)  # -1 / x at the label
        ggy = g.op("Sum", g.gy * slope, axes=(axis,), keep_dims=True) if g.needs[0] else None
        gx = g.gy * gy * (slope * slope) if g.needs[1] else None
        return ggy, gx, None

    def samples(self) -> Sequence[Sample]:
        return (
            Sample((3, 1), Uniform((3, 4), 0.2, 1.0), Ints((3, 1), 4)),
            Sample((2, 1, 4), Uniform((2, 3, 4), 0.2, 1.0), Ints((2, 1, 4), 3), axis=1),
            Sample((0, 1), (0, 4), Ints((0, 1), 4)),
        )

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "gy has shape", (3,), (3, 4), Ints((3, 1), 4)),
            Refused(IndexError, "out of range", (1, 1), Uniform((1, 4), 0.1, 1.0), Exact([[4]])),
        )


def _slope(g: GradientCall, name: str, gy: IRValue, scores: IRValue, target: IRValue, axis: int) -> IRValue:
    """What a gradient op multiplies gy by: the op itself, asked with gy = 1."""
    ones = g.op("Constant", val=1.0, shape=gy.shape, dtype=gy.dtype)
    return g.op(name, ones, scores, target, axis=axis)
