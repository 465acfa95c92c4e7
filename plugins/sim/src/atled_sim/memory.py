"""The memory of one simulated device, and the opaque arrays in it."""

from __future__ import annotations

import itertools
import math

import numpy as np

from atled.plugin import lock_across_forks

_POISON = 0xFF
"""Fills new memory: NaN in every float dtype, -1 in the integers. What reads before it writes shows at once."""

ALIGNMENT = 256
"""Bytes; where parts of arrays may begin."""


class Memory:
    """Blocks of bytes by number. Only the device's own kernels and copies ask for their contents.

    device_id: of the device it belongs to.
    bytes_in_use: in all blocks that arrays still refer to.  peak_bytes: the most that ever was, since `reset_peak`.
    block_count: blocks that arrays still refer to.
    """

    def __init__(self, device_id: str) -> None:
        self.device_id = device_id
        self.bytes_in_use = 0
        self.peak_bytes = 0
        self._blocks: dict[int, np.ndarray] = {}
        self._numbers = itertools.count(1)
        # Re-entrant: a finalizer, or a handler of a signal, may free and allocate within `allocate`.
        self._lock = lock_across_forks()

    @property
    def block_count(self) -> int:
        """Blocks that arrays still refer to."""
        return len(self._blocks)

    def allocate(self, nbytes: int) -> int:
        """A new block, poisoned; its number."""
        contents = np.full(nbytes, _POISON, np.uint8)
        with self._lock:
            number = next(self._numbers)
            self._blocks[number] = contents
            self.bytes_in_use += nbytes
            self.peak_bytes = max(self.peak_bytes, self.bytes_in_use)
            return number

    def free(self, number: int) -> None:
        """Give a block back."""
        with self._lock:
            self.bytes_in_use -= self._blocks.pop(number).nbytes

    def contents(self, array: SimArray) -> np.ndarray:
        """The values of an array of this memory, as a NumPy view; for kernels and copies, which run on the device."""
        assert array.block.memory is self, "arrays of another device are refused before this"
        strides = None if array.strides is None else tuple(step * array.dtype.itemsize for step in array.strides)
        return np.ndarray(array.shape, array.dtype, self._blocks[array.block.number], array.offset, strides)

    def reset_peak(self) -> None:
        """Let the peak start again from what is in use now."""
        self.peak_bytes = self.bytes_in_use


class Block:
    """One allocation, given back when no array refers to it any more."""

    __slots__ = ("memory", "number")

    def __init__(self, memory: Memory, nbytes: int) -> None:
        self.memory = memory
        self.number = memory.allocate(nbytes)

    def __del__(self) -> None:
        if hasattr(self, "number"):  # else the allocation failed
            self.memory.free(self.number)


class SimArray:
    """An array on a simulated device: shape, dtype, and a block that says nothing about where its values are.

    It has no `__array__`, no buffer and no array interface. NumPy, which would wrap it as an object, is refused for
    arithmetic by `__array_ufunc__`.

    shape: sizes per axis.  dtype: numpy.dtype.  offset: bytes of the block before its first element.
    strides: elements per axis; None for C order.
    """

    __slots__ = ("block", "dtype", "offset", "shape", "strides")
    __array_ufunc__ = None

    def __init__(
        self,
        block: Block,
        shape: tuple[int, ...],
        dtype: np.dtype,
        offset: int = 0,
        strides: tuple[int, ...] | None = None,
    ) -> None:
        self.block = block
        self.shape = shape
        self.dtype = dtype
        self.offset = offset
        self.strides = strides

    @property
    def device_id(self) -> str:
        """The device in whose memory it lives."""
        return self.block.memory.device_id

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return math.prod(self.shape) * self.dtype.itemsize

    def reshaped(self, shape: tuple[int, ...]) -> SimArray:
        """The same block under another shape of equal size."""
        assert math.prod(shape) == math.prod(self.shape) and self.strides is None, f"{self} cannot be seen as {shape}"
        return SimArray(self.block, shape, self.dtype, self.offset)

    def part(self, offset: int, shape: tuple[int, ...], dtype: np.dtype) -> SimArray:
        """Some of the bytes as an array of its own."""
        part = SimArray(self.block, shape, dtype, self.offset + offset)
        assert offset % ALIGNMENT == 0 and offset + part.nbytes <= self.nbytes, f"{part} is not within {self}"
        return part

    def window(self, offset: int, shape: tuple[int, ...], strides: tuple[int, ...] | None) -> SimArray:
        """Elements from number `offset` on, by strides."""
        return SimArray(self.block, shape, self.dtype, self.offset + offset * self.dtype.itemsize, strides)

    def __repr__(self) -> str:
        return f"<SimArray {self.dtype.name}{list(self.shape)} on device {self.device_id!r}>"
