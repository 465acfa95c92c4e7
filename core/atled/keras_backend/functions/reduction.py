"""Functions along axes: sums and other reductions, and running sums and products.

axis: an int, negative ones from the last axis on, a list or tuple of them, None for all.
keepdims: whether the axes stay, with size 1.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from atled.errors import RefusedError, four_parts
from atled.keras_backend.expressions.calls import call, expression, sized_call
from atled.keras_backend.expressions.expression import Expression, place
from atled.keras_backend.expressions.messages import asked
from atled.keras_backend.expressions.promotion import cast
from atled.keras_backend.settings import floatx

if TYPE_CHECKING:
    from atled.keras_backend.compiling.specialization import Specialization, Value

Axis = int | Sequence[int] | None


def sum(x: Any, axis: Axis = None, keepdims: bool = False) -> Expression:
    """The sum over axes; of integers and truth values in int64, as NumPy has it."""
    return _reduced("Sum", x, axis, keepdims)


def prod(x: Any, axis: Axis = None, keepdims: bool = False) -> Expression:
    """The product over axes; of integers and truth values in int64, as NumPy has it."""
    return _reduced("Product", x, axis, keepdims)


def mean(x: Any, axis: Axis = None, keepdims: bool = False) -> Expression:
    """The mean over axes; of integers and truth values in `floatx()`."""
    return _reduced("Mean", _as_float(x, floatx()), axis, keepdims)


def var(x: Any, axis: Axis = None, keepdims: bool = False) -> Expression:
    """The mean squared distance from the mean; of integers and truth values in float64."""
    given = _as_float(x, np.float64)
    distance = call("Sub2", given, _reduced("Mean", given, axis, True))
    return _reduced("Mean", call("Square", distance), axis, keepdims)


def std(x: Any, axis: Axis = None, keepdims: bool = False) -> Expression:
    """The square root of `var`."""
    return call("Sqrt", var(x, axis, keepdims))


def max(x: Any, axis: Axis = None, keepdims: bool = False) -> Expression:
    """The largest element; where several are, each gets the whole gradient."""
    return _reduced("MaxTies", x, axis, keepdims)


def min(x: Any, axis: Axis = None, keepdims: bool = False) -> Expression:
    """The smallest element; where several are, each gets the whole gradient."""
    return _reduced("MinTies", x, axis, keepdims)


def argmax(x: Any, axis: Axis = -1) -> Expression:
    """The index of the first largest element, int64; the axis is dropped. None: that in x flattened."""
    return _reduced("ArgMax", x, axis, False)


def argmin(x: Any, axis: Axis = -1) -> Expression:
    """The index of the first smallest element, int64; the axis is dropped. None: that in x flattened."""
    return _reduced("ArgMin", x, axis, False)


def all(x: Any, axis: Axis = None, keepdims: bool = False) -> Expression:
    """Whether all elements are other than 0: bool.

    x: an expression, or a list of some; with an axis these are stacked first, without one they may have any shapes.
    """
    return _truth("All", "MinimumTies", x, axis, keepdims)


def any(x: Any, axis: Axis = None, keepdims: bool = False) -> Expression:
    """Whether an element is other than 0: bool.

    x: as for `all`.
    """
    return _truth("Any", "MaximumTies", x, axis, keepdims)


def logsumexp(x: Any, axis: Axis = None, keepdims: bool = False) -> Expression:
    """log(sum(exp(x))) over axes, without overflow; -inf where all elements are. Its gradient is the softmax."""
    return _reduced("LogSumExp", x, axis, keepdims)


def logdiffexp(x: Any, axis: int | None = None, keepdims: bool = False) -> Expression:
    """log(exp(x[1]) - exp(x[0])) along an axis of two elements, without overflow; NaN where x[1] is less than x[0].

    None: of x flattened.  ValueError, when sizes are known: the axis has another count of elements.
    """
    given = expression(x)
    if axis is None:
        flat = call("Reshape", given, ndim=1, dtype=given.type, shape=(-1,))
        found = _difference(flat, 0, False)
        if not keepdims:
            return found
        return call("Reshape", found, ndim=given.ndim, dtype=given.type, shape=(1,) * given.ndim)
    along = axes_of(axis) or ()
    if len(along) != 1 or not -given.ndim <= along[0] < given.ndim:
        remedy = f"name one of {-given.ndim} to {given.ndim - 1}, or None"
        raise ValueError(four_parts(asked("logdiffexp", (given,)), f"axis={axis!r}", "", remedy))
    return _difference(given, along[0] % given.ndim, bool(keepdims))


def _difference(x: Expression, axis: int, keepdims: bool) -> Expression:
    def side(first: int) -> Expression:
        def rule(into: Specialization, values: Sequence[Value]) -> dict[str, Any]:
            shape = values[0].desc.shape
            if shape[axis] != 2:
                wrong = f"axis {axis} has {shape[axis]} elements"
                raise RefusedError(four_parts("logdiffexp()", wrong, "", "give two of them: the smaller one first"))
            start = tuple(first if each == axis else 0 for each in range(x.ndim))
            stop = tuple(first + 1 if each == axis else size for each, size in enumerate(shape))
            return {"start": start, "stop": stop, "step": (1,) * x.ndim}

        return sized_call("Slice", x, rule=rule, ndim=x.ndim, dtype=x.type)

    found = call("LogDiffExp", side(0), side(1))
    return found if keepdims else found[(slice(None),) * axis + (0,)]


def cumsum(x: Any, axis: int | None = 0) -> Expression:
    """The sums of the elements up to each one along an axis; None: of x flattened."""
    return _running("CumSum", x, axis)


def cumprod(x: Any, axis: int | None = 0) -> Expression:
    """The products of the elements up to each one along an axis; None: of x flattened."""
    return _running("CumProd", x, axis)


def axes_of(axis: Any) -> tuple[int, ...] | None:
    """An axis argument as ops take it.  TypeError: an entry is no whole number."""
    if axis is None:
        return None
    try:
        if isinstance(axis, list | tuple | np.ndarray):
            return tuple(operator.index(each) for each in axis)
        return (operator.index(axis),)
    except TypeError:
        raise TypeError(
            four_parts(
                f"{place()[1]} with axis={axis!r}", "that is no axis", "", "give an int, a list of ints, or None"
            )
        ) from None  # which entry it is shows in the text


def _reduced(op: str, x: Any, axis: Axis, keepdims: bool) -> Expression:
    return call(op, expression(x), axes=axes_of(axis), keep_dims=bool(keepdims))


def _truth(op: str, combining: str, x: Any, axis: Axis, keepdims: bool) -> Expression:
    if not isinstance(x, list | tuple) or axis is not None or keepdims:
        return _reduced(op, x, axis, keepdims)
    if not x:
        empty = f"{place()[1]} of an empty {type(x).__name__}"
        raise ValueError(four_parts(empty, "there is nothing to look at", "", "give an expression, or a list of some"))
    found, *others = [_reduced(op, each, None, False) for each in x]
    for each in others:
        found = call(combining, found, each)
    return found


def _running(op: str, x: Any, axis: int | None) -> Expression:
    given = expression(x)
    if axis is None:
        given, axis = call("Reshape", given, ndim=1, dtype=given.type, shape=(-1,)), 0
    (along,) = axes_of(axis) or (0,)
    return call(op, given, axis=along)


def _as_float(x: Any, dtype: Any) -> Expression:
    given = expression(x)
    return given if given.type.kind == "f" else cast(given, dtype)
