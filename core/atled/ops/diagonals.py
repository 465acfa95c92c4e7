"""Any diagonal of matrices, and matrices with given diagonals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from atled.array_desc import ArrayDesc
from atled.ops.samples import Refused, Sample
from atled.ops.spec import Attribute, Input, OpSpec
from atled.strides import Window, diagonal

if TYPE_CHECKING:
    from atled.ops.rules import GradientCall, IRValue


def diagonal_length(rows: int, columns: int, offset: int) -> int:
    """How many elements a diagonal has; 0 where it is outside of the matrix."""
    return max(0, min(rows + min(offset, 0), columns - max(offset, 0)))


class Diagonal(OpSpec):
    """A diagonal of matrices: `y[..., i] = x[..., i, i + offset]`; for a negative offset `x[..., i - offset, i]`.

    Args:
        x: (..., M, N) float.
        offset: which diagonal; positive ones are above the main one, negative ones below.

    Returns:
        y: (..., K) float; K = 0 where the diagonal is outside of the matrix.

    Raises:
        ValueError: x has fewer than two axes.
    """

    category = "math"
    integers = "exact"
    inputs = (Input("x"),)
    moves = True
    attributes = (Attribute("offset", "int", 0),)

    def infer(self, x: ArrayDesc, *, offset: int) -> ArrayDesc:
        if x.ndim < 2:
            raise self.error((x,), f"x has {x.ndim} axes", "give it at least two: (..., M, N)")
        return ArrayDesc((*x.shape[:-2], diagonal_length(x.shape[-2], x.shape[-1], offset)), x.dtype)

    def reference(self, x: np.ndarray, *, offset: int) -> np.ndarray:
        return np.diagonal(x, offset, axis1=-2, axis2=-1).copy()

    def window(self, x: Window, attributes: Mapping[str, Any]) -> Window:
        return diagonal(x, attributes["offset"], -2, -1)

    def gradient(self, g: GradientCall, x: IRValue, *, offset: int) -> Sequence[IRValue | None]:
        rows, columns = x.shape[-2:]
        return (g.op("DiagonalMatrix", g.gy, rows=rows, columns=columns, offset=offset),)

    def samples(self) -> Sequence[Sample]:
        return (
            Sample((2, 3, 5), offset=1),
            Sample((4, 2), offset=-2),
            Sample((2, 3), offset=7),
        )

    def refused(self) -> Sequence[Refused]:
        return (Refused(ValueError, "x has 1 axes", (3,)), Refused(TypeError, "offset", (3, 3), offset=0.5))


class DiagonalMatrix(OpSpec):
    """Matrices with the given elements on a diagonal and 0 elsewhere: the adjoint of `Diagonal`.

    Args:
        x: (..., K) float.
        rows: M; default K and as many more as offset tells, as `numpy.diag`.
        columns: N; default as for rows.
        offset: which diagonal; positive ones are above the main one, negative ones below.

    Returns:
        y: (..., M, N) float.

    Raises:
        ValueError: x has no axes, a matrix of M rows and N columns has not K elements there.
    """

    category = "math"
    integers = "exact"
    inputs = (Input("x"),)
    moves = True
    attributes = (
        Attribute("rows", "int", None),
        Attribute("columns", "int", None),
        Attribute("offset", "int", 0),
    )

    def normalize(self, attributes: dict[str, Any], *inputs: Any) -> dict[str, Any]:
        (x,) = inputs
        if not x.ndim:
            raise self.error(inputs, "x has no axes", "give it at least one")
        length, offset = x.shape[-1], attributes["offset"]
        rows = length + abs(offset) if attributes["rows"] is None else attributes["rows"]
        columns = length + abs(offset) if attributes["columns"] is None else attributes["columns"]
        if min(rows, columns) < 0 or diagonal_length(rows, columns, offset) != length:
            wrong = f"diagonal {offset} of a matrix of {rows} rows and {columns} columns has not {length} elements"
            raise self.error(inputs, wrong, "leave rows and columns out, or give those of the matrix that it is of")
        return {"rows": rows, "columns": columns, "offset": offset}

    def infer(self, x: ArrayDesc, *, rows: int, columns: int, **_: Any) -> ArrayDesc:
        return ArrayDesc((*x.shape[:-1], rows, columns), x.dtype)

    def reference(self, x: np.ndarray, *, rows: int, columns: int, offset: int) -> np.ndarray:
        y = np.zeros((*x.shape[:-1], rows, columns), x.dtype)
        along = np.arange(x.shape[-1])
        y[..., along + max(-offset, 0), along + max(offset, 0)] = x
        return y

    def gradient(self, g: GradientCall, x: IRValue, *, offset: int, **_: Any) -> Sequence[IRValue | None]:
        return (g.op("Diagonal", g.gy, offset=offset),)

    def samples(self) -> Sequence[Sample]:
        return (
            Sample((2, 3), rows=3, columns=5, offset=1),
            Sample((2,), offset=-2),
            Sample((2, 0), rows=2, columns=3, offset=7),
        )

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "x has no axes", ()),
            Refused(ValueError, "has not 3 elements", (3,), rows=3, columns=3, offset=1),
            Refused(ValueError, "has not 3 elements", (3,), rows=-1),
        )
