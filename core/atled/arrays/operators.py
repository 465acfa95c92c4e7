"""Arithmetic and indexing on arrays and Variables, in terms of ops.

What an operator means is said here once for both classes; `atled.calling.apply` supplies how an op is called.
"""

from __future__ import annotations

import math
import numbers
import operator
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from atled.errors import four_parts, shortened


def _not_ready(*_args: Any, **_kwargs: Any) -> Any:
    raise RuntimeError("operators are connected when `atled` is imported; import atled first")


class Calls:
    """Hooks by which operators and Variables call upper layers, which set them when they are imported."""

    apply: Callable[..., Any] = staticmethod(_not_ready)
    """apply(op name, inputs, attributes, outputs=None) -> the outputs."""

    put_into_itself: Callable[..., None] = staticmethod(_not_ready)
    """put_into_itself(array, op name, other array or None, float attributes); set by `atled.calling.in_place`."""

    functions: Mapping[str, Callable[..., Any]] = {}
    """The function of each op by the op's name, quicker than `apply` at once; set by `atled.calling.function_text`."""

    function_on: Callable[[Any], Any] = staticmethod(_not_ready)
    """function_on(recorded call) -> the user's Function for it; set by `atled.function`."""


def _scalar(value: Any) -> float | None:
    """A Python or NumPy number, or a NumPy array without axes, as float, else None."""
    try:
        if type(value) is float or type(value) is int:  # the abstract classes take their time
            return float(value)
        if isinstance(value, numbers.Real | np.bool_) or (isinstance(value, np.ndarray) and not value.ndim):
            return float(value)
    except (TypeError, ValueError, OverflowError) as error:
        asked = f"an operator with {shortened(value)}"
        raise ValueError(
            four_parts(asked, f"that is no number that fits a float ({error})", "", "use a float or an array")
        ) from error
    return None


def _inverse(value: float) -> float:
    """1 / value as floating-point numbers divide: no error for 0."""
    return 1.0 / value if value else math.copysign(math.inf, value)


def _unknown(other: Any, op: str) -> Any:
    """NotImplemented, so that Python asks the other operand; TypeError for NumPy arrays, which know no better."""
    if isinstance(other, np.ndarray):
        raise TypeError(
            four_parts(
                f"{op} with a NumPy array of shape {other.shape}",
                "operators take arrays of atled, and numbers",
                "",
                "make an array of it: NdArray.from_numpy_array computes at once, Variable.from_numpy_array records",
            )
        )
    return NotImplemented


class Operators:
    """`+ - * / **`, unary signs, and basic indexing."""

    __slots__ = ()
    # NumPy must not spread a Variable over its elements: `numpy_array * variable` then asks us.
    __array_ufunc__ = None

    shape: tuple[int, ...]

    def _binary(self, other: Any, op: str, scalar_op: str, factor: Callable[[float], float] | None = None) -> Any:
        if isinstance(other, Operators):
            return Calls.functions[op](self, other)
        value = _scalar(other)
        if value is not None:
            return Calls.functions[scalar_op](self, val=value if factor is None else factor(value))
        return _unknown(other, op)

    def _reflected(self, other: Any, scalar_op: str) -> Any:
        value = _scalar(other)
        return _unknown(other, scalar_op) if value is None else Calls.functions[scalar_op](self, val=value)

    # Operands of one class, most there are, take no further call.
    def __add__(self, other: Any) -> Any:
        if type(other) is type(self):
            return Calls.functions["Add2"](self, other)
        return self._binary(other, "Add2", "AddScalar")

    def __sub__(self, other: Any) -> Any:
        if type(other) is type(self):
            return Calls.functions["Sub2"](self, other)
        return self._binary(other, "Sub2", "AddScalar", operator.neg)

    def __mul__(self, other: Any) -> Any:
        if type(other) is type(self):
            return Calls.functions["Mul2"](self, other)
        return self._binary(other, "Mul2", "MulScalar")

    def __truediv__(self, other: Any) -> Any:
        if type(other) is type(self):
            return Calls.functions["Div2"](self, other)
        return self._binary(other, "Div2", "MulScalar", _inverse)

    def __pow__(self, other: Any) -> Any:
        if type(other) is type(self):
            return Calls.functions["Pow2"](self, other)
        return self._binary(other, "Pow2", "PowScalar")

    def __radd__(self, other: Any) -> Any:
        return self._reflected(other, "AddScalar")

    def __rsub__(self, other: Any) -> Any:
        return self._reflected(other, "RSubScalar")

    def __rmul__(self, other: Any) -> Any:
        return self._reflected(other, "MulScalar")

    def __rtruediv__(self, other: Any) -> Any:
        return self._reflected(other, "RDivScalar")

    def __rpow__(self, other: Any) -> Any:
        return self._reflected(other, "RPowScalar")

    def __neg__(self) -> Any:
        return Calls.functions["MulScalar"](self, val=-1.0)

    def __pos__(self) -> Any:
        return self

    def __getitem__(self, key: Any) -> Any:
        starts, stops, steps, shape = _found_cuts(self.shape, key)
        y = Calls.functions["Slice"](self, starts, stops, steps)
        return y if y.shape == shape else Calls.functions["Reshape"](y, shape)


