"""What tensors and op-trees have in common: their operators make op-trees."""

from __future__ import annotations

from typing import Any


class Operand:
    """Has a shape and operators, which take tensors, op-trees and numbers.

    The results of comparisons are 0 or 1 in the dtype of the operands. Operands of other types give NotImplemented:
    an array has to be made a tensor first.
    """

    __slots__ = ()
    __hash__ = object.__hash__
    # NumPy leaves operators to the operand then, instead of making an array of objects of it.
    __array_ufunc__ = None

    shape: Any  # tuple of int, an attribute or a property
    # What makes elementwise nodes; OpTreeNode, which is an Operand itself, sets it.
    _node: Any  # (op, a, b) -> node
    _unary_node: Any  # (op, a) -> node

    def __add__(self, other: Any) -> Any:
        return self._node("add", self, other)

    def __radd__(self, other: Any) -> Any:
        return self._node("add", other, self)

    def __sub__(self, other: Any) -> Any:
        return self._node("sub", self, other)

    def __rsub__(self, other: Any) -> Any:
        return self._node("sub", other, self)

    def __mul__(self, other: Any) -> Any:
        return self._node("mul", self, other)

    def __rmul__(self, other: Any) -> Any:
        return self._node("mul", other, self)

    def __truediv__(self, other: Any) -> Any:
        return self._node("div", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return self._node("div", other, self)

    def __pow__(self, other: Any) -> Any:
        return self._node("pow", self, other)

    def __rpow__(self, other: Any) -> Any:
        return self._node("pow", other, self)

    def __eq__(self, other: object) -> Any:
        return self._node("eq", self, other)

    def __ne__(self, other: object) -> Any:
        return self._node("ne", self, other)

    def __lt__(self, other: Any) -> Any:
        return self._node("lt", self, other)

    def __le__(self, other: Any) -> Any:
        return self._node("le", self, other)

    def __gt__(self, other: Any) -> Any:
        return self._node("gt", self, other)

    def __ge__(self, other: Any) -> Any:
        return self._node("ge", self, other)

    def __abs__(self) -> Any:
        return self._unary_node("abs", self)

    def __neg__(self) -> Any:
        return self._unary_node("neg", self)
