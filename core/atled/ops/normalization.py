"""Batch normalization."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from atled.array_desc import ArrayDesc
from atled.ops.samples import Refused, Sample, Uniform
from atled.ops.spec import Attribute, Input, OpSpec

if TYPE_CHECKING:
    from atled.ops.rules import GradientCall, IRValue


class _ByChannel(OpSpec, abstract=True):
    """What batch normalization and its gradient share: the one axis, and statistics of one number per channel."""

    category = "normalization"

    def _single_axis(self, attributes: dict[str, Any], inputs: Sequence[Any], ndim: int) -> tuple[int]:
        axes = attributes["axes"]
        if len(axes) != 1:
            raise self.error(inputs, f"axes={axes} names {len(axes)} axes", "give exactly one, the channel axis")
        (axis,) = axes
        if not -ndim <= axis < ndim:
            raise self.error(inputs, f"axis {axis} is out of range", f"use 0 to {ndim - 1}")
        return (axis % ndim,)

    def _check_statistics(
        self,
        inputs: Sequence[ArrayDesc],
        x: ArrayDesc,
        axes: tuple[int],
        batch_stat: bool,
        **statistics: ArrayDesc,
    ) -> tuple[int, ...]:
        """The shape of beta, gamma and the statistics; refuses those that have another one."""
        shape = _channel_shape(x.shape, axes)
        for name, desc in statistics.items():
            if desc.shape != shape:
                raise self.error(inputs, f"{name} has shape {list(desc.shape)}", f"use {list(shape)}")
        if batch_stat and not _count(x.shape, axes):
            raise self.error(inputs, "a batch of no elements has no statistics", "use batch_stat=False or a full batch")
        return shape


class BatchNormalization(_ByChannel):
    """Batch normalization: `y = gamma (x - m) / sqrt(v + eps) + beta` with one m and one v per channel.

    With batch_stat, m and v are mean and biased variance (divided by M) of the batch, M the number of elements per
    channel, and the running statistics move: `mean <- decay_rate mean + (1 - decay_rate) m`, the same for variance with
    the unbiased `v M / (M - 1)` (v itself for M = 1). Without, m and v are the running statistics, which stay.

    Source: Ioffe and Szegedy 2015, "Batch Normalization", algorithms 1 and 2.

    Args:
        x: (B..., C, S...) float; C is the size of its channel axis.
        beta, gamma: (1..., C, 1...) float; shape of x with 1 on every axis but the channel axis.
        mean, variance: (1..., C, 1...) float; running statistics, changed in place with batch_stat. They get no
            gradient. Under half they, batch_mean and batch_variance are float32.
        axes: the channel axis, exactly one; default 1.
        decay_rate: weight of the past in the running statistics, 0 to 1.
        eps: added to the variance, >= 0.
        batch_stat: whether to normalize by the batch (training) or by the running statistics (inference).
        output_stat: whether the user gets batch_mean and batch_variance; needs batch_stat.

    Returns:
        y: shape of x, float.
        batch_mean, batch_variance: shape of beta, float; m and v; auxiliary unless output_stat.

    Raises:
        ValueError: not exactly one axis, a shape that does not match, an empty batch with batch_stat.
    """

    function = "batch_normalization"
    inputs = (
        Input("x"),
        Input("beta"),
        Input("gamma"),
        Input("mean", kind="precise", gradient="none"),
        Input("variance", kind="precise", gradient="none"),
    )
    attributes = (
        Attribute("axes", "axes", (1,)),
        Attribute("decay_rate", "float", 0.9),
        Attribute("eps", "float", 1e-5),
        Attribute("batch_stat", "bool", True),
        Attribute("output_stat", "bool", False),
    )
    outputs = ("y", "batch_mean", "batch_variance")
    auxiliary = ("batch_mean", "batch_variance")
    mutates = ("mean", "variance")
    mutates_if = "batch_stat"
    recomputable = True  # it does not read what it changes

    def normalize(self, attributes: dict[str, Any], *inputs: Any) -> dict[str, Any]:
        if attributes["output_stat"] and not attributes["batch_stat"]:
            raise self.error(inputs, "output_stat=True without batch_stat", "use batch_stat=True or output_stat=False")
        return {**attributes, "axes": self._single_axis(attributes, inputs, inputs[0].ndim)}

    def visible_count(self, outputs: int, attributes: Mapping[str, Any]) -> int:
        return outputs if attributes["output_stat"] else 1

    def infer(
        self,
        x: ArrayDesc,
        beta: ArrayDesc,
        gamma: ArrayDesc,
        mean: ArrayDesc,
        variance: ArrayDesc,
        *,
        axes: tuple[int],
        batch_stat: bool,
        **_: Any,
    ) -> Sequence[ArrayDesc]:
        inputs = (x, beta, gamma, mean, variance)
        shape = self._check_statistics(
            inputs, x, axes, batch_stat, beta=beta, gamma=gamma, mean=mean, variance=variance
        )
        statistic = ArrayDesc(shape, mean.dtype)
        return x, statistic, statistic

    def reference(
        self,
        x: np.ndarray,
        beta: np.ndarray,
        gamma: np.ndarray,
        mean: np.ndarray,
        variance: np.ndarray,
        *,
        axes: tuple[int],
        decay_rate: float,
        eps: float,
        batch_stat: bool,
        **_: Any,
    ) -> Sequence[np.ndarray]:
        if batch_stat:
            others = _others(x.ndim, axes)
            count = _count(x.shape, axes)
            # Sums over many elements in float64: the variance of a large batch must not depend on their order.
            batch_mean = x.mean(axis=others, keepdims=True, dtype=np.float64)
            batch_variance = np.square(x - batch_mean).mean(axis=others, keepdims=True)
            unbiased = batch_variance * (count / (count - 1) if count > 1 else 1.0)
            mean[...] = decay_rate * mean + (1 - decay_rate) * batch_mean
            variance[...] = decay_rate * variance + (1 - decay_rate) * unbiased
        else:
            batch_mean, batch_variance = mean.copy(), variance.copy()
        y = gamma * (x - batch_mean) / np.sqrt(batch_variance + eps) + beta
        return y.astype(x.dtype), batch_mean.astype(mean.dtype), batch_variance.astype(mean.dtype)

    def gradient(
        self,
        g: GradientCall,
        x: IRValue,
        beta: IRValue,
        gamma: IRValue,
        mean: IRValue,
        variance: IRValue,
        *,
        axes: tuple[int],
        eps: float,
        batch_stat: bool,
        **_: Any,
    ) -> Sequence[IRValue | None]:
        gx = gbeta = ggamma = None
        batch_mean, batch_variance = g.outputs[1:]
        is_factor = not batch_stat and g.needs[:3] == (True, False, False) and _are_alike(x, gamma, variance)
        if g.cotangents[0] is not None and is_factor and not g.is_recorded:
            # Neither x nor what is kept beside y is read, so that a forward need not store them.
            scale = g.op("PowScalar", g.op("AddScalar", variance, val=eps), val=-0.5)
            gx = g.gy * (gamma * scale)
        elif g.cotangents[0] is not None:
            gx, gbeta, ggamma = g.op(
                "BatchNormalizationGrad",
                g.gy,
                x,
                gamma,
                batch_mean,
                batch_variance,
                axes=axes,
                eps=eps,
                batch_stat=batch_stat,
            )
        if batch_stat and g.needs[0]:
            # m = sum(x) / M and v = sum((x - m)^2) / M, each an output of its own.
            count = _count(x.shape, axes)
            if g.cotangents[1] is not None:
                spread = g.op("Broadcast", g.cotangents[1] * (1.0 / count), shape=x.shape)
                gx = spread if gx is None else gx + spread
            if g.cotangents[2] is not None:
                spread = (x - batch_mean) * (g.cotangents[2] * (2.0 / count))
                gx = spread if gx is None else gx + spread
        return gx, gbeta, ggamma, None, None

    def samples(self) -> Sequence[Sample]:
        channels = (1, 3, 1, 1)
        positive = Uniform(channels, 0.5, 2.0)
        flat = Uniform((1, 4), 0.5, 2.0)
        last = Uniform((1, 1, 4), 0.5, 2.0)
        return (
            Sample((4, 3, 2, 5), channels, channels, channels, positive),
            Sample((4, 3, 2, 5), channels, channels, channels, positive, batch_stat=False),
            Sample((4, 3, 2, 5), channels, channels, channels, positive, output_stat=True, decay_rate=0.5),
            Sample((5, 4), (1, 4), (1, 4), (1, 4), flat, eps=1e-3, decay_rate=0.0),
            Sample((2, 3, 4), (1, 1, 4), (1, 1, 4), (1, 1, 4), last, axes=-1, eps=0.1),
            Sample((4, 5), (4, 1), (4, 1), (4, 1), Uniform((4, 1), 0.5, 2.0), axes=[0]),
            Sample((1, 3, 1, 1), channels, channels, channels, positive, eps=0.5),
            Sample((0, 3, 2, 2), channels, channels, channels, positive, batch_stat=False),
            Sample(Uniform((16, 3, 9, 7), 99.0, 101.0), channels, channels, channels, positive, eps=0.1).no_gradient(),
        )

    def refused(self) -> Sequence[Refused]:
        one, two = (1, 3, 1, 1), (1, 2, 1, 1)
        return (
            Refused(ValueError, "beta has shape", (4, 3, 2, 2), two, one, one, one),
            Refused(ValueError, "variance has shape", (4, 3, 2, 2), one, one, one, (3,)),
            Refused(ValueError, "names 2 axes", (4, 3, 2, 2), one, one, one, one, axes=(0, 1)),
            Refused(ValueError, "axis 4 is out of range", (4, 3, 2, 2), one, one, one, one, axes=4),
            Refused(ValueError, "no elements", (0, 3, 2, 2), one, one, one, one),
            Refused(ValueError, "output_stat", (4, 3, 2, 2), one, one, one, one, batch_stat=False, output_stat=True),
        )


class BatchNormalizationGrad(_ByChannel):
    """Gradient of batch normalization.

    With `xhat = (x - batch_mean) / sqrt(batch_variance + eps)` and sums over all axes but the channel axis:
    `gbeta = sum(gy)`, `ggamma = sum(gy xhat)`, and
    `gx = gamma / sqrt(batch_variance + eps) (gy - gbeta / M - xhat ggamma / M)` with batch_stat, where the statistics
    depend on x, else `gx = gamma gy / sqrt(batch_variance + eps)`.

    Args:
        gy, x: (B..., C, S...) float, of one shape.
        gamma, batch_mean, batch_variance: (1..., C, 1...) float; shape of x with 1 on every axis but the channel axis.
        axes, eps, batch_stat: as `BatchNormalization`.

    Returns:
        gx: shape of x, float.
        gbeta, ggamma: shape of gamma, float.

    Raises:
        ValueError: a shape that does not match, an empty batch with batch_stat.
    """

    inputs = (
        Input("gy"),
        Input("x"),
        Input("gamma"),
        Input("batch_mean", kind="precise"),
        Input("batch_variance", kind="precise"),
    )
    attributes = (
        Attribute("axes", "axes", (1,)),
        Attribute("eps", "float", 1e-5),
        Attribute("batch_stat", "bool", True),
    )
    outputs = ("gx", "gbeta", "ggamma")

    def normalize(self, attributes: dict[str, Any], *inputs: Any) -> dict[str, Any]:
        return {**attributes, "axes": self._single_axis(attributes, inputs, inputs[1].ndim)}

    def infer(
        self,
        gy: ArrayDesc,
        x: ArrayDesc,
        gamma: ArrayDesc,
        batch_mean: ArrayDesc,
        batch_variance: ArrayDesc,
        *,
        axes: tuple[int],
        batch_stat: bool,
        **_: Any,
    ) -> Sequence[ArrayDesc]:
        inputs = (gy, x, gamma, batch_mean, batch_variance)
        if gy.shape != x.shape:
            raise self.error(inputs, "gy and x differ in shape", f"use {list(x.shape)} for both")
        shape = self._check_statistics(
            inputs, x, axes, batch_stat, gamma=gamma, batch_mean=batch_mean, batch_variance=batch_variance
        )
        parameter = ArrayDesc(shape, gy.dtype)
        return gy, parameter, parameter

    def reference(
        self,
        gy: np.ndarray,
        x: np.ndarray,
        gamma: np.ndarray,
        batch_mean: np.ndarray,
        batch_variance: np.ndarray,
        *,
        axes: tuple[int],
        eps: float,
        batch_stat: bool,
    ) -> Sequence[np.ndarray]:
        others = _others(x.ndim, axes)
        scale = 1 / np.sqrt(batch_variance + eps)
        xhat = (x - batch_mean) * scale
        gbeta = gy.sum(axis=others, keepdims=True, dtype=np.float64)
        ggamma = (gy * xhat).sum(axis=others, keepdims=True, dtype=np.float64)
        gx = gy
        if batch_stat:
            count = _count(x.shape, axes)
            gx = gy - gbeta / count - xhat * (ggamma / count)
        gx = gamma * scale * gx
        return gx.astype(gy.dtype), gbeta.astype(gy.dtype), ggamma.astype(gy.dtype)

    def gradient(
        self, g: GradientCall, *inputs: IRValue | None, axes: tuple[int], eps: float, batch_stat: bool
    ) -> Sequence[IRValue | None]:
        def build(
            c: GradientCall, gy: IRValue, x: IRValue, gamma: IRValue, batch_mean: IRValue, batch_variance: IRValue
        ) -> Sequence[IRValue]:
            count = _count(x.shape, axes)
            scale = c.op("PowScalar", c.op("AddScalar", batch_variance, val=eps), val=-0.5)
            xhat = (x - batch_mean) * scale
            gbeta = c.sum_to(gy, gamma.shape)
            ggamma = c.sum_to(gy * xhat, gamma.shape)
            gx = gy
            if batch_stat:
                gx = gy - gbeta * (1.0 / count) - xhat * (ggamma * (1.0 / count))
            return gx * (gamma * scale), gbeta, ggamma

        return g.by_composition(build)

    def samples(self) -> Sequence[Sample]:
        channels = (1, 3, 1, 1)
        positive = Uniform(channels, 0.5, 2.0)
        return (
            Sample((4, 3, 2, 3), (4, 3, 2, 3), channels, channels, positive),
            Sample((4, 3, 2, 3), (4, 3, 2, 3), channels, channels, positive, batch_stat=False),
            Sample((5, 4), (5, 4), (1, 4), (1, 4), Uniform((1, 4), 0.5, 2.0), eps=0.1),
            Sample((2, 3, 4), (2, 3, 4), (1, 1, 4), (1, 1, 4), Uniform((1, 1, 4), 0.5, 2.0), axes=-1),
            Sample((0, 3, 2, 2), (0, 3, 2, 2), channels, channels, positive, batch_stat=False),
            Sample((16, 3, 9, 7), (16, 3, 9, 7), channels, channels, positive).no_gradient(),
        )

    def refused(self) -> Sequence[Refused]:
        one = (1, 3, 1, 1)
        return (
            Refused(ValueError, "gy and x differ", (4, 3, 2, 2), (4, 3, 2, 1), one, one, one),
            Refused(ValueError, "batch_mean has shape", (4, 3, 2, 2), (4, 3, 2, 2), one, (3,), one),
            Refused(ValueError, "no elements", (0, 3, 2, 2), (0, 3, 2, 2), one, one, one),
        )


def _are_alike(*values: IRValue) -> bool:
    """Whether all have one dtype of at least 32 bits: narrow ones would round what is made of the statistics."""
    return {value.dtype for value in values} in ({np.dtype(np.float32)}, {np.dtype(np.float64)})


def _channel_shape(shape: Sequence[int], axes: tuple[int]) -> tuple[int, ...]:
    """The shape with 1 on every axis but the channel axis."""
    return tuple(size if axis in axes else 1 for axis, size in enumerate(shape))


def _others(ndim: int, axes: tuple[int]) -> tuple[int, ...]:
    """All axes but the channel axis."""
    return tuple(axis for axis in range(ndim) if axis not in axes)


def _count(shape: Sequence[int], axes: tuple[int]) -> int:
    """M, the number of elements per channel."""
    count = 1
    for axis in _others(len(shape), axes):
        count *= shape[axis]
    return count
