"""Op-trees with the gradient at each node, as neon's own Autodiff walks them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from atled.neon.trees.building import NUMBERS
from atled.neon.trees.forms import Form
from atled.neon.trees.gradients import Family
from atled.neon.trees.nodes import OpTreeNode

if TYPE_CHECKING:
    from atled.neon.backends.autodiff import Autodiff

_ABNORMAL = 1e10
"""Gradients beyond this are a sign that something went wrong."""


class GradNode:
    """A node of an op-tree, with the gradient that arrives there.

    op_tree: the tree from there on, a tensor or a number.  ad: the Autodiff of all of the tree.
    left, right: the same of its operands; None where there is none.
    """

    __slots__ = ("ad", "left", "op_tree", "right")

    def __init__(self, op_tree: Any, ad: Autodiff) -> None:
        self.op_tree = op_tree
        self.ad = ad
        operands = op_tree[1:] if isinstance(op_tree, OpTreeNode) else (None, None)
        self.left, self.right = (None if type(each) in (tuple, type(None)) else GradNode(each, ad) for each in operands)

    @property
    def grad_op_tree(self) -> Any:
        """The gradient of all of the tree with respect to this node, as an op-tree; None for a number."""
        ad = self.ad
        if isinstance(self.op_tree, NUMBERS):
            return None
        form = Form()
        for each in (ad.op_tree, ad.next_error, self.op_tree):
            form.read(each)
        return Family().gradients(form, ad.op_tree, ad.next_error, ad.be, [self.op_tree])[0]


class GradUtil:
    """What is asked of one node."""

    @staticmethod
    def get_grad_back(grad_node: GradNode) -> tuple[Any, Any]:
        """What a node adds to the gradients of its left and its right operand, as op-trees; None for numbers."""
        tree, ad = grad_node.op_tree, grad_node.ad
        if not isinstance(tree, OpTreeNode):
            return None, None
        about, left, right = tree
        if left is right and left is not None:
            tree = OpTreeNode(about, left * 1, right / 1)  # two values: equal trees would be one
        wanted = [each for each in tree[1:] if not isinstance(each, (*NUMBERS, type(None))) and type(each) is not tuple]
        error = grad_node.grad_op_tree
        form = Form()
        for each in (tree, error, *wanted):
            form.read(each)
        found = dict(zip(map(id, wanted), Family().gradients(form, tree, error, ad.be, wanted), strict=True))
        return found.get(id(tree[1])), found.get(id(tree[2]))

    @staticmethod
    def is_invalid(grad_op_tree: Any, be: Any) -> bool:
        """Whether a gradient has an element that is NaN, infinite or beyond 1e10 in magnitude; for debugging."""
        out = be.empty(grad_op_tree.shape)
        out[:] = grad_op_tree
        values = out.get()
        return not bool(np.all(np.abs(values) < _ABNORMAL))
