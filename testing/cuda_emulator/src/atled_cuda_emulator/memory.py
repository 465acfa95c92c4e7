"""The memory of emulated devices: allocations in host memory, with guards around them and NaN inside."""

from __future__ import annotations

import bisect
import ctypes
import itertools
import threading
from collections import deque

import numpy as np

from atled_cuda_emulator.errors import CUDARuntimeError, DeviceFault
from atled_cuda_emulator.faults import driver_call

ALIGNMENT = 512  # what cudaMalloc gives; CuPy's pool counts in these units
_GUARD = 256
_GUARDS = bytes([0xA5]) * _GUARD
_KEPT_FREED = 64  # allocations whose addresses are not given out again, so that late uses are seen
_KEPT_FREED_BYTES = 16 << 20


class Allocation:
    """Some bytes of a device, or pinned ones of the host (device None)."""

    _serials = itertools.count()

    def __init__(self, memory: Memory, size: int, device: int | None) -> None:
        self._memory = memory
        # A whole unit of slack: what is behind the last byte asked for is guarded at once.
        self._raw = np.empty(size + 2 * _GUARD + ALIGNMENT, np.uint8)
        first = self._raw.ctypes.data
        start = -(-(first + _GUARD) // ALIGNMENT) * ALIGNMENT
        self.address, self.size, self.device = start, size, device
        self.serial = next(self._serials)
        self.alive = True
        ctypes.memmove(start - _GUARD, _GUARDS, _GUARD)
        ctypes.memmove(start + size, _GUARDS, _GUARD)
        self.poison()

    @property
    def end(self) -> int:
        """The address behind the last byte."""
        return self.address + self.size

    def poison(self) -> None:
        """NaN in every float dtype."""
        ctypes.memset(self.address, 0xFF, self.size)

    def content(self) -> bytes:
        """All its bytes."""
        return ctypes.string_at(self.address, self.size)

    def restore(self, content: bytes) -> None:
        """What `content` gave."""
        ctypes.memmove(self.address, content, self.size)

    def free(self) -> None:
        """cudaFree; the bytes stay as they are, for work that is queued."""
        self._memory.forget(self)

    def check(self, what: str) -> None:
        """Raise DeviceFault if something wrote beside it."""
        below = ctypes.string_at(self.address - _GUARD, _GUARD)
        above = ctypes.string_at(self.end, _GUARD)
        if below != _GUARDS or above != _GUARDS:
            side = "before the begin" if below != _GUARDS else "behind the end"
            ctypes.memmove(self.address - _GUARD, _GUARDS, _GUARD)
            ctypes.memmove(self.end, _GUARDS, _GUARD)
            raise DeviceFault(f"{what}: a write {side} of an allocation of {self.size} bytes")


class Memory:
    """All allocations of a process, by address."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._by_start: dict[int, Allocation] = {}
        self._freed: deque[Allocation] = deque()
        self._freed_bytes = 0
        self._lock = threading.RLock()  # finalizers free as well
        self.used: dict[int | None, int] = {}
        self._changes = 0
        self._ranges: tuple[int, np.ndarray] = (-1, np.empty(0, np.uintp))

    def allocate(self, size: int, device: int | None, limit: int | None = None) -> Allocation:
        """cudaMalloc (of whole units), or cudaHostAlloc for device None."""
        driver_call("malloc" if device is not None else "hostAlloc")
        if limit is not None and self.used.get(device, 0) + size > limit:
            raise CUDARuntimeError(2)
        with self._lock:
            allocation = Allocation(self, size, device)
            bisect.insort(self._starts, allocation.address)
            self._by_start[allocation.address] = allocation
            self.used[device] = self.used.get(device, 0) + size
            self._changes += 1
        return allocation

    def forget(self, allocation: Allocation) -> None:
        """What is freed stays known for a while, so that late uses are told as such."""
        with self._lock:
            assert allocation.alive, "freed twice"
            allocation.alive = False
            self._changes += 1
            self.used[allocation.device] -= allocation.size
            self._freed.append(allocation)
            self._freed_bytes += allocation.size
            while len(self._freed) > _KEPT_FREED or self._freed_bytes > _KEPT_FREED_BYTES:
                oldest = self._freed.popleft()
                self._freed_bytes -= oldest.size
                self._starts.pop(bisect.bisect_left(self._starts, oldest.address))
                del self._by_start[oldest.address]

    def ranges(self) -> np.ndarray:
        """Begin and end of all that is alive, by address."""
        with self._lock:
            if self._ranges[0] != self._changes:
                alive = [one for one in map(self._by_start.__getitem__, self._starts) if one.alive]
                pairs = [(one.address, one.end) for one in alive]
                self._ranges = self._changes, np.array(pairs, np.uintp).reshape(-1, 2)
            return self._ranges[1]

    def find(self, address: int) -> Allocation | None:
        """The allocation with this address in it, or at its end; also one that was freed lately."""
        place = bisect.bisect_right(self._starts, address) - 1
        if place < 0:
            return None
        found = self._by_start[self._starts[place]]
        return found if address <= found.end else None

    def at(self, address: int, size: int, what: str, device: int | None = None) -> Allocation:
        """The allocation with these bytes; DeviceFault says what is wrong with the address."""
        found = self.find(address)
        if found is None:
            raise DeviceFault(f"{what}: address {address:#x} is no memory of a device")
        if not found.alive:
            raise DeviceFault(f"{what}: address {address:#x} is in memory of {found.size} bytes that was freed")
        if device is not None and found.device not in (None, device):
            raise DeviceFault(f"{what}: address {address:#x} is memory of device {found.device}, not of {device}")
        if address + size > found.end:
            raise DeviceFault(f"{what}: {size} bytes at {address:#x} go beyond an allocation of {found.size} bytes")
        return found

    def check_all(self) -> None:
        """Look for writes beside any allocation."""
        for allocation in list(self._by_start.values()):
            allocation.check("somewhere")
