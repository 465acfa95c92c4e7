"""Local response normalization: each element divided by a measure of those around it on neighbouring maps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from atled.array_desc import ArrayDesc
from atled.ops.axes import axis_or_last
from atled.ops.samples import Refused, Sample
from atled.ops.spec import Attribute, Input, OpSpec

if TYPE_CHECKING:
    from atled.ops.rules import GradientCall, IRValue


class LRN(OpSpec):
    """Local response normalization across maps: `y = x / denom^power`.

    `denom[c] = bias + scale / size * sum of x[k]^2 for |k - c| <= size // 2`; maps beyond the first and the last one
    add nothing. Source: Krizhevsky, Sutskever, Hinton, ImageNet Classification with Deep Convolutional Neural
    Networks, 2012.

    Args:
        x: (A..., C, B...) float.
        size: how many maps count; odd.
        axis: that of C; default the last one.
        scale, power, bias: as above.

    Returns:
        y: shape of x, float.
        denom: shape of x, float.

    Raises:
        ValueError: size is even or below 1, axis is out of range.
    """

    category = "layer"
    inputs = (Input("x"),)
    attributes = (
        Attribute("size", "int"),
        Attribute("axis", "int", None),
        Attribute("scale", "float", 1.0),
        Attribute("power", "float", 1.0),
        Attribute("bias", "float", 1.0),
    )
    outputs = ("y", "denom")

    def normalize(self, attributes: dict[str, Any], *inputs: Any) -> dict[str, Any]:
        if attributes["size"] < 1 or attributes["size"] % 2 == 0:
            raise self.error(inputs, f"size={attributes['size']}", "use an odd number of maps from 1 on")
        return {**attributes, "axis": axis_or_last(self, attributes, inputs)}

    def infer(self, x: ArrayDesc, **_: Any) -> Sequence[ArrayDesc]:
        return x, x

    def reference(
        self, x: np.ndarray, *, size: int, axis: int, scale: float, power: float, bias: float
    ) -> Sequence[np.ndarray]:
        maps = np.moveaxis(x, axis, 0)
        sums = np.zeros(maps.shape, x.dtype)
        for c in range(len(maps)):
            around = maps[max(c - size // 2, 0) : c + size // 2 + 1]
            sums[c] = (around * around).sum(axis=0)
        denom = np.moveaxis(bias + scale / size * sums, 0, axis)
        return x / denom**power, np.ascontiguousarray(denom)

    def gradient(
        self, g: GradientCall, x: IRValue, *, size: int, axis: int, scale: float, power: float, bias: float
    ) -> Sequence[IRValue | None]:
        shape = math.prod(x.shape[:axis]), x.shape[axis], math.prod(x.shape[axis + 1 :])

        def build(c: GradientCall, x: IRValue) -> Sequence[IRValue]:
            if not x.size:
                return x, x
            x = c.reshape(x, shape)
            # The last axis stands for the channels there, and C for space.
            geometry = {"kernel": (size,), "stride": (1,), "pad": (size // 2,), "channel_last": True}
            sums = c.op("WindowSum", x * x, **geometry) * (1.0 / size)
            denom = c.op("AddScalar", c.op("MulScalar", sums, val=scale), val=bias)
            y = x / c.op("PowScalar", denom, val=power)
            return c.reshape(y, g.inputs[0].shape), c.reshape(denom, g.inputs[0].shape)

        return g.by_composition(build)

    def samples(self) -> Sequence[Sample]:
        return (
            Sample((2, 5, 3), size=3, axis=1, scale=0.5, power=0.75),
            Sample((4, 2, 2), size=5, axis=0, scale=0.25, bias=2.0),
            Sample((2, 3), size=7, axis=-2, power=0.5),
            Sample((0, 3), size=3),
        )

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "size=2", (2, 3), size=2),
            Refused(ValueError, "size=-1", (2, 3), size=-1),
            Refused(ValueError, "axis=2 is out of range", (2, 3), size=3, axis=2),
            Refused(ValueError, "without axes", (), size=3),
            Refused(TypeError, "size is missing", (2, 3)),
        )
