"""Reshape: other sizes for the same elements."""

from __future__ import annotations

import math
from typing import Any

from atled.errors import four_parts
from atled.neon.backends.backend import Tensor
from atled.neon.layers.base import Layer
from atled.neon.layers.shapes import columns_of


class Reshape(Layer):
    """The same elements of each example under other sizes: a view.

    reshape: the sizes, one of which may be -1, which is worked out; 0 keeps the size that comes in.
    """

    owns_output = False

    def __init__(self, reshape: Any, name: str | None = None) -> None:
        super().__init__(name)
        self.reshape = (reshape,) if isinstance(reshape, int) else tuple(reshape)
        self._copies: dict[str, Tensor] = {}

    def configure(self, in_obj: Any) -> Reshape:
        """Take sizes; see Layer.  ValueError: other sizes have another count of elements."""
        super().configure(in_obj)
        before = (self.in_shape,) if isinstance(self.in_shape, int) else tuple(self.in_shape)
        sizes = [before[place : place + 1] if size == 0 else (size,) for place, size in enumerate(self.reshape)]
        known, count = math.prod(size for (size,) in filter(None, sizes) if size != -1), math.prod(before)
        open_places = self.reshape.count(-1)
        if not all(sizes) or open_places > 1 or (count % known if open_places and known else known != count):
            asked = f"{self._told}, reshape {self.reshape} of {before}"
            wrong = f"there are {count} elements, which these sizes do not have"
            raise ValueError(four_parts(asked, wrong, "", "give sizes of that product, one of them as -1"))
        self.out_shape = tuple(count // known if size == -1 else size for (size,) in sizes)
        return self

    def fprop(self, inputs: Tensor, inference: bool = False) -> Tensor:
        """The view; a copy of what does not lie in one piece.

        inputs: (features, steps * batch), of what came before.  inference: no effect.
        RuntimeError: it is not configured.  ValueError: another shape.  TypeError: no tensor.
        """
        self._check_configured("fprop")
        self._check_size("fprop", "inputs", inputs, columns_of(self.in_shape, self._present.bsz))
        self.inputs = inputs
        self.outputs = self._viewed("x", inputs, self.out_shape)
        return self.outputs

    def bprop(self, error: Tensor, alpha: float = 1.0, beta: float = 0.0) -> Tensor:
        """The error under the sizes of what came before. Raises as `fprop`."""
        self._check_in_place("bprop", alpha, beta)
        self._check_configured("bprop")
        self._check_size("bprop", "errors", error, columns_of(self.out_shape, self._present.bsz))
        return self._viewed("e", error, self.in_shape)

    def _viewed(self, name: str, tensor: Tensor, shape: Any) -> Tensor:
        """A tensor under sizes."""
        if not tensor.is_contiguous:
            copy = self._copies.setdefault(name, self._present.empty(tensor.shape, dtype=tensor.dtype))
            copy[:] = tensor
            tensor = copy
        wanted = columns_of(shape, self._present.bsz)
        view: Tensor = self._seen(name, tensor, lambda whole: whole.reshape(wanted))
        return view
