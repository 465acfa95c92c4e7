"""Functions that make variables and placeholders, and expressions in the shape of others."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from atled.errors import four_parts
from atled.keras_backend.expressions.calls import expression, sized_call
from atled.keras_backend.expressions.expression import Expression
from atled.keras_backend.expressions.leaves import Placeholder, Variable, numbers
from atled.keras_backend.expressions.sizes import Sizes, sizes
from atled.keras_backend.functions.dtypes import dtype_of
from atled.keras_backend.settings import floatx

if TYPE_CHECKING:
    from atled.keras_backend.compiling.specialization import Specialization, Value


def variable(value: Any, dtype: Any = None, name: str | None = None) -> Variable:
    """A variable with a first value.

    value: a number, list or array, a variable, or an expression without placeholders, which is evaluated.
    dtype: None for `floatx()`, whatever value is.
    """
    wanted = dtype_of(floatx() if dtype is None else dtype)
    found = value.eval() if isinstance(value, Expression) else value
    return Variable(numbers(found, wanted, f"a variable of a {type(value).__name__}"), name)


def placeholder(
    shape: Sequence[int | None] | None = None,
    ndim: int | None = None,
    dtype: Any = None,
    sparse: bool = False,
    name: str | None = None,
) -> Placeholder:
    """An input of functions, of which only the count of axes and the dtype are known.

    shape: only its length counts.  dtype: None for `floatx()`.  sparse: ignored.
    ValueError: neither shape nor ndim, or two that differ.  TypeError: a shape without a length, or what is no count.
    """
    if shape is None and ndim is None:
        raise ValueError(four_parts("a placeholder", "neither shape nor ndim is given", "", "give one of them"))
    is_counted = ndim is None or isinstance(ndim, int | np.integer)
    if not is_counted or not (shape is None or hasattr(shape, "__len__")):
        wrong = f"shape={shape!r} and ndim={ndim!r} do not say how many axes it has"
        raise TypeError(four_parts("a placeholder", wrong, "", "give a tuple as shape, or an int as ndim"))
    if shape is not None and ndim is not None and len(shape) != ndim:
        wrong = f"shape={tuple(shape)} has {len(shape)} entries, ndim is {ndim}"
        raise ValueError(four_parts("a placeholder", wrong, "", "give one of them"))
    count = len(shape) if shape is not None else operator.index(ndim)  # type: ignore[arg-type]  # one of them is given
    if count < 0:
        raise ValueError(four_parts("a placeholder", f"ndim={ndim}", "", "give 0 or more"))
    return Placeholder(count, dtype_of(floatx() if dtype is None else dtype), name)


def zeros(shape: Any, dtype: Any = None, name: str | None = None) -> Variable:
    """A variable of zeros.

    shape: sizes; those that are expressions are evaluated.  dtype: None for `floatx()`.
    """
    return Variable(np.zeros(_evaluated(shape), dtype_of(floatx() if dtype is None else dtype)), name)


def ones(shape: Any, dtype: Any = None, name: str | None = None) -> Variable:
    """A variable of ones; arguments as those of `zeros`."""
    return Variable(np.ones(_evaluated(shape), dtype_of(floatx() if dtype is None else dtype)), name)


def eye(size: Any, dtype: Any = None, name: str | None = None) -> Variable:
    """A variable with an identity matrix of size rows; arguments as those of `zeros`."""
    (count,) = _evaluated((size,))
    return Variable(np.eye(count, dtype=dtype_of(floatx() if dtype is None else dtype)), name)


def zeros_like(x: Any, dtype: Any = None, name: str | None = None) -> Expression:
    """Zeros in the shape of x: of a variable a variable, else an expression.  dtype: None for that of x."""
    return _like(x, 0, dtype, name)


def ones_like(x: Any, dtype: Any = None, name: str | None = None) -> Expression:
    """Ones in the shape of x: of a variable a variable, else an expression.  dtype: None for that of x."""
    return _like(x, 1, dtype, name)


def _like(x: Any, value: int, dtype: Any, name: str | None) -> Expression:
    given = expression(x)
    wanted = given.type if dtype is None else dtype_of(dtype)
    if isinstance(given, Variable):
        return Variable(np.full(given.array.shape, value, wanted), name)

    def rule(into: Specialization, values: Sequence[Value]) -> dict[str, Any]:
        return {"val": float(value), "shape": into.value(given).desc.shape, "dtype": wanted}

    made = sized_call("Constant", rule=rule, sizes=[given], ndim=given.ndim, dtype=wanted)
    made.name = name
    return made


def _evaluated(shape: Any) -> tuple[int, ...]:
    """Sizes as numbers.  ValueError: a negative one."""
    entries = sizes(shape)
    is_known = not any(isinstance(each, Expression) for each in entries)
    found = tuple(int(each) for each in (np.array(entries, np.int64) if is_known else Sizes(entries).eval()))
    if any(each < 0 for each in found):
        raise ValueError(four_parts(f"a variable of shape {found}", "a size is negative", "", "use sizes from 0 on"))
    return found
