"""Sequential: layers in a row."""

from __future__ import annotations

import inspect
from typing import Any

from atled.errors import four_parts, shortened
from atled.neon.layers.base import Layer
from atled.neon.layers.branch import BranchNode, SkipNode
from atled.neon.layers.layer_container import LayerContainer
from atled.neon.layers.lookup import LookupTable
from atled.neon.layers.normalization import BatchNorm


class Sequential(LayerContainer):
    """Layers in a row, each on the outputs of the one before.

    layers: layers, containers and lists of them, which are flattened.
    Behind a BranchNode a layer that writes into its inputs, or does not add up errors, gets a SkipNode before it.

    joins: for each BranchNode within, by what factor errors from behind it count, and what of its deltas stays;
    whoever owns the branches of the node says so. Without an entry: 1 and 0.

    TypeError: what is no layer.  ValueError: there is no layer.
    """

    def __init__(self, layers: Any, name: str | None = None) -> None:
        super().__init__(name)
        self.layers = flattened(self._told, layers)
        if not self.layers:
            raise ValueError(four_parts(self._told, "it has no layers", "", "give a list of one layer at least"))
        for node, behind in list(zip(self.layers, self.layers[1:], strict=False)):
            if isinstance(node, BranchNode) and not can_branch(behind):
                self.insert(self.layers.index(behind))
        self.joins: dict[BranchNode, tuple[float, float]] = {}

    def insert(self, position: int) -> None:
        """Put a SkipNode of the container's own before a layer, or at the end."""
        node = SkipNode()
        self.layers.insert(position, node)
        self.added.append(node)

    @property
    def owns_output(self) -> bool:  # type: ignore[override]  # of the layers, not of the class
        """Whether one of the layers has outputs of its own."""
        return any(each.owns_output for each in self.layers)

    @property
    def owns_delta(self) -> bool:  # type: ignore[override]  # of the layers, not of the class
        """Whether the first layer has deltas of its own."""
        return bool(self.layers[0].owns_delta)

    def configure(self, in_obj: Any) -> Sequential:
        """Take sizes, layer by layer; see Layer.  in_obj: None where the first layer is a BranchNode of a trunk."""
        before = in_obj
        for layer in self.layers:
            layer.configure(before)
            if isinstance(before, Layer):
                before.set_next(layer)
            before = layer
        if in_obj is None:
            self.prev_layer = self.layers[0]
        elif isinstance(in_obj, Layer):
            self.prev_layer = in_obj
        self.in_shape, self.out_shape = self.layers[0].in_shape, before.out_shape
        return self

    def allocate(self, shared_outputs: Any = None, accumulate_updates: bool = False) -> None:
        """See LayerContainer; shared_outputs are for the last layer that has outputs of its own."""
        self._check_configured("allocate")
        owners = [each for each in self.layers if each.owns_output]
        for layer in self.layers:
            # Only where there is something to say: layers of programs may take no argument at all.
            keywords: dict[str, Any] = {}
            if shared_outputs is not None and layer is owners[-1]:
                keywords["shared_outputs"] = shared_outputs
            if accumulate_updates and (layer.has_params or isinstance(layer, LayerContainer)):
                keywords["accumulate_updates"] = True
            layer.allocate(**keywords)
        self.outputs = self.layers[-1].outputs

    def set_deltas(self, delta_buffers: Any) -> None:
        """See LayerContainer."""
        if self.layers[0].prev_layer is None:
            self.layers[0].prev_layer = self.prev_layer  # programs set it to True to ask for errors of the inputs
        super().set_deltas(delta_buffers)
        self.deltas = self.layers[0].deltas

    def take_deltas(self, deltas: Any) -> None:
        """See LayerContainer."""
        first = self.layers[0]
        if isinstance(first, LayerContainer):
            first.take_deltas(deltas)
        else:
            first.deltas = deltas
        self.deltas = deltas

    def fprop(self, x: Any, inference: bool = False, beta: float = 0.0) -> Any:
        """The outputs of the last layer.

        x: for the first layer; None where that is a BranchNode, which has its own.
        beta: for the last layer, which adds `beta * outputs`.  RuntimeError and others: as the layers raise.
        """
        last = len(self.layers) - 1
        self.inputs = x
        for position, layer in enumerate(self.layers):
            x = layer.fprop(x, inference, beta=beta) if beta and position == last else layer.fprop(x, inference)
        self.outputs = x
        return x

    def bprop(self, error: Any, alpha: float = 1.0, beta: float = 0.0) -> Any:
        """Gradients of all layers, and the errors of the inputs, None where nobody asks for them.

        alpha, beta: for the first layer, in whose deltas are `alpha * errors + beta * deltas`; where that is a
        BranchNode, for the one behind.
        """
        first = 1 if isinstance(self.layers[0], BranchNode) and len(self.layers) > 1 else 0
        for position in range(len(self.layers) - 1, first - 1, -1):
            layer = self.layers[position]
            before = self.layers[position - 1] if position else None
            if error is None:
                self._end_without(position)
                break
            if position == first:
                error = layer.bprop(error, alpha, beta) if (alpha, beta) != (1.0, 0.0) else layer.bprop(error)
            elif isinstance(layer, BranchNode):
                error = self._joined(layer, error, position)
            elif isinstance(before, BranchNode):
                error = layer.bprop(error, *self.joins.get(before, (1.0, 0.0)))
            else:
                error = layer.bprop(error)
        self.deltas = error
        return error

    def _end_without(self, position: int) -> None:
        """RuntimeError: a layer gives no errors back, and one before it, from a position on, has parameters."""
        behind = self.layers[position + 1 :]
        for each in self.layers[: position + 1]:
            if each.has_params or (isinstance(each, LayerContainer) and each.layers_to_optimize):
                source = f"{behind[0].classnm} {behind[0].name!r} gives" if behind else "there are"
                wrong = f"{source} no errors back, which {each.classnm} {each.name!r} needs for its gradients"
                remedy = "put what gives none, such as LookupTable, first, or return the errors from its bprop"
                raise RuntimeError(four_parts(f"{self._told}.bprop", wrong, "", remedy))

    def _joined(self, node: BranchNode, error: Any, position: int) -> Any:
        """The errors at a node, which the layer behind it wrote there."""
        if position == len(self.layers) - 1:
            return node.bprop(error, *self.joins.get(node, (1.0, 0.0)))
        if error is not node.deltas:
            wrong = f"its {node.classnm} {node.name!r} is in another network, too, which was configured since"
            remedy = "give the nodes of each network names that no other has"
            raise RuntimeError(four_parts(f"{self._told}.bprop", wrong, "", remedy))
        return error


