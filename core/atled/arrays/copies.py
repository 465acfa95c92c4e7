"""Copies of NumPy values in arrays that are needed for a moment: small ones come round."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from atled.arrays.array import NdArray
from atled.arrays.spares import spares_of


class Copies:
    """Makes arrays of one shape and dtype of NumPy values."""

    __slots__ = ("_dtype", "_shape", "_spares")

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype) -> None:
        self._shape = shape
        self._dtype = dtype
        self._spares = spares_of(NdArray, math.prod(shape), dtype)

    def of(self, values: np.ndarray) -> NdArray:
        """An array of values of the shape, which NumPy casts: a number that is too large becomes inf."""
        array = self._spares.get()
        array.shape = self._shape
        storage: Any = array.cell.storage  # of spares in host memory
        into = storage.array(self._shape, self._dtype)
        if values.dtype == self._dtype:
            np.copyto(into, values)
        else:
            with np.errstate(over="ignore", invalid="ignore"):
                np.copyto(into, values, casting="unsafe")
        return array
