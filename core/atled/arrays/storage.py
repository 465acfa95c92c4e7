"""Host memory: buffers that never move, are counted by reference, and go back to a pool."""

from __future__ import annotations

import struct
import sys
import weakref

import numpy as np

from atled.array_desc import ArrayDesc
from atled.arrays.epoch import WRITES
from atled.limits.sizes import available_bytes, within_memory

_write_two = struct.Struct("=qq").pack_into

ALIGNMENT = 64
"""Bytes; a cache line, and the widest vector register."""

_BYTE = np.dtype(np.uint8)
_POOL_LIMIT_BYTES = 1 << 30
_LARGE_BYTES = 1 << 16
_SMALL_LIMIT_BYTES = 4 << 20
_SIZES_LIMIT = 4096
# The system hands out addresses for more than it has memory for, and ends the process when that is written to. From
# this size on it is asked what it has, which takes some tens of microseconds.
_GUARDED_BYTES = 1 << 30


class _Shelf:
    """The freed buffers of one size class: (uint8 array, address) each.

    Lists append and pop atomically, so no lock is needed on the way of every array that is made or dropped; a lock
    could not be held there anyway, because a garbage collection may drop arrays in the midst of anything.
    """

    __slots__ = ("capacity", "free", "is_large", "limit", "reused_count")

    def __init__(self, capacity: int, limit_bytes: int) -> None:
        self.capacity = capacity
        self.is_large = capacity >= _LARGE_BYTES
        self.free: list[tuple[np.ndarray, int]] = []
        self.reused_count = 0
        self.set_limit(limit_bytes)

    def set_limit(self, limit_bytes: int) -> None:
        """Work out how many buffers are kept, from the limit of the whole pool."""
        most = limit_bytes if self.is_large else min(limit_bytes, _SMALL_LIMIT_BYTES)
        self.limit = most // self.capacity

    def drop(self, count: int) -> int:
        """Give buffers back to the system; how many bytes those were."""
        dropped = self.free[:count]
        del self.free[:count]
        return len(dropped) * self.capacity