class ArrayOperators(Operators):
    """The operators of NdArray, whose in-place forms keep the object and write into it."""

    __slots__ = ()

    def __getitem__(self, key: Any) -> Any:
        starts, stops, steps, shape = _found_cuts(self.shape, key)
        y = Calls.functions["Slice"](self, starts, stops, steps)
        y.shape = shape  # of a copy that nobody else has, and of which nothing is recorded
        return y

    def _in_place(self, other: Any, op: str, scalar_op: str, factor: Callable[[float], float] | None = None) -> Any:
        value = _scalar(other)
        if value is not None:
            Calls.put_into_itself(self, scalar_op, None, {"val": value if factor is None else factor(value)})
            return self
        if isinstance(other, Operators):
            Calls.put_into_itself(self, op, other, {})
            return self
        return _unknown(other, op)

    def __iadd__(self, other: Any) -> Any:
        return self._in_place(other, "Add2", "AddScalar")

    def __isub__(self, other: Any) -> Any:
        return self._in_place(other, "Sub2", "AddScalar", operator.neg)

    def __imul__(self, other: Any) -> Any:
        return self._in_place(other, "Mul2", "MulScalar")

    def __itruediv__(self, other: Any) -> Any:
        return self._in_place(other, "Div2", "MulScalar", _inverse)

    def __ipow__(self, other: Any) -> Any:
        return self._in_place(other, "Pow2", "PowScalar")


_Cuts = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]
"""Starts, stops and steps of a Slice, and the shape of the result."""

_WHOLE = (None, None, None)  # as `_hashable` has it
_CUTS_LIMIT = 1024  # indices by shape, of some hundred bytes each


def _found_cuts(shape: tuple[int, ...], key: Any) -> _Cuts:
    """What basic indexing (integers, slices, `...`, np.newaxis) cuts out of a shape; a Slice of that is a copy."""
    if type(key) is int:
        return _known_cuts(shape, (key,), False)
    if type(key) is tuple and len(key) == 2:
        rows, column = key
        if type(column) is int and type(rows) is slice and rows.start is rows.stop is rows.step is None:
            return _known_cuts(shape, (_WHOLE, column), True)  # what loops over the steps of sequences take
    entries = _hashable(key)
    return _cuts(shape, key) if entries is None else _known_cuts(shape, entries, type(key) is tuple)


def _hashable(key: Any) -> tuple[Any, ...] | None:
    """The entries of an index, slices as tuples of their bounds, which Python hashes from 3.12 on.

    None where there are others than plain ints: True equals 1, and means something else.
    """
    entries: list[Any] = []
    for item in key if type(key) is tuple else (key,):
        if type(item) is slice:
            start, stop, step = item.start, item.stop, item.step
            # One by one: a test of a set takes twice as long, as long as a third of a small slice.
            if (
                (start is not None and type(start) is not int)
                or (stop is not None and type(stop) is not int)
                or (step is not None and type(step) is not int)
            ):
                return None
            entries.append((start, stop, step))
        elif type(item) is int or item is None or item is Ellipsis:
            entries.append(item)
        else:
            return None
    return tuple(entries)


