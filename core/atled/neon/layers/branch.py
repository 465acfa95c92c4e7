"""Nodes where branches begin, and ways around layers."""

from __future__ import annotations

import weakref
from typing import Any, ClassVar

from atled.neon.backends.backend import Tensor
from atled.neon.layers.base import Layer


class BranchNode(Layer):
    """The place in a network where branches begin; it stands in the trunk, and first in each branch.

    One name, one object: `BranchNode("b") is BranchNode("b")`, as long as it is referred to. It remembers what it was
    given last. Its deltas are where all layers behind it add up their errors: who owns the branches sees to the order,
    with `bprop(error, beta=0)` for the first and `beta=1` for others.
    """

    owns_output = False
    owns_delta = True
    gives_deltas = True
    instances: ClassVar[weakref.WeakValueDictionary[str, BranchNode]] = weakref.WeakValueDictionary()

    def __new__(cls, name: str | None = None) -> BranchNode:
        """The object of the name; a new one without a name."""
        found = None if name is None else cls.instances.get(name)
        if found is None:
            found = super().__new__(cls)
            if name is not None:
                cls.instances[name] = found
        return found

    def __init__(self, name: str | None = None) -> None:
        if not hasattr(self, "prev_layer"):  # it is called for those that were there, too
            super().__init__(name)

    def configure(self, in_obj: Any) -> BranchNode:
        """Take sizes, which do not change; see Layer.  in_obj: None or itself at the head of a branch."""
        if in_obj is None or in_obj is self:
            self._check_configured("configure")
            return self
        super().configure(in_obj)
        self.out_shape = self.in_shape
        # Of an earlier network, which had the name.
        self.inputs = self.outputs = self.deltas = None
        return self

    def set_deltas(self, delta_buffers: Any) -> None:
        """Take deltas, once, of its own: layers that take turns in buffers would write over the sum."""
        if self.deltas is None and self.prev_layer is not None:
            self.deltas = self._present.iobuf(self.in_shape, parallelism=self.parallelism)

    def allocate_deltas(self, global_deltas: Any) -> None:
        """Nothing: its deltas are its own."""

    def fprop(self, inputs: Tensor | None = None, inference: bool = False) -> Any:
        """The inputs; None for those of the last time.

        RuntimeError: it is not configured, or there was no last time.  ValueError: another count of rows.
        """
        self._check_configured("fprop")
        if inputs is None:
            self._check_allocated("fprop")
        else:
            self._check_rows("fprop", "inputs", inputs)
            self.inputs = self.outputs = inputs
        return self.outputs

    def bprop(self, error: Any, alpha: float = 1.0, beta: float = 0.0) -> Any:
        """The deltas, which layers behind it have written; None without a layer before it.

        error: the deltas themselves, or that of a layer that writes into its error, which is copied to the deltas.
        """
        if self.deltas is not None and error is not None and error is not self.deltas:
            self._check_size("bprop", "errors", error, self.deltas.shape)
            self._present.bprop_skipnode(error, self.deltas, alpha, beta)
        return self.deltas


class SkipNode(Layer):
    """`y = x`: a way around other layers, whose outputs and errors are added to those of others."""

    owns_delta = True

    def configure(self, in_obj: Any) -> SkipNode:
        """Take sizes, which do not change; see Layer."""
        super().configure(in_obj)
        self.out_shape = self.in_shape
        return self

    def fprop(self, inputs: Tensor, inference: bool = False, beta: float = 0.0) -> Tensor:
        """`outputs = inputs + beta * outputs`.

        inputs: (features, steps * batch).  inference: no effect.
        RuntimeError: there is no memory yet.  ValueError: another shape.  TypeError: no tensor.
        """
        self._check_allocated("fprop")
        self._check_size("fprop", "inputs", inputs, self.outputs.shape)
        self.inputs = inputs
        self._present.fprop_skipnode(inputs, self.outputs, beta)
        return self.outputs

    def bprop(self, error: Tensor, alpha: float = 1.0, beta: float = 0.0) -> Any:
        """`deltas = alpha * error + beta * deltas`, where deltas are asked for. Raises as `fprop`."""
        self._check_allocated("bprop")
        self._check_size("bprop", "errors", error, self.outputs.shape)
        if self.deltas is not None:
            self._present.bprop_skipnode(error, self.deltas, alpha, beta)
        return self.deltas
