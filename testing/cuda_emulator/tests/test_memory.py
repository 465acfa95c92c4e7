"""Pools, limits, pinned memory, copies."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from atled_cuda_emulator import DeviceFault, check_memory, fault, install


def test_a_pool_counts_in_units_of_512_bytes(cupy: Any) -> None:
    pool = cupy.get_default_memory_pool()
    x = cupy.empty(100, np.float32)
    y = cupy.empty(200, np.float32)
    assert pool.used_bytes() == 512 + 1024
    del y
    assert (pool.used_bytes(), pool.free_bytes(), pool.total_bytes()) == (512, 1024, 1536)
    pool.free_all_blocks()
    assert pool.total_bytes() == 512
    del x


def test_pools_of_devices_are_separate(cupy: Any) -> None:
    pool = cupy.get_default_memory_pool()
    with cupy.cuda.Device(1):
        x = cupy.empty(100, np.float32)
        assert pool.used_bytes() == 512
        assert x.device.id == 1
    assert pool.used_bytes() == 0


def test_the_limit_of_a_device_is_that_of_its_allocations() -> None:
    cupy = install(memory_limit=10_000)
    x = cupy.empty(8_000, np.uint8)
    with pytest.raises(cupy.cuda.memory.OutOfMemoryError, match=r"allocating 8,192 bytes \(allocated so far: 8,192"):
        cupy.empty(8_000, np.uint8)
    assert cupy.cuda.Device().mem_info == (2_000, 10_000)
    del x
    cupy.empty(8_000, np.uint8)


def test_the_limit_of_a_pool_is_told(cupy: Any) -> None:
    cupy.get_default_memory_pool().set_limit(1024)
    with pytest.raises(cupy.cuda.memory.OutOfMemoryError, match="limit set to: 1,024 bytes"):
        cupy.empty(2_000, np.uint8)


def test_a_failed_allocation_is_tried_again_behind_free_blocks(cupy: Any) -> None:
    with fault("malloc", nth=1):
        assert cupy.empty(10).size == 10
    with fault("malloc", nth=1, times=2), pytest.raises(cupy.cuda.memory.OutOfMemoryError):
        cupy.empty(10)


def test_copies_are_checked_against_the_allocation(cupy: Any) -> None:
    x = cupy.zeros(10, np.float32)
    host = np.zeros(20, np.float32)
    with pytest.raises(DeviceFault, match=r"80 bytes at .* go beyond an allocation of 40 bytes"):
        x.data.copy_from_host(host.ctypes.data, 80)
    with pytest.raises(cupy.cuda.runtime.CUDARuntimeError, match="InvalidValue"):
        x.data.copy_from_host(x.data.ptr, 40)


def test_pointers_know_their_memory(cupy: Any) -> None:
    x = cupy.asarray(np.arange(10, dtype=np.int32))
    part = cupy.ndarray((3,), np.int32, x.data + 8)
    assert part.get().tolist() == [2, 3, 4]
    assert part.data.mem is x.data.mem
    with pytest.raises(DeviceFault, match="outside of its memory"):
        cupy.ndarray((200,), np.int32, x.data + 8)


def test_memory_of_somebody_else_is_used_without_owning_it(cupy: Any) -> None:
    x = cupy.asarray(np.arange(10, dtype=np.int32))
    there = cupy.cuda.UnownedMemory(x.data.ptr, 40, x)
    y = cupy.ndarray((10,), np.int32, cupy.cuda.MemoryPointer(there, 0))
    assert (y.get() == np.arange(10)).all()
    with pytest.raises(cupy.cuda.runtime.CUDARuntimeError):
        cupy.cuda.UnownedMemory(np.zeros(4).ctypes.data, 32, None)


def test_pinned_memory_is_a_buffer(cupy: Any) -> None:
    pinned = cupy.cuda.alloc_pinned_memory(40)
    host = (
        np.frombuffer(pinned, np.float32, 10)
        if hasattr(memoryview, "__buffer__")
        else np.asarray(pinned)[:40].view("f4")
    )
    host[...] = 3
    x = cupy.empty(10, np.float32)
    x.data.copy_from_host_async(pinned.ptr, 40)
    assert (x.get() == 3).all()
    attributes = cupy.cuda.runtime.pointerGetAttributes(pinned.ptr)
    assert attributes.type == cupy.cuda.runtime.memoryTypeHost


def test_copies_between_devices(cupy: Any) -> None:
    x = cupy.asarray(np.arange(4, dtype=np.float32))
    with cupy.cuda.Device(1):
        y = cupy.empty(4, np.float32)
    cupy.cuda.runtime.memcpyPeerAsync(y.data.ptr, 1, x.data.ptr, 0, 16, 0)
    assert y.get().tolist() == [0, 1, 2, 3]
    with pytest.raises(DeviceFault, match="memory of device 0, not of 1"):
        cupy.cuda.runtime.memcpyPeerAsync(x.data.ptr, 1, y.data.ptr, 0, 16, 0)


def test_a_device_that_there_is_not_is_refused(cupy: Any) -> None:
    with pytest.raises(cupy.cuda.runtime.CUDARuntimeError, match="invalid device ordinal"):
        cupy.cuda.Device(2).use()


def test_arrays_become_no_numpy_arrays_by_themselves(cupy: Any) -> None:
    x = cupy.zeros(3)
    with pytest.raises(TypeError, match="Implicit conversion"):
        np.asarray(x)
    with pytest.raises(TypeError, match="Unsupported type"):
        x + np.zeros(3)


def test_what_the_stand_in_lacks_is_told_as_such(cupy: Any) -> None:
    with pytest.raises(AttributeError, match=r"'ElementwiseKernel' .*stand-in"):
        cupy.ElementwiseKernel  # noqa: B018
    assert not hasattr(cupy, "ElementwiseKernel")


def test_arrays_compute_by_numpy(cupy: Any) -> None:
    x = cupy.asarray(np.arange(6, dtype=np.float32).reshape(2, 3))
    assert ((x * 2 + x).sum(axis=0).get() == [9, 15, 21]).all()
    view = x[:, 1]
    view[...] = 0
    assert x.get().tolist() == [[0, 0, 2], [3, 0, 5]]
    assert view.data.mem is x.data.mem
    assert (cupy.matmul(x, x.T).get() == x.get() @ x.get().T).all()


def test_a_write_that_no_launch_sees_is_found_in_the_end(cupy: Any) -> None:
    x = cupy.zeros(16, np.float32)
    table = cupy.asarray(np.array([x.data.ptr], np.uint64))
    kernel = cupy.RawKernel('extern "C" __global__ void k(float **table) { table[0][16] = 1; }', "k")
    kernel((1,), (1,), (table,))
    with pytest.raises(DeviceFault, match="behind the end of an allocation of 64 bytes"):
        check_memory()


def test_numpy_refuses_memory_of_a_device_with_its_own_error_and_keeps_none_of_it(cupy: Any) -> None:
    x = cupy.zeros(6, np.float32)
    owners = sys.getrefcount(x)
    with pytest.raises((RuntimeError, BufferError), match=r"[Dd]evice"):
        np.from_dlpack(x)
    assert sys.getrefcount(x) == owners


def test_dlpack_and_the_array_interface_share_memory(cupy: Any) -> None:
    x = cupy.asarray(np.arange(6, dtype=np.float32).reshape(2, 3).T)

    class Foreign:
        __dlpack__, __dlpack_device__ = x.__dlpack__, x.__dlpack_device__

    y = cupy.from_dlpack(Foreign())
    assert (y.data.ptr, y.shape, y.strides, y.dtype) == (x.data.ptr, x.shape, x.strides, x.dtype)

    class Described:
        __cuda_array_interface__ = x.__cuda_array_interface__

    z = cupy.asarray(Described())
    assert (z.data.ptr, z.shape, z.strides) == (x.data.ptr, x.shape, x.strides)
    with pytest.raises(BufferError):
        cupy.from_dlpack(np.zeros(3))
