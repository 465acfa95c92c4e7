"""What tensors and op-trees have in common: their operators make op-trees."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any


class Operand:
    """Has a shape, a backend and operators."""

    __slots__ = ()
    __hash__ = object.__hash__

    if TYPE_CHECKING:
        shape: Any  # tuple of int, an attribute or a property

    def __add__(self, other: Any) -> Any:
        return _build("add", self, other)

    def __radd__(self, other: Any) -> Any:
        return _build("add", other, self)

    def __sub__(self, other: Any) -> Any:
        return _build("sub", self, other)

    def __rsub__(self, other: Any) -> Any:
        return _build("sub", other, self)

    def __mul__(self, other: Any) -> Any:
        return _build("mul", self, other)

    def __rmul__(self, other: Any) -> Any:
        return _build("mul", other, self)

    def __truediv__(self, other: Any) -> Any:
        return _build("div", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _build("div", other, self)

    def __neg__(self) -> Any:
        return _build("neg", self, None)


def _build(op: str, a: Any, b: Any) -> Any:
    from atled.neon.trees.nodes import OpTreeNode  # OpTreeNode is an Operand

    return OpTreeNode.build(op, a, b)
