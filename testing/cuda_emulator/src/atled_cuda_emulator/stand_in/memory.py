"""`cupy.cuda.memory` and `cupy.cuda.pinned_memory`: pools, pointers."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from atled_cuda_emulator.errors import CUDARuntimeError, OutOfMemoryError
from atled_cuda_emulator.memory import ALIGNMENT, Allocation
from atled_cuda_emulator.queues import Work
from atled_cuda_emulator.stand_in import runtime, stream
from atled_cuda_emulator.stand_in.world import thread, world


def _address(mem: int | ctypes.c_void_p) -> int:
    value = mem.value if isinstance(mem, ctypes.c_void_p) else mem
    if value is None:
        raise TypeError("a null pointer to copy from or to")
    return value


class BaseMemory:
    """Some memory of a device."""

    ptr: int
    size: int
    device_id: int

    @property
    def device(self) -> Any:  # a Device; its module imports this one's
        """The device it is on."""
        from atled_cuda_emulator.stand_in.device import Device

        return Device(self.device_id)


class Memory(BaseMemory):
    """Straight from the driver, without a pool."""

    def __init__(self, size: int) -> None:
        self.size, self.device_id = size, thread.device
        self._allocation = runtime.allocate(size) if size else None
        self.ptr = self._allocation.address if self._allocation else 0

    def __del__(self) -> None:
        allocation = getattr(self, "_allocation", None)
        if allocation is not None and allocation.alive:
            allocation.free()


class UnownedMemory(BaseMemory):
    """Memory of somebody else."""

    def __init__(self, ptr: int, size: int, owner: object, device_id: int = -1) -> None:
        self.ptr, self.size, self._owner = ptr, size, owner
        if device_id < 0:
            found = world().memory.find(ptr) if ptr else None
            if ptr and (found is None or found.device is None):
                raise CUDARuntimeError(1)
            device_id = thread.device if found is None or found.device is None else found.device
        self.device_id = device_id


class PooledMemory(BaseMemory):
    """Some memory of a pool."""

    def __init__(self, pool: SingleDeviceMemoryPool, allocation: Allocation, order: Any) -> None:
        self.pool, self._order = pool, order
        self._allocation: Allocation | None = allocation
        self.ptr, self.size, self.device_id = allocation.address, _rounded(allocation.size), pool.device_id

    def free(self) -> None:
        """Back to the pool."""
        allocation, self._allocation = self._allocation, None
        if allocation is not None and allocation.alive:
            self.pool.take_back(allocation, self._order)

    def __del__(self) -> None:
        if getattr(self, "_allocation", None) is not None:
            self.free()


class MemoryPointer:
    """An address in some memory."""

    def __init__(self, mem: BaseMemory, offset: int) -> None:
        self.mem, self.ptr = mem, mem.ptr + offset

    device = property(lambda self: self.mem.device)
    device_id = property(lambda self: self.mem.device_id)

    def __int__(self) -> int:
        return self.ptr

    def __add__(self, offset: int) -> MemoryPointer:
        return MemoryPointer(self.mem, self.ptr - self.mem.ptr + offset)

    __radd__ = __add__

    def __iadd__(self, offset: int) -> MemoryPointer:
        self.ptr += offset
        return self

    def __sub__(self, offset: int) -> MemoryPointer:
        return self + -offset

    def copy_from_device(self, src: MemoryPointer, size: int) -> None:
        """Copy on the null stream."""
        runtime.memcpy(self.ptr, src.ptr, size, runtime.memcpyDefault)

    def copy_from_device_async(self, src: MemoryPointer, size: int, stream: Any = None) -> None:
        """Copy in order of a stream."""
        runtime.memcpyAsync(self.ptr, src.ptr, size, runtime.memcpyDefault, _pointer(stream))

    def copy_from_host(self, mem: int | ctypes.c_void_p, size: int) -> None:
        """Copy on the null stream, and wait."""
        runtime.memcpy(self.ptr, _address(mem), size, runtime.memcpyHostToDevice)

    def copy_from_host_async(self, mem: int | ctypes.c_void_p, size: int, stream: Any = None) -> None:
        """Copy in order of a stream."""
        runtime.memcpyAsync(self.ptr, _address(mem), size, runtime.memcpyHostToDevice, _pointer(stream))

    def copy_to_host(self, mem: int | ctypes.c_void_p, size: int) -> None:
        """Copy on the null stream, and wait."""
        runtime.memcpy(_address(mem), self.ptr, size, runtime.memcpyDeviceToHost)

    def copy_to_host_async(self, mem: int | ctypes.c_void_p, size: int, stream: Any = None) -> None:
        """Copy in order of a stream."""
        runtime.memcpyAsync(_address(mem), self.ptr, size, runtime.memcpyDeviceToHost, _pointer(stream))

    def copy_from(self, mem: Any, size: int) -> None:
        """From a device or the host."""
        self.copy_from_device(mem, size) if isinstance(mem, MemoryPointer) else self.copy_from_host(mem, size)

    def copy_from_async(self, mem: Any, size: int, stream: Any = None) -> None:
        """From a device or the host, in order of a stream."""
        copy = self.copy_from_device_async if isinstance(mem, MemoryPointer) else self.copy_from_host_async
        copy(mem, size, stream)

    def memset(self, value: int, size: int) -> None:
        """Set bytes on the null stream."""
        runtime.memset(self.ptr, value, size)

    def memset_async(self, value: int, size: int, stream: Any = None) -> None:
        """Set bytes in order of a stream."""
        runtime.memsetAsync(self.ptr, value, size, _pointer(stream))


def _pointer(given: Any) -> int:
    return stream.get_current_stream().ptr if given is None else given.ptr


def _rounded(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


class SingleDeviceMemoryPool:
    """The pool of one device. Bytes that were freed count until `free_all_blocks`, but are never handed out again,
    so that nothing which reads them too late goes unnoticed."""

    def __init__(self) -> None:
        self.device_id = thread.device
        self.used = self.free = self.limit = 0
        self.free_blocks = 0

    def malloc(self, size: int) -> MemoryPointer:
        """New memory; OutOfMemoryError where neither the limit nor the device allows it."""
        if size == 0:
            return MemoryPointer(Memory(0), 0)
        rounded = _rounded(size)
        # What was freed can be had again; a bigger piece takes the place of smaller ones after they were given back.
        reused = min(self.free, rounded)
        if self.limit and self.used + self.free - reused + rounded > self.limit:
            raise OutOfMemoryError(rounded, self.used + self.free, self.limit)
        try:
            allocation = self._allocate(size)
        except CUDARuntimeError as e:
            if e.status != 2:
                raise
            self.free_all_blocks()
            reused = 0
            try:
                allocation = self._allocate(size)
            except CUDARuntimeError as again:
                if again.status != 2:
                    raise
                raise OutOfMemoryError(rounded, self.used + self.free, self.limit) from None
        self.free -= reused
        self.free_blocks = max(0, self.free_blocks - 1) if self.free else 0
        self.used += rounded
        order = world().machine.queue(stream.get_current_stream().ptr, self.device_id)
        return MemoryPointer(PooledMemory(self, allocation, order), 0)

    def _allocate(self, size: int) -> Allocation:
        return world().memory.allocate(size, self.device_id, world().memory_limit)

    def take_back(self, allocation: Allocation, order: Any) -> None:
        """Freed in order of the stream that it was allocated on: until then work that is queued may use it."""
        allocation.free()
        self.used -= _rounded(allocation.size)
        self.free += _rounded(allocation.size)
        self.free_blocks += 1
        if order.capture is None:
            order.put(Work("free", allocation.poison, (allocation,)))
        allocation.check("memory that is freed")

    def free_all_blocks(self, stream: Any = None) -> None:
        """Give what is free back to the device."""
        self.free = self.free_blocks = 0


class MemoryPool:
    """`cupy.cuda.MemoryPool`."""

    def __init__(self, allocator: Any = None) -> None:
        if allocator is not None:
            raise NotImplementedError("the emulator has no other allocators below its pools")
        self._pools: dict[int, SingleDeviceMemoryPool] = {}

    @property
    def _pool(self) -> SingleDeviceMemoryPool:
        if thread.device not in self._pools:
            self._pools[thread.device] = SingleDeviceMemoryPool()
        return self._pools[thread.device]

    def malloc(self, size: int) -> MemoryPointer:
        """Memory of the current device."""
        return self._pool.malloc(size)

    def free_all_blocks(self, stream: Any = None) -> None:
        """Give what is free back to the device."""
        self._pool.free_all_blocks()

    def n_free_blocks(self) -> int:
        """How many were freed."""
        return self._pool.free_blocks

    def used_bytes(self) -> int:
        """In arrays."""
        return self._pool.used

    def free_bytes(self) -> int:
        """Freed, and not given back."""
        return self._pool.free

    def total_bytes(self) -> int:
        """Both."""
        return self._pool.used + self._pool.free

    def set_limit(self, size: int | None = None, fraction: float | None = None) -> None:
        """In bytes, or as a share of the device."""
        if size is not None and fraction is not None:
            raise ValueError("size and fraction cannot be specified at one time")
        self._pool.limit = int(fraction * world().memory_limit) if fraction is not None else size or 0

    def get_limit(self) -> int:
        """In bytes; 0: none."""
        return self._pool.limit


class PinnedMemory:
    """Pinned memory straight from the driver."""

    def __init__(self, size: int, flags: int = 0) -> None:
        self.size = size
        self._allocation = world().memory.allocate(size, None) if size else None
        self.ptr = self._allocation.address if self._allocation else 0

    def __del__(self) -> None:
        allocation = getattr(self, "_allocation", None)
        if allocation is not None and allocation.alive:
            allocation.free()
            allocation.check("pinned memory that is freed")


class PinnedMemoryPointer:
    """An address in pinned memory; a buffer."""

    def __init__(self, mem: PinnedMemory, offset: int) -> None:
        self.mem, self.ptr = mem, mem.ptr + offset

    def size(self) -> int:
        """Bytes from here on."""
        return self.mem.size - (self.ptr - self.mem.ptr)

    def __int__(self) -> int:
        return self.ptr

    def __add__(self, offset: int) -> PinnedMemoryPointer:
        return PinnedMemoryPointer(self.mem, self.ptr - self.mem.ptr + offset)

    __radd__ = __add__

    def __buffer__(self, flags: int) -> memoryview:
        return memoryview(self._bytes())

    def _bytes(self) -> ctypes.Array[ctypes.c_ubyte]:
        array = (ctypes.c_ubyte * self.size()).from_address(self.ptr)
        array._memory = self.mem  # type: ignore[attr-defined]  # lives as long as what is made of it
        return array

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """How NumPy reads it before Python 3.12, which has no `__buffer__`."""
        return {"shape": (self.size(),), "typestr": "|u1", "data": (self.ptr, False), "version": 3}


class PinnedMemoryPool:
    """`cupy.cuda.PinnedMemoryPool`; hands out new memory each time."""

    def __init__(self, allocator: Any = None) -> None:
        if allocator is not None:
            raise NotImplementedError("the emulator has no other allocators below its pools")

    def malloc(self, size: int) -> PinnedMemoryPointer:
        """Pinned memory; rounded up as CuPy does."""
        rounded = 512
        while rounded < size:
            rounded *= 2
        return PinnedMemoryPointer(PinnedMemory(rounded), 0)

    def free_all_blocks(self) -> None:
        """Nothing is kept."""

    def n_free_blocks(self) -> int:
        """Nothing is kept."""
        return 0


_default_pool = MemoryPool()
_default_pinned_pool = PinnedMemoryPool()
_allocator: Callable[[int], MemoryPointer] = _default_pool.malloc
_pinned_allocator: Callable[[int], PinnedMemoryPointer] = _default_pinned_pool.malloc


def reset() -> None:
    """Pools with nothing in them."""
    global _default_pool, _allocator, _pinned_allocator
    _default_pool = MemoryPool()
    _allocator, _pinned_allocator = _default_pool.malloc, _default_pinned_pool.malloc


def alloc(size: int) -> MemoryPointer:
    """Memory by the current allocator."""
    return _allocator(size)


def set_allocator(allocator: Callable[[int], MemoryPointer] | None = None) -> None:
    """None: straight from the driver."""
    global _allocator
    _allocator = allocator or (lambda size: MemoryPointer(Memory(size), 0))


def get_allocator() -> Callable[[int], MemoryPointer]:
    """The current one."""
    return _allocator


def alloc_pinned_memory(size: int) -> PinnedMemoryPointer:
    """Pinned memory by the current allocator."""
    return _pinned_allocator(size)


def set_pinned_memory_allocator(allocator: Callable[[int], PinnedMemoryPointer] | None = None) -> None:
    """None: straight from the driver."""
    global _pinned_allocator
    _pinned_allocator = allocator or (lambda size: PinnedMemoryPointer(PinnedMemory(size), 0))


def get_default_memory_pool() -> MemoryPool:
    """CuPy's own."""
    return _default_pool


def get_default_pinned_memory_pool() -> PinnedMemoryPool:
    """CuPy's own."""
    return _default_pinned_pool
