"""Host memory: buffers that never move, are counted by reference, and go back to a pool."""

from __future__ import annotations

import threading
import weakref

import numpy as np

ALIGNMENT = 64
"""Bytes; a cache line, and the widest vector register."""

_POOL_LIMIT_BYTES = 1 << 30


class Pool:
    """Freed buffers by size class, so that the next one of that size costs no page faults.

    limit_bytes: the most that is kept; what would exceed it goes back to the system.
    """

    def __init__(self, limit_bytes: int = _POOL_LIMIT_BYTES) -> None:
        self.limit_bytes = limit_bytes
        self.kept_bytes = 0
        self.reused_count = 0
        self.allocated_count = 0
        self._free: dict[int, list[tuple[np.ndarray, int]]] = {}
        # A lock of its own would deadlock: a garbage collection inside `take` may run `give` in the same thread.
        self._lock = threading.RLock()

    def take(self, nbytes: int) -> tuple[np.ndarray, int, int]:
        """A buffer of at least nbytes: (uint8 array, address, capacity in bytes)."""
        capacity = size_class(nbytes)
        with self._lock:
            free = self._free.get(capacity)
            if free:
                raw, address = free.pop()
                self.kept_bytes -= capacity
                self.reused_count += 1
                return raw, address, capacity
            self.allocated_count += 1
        whole = np.empty(capacity + ALIGNMENT, np.uint8)
        start = whole.ctypes.data
        offset = -start % ALIGNMENT
        return whole[offset : offset + capacity], start + offset, capacity

    def give(self, raw: np.ndarray, address: int, capacity: int) -> None:
        """Keep a buffer that nobody refers to any more."""
        with self._lock:
            if self.kept_bytes + capacity <= self.limit_bytes:
                self._free.setdefault(capacity, []).append((raw, address))
                self.kept_bytes += capacity

    def clear(self) -> None:
        """Give all kept buffers back to the system."""
        with self._lock:
            self._free.clear()
            self.kept_bytes = 0

    def statistics(self) -> dict[str, int]:
        """Counts and bytes: kept_bytes, limit_bytes, reused_count, allocated_count."""
        return {
            "kept_bytes": self.kept_bytes,
            "limit_bytes": self.limit_bytes,
            "reused_count": self.reused_count,
            "allocated_count": self.allocated_count,
        }


def size_class(nbytes: int) -> int:
    """Bytes rounded up to a size class: 64, then four classes per doubling (at most 25 % are wasted)."""
    if nbytes <= ALIGNMENT:
        return ALIGNMENT
    step = max(ALIGNMENT, 1 << ((nbytes - 1).bit_length() - 3))
    return -(-nbytes // step) * step


POOL = Pool()


class HostStorage:
    """One buffer in host memory. It never moves; it lives as long as an array, a view or a plan refers to it.

    address: of the first byte, a multiple of 64.  nbytes: size asked for.
    exported: whether a user ever got a view.
    seen_changed: whether one may have been written through since a copy was last made of the values.
    """

    __slots__ = ("__weakref__", "_capacity", "_pool", "_raw", "_root", "address", "exported", "nbytes", "seen_changed")

    def __init__(self, nbytes: int, pool: Pool = POOL) -> None:
        self._pool = pool
        self._raw, self.address, self._capacity = pool.take(nbytes)
        self.nbytes = nbytes
        self.exported = False
        self.seen_changed = False
        self._root: weakref.ref[np.ndarray] | None = None

    def array(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """A view for the engine's own use, which must keep this storage alive itself."""
        return np.ndarray(shape, dtype, self._raw)

    def export(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """A writable view for the user. From now on the buffer never enters the pool: views may outlive us."""
        self.exported = True
        self.seen_changed = True
        root = self._root() if self._root is not None else None
        if root is None:
            # Based on a memoryview, not on the array: NumPy then keeps `root` alive as the base of every
            # view derived from it, which makes `has_live_view` exact.
            root = np.frombuffer(memoryview(self._raw), np.uint8)
            self._root = weakref.ref(root)
        return np.ndarray(shape, dtype, root)

    @property
    def has_live_view(self) -> bool:
        """Whether a user holds a view through which values may change unseen."""
        return self._root is not None and self._root() is not None

    def __del__(self) -> None:
        if not self.exported:
            self._pool.give(self._raw, self.address, self._capacity)
