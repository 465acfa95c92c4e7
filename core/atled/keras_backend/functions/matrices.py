"""Linear algebra."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from atled.errors import four_parts
from atled.keras_backend.expressions.calls import call, calls, expression, sized_call
from atled.keras_backend.expressions.expression import Expression
from atled.keras_backend.expressions.messages import asked, counted
from atled.keras_backend.expressions.promotion import cast

if TYPE_CHECKING:
    from atled.keras_backend.compiling.specialization import Specialization, Value


def dot(x: Any, y: Any) -> Expression:
    """The product over the last axis of x and the last but one of y, as `numpy.dot`: (4, 2) . (5, 2, 3) -> (4, 5, 3).

    With a vector y over its only axis; with an operand without axes, the product of it and each element.
    """
    return call("Dot", x, y)


def diag(x: Any) -> Expression:
    """Of a vector the matrix with it on its diagonal, of a matrix its diagonal.  ValueError: other counts of axes."""
    given = expression(x)
    if given.ndim not in (1, 2):
        wrong = f"x has {counted(given.ndim)}"
        raise ValueError(four_parts(asked("diag", (given,)), wrong, "", "give a vector or a matrix"))
    return call("DiagonalMatrix" if given.ndim == 1 else "Diagonal", given)


def fill_diagonal(x: Any, val: Any) -> Expression:
    """x with other elements on its diagonal.

    x: a matrix.  val: one element, or one for each row of x; cast to the dtype of x.
    """
    given, value = expression(x), expression(val)
    if given.ndim != 2 or value.ndim > 1:
        wrong = f"x has {counted(given.ndim)} and val {value.ndim}"
        raise ValueError(four_parts(asked("fill_diagonal", (given, value)), wrong, "", "give a matrix and a vector"))
    is_on = sized_call("Eye", rule=_eye_of(given), sizes=[given], ndim=2, dtype=np.bool_)
    if value.ndim:
        value = value[:, None]  # one for each row
    return call("Where", is_on, cast(value, given.type), given)


def solve(a: Any, b: Any) -> Expression:
    """The x of `a x = b`.

    a: a square matrix.  b: a vector, or a matrix of several as columns.  ValueError, at the call: a is singular.
    """
    left, right = expression(a), expression(b)
    if left.ndim != 2 or right.ndim not in (1, 2):
        wrong = f"a has {counted(left.ndim)} and b {right.ndim}"
        remedy = "give a matrix, and a vector or a matrix"
        raise ValueError(four_parts(asked("solve", (left, right)), wrong, "", remedy))
    return call("Solve", left, right)


def svd(x: Any) -> tuple[Expression, Expression, Expression]:
    """U, S and V of the singular value decomposition of a matrix, `x = U diag(S) V`.

    U and V are square, S is a vector, in descending order; V is transposed already. There is a gradient of S, and of
    all three where x is square and its singular values differ.
    """
    given = expression(x)
    if given.ndim != 2:
        raise ValueError(four_parts(asked("svd", (given,)), f"x has {counted(given.ndim)}", "", "give a matrix"))
    u, s, v = calls("SVD", given, full_matrices=True)
    return u, s, v


def _eye_of(x: Expression) -> Any:
    """Of Eye: a matrix of the shape of another."""

    def rule(into: Specialization, values: Sequence[Value]) -> dict[str, Any]:
        rows, columns = into.value(x).desc.shape
        return {"rows": rows, "columns": columns, "dtype": np.dtype(np.bool_)}

    return rule
