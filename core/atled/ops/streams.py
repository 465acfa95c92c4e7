"""Uniform random numbers from streams whose states are an array that the caller has: the numbers of `mrg31k3p`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from atled.array_desc import ArrayDesc
from atled.ops import mrg31k3p
from atled.ops.samples import Exact, Refused, Sample
from atled.ops.spec import Attribute, Input, OpSpec

_SEED = np.full(6, 12345, np.int32)
_DTYPES = (np.float32, np.float64)


class MRGUniform(OpSpec):
    """Uniform random numbers of MRG31k3p streams, `y = low + u (high - low)`, and the states behind them.

    Element i of y, in C order, takes the next value of stream i mod N. It draws the same numbers from the same rows:
    who wants other ones next time assigns new_rows to what rows were. Bounds are rounded to the dtype, and so is their
    difference; the rest is rounded once in float32. A y that would be a bound is the number beside it, so that
    bounds are excluded.

    Args:
        rows: (N, 6) int32; the states of the streams, as `mrg31k3p` has them.
        low, high: bounds.
        shape: (S...), of y.
        dtype: of y: float32 or float64.

    Returns:
        y: (S...) float; that of the attribute.
        new_rows: (N, 6) int32; those of streams of which no value was taken are as before.

    Raises:
        ValueError: rows have not six columns of int32, there is none for the elements of y, a size is negative, the
            dtype is another one.
    """

    category = "stochastic"
    no_gradient = "stops"
    inputs = (Input("rows", kind="keep", gradient="none"),)
    attributes = (
        Attribute("low", "float", 0.0),
        Attribute("high", "float", 1.0),
        Attribute("shape", "ints", ()),
        Attribute("dtype", "dtype", np.dtype(np.float32)),
    )
    outputs = ("y", "new_rows")

    def normalize(self, attributes: dict[str, Any], *inputs: Any) -> dict[str, Any]:
        if any(size < 0 for size in attributes["shape"]):
            raise self.error(inputs, f"shape={attributes['shape']} has a negative size", "use sizes from 0 on")
        if attributes["dtype"] not in _DTYPES:
            raise self.error(inputs, f"dtype={attributes['dtype']}", "use float32 or float64, and cast the result")
        return attributes

    def infer(self, rows: ArrayDesc, *, shape: tuple[int, ...], dtype: np.dtype, **_: Any) -> Sequence[ArrayDesc]:
        if rows.ndim != 2 or rows.shape[1] != 6 or rows.dtype != np.int32:
            wrong = f"rows are {rows.dtype} {list(rows.shape)}"
            raise self.error((rows,), wrong, "give int32 (N, 6): six numbers per stream")
        if not rows.shape[0] and math.prod(shape):
            raise self.error((rows,), "there is no stream to draw from", "give at least one row")
        return ArrayDesc(shape, dtype), ArrayDesc(rows.shape, rows.dtype)

    def reference(
        self, rows: np.ndarray, *, low: float, high: float, shape: tuple[int, ...], dtype: np.dtype
    ) -> Sequence[np.ndarray]:
        z, new_rows = mrg31k3p.draw(rows, math.prod(shape))
        first, last = dtype.type(low), dtype.type(high)
        u = mrg31k3p.uniform(z, dtype).astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):  # of bounds that are not finite, or too far apart
            y = (u * np.float64(last - first) + np.float64(first)).astype(dtype)
        inside = sorted((np.nextafter(first, last), np.nextafter(last, first)))
        return np.clip(y, *inside).reshape(shape), new_rows

    def samples(self) -> Sequence[Sample]:
        def rows(count: int) -> Exact:
            return Exact(mrg31k3p.substreams(_SEED, count))

        return (
            Sample(rows(2), shape=(3, 5)),
            Sample(rows(70), shape=(5, 67), dtype=np.float64),
            Sample(rows(40), low=-2.0, high=3.0, shape=(67,)),
            Sample(rows(5), low=1.0, high=-0.5, shape=(2, 1, 4), dtype=np.float64),
            Sample(rows(9), shape=()),
            Sample(rows(3), shape=(0, 3)),
            Sample(rows(0), shape=(0,)),
        )

    def refused(self) -> Sequence[Refused]:
        rows = Exact(mrg31k3p.substreams(_SEED, 2))
        return (
            Refused(ValueError, "negative size", rows, shape=(2, -1)),
            Refused(ValueError, "use float32 or float64", rows, shape=(2,), dtype=np.int32),
            Refused(ValueError, "six numbers per stream", Exact(np.zeros((2, 5), np.int32)), shape=(2,)),
            Refused(ValueError, "give int32", Exact(np.ones((2, 6))), shape=(2,)),
            Refused(ValueError, "no stream to draw from", Exact(np.zeros((0, 6), np.int32)), shape=(2,)),
        )