def flattened(told: str, layers: Any) -> list[Any]:
    """The layers of nested lists, in order. TypeError, with told of whom: what is no layer."""
    if isinstance(layers, Layer):
        return [layers]
    if not isinstance(layers, list | tuple):
        remedy = "give layers, containers, or lists of them"
        raise TypeError(four_parts(told, f"{shortened(layers)} is no layer", "", remedy))
    return [layer for each in layers for layer in flattened(told, each)]


def branch_of(told: str, layers: Any) -> Sequential:
    """A Sequential whose inputs others may use, too, and whose errors are added to theirs."""
    branch = layers if isinstance(layers, Sequential) else Sequential(flattened(told, layers))
    if not can_branch(branch):
        branch.insert(0)
    return branch


def can_branch(layer: Any) -> bool:
    """Whether it leaves its inputs as they are, and adds its errors to others."""
    while isinstance(layer, Sequential):
        layer = layer.layers[0]
    if isinstance(layer, LayerContainer | BranchNode):
        return True
    if gives_none(layer):
        return True
    # Its gradients need sums over the whole of its own error.
    adds = layer.owns_delta and not isinstance(layer, BatchNorm)
    return bool(layer.owns_output and adds and "beta" in inspect.signature(layer.bprop).parameters)


def gives_none(layer: Any) -> bool:
    """Whether there are no errors of its inputs, as for the whole numbers that LookupTable takes."""
    while isinstance(layer, Sequential):
        layer = layer.layers[0]
    return isinstance(layer, LookupTable)


def can_add(layer: Any) -> bool:
    """Whether it adds its outputs to what is there, and leaves the errors that it gets as they are."""
    while isinstance(layer, Sequential):
        layer = layer.layers[-1]
    has_beta = "beta" in inspect.signature(layer.fprop).parameters
    return bool(layer.owns_output and has_beta and not isinstance(layer, BatchNorm))
