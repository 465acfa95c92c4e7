"""Functions that give elements another shape or order, join them, and repeat them.

Sizes and counts may be integer expressions without axes; shapes lists or tuples of ints and such expressions, or what
`shape` gives.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from atled.errors import RefusedError, four_parts
from atled.keras_backend.expressions.calls import Rule, call, expression, sized_call
from atled.keras_backend.expressions.expression import Expression, place
from atled.keras_backend.expressions.messages import asked, counted
from atled.keras_backend.expressions.sizes import Size, size, sizes
from atled.keras_backend.functions.dtypes import dtype_of
from atled.keras_backend.functions.reduction import axes_of
from atled.keras_backend.settings import floatx

if TYPE_CHECKING:
    from atled.keras_backend.compiling.specialization import Specialization, Value


def reshape(x: Any, shape: Any) -> Expression:
    """The same elements, in C order, in another shape; one entry may be -1 and then follows from the others."""
    given, wanted = expression(x), sizes(shape)
    if sum(each == -1 for each in wanted if isinstance(each, int)) > 1:
        wrong = f"shape={shape!r} has -1 more than once"
        raise ValueError(four_parts(asked(place()[1], (given,)), wrong, "", "give all sizes but one"))
    return call("Reshape", given, ndim=len(wanted), dtype=given.type, shape=wanted)


def flatten(x: Any) -> Expression:
    """The elements, in C order, along one axis."""
    given = expression(x)
    return call("Reshape", given, ndim=1, dtype=given.type, shape=(-1,))


def squeeze(x: Any, axis: int) -> Expression:
    """Without an axis of one element."""
    given = expression(x)
    along = _axis(given, axis)

    def rule(into: Specialization, values: Sequence[Value]) -> dict[str, Any]:
        shape = values[0].desc.shape
        if shape[along] != 1:
            wrong = f"axis {axis} has {shape[along]} elements"
            raise RefusedError(four_parts("squeeze()", wrong, "", "name an axis of one element"))
        return {"shape": shape[:along] + shape[along + 1 :]}

    return sized_call("Reshape", given, rule=rule, ndim=given.ndim - 1, dtype=given.type)


def permute_dimensions(x: Any, pattern: Sequence[int]) -> Expression:
    """The axes in another order: axis i of the result is axis pattern[i] of x."""
    return call("Transpose", expression(x), axes=axes_of(pattern))


def transpose(x: Any) -> Expression:
    """The axes in reverse order."""
    given = expression(x)
    return call("Transpose", given, axes=tuple(range(given.ndim))[::-1])


def reverse(x: Any, axes: int | Sequence[int]) -> Expression:
    """The elements in reverse order along some axes; negative ones count from the last."""
    along = axes_of(axes)
    if along is None:
        asked_for = asked(place()[1], (x,))
        raise TypeError(four_parts(asked_for, "axes is None", "", "name the axes: an int, or a list of ints"))
    return call("Flip", expression(x), axes=along)


def concatenate(tensors: Sequence[Any], axis: int = -1) -> Expression:
    """Tensors one behind the other along an axis."""
    return call("Concatenate", *_several(tensors), axis=operator.index(axis))


def stack(x: Sequence[Any], axis: int = 0) -> Expression:
    """Tensors of one shape side by side along a new axis."""
    return call("Stack", *_several(x), axis=operator.index(axis))


def repeat(x: Any, n: Size) -> Expression:
    """Each row n times: (samples, dim) -> (samples, n, dim).  ValueError: x has not two axes."""
    given = expression(x)
    if given.ndim != 2:
        wrong = f"x has {counted(given.ndim)}"
        raise ValueError(four_parts(asked("repeat", (given,)), wrong, "", "give it two; see also repeat_elements"))
    rows = given[:, None]
    return call("Repeat", rows, ndim=3, dtype=given.type, repeats=size(n), axis=1)


def repeat_elements(x: Any, rep: Size, axis: int) -> Expression:
    """Each element of an axis several times, one behind the other: (s1, s2, s3) -> (s1, s2 * rep, s3) for axis 1."""
    given = expression(x)
    return call("Repeat", given, ndim=given.ndim, dtype=given.type, repeats=size(rep), axis=_axis(given, axis))


def tile(x: Any, n: Any) -> Expression:
    """x repeated as a whole, n[i] times along axis i; aligned at the last axes, as `numpy.tile`.

    n: a count, or a list or tuple of some.
    """
    given, counts = expression(x), sizes(n)
    return call("Tile", given, ndim=max(given.ndim, len(counts)), dtype=given.type, reps=counts)


def one_hot(indices: Any, num_classes: Size) -> Expression:
    """1 where an index says and 0 elsewhere, along a new last axis; of dtype `floatx()`.

    indices: integers from 0 to num_classes - 1; IndexError for others.
    """
    given = expression(indices)
    if given.type.kind not in "iu":
        wrong = f"indices of {given.dtype} say no place"
        raise TypeError(four_parts(asked("one_hot", (given,)), wrong, "", "cast them to integers"))
    return call("OneHot", given[..., None], ndim=given.ndim + 1, dtype=floatx(), shape=(size(num_classes),))


def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = "int32") -> Expression:
    """Numbers at equal distances: from start, stop not included; with one number from 0 up to it. May be empty.

    Bounds and step may be expressions without axes.
    """
    first, last = (0, start) if stop is None else (start, stop)
    bounds = [
        expression(np.asarray(each)) if not isinstance(each, Expression) else each for each in (first, last, step)
    ]
    for each in bounds:
        if each.ndim:
            wrong = f"{each!r} is no number"
            raise ValueError(four_parts("arange", wrong, "", "give numbers, or expressions without axes"))
    return sized_call("Arange", rule=_counted(bounds, dtype_of(dtype)), sizes=bounds, ndim=1, dtype=dtype_of(dtype))


def _counted(bounds: Sequence[Expression], dtype: np.dtype) -> Rule:
    """Of Arange, by start, stop and step."""

    def rule(into: Specialization, values: Sequence[Value]) -> dict[str, Any]:
        start, stop, step = (into.scalar(each) for each in bounds)
        if step == 0:
            raise RefusedError(four_parts("arange()", "the step is 0", "", "give a positive or negative one"))
        count = max(math.ceil((stop - start) / step), 0)
        return {"start": float(start), "step": float(step), "count": count, "dtype": dtype}

    return rule


def _axis(x: Expression, axis: Any) -> int:
    """An axis of x, counted from the first.  ValueError: there is no such axis."""
    (along,) = axes_of(operator.index(axis)) or (0,)
    if not -x.ndim <= along < x.ndim:
        remedy = f"use {-x.ndim} to {x.ndim - 1}" if x.ndim else "give it axes by reshape"
        raise ValueError(four_parts(asked(place()[1], (x,)), f"axis {axis} is out of range", "", remedy))
    return along % x.ndim


def _several(given: Any) -> Sequence[Any]:
    """Tensors to join.  TypeError, ValueError: that is no list of some."""
    if isinstance(given, list | tuple) and given:
        return [expression(each) for each in given]
    wrong = "the list is empty" if isinstance(given, list | tuple) else f"{given!r} is no list"
    kind = ValueError if isinstance(given, list | tuple) else TypeError
    raise kind(four_parts(place()[1], wrong, "", "give a list of expressions"))
