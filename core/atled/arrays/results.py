"""Memory for results that leave as NumPy arrays: pieces that small ones share, which cost less than one for each."""

from __future__ import annotations

import math
import weakref

import numpy as np

from atled.arrays.storage import ALIGNMENT, POOL

_LARGE_BYTES = 1 << 9
_PIECE_BYTES = 1 << 11


_POOLED_BYTES = 1 << 16
_KEPT = 2
"""So many pieces below that size wait for the next results of the same kind; larger ones come from the pool."""

_Piece = tuple[memoryview, tuple[np.ndarray, int]]
"""An aligned buffer and its address, with the memory of it, which takes half a microsecond to ask for."""


class _Root(weakref.ref[np.ndarray]):
    """The array that all views of a buffer are views of: when it goes, nobody reads the buffer any more."""

    __slots__ = ("piece", "spares")

    piece: _Piece
    spares: list[_Piece]


_ROOTS: dict[int, _Root] = {}
"""Those that are alive, by identity."""


def _give_back(root: _Root) -> None:
    """Have a piece wait to be used again."""
    del _ROOTS[id(root)]
    memory, buffer = root.piece
    if memory.nbytes >= _POOLED_BYTES:
        POOL.give(memory.nbytes, buffer)
    elif len(root.spares) < _KEPT:
        root.spares.append(root.piece)


def _aligned(nbytes: int) -> tuple[np.ndarray, int]:
    """New memory, and its address."""
    memory = np.empty(nbytes + ALIGNMENT, np.uint8)
    start: int = memory.ctypes.data
    first = -start % ALIGNMENT
    return memory[first : first + nbytes], start + first


class Results:
    """New NumPy arrays of one shape and dtype, in host memory at multiples of 64 bytes.

    Small ones are parts of a piece of 2 KiB, which lives as long as any of them. Memory of others is used again,
    when the last view of it is gone. Several threads may take from it.
    """

    __slots__ = ("_count", "_dtype", "_free", "_nbytes", "_shape", "_spares", "_step")

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype) -> None:
        self._shape = shape
        self._dtype = dtype
        self._count = math.prod(shape)
        self._nbytes = self._count * dtype.itemsize
        self._step = max(ALIGNMENT, -(-self._nbytes // ALIGNMENT) * ALIGNMENT)
        self._free: list[tuple[memoryview, int, int]] = []
        self._spares: list[_Piece] = []

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
        try:
            piece = self._spares.pop()  # atomic
        except IndexError:
            buffer = POOL.take(self._nbytes) if self._nbytes >= _POOLED_BYTES else _aligned(self._nbytes)
            piece = buffer[0].data, buffer
        # What is based on a memoryview, not on an array, NumPy has be the base of every view of it.
        flat = np.frombuffer(piece[0], self._dtype, self._count)
        root = _Root(flat, _give_back)
        root.piece, root.spares = piece, self._spares
        _ROOTS[id(root)] = root
        return flat.reshape(self._shape), piece[1][1]

    def _new_piece(self) -> tuple[memoryview, int, int]:
        piece, address = _aligned(_PIECE_BYTES)
        memory = piece.data
        offsets = range(0, _PIECE_BYTES - self._step + 1, self._step)
        *others, last = [(memory, offset, address + offset) for offset in offsets]
        self._free += others
        return last
