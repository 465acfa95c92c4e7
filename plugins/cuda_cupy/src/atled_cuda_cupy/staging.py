"""Pinned host memory that values pass through, on their way to a device and back."""

from __future__ import annotations

import ctypes
from collections import deque
from typing import Any

import numpy as np

from atled.plugin import lock_across_forks
from atled_cuda_cupy import cupy_names as cp

_TO_DEVICE, _TO_HOST = 1, 2  # cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost
_SMALL, _LARGE = 1 << 16, 1 << 22  # bytes of a buffer: for words and scalars, for pieces of large arrays
_MOST = {_SMALL: 32, _LARGE: 4}  # buffers of each that are kept
_WORDS, _PARTS = 2048, 4  # words in a part of the ring for them, and its parts


class _Buffer:
    """Pinned memory. values: all of it as bytes.  used: behind the last copy that reads or writes it."""

    __slots__ = ("memory", "used", "values")

    def __init__(self, nbytes: int) -> None:
        self.memory = cp.alloc_pinned_memory(nbytes)
        self.values = np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(self.memory.ptr))
        self.used = cp.Event(disable_timing=True)


class _WordRing:
    """Pinned memory for run-time words, which one stream copies: each part of it has an event, not each copy."""

    def __init__(self, stream: Any) -> None:  # Any: CuPy's Stream
        self.stream = stream
        self._lock = lock_across_forks()
        self._parts: deque[_Buffer] = deque()  # the one in use is the last
        self._next = _WORDS  # its first free word

    def put(self, words: np.ndarray, address: int) -> bool:
        """Copy int64 to the device, which is the current one. False: they are too many, and nothing is done."""
        count = len(words)
        if count > _WORDS:
            return False
        with self._lock:
            begin = self._next
            if begin + count > _WORDS:
                self._turn()
                begin = 0
            self._next = end = begin + count
            self._view[begin:end] = words
            cp.runtime.memcpyAsync(address, self._address + 8 * begin, 8 * count, _TO_DEVICE, self.stream.ptr)
        return True

    def clear(self) -> None:
        """Give the memory back."""
        with self._lock:
            if self._parts:
                self._parts[-1].used.record(self.stream)
            for part in self._parts:
                part.used.synchronize()
            self._parts.clear()
            self._next = _WORDS

    def _turn(self) -> None:
        """Go on in the part that was left first, once its words are copied."""
        if self._parts:
            self._parts[-1].used.record(self.stream)
        part = self._parts.popleft() if len(self._parts) == _PARTS else _Buffer(8 * _WORDS)
        part.used.synchronize()
        self._parts.append(part)
        self._view: Any = part.values.view(np.int64).data  # Any: takes arrays of its format, which mypy does not know
        self._address: int = part.memory.ptr


class Staging:
    """The buffers of one device, oldest first. The device must be the current one.

    stream: where most of its work goes.
    """

    def __init__(self, stream: Any) -> None:  # Any: CuPy's Stream
        self._words = _WordRing(stream)
        self._lock = lock_across_forks()
        self._free: dict[int, deque[_Buffer]] = {size: deque() for size in _MOST}
        self._made = dict.fromkeys(_MOST, 0)

    def put_words(self, words: np.ndarray, address: int) -> None:
        """The same as `upload`, quicker, for a few int64."""
        ring = self._words
        if cp.current_stream().ptr != ring.stream.ptr or not ring.put(words, address):
            self.upload(words, address)

    def upload(self, source: np.ndarray, address: int) -> None:
        """Copy to the device in the order of the current stream; `source` has been read when this returns."""
        stream = cp.current_stream()
        values = _bytes_of(source)
        size = _SMALL if values.size <= _SMALL else _LARGE
        for begin in range(0, values.size, size):
            piece = values[begin : begin + size]
            buffer = self._take(size)
            buffer.values[: piece.size] = piece
            cp.runtime.memcpyAsync(address + begin, buffer.values.ctypes.data, piece.size, _TO_DEVICE, stream.ptr)
            buffer.used.record(stream)
            self._give(size, buffer)

    def download(self, address: int, target: np.ndarray) -> None:
        """Copy to the host, and wait; while one piece is copied the next one is on its way."""
        stream = cp.current_stream()
        values = _bytes_of(target)
        size = _SMALL if values.size <= _SMALL else _LARGE
        underway: deque[tuple[_Buffer, np.ndarray]] = deque()
        for begin in range(0, values.size, size):
            piece = values[begin : begin + size]
            buffer = self._take(size)
            cp.runtime.memcpyAsync(buffer.values.ctypes.data, address + begin, piece.size, _TO_HOST, stream.ptr)
            buffer.used.record(stream)
            underway.append((buffer, piece))
            if len(underway) > 1:
                self._arrive(size, *underway.popleft())
        for buffer, piece in underway:
            self._arrive(size, buffer, piece)

    def clear(self) -> None:
        """Give the buffers back."""
        self._words.clear()
        with self._lock:
            taken = [(size, free.popleft()) for size, free in self._free.items() for _ in range(len(free))]
            for size, _ in taken:
                self._made[size] -= 1
        for _, buffer in taken:
            buffer.used.synchronize()
        del taken
        cp.pinned_memory_pool().free_all_blocks()

    def _arrive(self, size: int, buffer: _Buffer, piece: np.ndarray) -> None:
        buffer.used.synchronize()
        piece[...] = buffer.values[: piece.size]
        self._give(size, buffer)

    def _take(self, size: int) -> _Buffer:
        """A buffer that nobody uses: a new one while there may be more and the oldest is in use, else that one."""
        with self._lock:
            free = self._free[size]
            if free and (self._made[size] >= _MOST[size] or free[0].used.done):
                buffer = free.popleft()
            else:
                buffer = _Buffer(size)
                self._made[size] += 1
        buffer.used.synchronize()
        return buffer

    def _give(self, size: int, buffer: _Buffer) -> None:
        with self._lock:
            if self._made[size] <= _MOST[size]:
                self._free[size].append(buffer)
                return
            self._made[size] -= 1  # more threads at once than buffers are kept for
        buffer.used.synchronize()


def _bytes_of(array: np.ndarray) -> np.ndarray:
    """A C-contiguous array as bytes, whatever its dtype; no copy."""
    assert array.flags.c_contiguous
    return array.reshape(-1).view(np.uint8)
