"""DeltasTree: memory for errors, in which layers take turns."""

from __future__ import annotations

from typing import Any

from atled.neon.nervana_object import NervanaObject


class DeltasTree(NervanaObject):
    """Two buffers, of which each layer writes one while it reads the other; a child has those within a branch.

    parent: the one above.  child: the one below, once `decend` made it.
    max_shape: the largest count of elements per example that a layer asked for.
    buffers: the two, or None twice before `allocate_buffers`; `Layer.set_deltas` takes the first and reverses the list.
    """

    def __init__(self, parent: DeltasTree | None = None) -> None:
        super().__init__()
        self.parent = parent
        self.child: DeltasTree | None = None
        self.max_shape = 0
        self.buffers: list[Any] = [None, None]

    def decend(self) -> DeltasTree:
        """The child, which is made where there is none."""
        if self.child is None:
            self.child = DeltasTree(self)
        return self.child

    def ascend(self) -> DeltasTree | None:
        """The parent; None at the top."""
        return self.parent

    def proc_layer(self, layer: Any) -> None:
        """Make the buffers at least as large as what a layer takes in."""
        size = layer.be.shared_iobuf_size(layer.in_shape, layer.parallelism)
        self.max_shape = max(self.max_shape, size)

    def allocate_buffers(self) -> None:
        """Make the buffers, those of children too, once; none where no layer asked."""
        if self.child is not None:
            self.child.allocate_buffers()
        if self.max_shape and self.buffers[0] is None:
            # iobuf is on the class Backend, which NervanaObject knows by name alone.
            be: Any = self.be
            self.buffers = [be.iobuf(self.max_shape, parallelism="Data") for _ in range(2)]
