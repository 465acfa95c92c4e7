"""Trees: a trunk with branches, and an output for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from atled.errors import four_parts
from atled.neon.layers.base import Layer
from atled.neon.layers.branch import BranchNode
from atled.neon.layers.layer_container import LayerContainer
from atled.neon.layers.sequential import Sequential, flattened


class Tree(LayerContainer):
    """A trunk and branches that begin at its nodes, or at those of branches before.

        node = BranchNode("node")
        Tree([[Linear(5, init), node, Linear(3, init)], [node, Linear(2, init)]], alphas=[1, 0.3])

    layers: a list of rows of layers, the trunk first; each other one begins with a BranchNode of one before.
    alphas: a factor for the errors that a branch gives back at its node; that of the trunk counts at its last node, or
    without a node for the errors of the inputs. 1 for all where there are none.

    TypeError: what is no layer.  ValueError: a branch that begins nowhere, alphas that are not one per row.
    """

    def __init__(self, layers: Sequence[Any], name: str | None = None, alphas: Sequence[float] | None = None) -> None:
        super().__init__(name)
        if isinstance(layers, Layer) or not isinstance(layers, list | tuple) or not layers:
            kind = ValueError if layers in ([], ()) else TypeError
            remedy = "give a list of rows of layers, the trunk first"
            raise kind(four_parts(self._told, "it has no rows of layers", "", remedy))
        self.layers = [
            each if isinstance(each, Sequential) else Sequential(flattened(self._told, each)) for each in layers
        ]
        if alphas is not None and len(alphas) != len(self.layers):
            wrong = f"{len(alphas)} alphas for {len(self.layers)} rows of layers"
            raise ValueError(four_parts(self._told, wrong, "", "give one for each"))
        self.alphas = None if alphas is None else list(alphas)
        self._factors = [(alpha, 0.0) for alpha in self.alphas or [1.0] * len(self.layers)]
        self._join()

    def _join(self) -> None:
        """Say for each row what of a node's deltas stays: the last row that begins there is the first to write."""
        owners: dict[BranchNode, Sequential] = {}
        branches: dict[BranchNode, list[int]] = {}
        for number, row in enumerate(self.layers):
            nodes = [each for each in row.layers if isinstance(each, BranchNode)]
            if number:
                head = row.layers[0]
                if head not in owners:
                    wrong = f"row {number} begins with {head.classnm} {head.name!r}, which is in no row before"
                    remedy = "let it begin with a BranchNode that the trunk has"
                    raise ValueError(four_parts(self._told, wrong, "", remedy))
                branches[head].append(number)
                nodes = nodes[1:]
            for node in nodes:
                owners[node], branches[node] = row, []
        for node, numbers in branches.items():
            for number in numbers[:-1]:
                self._factors[number] = self._factors[number][0], 1.0
            owners[node].joins[node] = 1.0, 1.0 if numbers else 0.0
        last = [node for node, owner in owners.items() if owner is self.layers[0]]
        if last:
            trunk = self.layers[0]
            trunk.joins[last[-1]] = self._factors[0][0], trunk.joins[last[-1]][1]
            self._factors[0] = 1.0, 0.0

    def configure(self, in_obj: Any) -> Tree:
        """Take sizes, row by row; see Layer.  out_shape is a list."""
        super().configure(in_obj)
        for number, each in enumerate(self.layers):
            each.configure(None if number else in_obj)
        self.out_shape = [each.out_shape for each in self.layers]
        return self

    def allocate(self, shared_outputs: Any = None, accumulate_updates: bool = False) -> None:
        """See LayerContainer; several outputs share nothing."""
        self._check_configured("allocate")
        for each in self.layers:
            each.allocate(accumulate_updates=accumulate_updates)
        self.outputs = [each.outputs for each in self.layers]

    def set_deltas(self, delta_buffers: Any) -> None:
        """See LayerContainer."""
        super().set_deltas(delta_buffers)
        self.deltas = self.layers[0].deltas

    def take_deltas(self, deltas: Any) -> None:
        """See LayerContainer."""
        self.layers[0].take_deltas(deltas)
        self.deltas = deltas

    def get_terminal(self) -> list[Any]:
        """The last layer of each row."""
        return [each.get_terminal() for each in self.layers]

    def fprop(self, inputs: Any, inference: bool = False) -> Any:
        """A list with the outputs of each row."""
        self._check_allocated("fprop")
        self.inputs = inputs
        trunk, *branches = self.layers
        self.outputs = [trunk.fprop(inputs, inference), *(each.fprop(None, inference) for each in branches)]
        return self.outputs

    def bprop(self, error: Any, alpha: float = 1.0, beta: float = 0.0) -> Any:
        """Gradients of all layers; the errors of the inputs, None where nobody asks for them.

        error: a list, one for each row.  alpha, beta: as for Sequential.  TypeError, ValueError: not as many.
        """
        if not isinstance(error, list | tuple) or len(error) != len(self.layers):
            wrong = f"errors are of type {type(error).__name__}"
            remedy = f"give a list of {len(self.layers)}, as Multicost does"
            raise TypeError(four_parts(f"{self._told}.bprop", wrong, "", remedy))
        for number in reversed(range(len(self.layers))):
            factor, kept = self._factors[number]
            self.layers[number].bprop(error[number], *((factor, kept) if number else (alpha * factor, beta)))
        self.deltas = self.layers[0].deltas
        return self.deltas


class SingleOutputTree(Tree):
    """A Tree whose branches only train: in inference there is the output of the trunk alone."""

    def fprop(self, inputs: Any, inference: bool = False) -> Any:
        """A list with the outputs of each row; in inference that of the trunk, and no branch computes."""
        if not inference:
            return super().fprop(inputs, inference)
        self._check_allocated("fprop")
        self.inputs = inputs
        return self.layers[0].fprop(inputs, inference)
