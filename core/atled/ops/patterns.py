"""Arrays that follow from their attributes alone: numbers at equal distances, identity matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from atled.array_desc import ArrayDesc
from atled.ops.samples import Refused, Sample
from atled.ops.spec import Attribute, OpSpec

if TYPE_CHECKING:
    from atled.ops.rules import GradientCall, IRValue

# Given by the caller: a type config has no say in what is counted, or in the 1 of a matrix.
_DTYPE = Attribute("dtype", "dtype", np.dtype(np.float32))


class Arange(OpSpec):
    """Numbers at equal distances, `y[i] = start + i step`, computed in float64 and rounded to the dtype once.

    `numpy.arange(start, stop, step)` has `count = max(ceil((stop - start) / step), 0)`.

    Args:
        start: the first one.
        step: their distance; may be negative or 0.
        count: how many.
        dtype: of y; fractions are cut off where it is one of whole numbers. Those beyond 2**53 are rounded.

    Returns:
        y: (count,) any dtype; that of the attribute.

    Raises:
        ValueError: count is negative.
    """

    category = "array"
    integers = "exact"
    attributes = (
        Attribute("start", "float", 0.0),
        Attribute("step", "float", 1.0),
        Attribute("count", "int"),
        _DTYPE,
    )

    def normalize(self, attributes: dict[str, Any], *inputs: Any) -> dict[str, Any]:
        if attributes["count"] < 0:
            raise self.error(inputs, f"count={attributes['count']}", "use 0 or more")
        return attributes

    def infer(self, *, count: int, dtype: np.dtype, **_: Any) -> ArrayDesc:
        return ArrayDesc((count,), dtype)

    def reference(self, *, start: float, step: float, count: int, dtype: np.dtype) -> np.ndarray:
        return (start + step * np.arange(count, dtype=np.float64)).astype(dtype)

    def gradient(self, g: GradientCall, **_: Any) -> Sequence[IRValue | None]:
        return ()

    def samples(self) -> Sequence[Sample]:
        return (
            Sample(start=2.5, step=-0.5, count=7),
            Sample(start=3, step=2, count=4, dtype=np.int32),
            Sample(count=0),
        )

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "count=-1", count=-1),
            Refused(TypeError, "count is missing"),
            Refused(TypeError, "start", start="0", count=2),
        )


class Eye(OpSpec):
    """Matrices with 1 on a diagonal and 0 elsewhere, as `numpy.eye`: `y[i, i + offset] = 1`.

    Args:
        rows: M.
        columns: N; default M.
        offset: which diagonal; positive ones are above the main one, negative ones below.
        dtype: of y.

    Returns:
        y: (M, N) any dtype; that of the attribute.

    Raises:
        ValueError: a negative size.
    """

    category = "array"
    integers = "exact"
    attributes = (
        Attribute("rows", "int"),
        Attribute("columns", "int", None),
        Attribute("offset", "int", 0),
        _DTYPE,
    )

    def normalize(self, attributes: dict[str, Any], *inputs: Any) -> dict[str, Any]:
        rows, columns = attributes["rows"], attributes["columns"]
        columns = rows if columns is None else columns
        if min(rows, columns) < 0:
            raise self.error(inputs, f"rows={rows}, columns={columns}", "use sizes from 0 on")
        return {**attributes, "columns": columns}

    def infer(self, *, rows: int, columns: int, dtype: np.dtype, **_: Any) -> ArrayDesc:
        return ArrayDesc((rows, columns), dtype)

    def reference(self, *, rows: int, columns: int, offset: int, dtype: np.dtype) -> np.ndarray:
        return np.eye(rows, columns, offset, dtype)

    def gradient(self, g: GradientCall, **_: Any) -> Sequence[IRValue | None]:
        return ()

    def samples(self) -> Sequence[Sample]:
        return (
            Sample(rows=2, columns=4, offset=1),
            Sample(rows=4, columns=3, offset=-2, dtype=np.int8),
            Sample(rows=0),
        )

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "columns=-1", rows=2, columns=-1),
            Refused(TypeError, "rows is missing"),
        )
