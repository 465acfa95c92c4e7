"""From op-trees to programs of the core."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from atled.keyed import Description

if TYPE_CHECKING:
    from atled.neon.trees.tensor import Tensor

_OPS = {
    "add": "Add2",
    "sub": "Sub2",
    "mul": "Mul2",
    "div": "Div2",
    "neg": "Neg",
    "tanh": "Tanh",
    "exp": "Exp",
    "sum": "Sum",
    "max": "MaxTies",
    "dot": "Dot",
    "maximum": "MaximumTies",
    "minimum": "MinimumTies",
    "gt": "IsGreater",
    "lt": "IsLess",
}


def lowered(d: Description, tree: Any, known: Mapping[Any, int] | None = None) -> int:
    """The value, in a description, of an op-tree, a tensor or a number.

    known: values in it that stand for some tensors or nodes, by identity.
    """
    if known and tree in known:
        return known[tree]
    if isinstance(tree, tuple):
        about, a, b = tree
        operands = [lowered(d, each, known) for each in (a, b) if each is not None]
        if "axis" in about:
            return d.call(_OPS[about["op"]], *operands, axes=about["axis"], keep_dims=True)
        return d.call(_OPS[about["op"]], *operands)
    return d.leaf(tree.view) if hasattr(tree, "view") else d.number(tree)


def assign(target: Tensor, tree: Any) -> None:
    """Have a tensor hold what an op-tree gives."""
    d = Description(target.backend.context)
    d.assign(target.view, lowered(d, tree))
    d.run()
