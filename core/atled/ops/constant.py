"""Arrays of one value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from atled.array_desc import ArrayDesc
from atled.ops.samples import Refused, Sample
from atled.ops.spec import Attribute, OpSpec

if TYPE_CHECKING:
    from atled.ops.rules import GradientCall, IRValue


class Constant(OpSpec):
    """An array filled with one value.

    Args:
        val: the value.
        shape: (S...); default (), a single number.

    Returns:
        y: (S...) float32, or the float type of the type config.

    Raises:
        ValueError: a negative size.
    """

    function = "constant"
    category = "math"
    attributes = (
        Attribute("val", "float", 0.0),
        Attribute("shape", "ints", ()),
        Attribute("dtype", "dtype", np.dtype(np.float32), hidden=True),
    )

    def normalize(self, attributes: dict[str, Any], *inputs: Any) -> dict[str, Any]:
        if any(size < 0 for size in attributes["shape"]):
            raise self.error(inputs, f"shape={attributes['shape']} has a negative size", "use sizes from 0 on")
        return attributes

    def infer(self, *, shape: tuple[int, ...], dtype: np.dtype, **_: Any) -> ArrayDesc:
        return ArrayDesc(shape, dtype)

    def reference(self, *, val: float, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        return np.full(shape, val, dtype)

    def gradient(self, g: GradientCall, **_: Any) -> Sequence[IRValue | None]:
        return ()

    def samples(self) -> Sequence[Sample]:
        return Sample(), Sample(val=2.5, shape=(2, 3)), Sample(val=-1, shape=(0, 3)), Sample(shape=[4])

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "negative size", shape=(2, -1)),
            Refused(TypeError, "val", val="1"),
        )
