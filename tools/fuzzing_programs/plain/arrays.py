"""Arrays of the plain interpreter: their values, when they were written, and whether a gradient counts as written."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fuzzing_programs.plain.state import STATE

_UNWRITTEN, _ZEROED, _WRITTEN = "unwritten", "zeroed", "written"


class Cell:
    """The memory of one array, as a vector.

    touched: when it was written last, or a view of it was handed out.
    state: as a gradient: not written since `zero()`; zeroed while a view was out, so that its values tell; written.
    """

    def __init__(self, values: np.ndarray) -> None:
        self.values = values
        self.touched = 0
        self.state = _UNWRITTEN

    @property
    def has_live_view(self) -> bool:
        """Whether the program holds a NumPy view of it."""
        return sys.getrefcount(self.values) > 2  # the attribute's own, and the argument's

    @property
    def is_written(self) -> bool:
        """Whether a solver takes it for a gradient."""
        return self.state == _WRITTEN or (self.state == _ZEROED and bool(self.values.any()))

    def touch(self) -> None:
        """Note that a user wrote it, or may."""
        self.touched = STATE.tick()

    def may_differ_since(self, time: int) -> bool:
        """Whether a user may have written it after a time."""
        return self.touched > time or self.has_live_view

    def handed_out(self, shape: tuple[int, ...]) -> np.ndarray:
        """A writable view."""
        self.touch()
        self.state = _WRITTEN
        return self.values.reshape(shape)

    def write(self, values: Any) -> None:
        """Replace all values."""
        self.values[...] = np.asarray(values).reshape(-1)
        self.touch()
        self.state = _WRITTEN

    def zero(self) -> None:
        """Zeros that count as not written."""
        self.state = _ZEROED if self.has_live_view else _UNWRITTEN
        self.values[...] = 0
        self.touch()


def as_plain(values: Any) -> np.ndarray:
    """A copy in float64, or in int64 if it holds whole numbers."""
    array = np.asarray(values)
    return array.astype(np.int64 if array.dtype.kind in "iub" else np.float64)


class NdArray:
    """What computes at once."""

    __array_ufunc__ = None

    def __init__(self, shape: Sequence[int] = (), cell: Cell | None = None) -> None:
        self.shape = tuple(shape)
        self.cell = Cell(np.zeros(math.prod(self.shape))) if cell is None else cell

    @classmethod
    def from_numpy_array(cls, values: Any) -> NdArray:
        """A copy."""
        array = as_plain(values)
        made = cls(array.shape, Cell(array.reshape(-1).copy()))
        made.cell.state = _WRITTEN
        made.cell.touch()
        return made

    @property
    def present(self) -> np.ndarray:
        """The values, for the interpreter itself."""
        return self.cell.values.reshape(self.shape)

    @property
    def data(self) -> np.ndarray:
        return self.cell.handed_out(self.shape)

    @data.setter
    def data(self, values: Any) -> None:
        given = values.present if isinstance(values, NdArray) else np.asarray(values)
        self.cell.write(np.broadcast_to(given, self.shape))

    def zero(self) -> None:
        self.cell.zero()

    def fill(self, value: float) -> None:
        self.cell.write(np.full(self.shape, value))

    def copy_from(self, other: NdArray) -> None:
        self.cell.write(other.present)


Calling = Callable[[str, Sequence[Any], Mapping[str, Any]], Any]


class Hooks:
    """What this module gets from those above it."""

    call: Calling


def _operator(op: str, scalar_op: str, change: Callable[[float], float] = float) -> Callable[[Any, Any], Any]:
    def operate(self: Any, other: Any) -> Any:
        if isinstance(other, int | float):
            return Hooks.call(scalar_op, (self,), {"val": change(other)})
        return Hooks.call(op, (self, other), {})

    return operate


def _reflected(scalar_op: str) -> Callable[[Any, Any], Any]:
    return lambda self, other: Hooks.call(scalar_op, (self,), {"val": float(other)})


def _in_place(operate: Callable[[Any, Any], Any]) -> Callable[[NdArray, Any], NdArray]:
    def change(self: NdArray, other: Any) -> NdArray:
        self.cell.write(operate(self, other).present)
        return self

    return change


OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "__add__": _operator("Add2", "AddScalar"),
    "__radd__": _reflected("AddScalar"),
    "__sub__": _operator("Sub2", "AddScalar", lambda value: -value),
    "__rsub__": _reflected("RSubScalar"),
    "__mul__": _operator("Mul2", "MulScalar"),
    "__rmul__": _reflected("MulScalar"),
    "__truediv__": _operator("Div2", "MulScalar", lambda value: 1.0 / value),
    "__rtruediv__": _reflected("RDivScalar"),
    "__pow__": _operator("Pow2", "PowScalar"),
}
"""Methods of everything that arithmetic is done on."""

for _name, _method in OPERATORS.items():
    setattr(NdArray, _name, _method)
for _name in ("add", "sub", "mul", "truediv"):
    setattr(NdArray, f"__i{_name}__", _in_place(OPERATORS[f"__{_name}__"]))
NdArray.__neg__ = lambda self: Hooks.call("MulScalar", (self,), {"val": -1.0})  # type: ignore[attr-defined]
