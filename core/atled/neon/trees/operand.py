"""What tensors and op-trees have in common: their operators make op-trees."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NoReturn

import numpy as np

from atled.errors import four_parts
from atled.neon.trees.building import NUMBERS, broadcast

_new = tuple.__new__


@lru_cache(None)  # of the few elementwise ops
def _operator(op: str, *, is_reflected: bool = False) -> Callable[[Any, Any], Any]:
    """The operator of an elementwise op of two operands, which makes a node with few steps."""

    def operator(self: Any, other: Any) -> Any:
        shape = self[0]["shape"] if isinstance(self, tuple) else self.shape
        if isinstance(other, Operand):
            second: Any = other[0]["shape"] if isinstance(other, tuple) else other.shape
            if second != shape:
                shape = broadcast(op, shape, second)
        elif not isinstance(other, NUMBERS):
            return _refused_array(op, self, other) if isinstance(other, np.ndarray) else NotImplemented
        about = {"op": op, "shape": shape}
        return _new(Operand.node_class, (about, other, self) if is_reflected else (about, self, other))

    return operator


def _refused_array(op: str, operand: Any, array: np.ndarray) -> NoReturn:
    """The error of an operator with an array: Python's own would name no remedy, and `==` would be False."""
    wrong = f"an array of shape {array.shape} is no operand: its values would have to be copied at each use"
    remedy = "make a tensor of it, once, by be.array, and set that; use a number where it has one element"
    raise TypeError(four_parts(f"op-tree node {op!r} of shape {operand.shape} and an array", wrong, "", remedy))


class Operand:
    """Has a shape and operators, which take tensors, op-trees and numbers.

    The results of comparisons are 0 or 1 in the dtype of the operands. Operands of other types give NotImplemented.
    TypeError: an array, which has to be made a tensor first.

    node_class: what operators make, an operand itself; it enters itself here.
    """

    __slots__ = ()
    __hash__ = object.__hash__
    # NumPy leaves operators to the operand then, instead of making an array of objects of it.
    __array_ufunc__ = None

    shape: Any  # tuple of int, an attribute or a property
    node_class: Any = None

    __add__, __radd__ = _operator("add"), _operator("add", is_reflected=True)
    __sub__, __rsub__ = _operator("sub"), _operator("sub", is_reflected=True)
    __mul__, __rmul__ = _operator("mul"), _operator("mul", is_reflected=True)
    __truediv__, __rtruediv__ = _operator("div"), _operator("div", is_reflected=True)
    __pow__, __rpow__ = _operator("pow"), _operator("pow", is_reflected=True)
    __eq__, __ne__ = _operator("eq"), _operator("ne")
    __lt__, __le__ = _operator("lt"), _operator("le")
    __gt__, __ge__ = _operator("gt"), _operator("ge")

    def __abs__(self) -> Any:
        return of_one("abs", self)

    def __neg__(self) -> Any:
        return of_one("neg", self)


def of_one(op: str, a: Any) -> Any:
    """An elementwise node of a tensor or tree."""
    return _new(Operand.node_class, ({"op": op, "shape": a[0]["shape"] if isinstance(a, tuple) else a.shape}, a, None))


def of_two(op: str, a: Any, b: Any) -> Any:
    """An elementwise node of a tensor or tree and another operand; NotImplemented for one of another type."""
    return _operator(op)(a, b)
