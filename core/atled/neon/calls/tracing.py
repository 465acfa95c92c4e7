"""Tracing activations: one call on a stand-in for a tensor gives the formula that becomes a part of a program."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from atled.errors import four_parts, shortened
from atled.keyed import Description, NdArray, View
from atled.neon.trees.lowering import lowered
from atled.neon.trees.nodes import OpTreeNode
from atled.neon.trees.operand import Operand
from atled.neon.trees.tensor import Tensor

if TYPE_CHECKING:
    from atled.neon.backends.backend import Backend


class NoFormulaError(Exception):
    """An activation that gives no formula; the text says why."""


class _StandIn(Tensor):
    """A tensor with a shape and a dtype, and without values."""

    def __init__(self, backend: Backend, shape: tuple[int, ...], dtype: Any) -> None:
        one = View(NdArray.from_numpy_array(np.zeros((1, 1), dtype)))
        super().__init__(backend, one.broadcast_to(shape))

    @property
    def view(self) -> View:
        """What everything asks for that computes at once."""
        raise NoFormulaError("it reads, writes or views its tensor, instead of making an op-tree of it")

    @view.setter
    def view(self, value: View) -> None:
        pass


class Formula:
    """What an activation, or its derivative, does with one value of a program.

    function: the activation, or its method bprop; None where it has none.
    shape, dtype: of the tensors for which it is traced.
    broadcasts: whether it may give a number, or a value that broadcasts to the shape.

    NoFormulaError: it computes something by itself, or draws.  TypeError: it gives no value.
    ValueError: it gives one of another shape, or takes a tensor of another backend in.
    """

    def __init__(
        self,
        backend: Any,  # a Backend, of which this is a part
        function: Callable[[Any], Any] | None,
        shape: tuple[int, ...],
        dtype: Any,
        *,
        broadcasts: bool = False,
    ) -> None:
        asked = f"{_named(function)} of a tensor of shape {list(shape)}"
        if not callable(function):
            remedy = "give an activation, such as Tanh()"
            raise TypeError(four_parts(asked, "it is no function, or has no bprop", "", remedy))
        self._stand_in = _StandIn(backend, shape, dtype)
        self._tree = tree = function(self._stand_in)
        is_number = isinstance(tree, int | float | np.number)
        if not isinstance(tree, Operand) and not (is_number and broadcasts):
            remedy = "have it return an op-tree or a tensor"
            raise TypeError(four_parts(asked, f"it gives {shortened(tree)}", "", remedy))
        given = () if is_number else tuple(tree.shape)
        if given != shape and not (broadcasts and _broadcasts(given, shape)):
            remedy = "have it give the shape of what it is given"
            raise ValueError(four_parts(asked, f"it gives shape {list(given)}", "", remedy))
        self._check_nodes(asked, tree)

    def _check_nodes(self, asked: str, tree: Any) -> None:
        """Refuse trees that draw, and leaves of other backends."""
        stack, seen = [tree], set()
        while stack:
            node = stack.pop()
            if id(node) in seen:
                continue
            seen.add(id(node))
            if isinstance(node, tuple):
                stack += node[1:] if isinstance(node, OpTreeNode) else node
                if isinstance(node, OpTreeNode) and _draws(node[0]):
                    raise NoFormulaError("it draws random numbers, anew at each step")
            elif isinstance(node, Tensor) and node.backend is not self._stand_in.backend:
                wrong = f"it has a tensor of shape {list(node.shape)} of another backend"
                raise ValueError(four_parts(asked, wrong, "", "make that anew, of the present backend"))

    def of(self, d: Description, value: int) -> int:
        """The value, in a description, of the formula for a value."""
        return lowered(d, self._tree, {self._stand_in: value})

    def times(self, d: Description, value: int, other: int) -> int:
        """Another value times that of the formula."""
        if not isinstance(self._tree, Operand) and self._tree == 1:
            return other
        return d.call("Mul2", other, self.of(d, value))


def _draws(about: dict[str, Any]) -> bool:
    return about["op"] == "rand" or (about["op"] == "binarize" and about.get("stochastic", False))


def _broadcasts(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    return not shape or (len(shape) == len(target) and all(a in (1, b) for a, b in zip(shape, target, strict=True)))


def _named(function: Any) -> str:
    return getattr(function, "__qualname__", "") or type(function).__name__
