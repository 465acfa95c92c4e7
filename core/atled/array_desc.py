"""Shape and dtype of one array."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


class ArrayDesc:
    """Shape and dtype of one C-contiguous array; holds no data.

    shape: tuple of int, counts of elements per axis.  dtype: numpy.dtype.
    """

    __slots__ = ("_hash", "dtype", "shape")

    def __init__(self, shape: tuple[int, ...], dtype: Any = np.float32) -> None:
        self.shape = tuple(shape)
        self.dtype = np.dtype(dtype)
        self._hash = hash((self.shape, self.dtype.num))

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return int(self.size * self.dtype.itemsize)

    def astype(self, dtype: Any) -> ArrayDesc:
        """The same shape with another dtype."""
        return ArrayDesc(self.shape, dtype)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ArrayDesc):
            return NotImplemented
        return self.shape == other.shape and self.dtype == other.dtype

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"{self.dtype.name}{list(self.shape)}"
