"""Functions composed of ops, without an op spec of their own; `atled.functions` offers them like the others."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from atled.arrays.array import NdArray
from atled.arrays.operators import Calls
from atled.calling.using import takes_using
from atled.errors import RefusedError, four_parts, listing
from atled.variable import Variable

if TYPE_CHECKING:
    from atled.calling.recurrence import gru, lstm, rnn

__all__ = ["clip_by_norm", "clip_by_value", "gru", "lstm", "reduce", "rnn"]

# The headings under which pages list them; those of the others are in their op specs.
CATEGORIES = {
    "clip_by_norm": "normalization",
    "clip_by_value": "normalization",
    "gru": "layer",
    "lstm": "layer",
    "reduce": "reduction",
    "rnn": "layer",
}

Array = Variable | NdArray
_ARRAYS = (Variable, NdArray)  # a union would be made of them at each call


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from atled.calling import recurrence  # lazy: few programs have a recurrence

    return getattr(recurrence, name)


@takes_using
def clip_by_value(x: Array, min: Array | float, max: Array | float) -> Any:
    """Elements clipped to an interval: `y = minimum(maximum(x, min), max)`.

    The gradient reaches x where it is the one chosen, and otherwise the bound that is, if it is an array. A tie counts
    as the bound.

    Args:
        x: (...) float.
        min, max: (...) float with as many axes as x, broadcast with it; or numbers.

    Returns:
        y: (...) float; the broadcast shape. Where min is above max it is max.

    Raises:
        ValueError: the shapes do not broadcast.
        TypeError: an argument is neither an array nor a number.
    """
    functions = Calls.functions
    lower = functions["Maximum2"](x, min) if isinstance(min, _ARRAYS) else functions["MaximumScalar"](x, val=min)
    return functions["Minimum2"](lower, max) if isinstance(max, _ARRAYS) else functions["MinimumScalar"](lower, val=max)


@takes_using
def clip_by_norm(x: Array, clip_norm: Array | float, axis: int | Sequence[int] | None = None) -> Any:
    """The direction of x with another length: `y = clip_norm x / sqrt(sum(x^2))`.

    Smaller inputs are scaled up, too. Zeros have no direction and become NaN.

    Args:
        x: (...) float.
        clip_norm: (...) float with as many axes as x, broadcast with it, or a positive number; the Euclidean norm that
            y gets.
        axis: the axis or axes over which one norm is taken; default all of them.

    Returns:
        y: shape of x, float; the broadcast shape if clip_norm is an array.

    Raises:
        ValueError: clip_norm is a number that is not positive, an axis is out of range or named twice.
        TypeError: clip_norm is neither an array nor a number.
    """
    if isinstance(clip_norm, Variable | NdArray):
        return Calls.functions["Mul2"](Calls.functions["ScaleToNorm"](x, axes=axis), clip_norm)
    if isinstance(clip_norm, numbers.Real) and not clip_norm > 0:
        call = f"clip_by_norm(clip_norm={clip_norm})"
        raise RefusedError(four_parts(call, "clip_norm is not positive", "", "use a number above 0"))
    return Calls.functions["ScaleToNorm"](x, clip_norm=clip_norm, axes=axis)


_REDUCTIONS = {"sum": "Sum", "mean": "Mean"}


@takes_using
def reduce(x: Array, op: str = "sum") -> Any:
    """Sum or mean of all elements; an old name of `sum` and `mean`.

    Args:
        x: (...) float.
        op: "sum" or "mean".

    Returns:
        y: () float.

    Raises:
        ValueError: another op.
    """
    if op not in _REDUCTIONS:
        call = f"reduce(op={op!r})"
        raise RefusedError(four_parts(call, "no such reduction", f"known: {listing(_REDUCTIONS)}", "use sum or mean"))
    return Calls.functions[_REDUCTIONS[op]](x)
