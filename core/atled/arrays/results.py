"""Memory for results that leave as NumPy arrays: pieces that small ones share, which cost less than one for each."""

from __future__ import annotations

import math
import weakref

import numpy as np

from atled.arrays.storage import ALIGNMENT, POOL

_LARGE_BYTES = 1 << 10
_PIECE_BYTES = 1 << 11


class _Root(weakref.ref[np.ndarray]):
    """The array that is the base of all views of a buffer: where it goes, nobody reads the buffer any more."""

    __slots__ = ("buffer", "nbytes")

    buffer: tuple[np.ndarray, int]
    nbytes: int


_ROOTS: dict[int, _Root] = {}
"""Those that are alive, by identity."""


def _give_back(root: _Root) -> None:
    """Put a buffer back into the pool."""
    del _ROOTS[id(root)]
    POOL.give(root.nbytes, root.buffer)


class Results:
    """New NumPy arrays of one shape and dtype, in host memory at multiples of 64 bytes.

    Small ones are parts of a piece of 2 KiB, which lives as long as any of them. Memory of others goes back to the pool
    with the last view of it. Several threads may take from it.
    """

    __slots__ = ("_dtype", "_free", "_nbytes", "_shape", "_step")

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype) -> None:
        self._shape = shape
        self._dtype = dtype
        self._nbytes = math.prod(shape) * dtype.itemsize
        self._step = max(ALIGNMENT, -(-self._nbytes // ALIGNMENT) * ALIGNMENT)
        self._free: list[tuple[memoryview, int, int]] = []

    def new(self) -> tuple[np.ndarray, int]:
        """An array whose contents are undefined, and its address."""
        if self._nbytes > _LARGE_BYTES:
            return self._new_large()
        try:
            memory, offset, address = self._free.pop()  # atomic
        except IndexError:
            memory, offset, address = self._new_piece()
        return np.ndarray(self._shape, self._dtype, memory, offset), address

    def _new_large(self) -> tuple[np.ndarray, int]:
        buffer = memory, address = POOL.take(self._nbytes)
        # Based on a memoryview, NumPy has the root be the base of every view of what is made of it.
        base = np.frombuffer(memory.data, np.uint8)
        root = _Root(base, _give_back)
        root.buffer, root.nbytes = buffer, self._nbytes
        _ROOTS[id(root)] = root
        return np.ndarray(self._shape, self._dtype, base), address

    def _new_piece(self) -> tuple[memoryview, int, int]:
        piece = np.empty(_PIECE_BYTES + ALIGNMENT, np.uint8)
        address: int = piece.ctypes.data
        first = -address % ALIGNMENT
        offsets = range(first, first + _PIECE_BYTES - self._step + 1, self._step)
        *others, last = [(piece.data, offset, address + offset) for offset in offsets]
        self._free += others
        return last
