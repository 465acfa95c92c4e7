"""Systems of linear equations and singular values, by LAPACK on the host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from atled.array_desc import ArrayDesc
from atled.errors import four_parts
from atled.ops.samples import Exact, Refused, Sample
from atled.ops.spec import Attribute, Input, OpSpec

if TYPE_CHECKING:
    from atled.ops.rules import GradientCall, IRValue

_TOLERANCE = {"float64": 1e-9, "float32": 2e-4, "float16": 5e-2, "bfloat16": 2e-1}
"""Errors grow with the condition of the matrices, which is below 10 in the samples."""


class Solve(OpSpec):
    """The x of `a x = b`, by an LU factorization with row exchanges (LAPACK gesv).

    A matrix with elements that are not finite gives NaN where they have a part.

    Args:
        a: (B..., N, N) float.
        b: (B..., N, K) float; or (N,) where a is (N, N).

    Returns:
        x: shape of b, float.

    Raises:
        ValueError: the matrices are not square, the axes of b do not fit; a matrix is singular, which is found when it
            is factorized: nothing is written then.
    """

    category = "math"
    tolerance = _TOLERANCE
    inputs = (Input("a"), Input("b"))
    outputs = ("x",)

    def infer(self, a: ArrayDesc, b: ArrayDesc) -> ArrayDesc:
        if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
            raise self.error((a, b), "a does not hold square matrices", "make its last two axes equal")
        rows = a.shape[:-1]
        if b.shape[:-1] != rows and (a.ndim, b.shape) != (2, rows):
            columns = ", ".join(map(str, (*rows, "K")))
            raise self.error((a, b), "the axes of b are not those of a", f"use ({columns}), or (N,) for one matrix")
        return ArrayDesc(b.shape, a.dtype)

    def reference(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        try:
            return np.linalg.solve(a, b)
        except np.linalg.LinAlgError as error:
            raise ValueError(
                four_parts(
                    f"Solve(a: {list(a.shape)}, b: {list(b.shape)})",
                    _which_singular(a),
                    "",
                    "check the rows for those that follow from others, or add a small number to the diagonal",
                )
            ) from error

    def gradient(self, g: GradientCall, a: IRValue, b: IRValue) -> Sequence[IRValue | None]:
        gb = g.op("Solve", _transposed(g, a), g.gy)
        ga = None
        if g.needs[0]:
            columns = (*a.shape[:-1], 1) if b.ndim < a.ndim else b.shape
            ga = -g.op("BatchMatmul", g.reshape(gb, columns), g.reshape(g.y, columns), transpose_b=True)
        return ga, gb

    def samples(self) -> Sequence[Sample]:
        matrices = [[4.0, 1.0, 0.5], [-1.0, 3.0, 0.25], [0.5, -0.75, 5.0]], [[0.0, 2.0, 1.0], [3.0, 0, 1], [1, -1, 4]]
        return (
            Sample(Exact(matrices[0]), (3, 2)),
            Sample(Exact(matrices[1]), (3,)),
            Sample(Exact(matrices), (2, 3, 2)),
            Sample((0, 2, 2), (0, 2, 1)),
        )

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "square matrices", (2, 3), (2,)),
            Refused(ValueError, "square matrices", (3,), (3,)),
            Refused(ValueError, r"use \(3, K\)", (3, 3), (4, 2)),
            Refused(ValueError, "axes of b", (2, 3, 3), (2, 3)),
            Refused(ValueError, "a is singular", Exact([[1.0, 2.0], [2.0, 4.0]]), (2,)),
            Refused(ValueError, r"a\[1\] is singular", Exact([[[1.0, 0], [0, 1]], [[0, 0], [0, 0.0]]]), (2, 2, 1)),
        )


def _which_singular(a: np.ndarray) -> str:
    """The first matrix that has no inverse, in words."""
    for place in np.ndindex(a.shape[:-2]):
        try:
            np.linalg.inv(a[place])
        except np.linalg.LinAlgError:
            return f"a{list(place) if place else ''} is singular"
    return "a matrix is singular"


def _transposed(g: GradientCall, x: IRValue) -> IRValue:
    """The last two axes exchanged."""
    return g.op("Transpose", x, axes=(*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))


class SVD(OpSpec):
    """Singular value decomposition, `x = u diag(s) vt` with orthonormal columns of u and rows of vt (LAPACK gesdd).

    The gradient is that of Townsend, Differentiating the Singular Value Decomposition, 2016; it is not finite where two
    singular values are equal, or where one is 0. Of u and vt with full_matrices it exists for square matrices only.
    A matrix with elements that are not finite gives NaN throughout.

    Args:
        x: (B..., M, N) float.
        full_matrices: whether u and vt are square; else they have K = min(M, N) columns, or rows.

    Returns:
        u: (B..., M, K) float; with full_matrices (B..., M, M).
        s: (B..., K) float; in descending order.
        vt: (B..., K, N) float; with full_matrices (B..., N, N).

    Raises:
        ValueError: x has fewer than two axes.
    """

    category = "math"
    tolerance = _TOLERANCE
    inputs = (Input("x"),)
    attributes = (Attribute("full_matrices", "bool", False),)
    outputs = ("u", "s", "vt")
    saved = ("u", "s", "vt")

    def infer(self, x: ArrayDesc, *, full_matrices: bool) -> Sequence[ArrayDesc]:
        if x.ndim < 2:
            raise self.error((x,), f"x has {x.ndim} axes", "give it at least two: (..., M, N)")
        *batch, rows, columns = x.shape
        count = min(rows, columns)
        height, width = (rows, columns) if full_matrices else (count, count)
        shapes = (*batch, rows, height), (*batch, count), (*batch, width, columns)
        return tuple(ArrayDesc(shape, x.dtype) for shape in shapes)

    def reference(self, x: np.ndarray, *, full_matrices: bool) -> Sequence[np.ndarray]:
        is_finite = np.isfinite(x).all(axis=(-2, -1), keepdims=True)
        u, s, vt = np.linalg.svd(np.where(is_finite, x, 0), full_matrices=full_matrices)
        return np.where(is_finite, u, np.nan), np.where(is_finite[..., 0], s, np.nan), np.where(is_finite, vt, np.nan)

    def gradient(self, g: GradientCall, x: IRValue, *, full_matrices: bool) -> Sequence[IRValue | None]:
        if not x.size:
            return (g.op("Constant", val=0.0, shape=x.shape, dtype=x.dtype),)
        u, s, vt = g.outputs
        gu, gs, gvt = g.cotangents
        if full_matrices and x.shape[-1] != x.shape[-2]:
            if gu is not None or gvt is not None:
                raise RuntimeError(
                    four_parts(
                        f"backward through SVD(x: {list(x.shape)}, full_matrices=True)",
                        "the square u and vt of a matrix that is not square have no gradient",
                        "",
                        "use full_matrices=False, or s alone",
                    )
                )
            count = s.shape[-1]
            u, vt = _first(g, u, u.ndim - 1, count), _first(g, vt, vt.ndim - 2, count)
        return (_svd_gradient(g, u, s, vt, gu, gs, gvt),)

    def samples(self) -> Sequence[Sample]:
        matrix = [[3.0, 0.5, -1.0], [0.25, -2.0, 0.5], [1.0, 0.75, 1.0]]
        return (
            Sample(Exact(matrix)),
            Sample(Exact([[2.0, 0.5], [-1.0, 1.5], [0.25, 1.0]])),
            Sample(Exact([matrix[:2], matrix[1:]])),
            Sample(Exact([[2.0, 0.5, 1.0], [-1.0, 1.5, 0.25]]), full_matrices=True).no_gradient(),
            Sample((0, 2, 2)),
        )

    def refused(self) -> Sequence[Refused]:
        return (Refused(ValueError, "x has 1 axes", (3,)), Refused(TypeError, "full_matrices", (2, 2), full_matrices=2))


def _first(g: GradientCall, x: IRValue, axis: int, count: int) -> IRValue:
    """The first elements along an axis."""
    stop = (*x.shape[:axis], count, *x.shape[axis + 1 :])
    return x if stop == x.shape else g.op("Slice", x, start=(0,) * x.ndim, stop=stop)


def _svd_gradient(
    g: GradientCall,
    u: IRValue,
    s: IRValue,
    vt: IRValue,
    gu: IRValue | None,
    gs: IRValue | None,
    gvt: IRValue | None,
) -> IRValue:
    """`u core vt`, and what lies outside of the spaces that u and vt span."""
    batch, count = s.shape[:-1], s.shape[-1]
    by_column, by_row = g.reshape(s, (*batch, 1, count)), g.reshape(s, (*batch, count, 1))
    eye = g.reshape(g.op("Eye", rows=count, dtype=s.dtype), (*(1 for _ in batch), count, count))
    # 1 / (s_j^2 - s_i^2) off the diagonal, 0 on it.
    apart = (1.0 - eye) / (by_column * by_column - by_row * by_row + eye)

    def antisymmetric(product: IRValue) -> IRValue:
        return apart * (product - _transposed(g, product))

    zero = g.op("Constant", val=0.0, shape=s.shape, dtype=s.dtype)
    core = g.op("DiagonalMatrix", zero if gs is None else gs)
    left, right = None, None
    if gu is not None:
        product = g.op("BatchMatmul", u, gu, transpose_a=True)
        core = core + antisymmetric(product) * by_column
        if u.shape[-2] > count:
            left = (gu - g.op("BatchMatmul", u, product)) / by_column
    if gvt is not None:
        product = g.op("BatchMatmul", vt, gvt, transpose_b=True)
        core = core + by_row * antisymmetric(product)
        if vt.shape[-1] > count:
            right = (gvt - g.op("BatchMatmul", product, vt, transpose_a=True)) / by_row
    inner = g.op("BatchMatmul", u, core)
    gx = g.op("BatchMatmul", inner if left is None else inner + left, vt)
    return gx if right is None else gx + g.op("BatchMatmul", u, right)
