"""Slices whose place is data: only how many elements they have is to be known before a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from atled.keras_backend.expressions.calls import call, expression, sized_call
from atled.keras_backend.expressions.distances import distance
from atled.keras_backend.expressions.expression import Expression, in_order
from atled.keras_backend.expressions.leaves import Placeholder, Variable
from atled.keras_backend.expressions.promotion import arithmetic, cast
from atled.keras_backend.expressions.sizes import Size, SizeOf
from atled.named_tuple import NamedTuple

if TYPE_CHECKING:
    from atled.keras_backend.compiling.specialization import Specialization, Value


class Bounds(NamedTuple):
    """A slice along an axis."""

    start: Size | None = None
    stop: Size | None = None
    step: Size | None = None


def moves(bounds: Bounds) -> bool:
    """Whether where a slice lies is data: then only how many elements it has is asked for before a run."""
    return bounds.step in (None, 1) and any(isinstance(each, Placeholder | Variable) for each in _sources(bounds))


def _sources(bounds: Bounds) -> list[Expression]:
    """All that bounds are computed from, but what has sizes."""
    return in_order([each for each in bounds if isinstance(each, Expression)], known=_SIZES)


class _Sizes:
    """Where to stop looking: at what is a size."""

    def __contains__(self, each: Expression) -> bool:
        return isinstance(each, SizeOf)


_SIZES = _Sizes()


def window(x: Expression, axis: int, bounds: Bounds) -> Expression:
    """`x[start:stop]` along an axis, of which a run knows where it begins: rows by number, from the start on."""
    count = SizeOf(x, axis)
    if any(isinstance(each, Placeholder) and each.is_of_a_step for each in _sources(bounds)):
        first = 0 if bounds.start is None else bounds.start
        fixed = distance(first, count if bounds.stop is None else bounds.stop)
        if fixed is not None:
            # As many in each step, which NumPy's slices need not have: beyond the end is an IndexError.
            numbers = call("Arange", ndim=1, dtype=np.int64, count=max(fixed, 0))
            return call("Take", x, arithmetic("Add2", numbers, first), axis=axis)
    start = _clipped(0 if bounds.start is None else bounds.start, count)
    stop = count if bounds.stop is None else _clipped(bounds.stop, count)
    length = arithmetic("MaximumTies", arithmetic("Sub2", stop, start), 0)

    def rule(into: Specialization, values: Sequence[Value]) -> dict[str, Any]:
        return {"count": into.size(length), "dtype": np.dtype(np.int64)}

    rows = sized_call("Arange", rule=rule, sizes=[length], ndim=1, dtype=np.int64)
    return call("Take", x, arithmetic("Add2", rows, start), axis=axis)


def _clipped(bound: Size, count: Expression) -> Expression:
    """A bound of a slice as a number from 0 to the count of elements."""
    wide = cast(bound, np.int64) if isinstance(bound, Expression) else expression(np.int64(bound))
    is_from_end = call("IsLess", wide, 0)
    from_start = arithmetic("Add2", wide, arithmetic("Mul2", count, cast(is_from_end, np.int64)))
    return arithmetic("MinimumTies", arithmetic("MaximumTies", from_start, 0), count)
