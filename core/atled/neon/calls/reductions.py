"""Calls that make op-trees of another shape: reductions, products, elements by index."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from atled.errors import four_parts
from atled.neon.calls.trees import built
from atled.neon.trees.building import reduction_of
from atled.neon.trees.nodes import OpTreeNode
from atled.neon.trees.operand import Operand, of_one
from atled.neon.trees.walks import is_node, tensors_of


class ReductionCalls:
    """Makes op-trees that reduce axes, multiply matrices, or take elements by index.

    axis: an axis, a tuple of them, or None, which is all.
    keepdims: has no effect: a reduced axis of two stays, with size 1; of more than two such axes are dropped, the first
        ones first, while there are more than two.

    Each call returns an op-tree; or `out`, to which it was assigned, where that is given.

    ValueError: an axis is out of range or named twice.  TypeError: an operand of another type.
    """

    def sum(self, a: Any, axis: Any = None, out: Any = None, keepdims: bool = True) -> Any:
        """Sums over an axis, a tuple of axes, or all (None).

        Of a tensor of two axes reduced ones stay, with size 1; of more axes they are dropped, down to two.
        """
        return built("sum", a, None, out, axis=axis)

    def max(self, a: Any, axis: Any = None, out: Any = None, keepdims: bool = True) -> Any:
        """Maxima over an axis, a tuple of axes, or all (None), which hold an element; shapes as of `sum`."""
        return built("max", a, None, out, axis=axis)

    def min(self, a: Any, axis: Any = None, out: Any = None, keepdims: bool = True) -> Any:
        """Minima over an axis, a tuple of axes, or all (None), which hold an element; shapes as of `sum`."""
        return built("min", a, None, out, axis=axis)

    def argmax(self, a: Any, axis: Any = 1, out: Any = None, keepdims: bool = True) -> Any:
        """Where the first maximum is: the flat index within the axes.

        ValueError: `out` has another shape, or a dtype that does not hold all indices.
        """
        return _place("argmax", a, axis, out)

    def argmin(self, a: Any, axis: Any = 1, out: Any = None, keepdims: bool = True) -> Any:
        """Where the first minimum is: the flat index within the axes.

        ValueError: `out` has another shape, or a dtype that does not hold all indices.
        """
        return _place("argmin", a, axis, out)

    def mean(self, a: Any, axis: Any = None, partial: Any = None, out: Any = None, keepdims: bool = True) -> Any:
        """Means over axes, as sum times 1 / count; axes and shapes as of `sum`. `partial` has no effect."""
        return _given(_mean(a, axis), out)

    def var(
        self,
        a: Any,
        axis: Any = None,
        partial: Any = None,
        out: Any = None,
        keepdims: bool = True,
        binary: bool = False,
    ) -> Any:
        """Means over axes of squared deviations from the mean; axes and shapes as of `sum`.

        partial: has no effect.  binary: a deviation is shifted by itself where it would be squared.
        """
        deviation = a - _mean(a, axis, kept=True)
        squared = built("shift", deviation, deviation, value=True) if binary else of_one("sqr", deviation)
        return _given(_mean(squared, axis), out)

    def std(self, a: Any, axis: Any = None, partial: Any = None, out: Any = None, keepdims: bool = True) -> Any:
        """Square roots of `var`; axes and shapes as of `sum`."""
        return _given(of_one("sqrt", self.var(a, axis)), out)

    def dot(self, a: Any, b: Any, out: Any = None) -> Any:
        """Products over the last axis of a and the last but one of b: of matrices the matrix product.

        ValueError: the two axes differ.
        """
        return built("dot", a, b, out)

    def take(self, a: Any, indices: Any, axis: Any = None, out: Any = None) -> Any:
        """Elements by index along an axis, as `numpy.take` of the squeezed indices.

        indices: whole numbers, in a tensor, an array or a list; negative ones count from the end.
        axis: None looks into the flattened a; the result has the shape of the indices then.

        IndexError: when it is computed, for an index out of range.
        """
        return built("take", a, indices if isinstance(indices, Operand) else self._indices(a, indices), out, axis=axis)

    def onehot(self, indices: Any, axis: int, out: Any = None) -> Any:
        """Columns (axis 0) or rows (axis 1) of the identity matrix, one for each index.

        indices: a tensor of whole numbers, (n, 1) or (1, n). How many there may be says the other operand of the
        op-tree, or the target of the assignment.

        ValueError: an axis other than 0 and 1.  TypeError: a tensor of floats.
        IndexError: when it is computed, for an index out of range.
        """
        if not isinstance(indices, Operand) or is_node(indices):
            indices = self._indices(None, indices)
        return built("onehot", indices, None, out, axis=axis)

    def rand(self, out: Any = None) -> Any:
        """Numbers of the generator `rng` between 0 and 1, in the shape of the target, drawn when they are computed."""
        return built("rand", None, None, out)

    def execute(self, node: OpTreeNode) -> Any:
        """Run an assignment, an op-tree whose root, and only that, is assign. Returns what was assigned to.

        TypeError: it is no op-tree.  ValueError: its root is another op, or assign is in it once more.
        """
        if not is_node(node):
            asked = f"execution of {type(node).__name__}"
            remedy = "pass OpTreeNode({'op': 'assign', 'shape': out.shape}, out, tree)"
            raise TypeError(four_parts(asked, "it is no op-tree", "", remedy))
        return node.execute()

    def _indices(self, a: Any, indices: Any) -> Any:
        """A tensor of indices that are given otherwise."""
        values = np.asarray(indices)
        if values.dtype.kind not in "iu" and values.size:
            asked = f"elements by {type(indices).__name__} of {values.dtype.name}"
            raise TypeError(four_parts(asked, "indices are whole numbers", "", "pass a tensor or array of integers"))
        backend: Any = tensors_of(a)[0].backend if a is not None and tensors_of(a) else self
        return backend.array(values.reshape(-1, 1) if values.ndim < 2 else values, dtype=np.int32)


def _mean(a: Any, axis: Any, **about: bool) -> Any:
    """Means over axes: sums times 1 / count; NaN where there is no element, as NumPy's are."""
    total = built("sum", a, None, axis=axis, **about)
    count = reduction_of("sum", total[1].shape, total[0]["axis"], bool(about)).elements
    return total * (1.0 / count if count else math.nan)


def _given(tree: Any, out: Any) -> Any:
    """A tree, or `out`, to which it is assigned, where that is given."""
    return tree if out is None else built("assign", out, tree)


def _place(op: str, a: Any, axis: Any, out: Any) -> Any:
    made = built(op, a, None, axis=axis)
    if out is not None and out.shape != made.shape:
        asked = f"{op} of shape {a.shape} over axis {axis} into a tensor of shape {out.shape}"
        wrong = f"the result has shape {made.shape}"
        raise ValueError(four_parts(asked, wrong, "", "pass a tensor of that shape, with dtype=numpy.int32"))
    return _given(made, out)