@lru_cache(_CUTS_LIMIT)
def _known_cuts(shape: tuple[int, ...], entries: tuple[Any, ...], is_tuple: bool) -> _Cuts:
    """What `_hashable` made of an index, and whether that was a tuple, as cuts."""
    keys = tuple([slice(*item) if type(item) is tuple else item for item in entries])
    return _cuts(shape, keys if is_tuple else keys[0])


def _cuts(shape: tuple[int, ...], key: Any) -> _Cuts:
    """What an index of a shape cuts out."""
    keys, rest = _keys(key, shape)
    cuts: list[tuple[int, int, int]] = []  # start, stop and step of each axis
    result: list[int] = []
    for item in keys:
        axis = len(cuts)
        if item is None:
            result.append(1)
        elif item is Ellipsis:
            cuts += [(0, size, 1) for size in shape[axis : axis + rest]]
            result += shape[axis : axis + rest]
        elif isinstance(item, slice):
            start, stop, step = _bounds(item, shape, axis)
            # Counting down, bounds before the first element come as -1, which would mean the last one.
            before = -shape[axis] - 1
            cuts.append((start if start >= 0 else before, stop if stop >= 0 else before, step))
            result.append(len(range(start, stop, step)))
        elif isinstance(item, int | np.integer) and not isinstance(item, bool):
            position = _position(item, key, shape, axis)
            cuts.append((position, position + 1, 1))
        else:
            raise TypeError(
                four_parts(
                    f"index {_in_words(key)} of shape {shape}",
                    f"{type(item).__name__} is not a basic index",
                    "",
                    "use integers, slices, `...` and np.newaxis",
                )
            )
    starts, stops, steps = (tuple([cut[part] for cut in cuts]) for part in range(3))
    return starts, stops, steps, tuple(result)


def _in_words(key: Any) -> str:
    """An index for a message; of arrays only dtype and shape, for they may be large."""
    if isinstance(key, tuple):
        return f"({', '.join(map(_in_words, key))})"
    return f"{key.dtype}{list(key.shape)}" if isinstance(key, np.ndarray) else repr(key)


def _keys(key: Any, shape: tuple[int, ...]) -> tuple[tuple[Any, ...], int]:
    """The entries of an index, one `...` among them, and how many axes that stands for."""
    keys = key if isinstance(key, tuple) else (key,)
    used = sum(1 for item in keys if item is not None and item is not Ellipsis)
    dots = sum(1 for item in keys if item is Ellipsis)
    if dots > 1 or used > len(shape):
        raise IndexError(
            four_parts(
                f"index {key!r} of shape {shape}", "too many indices", "", f"use at most {len(shape)} and one `...`"
            )
        )
    return keys if dots else (*keys, Ellipsis), len(shape) - used


def _bounds(item: slice, shape: tuple[int, ...], axis: int) -> tuple[int, int, int]:
    """Start, stop and step of a slice of an axis."""
    try:
        return item.indices(shape[axis])
    except (TypeError, ValueError) as error:
        raise type(error)(
            four_parts(
                f"index {shortened(item)} of shape {shape}",
                str(error),
                "",
                "use whole numbers or None in slices, and no step of 0",
            )
        ) from error


def _position(item: int | np.integer, key: Any, shape: tuple[int, ...], axis: int) -> int:
    """An entry of an index, counted from the front of its axis."""
    size = shape[axis]
    if not -size <= item < size:
        raise IndexError(
            four_parts(
                f"index {shortened(key)} of shape {shape}",
                f"{shortened(item)} is out of range",
                "",
                f"use 0 to {size - 1}",
            )
        )
    return int(item) % size
