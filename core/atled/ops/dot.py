"""Products by NumPy's rules for arrays of any number of axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from atled.array_desc import ArrayDesc
from atled.ops.samples import Refused, Sample
from atled.ops.spec import Input, OpSpec

if TYPE_CHECKING:
    from atled.ops.rules import GradientCall, IRValue


class Dot(OpSpec):
    """Product over the last axis of x and the last but one of y, as `numpy.dot`.

    `z[a..., b..., n] = sum over k of x[a..., k] y[b..., k, n]`; with a vector y, `z[a...] = sum over k of
    x[a..., k] y[k]`; with an operand without axes, the product of it and each element of the other.

    Args:
        x: (A..., K) float; or () float.
        y: (B..., K, N) float; or (K,), or ().

    Returns:
        z: (A..., B..., N) float; without N where y is a vector.

    Raises:
        ValueError: the two axes differ.
    """

    category = "math"
    products = True
    integers = "exact"
    inputs = (Input("x"), Input("y"))
    outputs = ("z",)

    def infer(self, x: ArrayDesc, y: ArrayDesc) -> ArrayDesc:
        if not x.ndim or not y.ndim:
            return ArrayDesc(x.shape + y.shape, x.dtype)
        of_y = y.shape[max(y.ndim - 2, 0)]
        if x.shape[-1] != of_y:
            which = "last" if y.ndim == 1 else "last but one"
            wrong = f"the last axis of x has {x.shape[-1]} elements, the {which} of y {of_y}"
            raise self.error((x, y), wrong, "make them equal; transpose one of them, maybe")
        return ArrayDesc(x.shape[:-1] + y.shape[:-2] + y.shape[-1:] * (y.ndim > 1), x.dtype)

    def reference(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.asarray(np.dot(x, y))

    def gradient(self, g: GradientCall, x: IRValue, y: IRValue) -> Sequence[IRValue | None]:
        return g.by_composition(_composed)

    def samples(self) -> Sequence[Sample]:
        return (
            Sample((3, 4), (4, 5)),
            Sample((4, 2), (5, 2, 3)),
            Sample((2, 3, 4), (4,)),
            Sample((), (2, 3)),
            Sample((2, 0), (0, 3)),
        )

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "the last but one of y 5", (3, 4), (5, 4)),
            Refused(ValueError, "the last of y 3", (3, 4), (3,)),
        )


def _composed(g: GradientCall, x: IRValue, y: IRValue) -> IRValue:
    """The same by products of matrices."""
    if not x.ndim or not y.ndim:
        return x * y
    shape = x.shape[:-1] + y.shape[:-2] + y.shape[-1:] * (y.ndim > 1)
    depth, rows = x.shape[-1], math.prod(x.shape[:-1])
    if y.ndim > 2:
        last = y.ndim - 1
        y = g.op("Transpose", y, axes=(last - 1, *range(last - 1), last))
    columns = math.prod(y.shape[1:])
    return g.reshape(g.op("BatchMatmul", g.reshape(x, (rows, depth)), g.reshape(y, (depth, columns))), shape)
