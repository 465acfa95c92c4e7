"""Expressions that draw: uniform numbers by the rows of a node, and normal ones made of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from atled.errors import four_parts
from atled.keras_backend.expressions.calls import Output, call, sized_call
from atled.keras_backend.expressions.expression import Expression, place
from atled.keras_backend.expressions.leaves import Variable
from atled.keras_backend.expressions.promotion import arithmetic, cast
from atled.keras_backend.expressions.sizes import Size, sizes

if TYPE_CHECKING:
    from atled.keras_backend.compiling.specialization import Specialization, Value

_SMALLEST_HALF, _LARGEST_HALF = 2.0**-24, 1 - 2.0**-11  # of float16 between 0 and 1
Bound = Expression | float
"""A bound or moment: a number, or an expression that is broadcast to the size."""


def entries_of(size: Any, ndim: int | None) -> tuple[Size, ...]:
    """The sizes that a node is asked for.

    size: a tuple or list of ints and integer expressions, or a vector of them.  ndim: of a vector whose length is not
        known how many it has.
    TypeError: anything else.  ValueError: a size that is not positive, or ndim of another length.
    """
    asked = f"{place()[1]} with size {size!r}"
    is_vector = isinstance(size, Expression) and size.ndim == 1
    if not is_vector and not isinstance(size, tuple | list):
        raise TypeError(
            four_parts(asked, f"it is of type {type(size).__name__}", "", "give a tuple of ints, or a vector of sizes")
        )
    try:
        entries = sizes(size)
    except TypeError:
        if not is_vector or ndim is None:
            raise
        entries = tuple(size[axis] for axis in range(ndim))
    if any(isinstance(each, int) and each <= 0 for each in entries):
        raise ValueError(four_parts(asked, "a size is not positive", "", "use sizes of 1 or more"))
    if ndim is not None and ndim != len(entries):
        raise ValueError(four_parts(asked, f"it has {len(entries)} entries, and ndim is {ndim}", "", "leave ndim out"))
    return entries


def drawn(
    rows: Variable,
    shape: Callable[[Specialization], tuple[int, ...]],
    needed: Sequence[Any],
    ndim: int,
    dtype: np.dtype,
    low: float = 0.0,
    high: float = 1.0,
) -> tuple[Expression, Expression]:
    """Uniform numbers of float32 or float64, and the rows behind them.

    shape: says theirs.  needed: the expressions that it asks for.
    """

    def rule(into: Specialization, values: Sequence[Value]) -> dict[str, Any]:
        return {"shape": shape(into), "dtype": dtype, "low": low, "high": high}

    y = sized_call("MRGUniform", rows, rule=rule, sizes=needed, ndim=ndim, dtype=dtype)
    return y, Output(y, 1, 2, np.int32)


def uniform(
    rows: Variable, entries: Sequence[Size], low: Bound, high: Bound, dtype: np.dtype
) -> tuple[Expression, Expression]:
    """Uniform numbers between two bounds, and the rows behind them."""
    wide = np.dtype(np.float32) if dtype == np.float16 else dtype
    are_numbers = not isinstance(low, Expression) and not isinstance(high, Expression)
    bounds = (low, high) if are_numbers and wide == dtype else (0.0, 1.0)

    def shape(into: Specialization) -> tuple[int, ...]:
        return tuple(into.size(each) for each in entries)

    u, new_rows = drawn(rows, shape, entries, len(entries), wide, *bounds)  # type: ignore[arg-type]  # numbers
    if wide != dtype:
        # Where float16 rounds to a bound there is the number beside it.
        u = cast(call("Clip", u, _SMALLEST_HALF, _LARGEST_HALF), dtype)
    if bounds == (low, high):
        return u, new_rows
    begin, end = (cast(each, dtype) for each in (low, high))
    # In float64: the product is exact there, so that all is rounded once, as by a fused multiplication and addition.
    exact = [cast(each, np.float64) for each in (u, arithmetic("Sub2", end, begin), begin)]
    y = arithmetic("Add2", arithmetic("Mul2", *exact[:2]), exact[2])
    return cast(y, dtype), new_rows


def normal(
    rows: Variable, entries: Sequence[Size], avg: Bound, std: Bound, dtype: np.dtype
) -> tuple[Expression, Expression]:
    """Normal numbers by the method of Box and Muller on the two halves of one draw, and the rows behind them."""
    wide = np.dtype(np.float32) if dtype == np.float16 else dtype

    def count(into: Specialization) -> int:
        return math.prod(into.size(each) for each in entries)

    def even(into: Specialization) -> tuple[int, ...]:
        return (count(into) + count(into) % 2,)

    u, new_rows = drawn(rows, even, entries, 1, wide)

    def first(into: Specialization, values: Sequence[Value]) -> dict[str, Any]:
        return {"start": (0,), "stop": (values[0].desc.size // 2,)}

    def second(into: Specialization, values: Sequence[Value]) -> dict[str, Any]:
        return {"start": (values[0].desc.size // 2,), "stop": (values[0].desc.size,)}

    def asked_for(into: Specialization, values: Sequence[Value]) -> dict[str, Any]:
        return {"start": (0,), "stop": (count(into),)}

    u1, u2 = (sized_call("Slice", u, rule=rule, ndim=1, dtype=wide) for rule in (first, second))
    radius = call("Sqrt", arithmetic("Mul2", -2.0, call("Log", u1)))
    angle = arithmetic("Mul2", 2 * math.pi, u2)
    halves = (arithmetic("Mul2", radius, call(op, angle)) for op in ("Cos", "Sin"))
    joined = call("Concatenate", *halves, axis=0)
    flat = sized_call("Slice", joined, rule=asked_for, sizes=entries, ndim=1, dtype=wide)
    y: Expression = call("Reshape", flat, ndim=len(entries), dtype=wide, shape=tuple(entries))
    if std != 1 or isinstance(std, Expression):
        y = arithmetic("Mul2", y, cast(std, wide))
    if avg != 0 or isinstance(avg, Expression):
        y = arithmetic("Add2", cast(avg, wide), y)
    return cast(y, dtype), new_rows
