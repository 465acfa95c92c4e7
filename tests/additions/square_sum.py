"""An op that NNabla does not have, as the file of a family of ops would define it; see `test_touched_files.py`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from atled.array_desc import ArrayDesc
from atled.ops.samples import Refused, Sample
from atled.ops.spec import Input, OpSpec

if TYPE_CHECKING:
    from atled.ops.rules import GradientCall, IRValue


class SquareSum(OpSpec):
    """Sum of squares over the last axis: (..., n) -> (...).

    Args:
        x: (..., n) float; at least one axis.

    Returns:
        y: (...) float.

    Raises:
        ValueError: no axis.
    """

    function = "square_sum"
    category = "reduction"
    inputs = (Input("x"),)

    def infer(self, x: ArrayDesc) -> ArrayDesc:
        if not x.shape:
            raise self.error((x,), "x has no axis", "give it at least one")
        return ArrayDesc(x.shape[:-1], x.dtype)

    def reference(self, x: np.ndarray) -> np.ndarray:
        return np.square(x, dtype=np.float64).sum(axis=-1).astype(x.dtype)

    def gradient(self, g: GradientCall, x: IRValue) -> Sequence[IRValue | None]:
        spread = g.op("Broadcast", g.op("Reshape", g.gy, shape=(*x.shape[:-1], 1)), shape=x.shape)
        return (2.0 * spread * x,)

    def samples(self) -> Sequence[Sample]:
        return Sample((2, 3)), Sample((5,)), Sample((0, 3)), Sample((4, 5, 67))

    def refused(self) -> Sequence[Refused]:
        return (Refused(ValueError, "no axis", ()),)
