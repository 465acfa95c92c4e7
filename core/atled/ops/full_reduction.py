"""ReduceSum and ReduceMean: sum and mean of all elements, NNabla's older names of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from atled.array_desc import ArrayDesc
from atled.ops.samples import Refused, Sample
from atled.ops.spec import Input, OpSpec

if TYPE_CHECKING:
    from atled.ops.rules import GradientCall, IRValue


class _FullReduction(OpSpec, abstract=True):
    """What both share: the result is one number."""

    category = "reduction"
    inputs = (Input("x"),)

    def infer(self, x: ArrayDesc) -> ArrayDesc:
        return ArrayDesc((), x.dtype)

    def samples(self) -> Sequence[Sample]:
        return Sample((3, 4)), Sample((2, 3, 4)), Sample(()), Sample((1, 1)), Sample((0, 3)), Sample((13, 67))

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(TypeError, "it has no attribute axes", (3, 4), axes=0),
            Refused(TypeError, "it has no attribute keep_dims", (3, 4), keep_dims=True),
        )


def _spread(g: GradientCall, gy: IRValue, x: IRValue) -> IRValue:
    """The cotangent of the one number, repeated over all elements."""
    return g.op("Broadcast", g.reshape(gy, (1,) * x.ndim), shape=x.shape)


class ReduceSum(_FullReduction):
    """Sum of all elements; `Sum` can also sum over some axes.

    Args:
        x: (...) float.

    Returns:
        y: () float; 0 for no elements.
    """

    function = "reduce_sum"

    def reference(self, x: np.ndarray) -> np.ndarray:
        # In float64: the order of the sum must not show in float32.
        return np.asarray(x.sum(dtype=np.float64)).astype(x.dtype)

    def gradient(self, g: GradientCall, x: IRValue) -> Sequence[IRValue | None]:
        return (_spread(g, g.gy, x),)


class ReduceMean(_FullReduction):
    """Mean of all elements; `Mean` can also average over some axes.

    Args:
        x: (...) float.

    Returns:
        y: () float; NaN for no elements.
    """

    function = "reduce_mean"

    def reference(self, x: np.ndarray) -> np.ndarray:
        with np.errstate(invalid="ignore"):  # 0 / 0 for no elements
            return np.asarray(x.sum(dtype=np.float64) / np.float64(x.size)).astype(x.dtype)

    def gradient(self, g: GradientCall, x: IRValue) -> Sequence[IRValue | None]:
        return (_spread(g, g.gy * (1.0 / max(1, x.size)), x),)
