"""OpTreeNode: an expression of tensors that has not been computed."""

from __future__ import annotations

from typing import Any

from atled.neon.trees.lowering import assign
from atled.neon.trees.operand import Operand


class OpTreeNode(Operand, tuple[Any, Any, Any]):
    """A dictionary with the op and its shape, and the left and right operand: trees, tensors, numbers or None."""

    __slots__ = ()

    def __new__(cls, op_dict: dict[str, Any], a: Any, b: Any) -> OpTreeNode:
        return tuple.__new__(cls, (op_dict, a, b))

    @staticmethod
    def build(op: str, a: Any, b: Any, out: Any = None, **kwargs: Any) -> Any:
        """A tree of the op and its operands; where `out` is given, it is computed at once."""
        shapes = [each.shape for each in (a, b) if isinstance(each, Operand)]
        shape = tuple(map(max, *shapes)) if len(shapes) > 1 else shapes[0]
        if op in ("sum", "max", "min"):
            shape = tuple(1 if axis == kwargs["axis"] else size for axis, size in enumerate(shape))
        elif op == "dot":
            shape = (a.shape[0], b.shape[1])
        node = OpTreeNode({"op": op, "shape": shape, **kwargs}, a, b)
        if out is None:
            return node
        assign(out, node)
        return out

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes per axis."""
        return self[0]["shape"]
