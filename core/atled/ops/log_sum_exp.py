"""The logarithm of sums of exponentials."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from atled.ops.axes import kept_shape
from atled.ops.reduction import Reduction
from atled.ops.samples import Exact, Sample, Uniform

if TYPE_CHECKING:
    from atled.ops.rules import GradientCall, IRValue


class LogSumExp(Reduction):
    """Logarithm of the sum of exponentials over axes: `y = m + log(sum(exp(x - m)))`, m the maximum.

    Nothing overflows, and nothing vanishes that counts. Of nothing, and of -inf alone, it is -inf. The gradient is
    `gy exp(x - y)`, softmax times that which arrives.

    Args:
        x: (...) float.
        axes: the axis or axes to sum over, negative ones counted from the end; None: all of them, (): none.
        keep_dims: whether the reduced axes stay, with size 1.

    Returns:
        y: (...) float; shape of x without the reduced axes, or with 1 in their place; () for a full reduction.

    Raises:
        ValueError: an axis is out of range or named twice.
    """

    def reference(self, x: np.ndarray, *, axes: tuple[int, ...], keep_dims: bool) -> np.ndarray:
        wide = x.astype(np.float64)
        top = np.max(wide, axis=axes, keepdims=True, initial=-np.inf)
        shift = np.where(np.isfinite(top), top, 0)  # of infinities there is no difference
        with np.errstate(divide="ignore", over="ignore"):  # log(0) of nothing; exp(inf) of an infinite element
            total = np.log(np.sum(np.exp(wide - shift), axis=axes, keepdims=True)) + shift
        return (total if keep_dims else np.squeeze(total, axis=axes)).astype(x.dtype)

    def gradient(self, g: GradientCall, x: IRValue, *, axes: tuple[int, ...], keep_dims: bool) -> Sequence[IRValue]:
        shape = kept_shape(x.shape, axes)
        return (g.op("Exp", x - g.reshape(g.y, shape)) * g.reshape(g.gy, shape),)

    def samples(self) -> Sequence[Sample]:
        return (
            Sample((2, 3, 4), axes=1),
            Sample((2, 3, 4, 5), axes=(-1, 1), keep_dims=True),
            Sample((0, 3), axes=0).no_gradient(),
            Sample(Uniform((3, 40), 900.0, 1000.0), axes=1).no_gradient(),
            Sample(Exact([[-np.inf, 1.0], [-np.inf, -np.inf], [np.inf, 1.0], [np.nan, 1.0]]), axes=1).no_gradient(),
        )
