"""Products of matrices, scaled and added to what their target holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from atled.errors import four_parts
from atled.keyed import Description, View
from atled.neon.calls.checks import asked, check_dtypes, check_numbers, check_shapes, check_tensors
from atled.neon.calls.described import Described, DescribedCalls, layer_call
from atled.neon.trees.tensor import Tensor

if TYPE_CHECKING:
    from atled_contexts import Context


class MatrixCalls(DescribedCalls):
    """Computes products."""

    if TYPE_CHECKING:
        context: Context

    @layer_call
    def compound_dot(
        self,
        A: Tensor,
        B: Tensor,
        C: Tensor,
        alpha: float = 1.0,
        beta: float = 0.0,
        relu: bool = False,
        bsum: Tensor | None = None,
    ) -> Described:
        """`C = alpha * A B + beta * C`; with relu, only what is positive of `alpha * A B`.

        Args:
            A: (M, K) float; views, transposed ones too, are read where they are.
            B: (K, N); of the same dtype, as C is.
            C: (M, N); the target, which may be a view. Where beta is 0, what it holds counts for nothing.
            alpha, beta: numbers.
            relu: whether the product is rectified, before `beta * C` is added.
            bsum: (M, 1); gets the sums of the rows of C. None for none.

        Returns:
            C.

        Raises:
            ValueError: shapes that do not fit, or tensors of another backend.
            TypeError: several dtypes, or what is no tensor or number.
        """
        return self._product("compound_dot", A, B, C, alpha, beta, relu, bsum)

    @layer_call
    def xnor_compound_dot(
        self,
        A: Tensor,
        B: Tensor,
        C: Tensor,
        beta: float = 0.0,
    ) -> Described:
        """`C = A B + beta * C` of matrices of -1 and 1, which are computed as any others.

        A, B, C: (M, K), (K, N) and (M, N) float, of one dtype.  Returns C. Raises as `compound_dot`.
        """
        return self._product("xnor_compound_dot", A, B, C, 1.0, beta, False, None)

    @layer_call
    def batched_dot(
        self,
        A: Tensor,
        B: Tensor,
        C: Tensor,
        alpha: float = 1.0,
        beta: float = 0.0,
        relu: bool = False,
    ) -> Described:
        """Products per entry of a batch of X: `C = alpha * A B + beta * C`, of one of three kinds.

        - A (M, K), B (X, K, N), C (X, M, N): `C[x] = A B[x]`; a transposed A is one.
        - A (X, M, N), B (X, N, K), which is the T of an (X, K, N), C (M, K): the sum over x of `A[x] B[x]`.

        Args:
            A, B, C: float, of one dtype; views are read and written where they are.
            alpha, beta, relu: as for `compound_dot`.

        Returns:
            C.

        Raises:
            ValueError: shapes of no such kind, or tensors of another backend.
            TypeError: several dtypes, or what is no tensor or number.
        """
        call = "batched_dot"
        check_tensors(self, call, A=A, B=B, C=C)
        check_dtypes(call, A=A, B=B, C=C)
        check_numbers(call, alpha=alpha, beta=beta)
        d, b = Description(self.context), B.view
        if len(A.shape) == 2 and len(B.shape) == 3 and A.shape[1] == B.shape[1]:
            count, rows, columns = B.shape[0], A.shape[0], B.shape[2]
            check_shapes(call, {"C": (count, rows, columns)}, A=A, B=B, C=C)
            y = d.call("BatchMatmul", d.leaf(A.view.broadcast_to((count, *A.shape))), d.leaf(b))
        elif len(A.shape) == len(B.shape) == 3 and (A.shape[0], A.shape[2]) == B.shape[:2]:
            check_shapes(call, {"C": (A.shape[1], B.shape[2])}, A=A, B=B, C=C)
            y = d.call("Sum", d.call("BatchMatmul", d.leaf(A.view), d.leaf(b)), axes=(0,), keep_dims=False)
        else:
            raise ValueError(
                four_parts(
                    asked(call, A=A, B=B, C=C),
                    "the shapes are of no kind of batched product",
                    "",
                    "give A (M, K), B (X, K, N) and C (X, M, N), or A (X, M, N), B (X, N, K) and C (M, K)",
                )
            )
        _assign(d, C.view, y, alpha, beta, relu)
        return Described(d, C)

    def _product(
        self,
        call: str,
        a: Tensor,
        b: Tensor,
        c: Tensor,
        alpha: float,
        beta: float,
        relu: bool,
        bsum: Tensor | None,
    ) -> Described:
        check_tensors(self, call, ["bsum"], A=a, B=b, C=c, bsum=bsum)
        check_dtypes(call, A=a, B=b, C=c)
        check_numbers(call, alpha=alpha, beta=beta)
        if len(a.shape) != 2 or len(b.shape) != 2 or a.shape[1] != b.shape[0]:
            wrong = "A has other columns than B has rows" if len(a.shape) == len(b.shape) == 2 else "they have two axes"
            raise ValueError(four_parts(asked(call, A=a, B=b, C=c), wrong, "", "give an A (M, K) and a B (K, N)"))
        rows, columns = a.shape[0], b.shape[1]
        check_shapes(call, {"C": (rows, columns), "bsum": (rows, 1)}, A=a, B=b, C=c, bsum=bsum)
        d = Description(self.context)
        y = _assign(d, c.view, d.call("BatchMatmul", d.leaf(a.view), d.leaf(b.view)), alpha, beta, relu)
        if bsum is not None:
            d.assign(bsum.view, d.call("Sum", y, axes=(1,), keep_dims=True))
        return Described(d, c)


def _assign(d: Description, target: View, product: int, alpha: float, beta: float, relu: bool) -> int:
    """Assign a product, scaled, rectified and added to beta times what the target holds; its new values."""
    y = product if alpha == 1 else d.call("Mul2", product, d.number(alpha))
    if relu:
        y = d.call("ReLU", y)
    if beta:
        before = d.leaf(target)
        y = d.call("Add2", y, before if beta == 1 else d.call("Mul2", before, d.number(beta)))
    d.assign(target, y)
    return y
