"""Multicost: a cost for each of several outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from atled.errors import four_parts
from atled.neon.backends.backend import Tensor
from atled.neon.nervana_object import NervanaObject


class Multicost(NervanaObject):
    """A weighted sum of costs, one for each output of a Tree.

    costs: with `initialize`, `get_cost` and `get_errors`, such as GeneralizedCost.
    weights: a factor for each; 1 for all where there are none.

    cost: (1, 1); the sum of the last call.

    ValueError: no costs, weights that are not one for each.
    """

    def __init__(self, costs: Sequence[Any], weights: Sequence[float] | None = None, name: str | None = None) -> None:
        super().__init__(name)
        if not costs or (weights is not None and len(weights) != len(costs)):
            wrong = f"it has {len(costs)} costs and {'no' if weights is None else len(weights)} weights"
            raise ValueError(four_parts(f"{self.classnm} {self.name!r}", wrong, "", "give one cost and weight each"))
        self.costs = list(costs)
        self.weights = [1.0] * len(self.costs) if weights is None else list(weights)
        self.prev_layer: Any = None
        self.cost: Any = None
        self.deltas: Any = None

    def initialize(self, in_obj: Any) -> None:
        """Have each cost make memory for its row.  in_obj: a Tree with as many rows; ValueError: other ones."""
        rows: Any = in_obj.layers if isinstance(getattr(in_obj, "out_shape", None), list) else None
        self._check("initialize", "rows of layers", rows)
        self.prev_layer = in_obj
        for each, row in zip(self.costs, rows, strict=True):
            each.initialize(row)

    def get_cost(self, inputs: Any, targets: Any) -> np.ndarray:
        """The sum of `weight * cost`, (1, 1).

        inputs: a list of outputs; a tensor, as a SingleOutputTree gives in inference, for the cost of the first alone.
        targets: a list with those of each output, or one thing for all of them.
        ValueError: not as many as there are costs.
        """
        if isinstance(inputs, Tensor):
            t = targets[0] if isinstance(targets, list | tuple) else targets
            self.cost = self.weights[0] * np.asarray(self.costs[0].get_cost(inputs, t))
            return self.cost
        total = np.zeros((1, 1))
        for each, weight, y, t in self._rows("get_cost", inputs, targets):
            total = total + weight * np.asarray(each.get_cost(y, t))
        self.cost = total
        return total

    def get_errors(self, inputs: Sequence[Any], targets: Any) -> list[Any]:
        """The errors of each output, times its weight.  inputs: a list; else, and of errors, as of `get_cost`."""
        found = []
        for each, weight, y, t in self._rows("get_errors", inputs, targets):
            error = each.get_errors(y, t)
            if weight != 1:
                error[:] = error * weight
            found.append(error)
        self.deltas = found
        return found

    def _rows(self, call: str, inputs: Sequence[Any], targets: Any) -> list[tuple[Any, float, Any, Any]]:
        several = targets if isinstance(targets, list | tuple) else [targets] * len(self.costs)
        self._check(call, "outputs", inputs)
        self._check(call, "targets", several)
        return list(zip(self.costs, self.weights, inputs, several, strict=True))

    def _check(self, call: str, what: str, given: Any) -> None:
        count = len(given) if isinstance(given, list | tuple) else "one"
        if count != len(self.costs):
            wrong = f"{what}: {count}, for {len(self.costs)} costs"
            remedy = "give one for each, such as those of a Tree with as many rows"
            raise ValueError(four_parts(f"{self.classnm} {self.name!r}.{call}", wrong, "", remedy))
