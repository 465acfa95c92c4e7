"""Calls that make tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from atled.keyed import NdArray, View
from atled.neon.trees.tensor import Tensor


class AllocationCalls:
    """Makes tensors."""

    if TYPE_CHECKING:
        default_dtype: np.dtype
        bsz: int

    def array(self, ary: Any, dtype: Any = None, name: str | None = None) -> Tensor:
        """A tensor with the values of an array."""
        values = np.asarray(ary, self.default_dtype if dtype is None else dtype)
        values = values.reshape(-1, 1) if values.ndim < 2 else values
        return Tensor(self, View(NdArray.from_numpy_array(values)), name)  # type: ignore[arg-type]

    def zeros(self, shape: Any, dtype: Any = None, name: str | None = None) -> Tensor:
        """A tensor of zeros."""
        return self.array(np.zeros(shape, self.default_dtype if dtype is None else dtype), dtype, name)

    empty = zeros