class Pool:
    """Freed buffers by size class, so that the next one of that size costs no page faults.

    limit_bytes: the most that is kept; what would exceed it goes back to the system. Small buffers, below 64 KiB, have
        a limit of 4 MiB per size class of their own.
    """

    def __init__(self, limit_bytes: int = _POOL_LIMIT_BYTES) -> None:
        self.limit_bytes = limit_bytes
        self.allocated_count = 0
        self._allocated_bytes = 0
        self._released_bytes = 0
        self._peak_bytes = 0
        self._shelves: dict[int, _Shelf] = {}
        # Sizes that were asked for lead to their shelf without arithmetic.
        self._by_size: dict[int, _Shelf] = {}

    def shelf(self, nbytes: int) -> _Shelf:
        """Where buffers of at least nbytes are kept."""
        shelf = self._by_size.get(nbytes)
        if shelf is None:
            capacity = size_class(nbytes)
            shelf = self._shelves.setdefault(capacity, _Shelf(capacity, self.limit_bytes))
            if len(self._by_size) >= _SIZES_LIMIT:
                self._by_size.clear()
            self._by_size[nbytes] = shelf
        return shelf

    def take(self, nbytes: int) -> tuple[np.ndarray, int]:
        """An aligned buffer of at least nbytes, one that waits if there is any, and its address."""
        shelf = self.shelf(nbytes)
        try:
            buffer = shelf.free.pop()
        except IndexError:
            return self.allocate(shelf.capacity)
        shelf.reused_count += 1
        return buffer

    def give(self, nbytes: int, buffer: tuple[np.ndarray, int]) -> None:
        """Have a buffer that `take` gave wait to be used again, or go back to the system where enough of them do."""
        shelf = self.shelf(nbytes)
        if len(shelf.free) < shelf.limit and (not shelf.is_large or self.has_room(shelf.capacity)):
            shelf.free.append(buffer)
        else:
            self.release(shelf.capacity)

    def allocate(self, capacity: int) -> tuple[np.ndarray, int]:
        """A new aligned buffer and its address."""
        try:
            whole = _from_system(capacity + ALIGNMENT)
        except MemoryError:
            self.clear()  # kept buffers may leave too little memory
            with within_memory("an array in host memory", capacity):
                whole = _from_system(capacity + ALIGNMENT)
        self.allocated_count += 1
        self._allocated_bytes += capacity
        self._peak_bytes = max(self._peak_bytes, self._allocated_bytes - self._released_bytes)
        start = whole.ctypes.data
        offset = -start % ALIGNMENT
        return whole[offset : offset + capacity], start + offset

    def has_room(self, capacity: int) -> bool:
        """Whether one more large buffer may be kept."""
        return self.kept_bytes + capacity <= self.limit_bytes

    @property
    def kept_bytes(self) -> int:
        """Bytes in buffers that wait to be used again."""
        return sum(len(shelf.free) * shelf.capacity for shelf in list(self._shelves.values()))

    def release(self, capacity: int) -> None:
        """Count a buffer that went back to the system, or that lives on as long as a view of it."""
        self._released_bytes += capacity

    def clear(self) -> None:
        """Give all kept buffers back to the system."""
        self._shrink_to(0)

    def set_limit(self, limit_bytes: int) -> None:
        """Keep at most so many bytes from now on; what is beyond them goes back to the system."""
        self.limit_bytes = limit_bytes
        for shelf in list(self._shelves.values()):
            shelf.set_limit(limit_bytes)
            self.release(shelf.drop(max(0, len(shelf.free) - shelf.limit)))
        self._shrink_to(limit_bytes)

    def _shrink_to(self, limit_bytes: int) -> None:
        """Drop kept buffers, the largest first, until no more than so many bytes are kept."""
        for capacity in sorted(self._shelves, reverse=True):
            excess = self.kept_bytes - limit_bytes
            if excess > 0:
                self.release(self._shelves[capacity].drop(-(-excess // capacity)))

    def statistics(self) -> dict[str, int]:
        """Counts, and bytes by the sizes of whole buffers.

        bytes_in_use: in buffers that something refers to.  kept_bytes: in those that wait to be used again, of which
        limit_bytes is the most.  peak_bytes: the most that both together ever were.
        allocated_count: buffers taken from the system.  reused_count: those handed out again.
        """
        kept = self.kept_bytes
        return {
            "bytes_in_use": self._allocated_bytes - self._released_bytes - kept,
            "kept_bytes": kept,
            "peak_bytes": self._peak_bytes,
            "limit_bytes": self.limit_bytes,
            "allocated_count": self.allocated_count,
            "reused_count": sum(shelf.reused_count for shelf in list(self._shelves.values())),
        }


def size_class(nbytes: int) -> int:
    """Bytes rounded up to a size class: 64, then four classes per doubling, from 64 KiB on sixteen.

    At most 25 % are wasted, or 6 % of large buffers, which are what a process consists of.
    """
    if nbytes <= ALIGNMENT:
        return ALIGNMENT
    step = max(ALIGNMENT, 1 << ((nbytes - 1).bit_length() - (3 if nbytes < _LARGE_BYTES else 5)))
    return -(-nbytes // step) * step


POOL = Pool()


def _from_system(nbytes: int) -> np.ndarray:
    """New memory; MemoryError where there is not as much."""
    if nbytes >= _GUARDED_BYTES:
        available = available_bytes()
        if (available is not None and nbytes > available) or nbytes > sys.maxsize:
            raise MemoryError
    return np.empty(nbytes, np.uint8)


class ViewEnd:
    """Notes when the views of a storage went. Not the storage itself: a callback of its own would keep it alive.

    number: by the count of writes when that was.  gone: the reference to the root of those that went last.
    """

    __slots__ = ("gone", "number")

    def __init__(self) -> None:
        self.gone: weakref.ref[np.ndarray] | None = None
        self.number = 0

    def __call__(self, root: weakref.ref[np.ndarray]) -> None:
        self.gone = root
        self.number = next(WRITES)


class HostStorage:
    """One buffer in host memory. It never moves; it lives as long as an array, a view or a plan refers to it.

    address: of the first byte, a multiple of 64.  nbytes: size asked for.
    exported: whether a user ever got a view, since the memory was handed out the last time.
    seen_changed: whether one may have been written through since a copy was last made of the values.
    """

    __slots__ = (
        "__weakref__",
        "_buffer",
        "_pool",
        "_root",
        "_shelf",
        "_view_end",
        "address",
        "exported",
        "nbytes",
        "seen_changed",
    )

    def __init__(self, nbytes: int, pool: Pool = POOL) -> None:
        self._pool = pool
        self.exported = False
        self._shelf = shelf = pool.shelf(nbytes)
        try:
            self._buffer = shelf.free.pop()
            shelf.reused_count += 1
        except IndexError:
            self._buffer = pool.allocate(shelf.capacity)
        self.address = self._buffer[1]
        self.nbytes = nbytes
        self.seen_changed = False
        self._root: weakref.ref[np.ndarray] | None = None
        self._view_end: ViewEnd | None = None

    def array(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """A view for the engine's own use, which must keep this storage alive itself."""
        return np.ndarray(shape, dtype, self._buffer[0])

    def write_integers(self, first: int, second: int) -> None:
        """Write two int64 at the beginning, much quicker than through a view."""
        _write_two(self._buffer[0].data, 0, first, second)

    def export(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """A writable view for the user, which may outlive us: the buffer enters the pool if none does."""
        self.exported = True
        self.seen_changed = True
        root = self._root() if self._root is not None else None
        if root is None:
            # Based on a memoryview, not on the array: NumPy then keeps `root` alive as the base of every
            # view derived from it, which makes `has_live_view` exact.
            root = np.frombuffer(self._buffer[0].data, np.uint8)
            if self._view_end is None:
                self._view_end = ViewEnd()
            self._root = weakref.ref(root, self._view_end)
        return np.ndarray(shape, dtype, root)

    def is_shown_no_more(self) -> bool:
        """Whether all views are gone; then it is as if there never was one. For who alone refers to an exported one."""
        # Not by the reference: where garbage is collected, that may be dead before the views are.
        if self._view_end is None or self._view_end.gone is not self._root:
            return False
        self.exported = False
        return True

    def window(self, desc: ArrayDesc, offset: int) -> np.ndarray:
        """Elements of the memory, from number `offset` on, by their strides; for the engine's own use."""
        itemsize = desc.dtype.itemsize
        if desc.strides is None:
            return np.ndarray(desc.shape, desc.dtype, self._buffer[0].data, offset * itemsize)
        steps = tuple(step * itemsize for step in desc.written_strides)
        return np.ndarray(desc.shape, desc.dtype, self._buffer[0].data, offset * itemsize, steps)

    @property
    def has_live_view(self) -> bool:
        """Whether a user holds a view through which values may change unseen."""
        return self._root is not None and self._root() is not None

    @property
    def viewed_until(self) -> int:
        """When the last view went, by the count of writes: until then values may have changed unseen; 0 for never."""
        end, root = self._view_end, self._root
        if end is None:
            return 0
        if root is not None and end.gone is not root and root() is None:
            end(root)  # what a handler of a signal raised in the callback, as Ctrl-C does, Python has swallowed with it
        return end.number

    def __del__(self) -> None:
        # Nothing but what the storage itself refers to: at the end of the interpreter modules may be empty.
        try:
            buffer, shelf, pool = self._buffer, self._shelf, self._pool
        except AttributeError:  # there was no memory for it
            return
        if (
            (not self.exported or self.is_shown_no_more())
            and len(shelf.free) < shelf.limit
            and (not shelf.is_large or pool.has_room(shelf.capacity))
        ):
            shelf.free.append(buffer)
        else:
            pool.release(shelf.capacity)


class StoragePart(HostStorage):
    """Some bytes of a host storage, which they keep alive; for the engine's own use, never exported."""

    __slots__ = ("_whole",)

    def __init__(self, whole: HostStorage, offset: int, nbytes: int) -> None:
        assert offset % ALIGNMENT == 0 and offset + nbytes <= whole.nbytes
        self._whole = whole
        self.address = whole.address + offset
        self.nbytes = nbytes
        self._buffer = (whole.array((whole.nbytes,), _BYTE)[offset : offset + nbytes], self.address)

    def __del__(self) -> None:
        """Nothing goes back to the pool: the whole does."""
