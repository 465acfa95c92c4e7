"""Calls that make op-trees."""

from __future__ import annotations

from typing import Any

from atled.neon.trees.nodes import OpTreeNode


class TreeCalls:
    """Makes op-trees."""

    def tanh(self, a: Any, out: Any = None) -> Any:
        """Hyperbolic tangent."""
        return OpTreeNode.build("tanh", a, None, out=out)

    def exp(self, a: Any, out: Any = None) -> Any:
        """Exponential."""
        return OpTreeNode.build("exp", a, None, out=out)

    def dot(self, a: Any, b: Any, out: Any = None) -> Any:
        """Product of matrices."""
        return OpTreeNode.build("dot", a, b, out=out)

    def sum(self, a: Any, axis: int = 0, out: Any = None) -> Any:
        """Sum over an axis, which stays with size 1."""
        return OpTreeNode.build("sum", a, None, out=out, axis=axis)

    def maximum(self, a: Any, b: Any, out: Any = None) -> Any:
        """The larger of two."""
        return OpTreeNode.build("maximum", a, b, out=out)

    def minimum(self, a: Any, b: Any, out: Any = None) -> Any:
        """The smaller of two."""
        return OpTreeNode.build("minimum", a, b, out=out)
