"""Costs whose error takes in the derivative of the activation before them."""

from __future__ import annotations

from typing import Any

from atled.neon.transforms import CrossEntropyBinary, Logistic


def set_shortcuts(layers: Any, cost: Any, made: list[Any]) -> None:
    """Have each Logistic with a CrossEntropyBinary behind it leave its derivative to the cost.

    made: those for which it was done before; they are asked anew, and the list has the present ones afterwards.
    """
    for transform in made:
        transform.shortcut = False
    made.clear()
    terminals = layers.get_terminal()
    terminals = terminals if isinstance(terminals, list) else [terminals]
    costs = getattr(cost, "costs", None) or [cost]
    for last, each in zip(terminals, costs, strict=False):
        transform = getattr(last, "transform", None)
        is_binary = isinstance(getattr(each, "costfunc", None), CrossEntropyBinary)
        if is_binary and isinstance(transform, Logistic) and not transform.shortcut:
            transform.shortcut = True
            made.append(transform)
