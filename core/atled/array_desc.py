"""Shape, dtype and strides of one array."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from atled.strides import contiguous_strides, strides_or_none


class ArrayDesc:
    """Shape, dtype and strides of one array; holds no data, and does not say where in its memory the array begins.

    shape: tuple of int, counts of elements per axis.  dtype: numpy.dtype.
    size: count of elements.  nbytes: size in bytes, of the elements alone.
    strides: elements from one to the next, per axis; negative ones and 0 are strides, too. None: C-contiguous, which
        strides that say so become.
    """

    __slots__ = ("_hash", "dtype", "nbytes", "shape", "size", "strides")

    def __init__(self, shape: tuple[int, ...], dtype: Any = np.float32, strides: Sequence[int] | None = None) -> None:
        self.shape = tuple(shape)
        self.dtype = np.dtype(dtype)
        self.size = math.prod(self.shape)
        self.nbytes = int(self.size * self.dtype.itemsize)
        self.strides = None if strides is None else strides_or_none(self.shape, strides)
        if self.strides is None:
            self._hash = hash((self.shape, self.dtype.num))
        else:
            self._hash = hash((self.shape, self.dtype.num, self.strides))

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def is_contiguous(self) -> bool:
        """Whether its elements lie one behind the other in C order."""
        return self.strides is None

    @property
    def contiguous(self) -> ArrayDesc:
        """The same shape and dtype in C order."""
        return self if self.strides is None else ArrayDesc(self.shape, self.dtype)

    @property
    def written_strides(self) -> tuple[int, ...]:
        """The strides, also where it is C-contiguous."""
        return contiguous_strides(self.shape) if self.strides is None else self.strides

    def astype(self, dtype: Any) -> ArrayDesc:
        """The same shape with another dtype, in C order."""
        return ArrayDesc(self.shape, dtype)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ArrayDesc):
            return NotImplemented
        return self.shape == other.shape and self.dtype == other.dtype and self.strides == other.strides

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        strides = "" if self.strides is None else f" strides {list(self.strides)}"
        return f"{self.dtype.name}{list(self.shape)}{strides}"
