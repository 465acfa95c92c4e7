"""How arrays are made on a GPU and moved to it and from it; they are CuPy's."""

from __future__ import annotations

from typing import Any

import numpy as np

from atled.plugin import ArrayClass, ArrayDesc
from atled_cuda_cupy import cupy_names as cp
from atled_cuda_cupy.compiling import template
from atled_cuda_cupy.devices import Device, device
from atled_cuda_cupy.launching import Launch

_TO_DEVICE, _TO_HOST, _ON_DEVICE = 1, 2, 3  # cudaMemcpyHostToDevice, ...
_FILL_BLOCK = 256
_PATTERNS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "unsigned long long"}


class CudaArrayClass(ArrayClass):
    """Array class `CudaCachedArray`, which `CudaArray` is another name of: memory of CuPy's pool."""

    name = "CudaCachedArray"

    def allocate(self, desc: ArrayDesc, device_id: str) -> Any:  # Any: a cupy.ndarray, here and below
        """A new array on the device; contents undefined."""
        with device(device_id):
            return cp.ndarray(desc.shape, desc.dtype)

    def upload(self, source: np.ndarray, target: Any) -> None:
        """Copy from host memory; the driver has read all of it when this returns, since it is not pinned."""
        if target.nbytes:
            with device_of(target):
                _copy(target.data.ptr, source.ctypes.data, target.nbytes, _TO_DEVICE)

    def download(self, source: Any, target: np.ndarray) -> None:
        """Copy to host memory and wait."""
        if source.nbytes:
            with device_of(source):
                _copy(target.ctypes.data, source.data.ptr, source.nbytes, _TO_HOST)
                cp.current_stream().synchronize()

    def copy(self, source: Any, target: Any) -> None:
        """Copy on the device."""
        if source.nbytes:
            with device_of(target):
                _copy(target.data.ptr, source.data.ptr, source.nbytes, _ON_DEVICE)

    def fill(self, target: Any, value: float) -> None:
        """Set every element."""
        if target.size:
            where = device_of(target)
            pattern = np.array(value).astype(target.dtype)
            bits = int.from_bytes(pattern.tobytes(), "little", signed=pattern.nbytes == 8)
            with where:
                _filling(where, pattern.nbytes, target.size).run((target, bits), b"")

    def view(self, array: Any, shape: tuple[int, ...]) -> Any:
        """The same memory with another shape."""
        return cp.ndarray(shape, array.dtype, array.data)

    def part(self, array: Any, offset: int, desc: ArrayDesc) -> Any:
        """Some bytes of an array as an array."""
        return cp.ndarray(desc.shape, desc.dtype, array.data + offset)

    def synchronize(self, device_id: str) -> None:
        """Wait until everything launched is done."""
        with device(device_id):
            cp.runtime.deviceSynchronize()

    def statistics(self, device_id: str) -> dict[str, int]:
        """Memory of CuPy's pool: what arrays refer to, others than atled's included, and what it keeps besides."""
        with device(device_id):
            pool = cp.memory_pool()
            used, total = pool.used_bytes(), pool.total_bytes()
        return {"bytes_in_use": used, "cached_bytes": total - used}

    def clear_memory_cache(self, device_id: str) -> None:
        """Give what the pool keeps back to the device."""
        with device(device_id):
            cp.memory_pool().free_all_blocks()


def device_of(array: Any) -> Device:
    """The device that an array lives on."""
    return device(str(array.data.device_id))


def _copy(target: int, source: int, nbytes: int, kind: int) -> None:
    cp.runtime.memcpyAsync(target, source, nbytes, kind, cp.current_stream().ptr)


def _filling(where: Device, width: int, size: int) -> Launch:
    defines = {"PATTERN": _PATTERNS[width]}
    return Launch(where, template("fill"), "fill", where.blocks(size), _FILL_BLOCK, (size,), defines)
