"""Tensor: an array of a backend, or a window on one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from atled.keyed import View
from atled.neon.trees.assignment import assign
from atled.neon.trees.operand import Operand

if TYPE_CHECKING:
    from atled.neon.backends.backend import Backend


class Tensor(Operand):
    """An array of two axes or more; what is computed from it is an op-tree until it is assigned.

    view: its elements, as the core knows them.
    """

    def __init__(self, backend: Backend, view: View, name: str | None = None, base: Tensor | None = None) -> None:
        self.backend = backend
        self.view = view
        self.shape = view.shape
        self.dtype = view.dtype
        self.name = name
        self.base = base

    def get(self) -> np.ndarray:
        """The values, as a new array."""
        return self.view.numpy()

    def __getitem__(self, index: Any) -> Tensor:
        index = index if isinstance(index, tuple) else (index,)
        kept = tuple(slice(each, each + 1 or None) if isinstance(each, int) else each for each in index)
        return Tensor(self.backend, self.view[kept], self.name, self.base or self)

    def __setitem__(self, index: Any, value: Any) -> None:
        target = self if isinstance(index, slice) and index == slice(None) else self[index]
        if isinstance(value, Operand | int | float):
            assign(target, value)
        else:
            target.view.write(value)

    def reshape(self, *shape: Any) -> Tensor:
        """The elements under another shape."""
        view = self.view.reshape(shape[0] if isinstance(shape[0], tuple) else shape)
        assert view is not None
        return Tensor(self.backend, view, self.name, self.base or self)

    @property
    def T(self) -> Tensor:
        """Its axes in the other order."""
        return Tensor(self.backend, self.view.T, self.name, self.base or self)
