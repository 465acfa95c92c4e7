"""Costs of a network's outputs: their mean over the batch, and the errors that begin to go back."""

from __future__ import annotations

from typing import Any

import numpy as np

from atled.errors import four_parts, shortened
from atled.neon.backends.backend import OpTreeNode, Tensor
from atled.neon.layers.shapes import interpret_in_shape
from atled.neon.nervana_object import NervanaObject


class GeneralizedCost(NervanaObject):
    """A cost function behind a layer.

    costfunc: `costfunc(y, t)` gives an op-tree (1, steps * batch), `costfunc.bprop(y, t)` one of the shape of y.
    outputs: the costs of each column.  deltas: the errors.  cost: the mean; all of the last call.

    TypeError: costfunc is a class, or cannot be called.
    """

    def __init__(self, costfunc: Any, name: str | None = None) -> None:
        super().__init__(name)
        if isinstance(costfunc, type) or not callable(costfunc):
            wrong, remedy = "it is no cost function", "give an object, such as CrossEntropyMulti()"
            raise TypeError(four_parts(f"{self._told} of {shortened(costfunc)}", wrong, "", remedy))
        self.costfunc = costfunc
        self.prev_layer: Any = None
        self.outputs: Any = None
        self.deltas: Any = None
        self.cost_buffer: Any = None
        self.cost: Any = None

    @property
    def _told(self) -> str:
        """The cost as messages name it."""
        return f"{self.classnm} {self.name!r}"

    def initialize(self, in_obj: Any) -> None:
        """Make memory for costs and errors.  in_obj: the last layer, which has `out_shape`; TypeError without."""
        shape = getattr(in_obj, "out_shape", None)
        if shape is None:
            wrong = f"{type(in_obj).__name__} has no sizes of outputs"
            remedy = "give the last layer, configured"
            raise TypeError(four_parts(f"{self._told}.initialize", wrong, "", remedy))
        be = self._present
        self.prev_layer = in_obj
        _, steps = interpret_in_shape(shape)
        self.outputs = be.iobuf((1, steps))
        self.deltas = be.iobuf(shape)
        self.cost_buffer = be.empty((1, 1))

    def get_cost(self, inputs: Tensor, targets: Any) -> np.ndarray:
        """The mean of the costs over all columns, (1, 1).

        inputs: the outputs of the layer.  targets: what costfunc takes as t.
        RuntimeError: it is not initialized.  ValueError: another shape, or costs of another shape.
        """
        self._check("get_cost", inputs)
        return self._mean("get_cost", self.costfunc(inputs, targets))

    def get_errors(self, inputs: Tensor, targets: Any) -> Tensor:
        """The errors of the outputs, not divided by the batch. Arguments and errors as of `get_cost`."""
        self._check("get_errors", inputs)
        self._assign("get_errors", self.deltas, self.costfunc.bprop(inputs, targets))
        return self.deltas

    def _mean(self, call: str, tree: Any) -> np.ndarray:
        """The mean of what an op-tree of costs gives."""
        self._assign(call, self.outputs, tree)
        self.cost_buffer[:] = self._present.mean(self.outputs, axis=1)
        self.cost = self.cost_buffer.get()
        cost: np.ndarray = self.cost
        return cost

    def _check(self, call: str, inputs: Any) -> None:
        if self.outputs is None:
            remedy = "call initialize with the last layer, or give it to Model.fit, which does"
            raise RuntimeError(four_parts(f"{self._told}.{call}", "it is not initialized", "", remedy))
        if getattr(inputs, "shape", None) != self.deltas.shape:
            wrong = f"outputs of type {type(inputs).__name__}, shape {list(getattr(inputs, 'shape', ()))}"
            remedy = f"give those of the layer it was initialized with, {list(self.deltas.shape)}"
            raise ValueError(four_parts(f"{self._told}.{call}", wrong, "", remedy))

    def _assign(self, call: str, target: Tensor, tree: Any) -> None:
        """Write what a cost function gave.  ValueError: it is of another shape."""
        if isinstance(tree, OpTreeNode | Tensor) and tree.shape != target.shape:
            kind = type(self.costfunc).__name__
            wrong = f"{kind} gives shape {list(tree.shape)}, where {list(target.shape)} is needed"
            remedy = "use a cost and targets that fit the last layer"
            raise ValueError(four_parts(f"{self._told}.{call}", wrong, "", remedy))
        target[:] = tree


class GeneralizedCostMask(GeneralizedCost):
    """A cost function of some of the outputs: of `y * mask` and `t * mask`, times weights.

    Targets are pairs (t, mask); a mask has the shape of y, or broadcasts to it.  weights: a number or a tensor.
    """

    def __init__(self, costfunc: Any, weights: Any = 1.0, name: str | None = None) -> None:
        super().__init__(costfunc, name)
        self.weights = weights

    def get_cost(self, inputs: Tensor, targets: Any) -> np.ndarray:
        """See GeneralizedCost.  TypeError: targets are no pair."""
        self._check("get_cost", inputs)
        wanted, mask = self._pair("get_cost", targets)
        return self._mean("get_cost", self.costfunc(inputs * mask, wanted * mask) * self.weights)

    def get_errors(self, inputs: Tensor, targets: Any) -> Tensor:
        """See GeneralizedCost.  TypeError: targets are no pair."""
        self._check("get_errors", inputs)
        wanted, mask = self._pair("get_errors", targets)
        errors = self.costfunc.bprop(inputs * mask, wanted * mask) * mask
        self._assign("get_errors", self.deltas, errors * self.weights)
        return self.deltas

    def _pair(self, call: str, targets: Any) -> tuple[Any, Any]:
        if not isinstance(targets, tuple | list) or isinstance(targets, OpTreeNode) or len(targets) != 2:
            wrong = f"targets are of type {type(targets).__name__}"
            raise TypeError(four_parts(f"{self._told}.{call}", wrong, "", "give a pair: targets, mask"))
        wanted, mask = targets
        return wanted, mask


class GeneralizedGANCost(GeneralizedCost):
    """The cost of a generator and a discriminator, whose cost function takes outputs for data and for noise."""

    def get_cost(self, inputs: Tensor, targets: Any, cost_type: str = "dis") -> np.ndarray:
        """The mean of the costs over the batch, (1, 1).

        inputs: what the discriminator gives for data.  targets: what it gives for noise.
        cost_type: "dis", "dis_data", "dis_noise" or "gen": which part, as costfunc takes it. Raises as GeneralizedCost.
        """
        self._check("get_cost", inputs)
        return self._mean("get_cost", self.costfunc(inputs, targets, cost_type))
