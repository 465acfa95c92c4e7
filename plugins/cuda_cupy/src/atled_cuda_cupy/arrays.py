"""How arrays are made on a GPU and moved to it and from it; they are CuPy's."""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from atled.plugin import ArrayClass, ArrayDesc, OutOfMemoryError, four_parts
from atled_cuda_cupy import cupy_names as cp
from atled_cuda_cupy import programs
from atled_cuda_cupy.compiling import template
from atled_cuda_cupy.devices import Device, device, device_numbered, is_lost
from atled_cuda_cupy.launching import Launch

_ON_DEVICE = 3  # cudaMemcpyDeviceToDevice
_ALIGNMENT = 16  # bytes: what kernels read at once
_CUDA = 2  # kDLCUDA
_NARROW = 2**30  # where 32 bits do not count elements any more, a stride of the grid added
_PATTERNS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "unsigned long long"}


class CudaArrayClass(ArrayClass):
    """Array class `CudaCachedArray`, which `CudaArray` is another name of: memory of CuPy's pool.

    Its arrays are `cupy.ndarray`s, C-contiguous, and begin at multiples of 16 bytes.
    """

    name = "CudaCachedArray"

    def allocate(self, desc: ArrayDesc, device_id: str) -> Any:  # Any: a cupy.ndarray, here and below
        """A new array on the device; contents undefined."""
        with device(device_id) as where:
            try:
                return cp.ndarray(desc.shape, desc.dtype)
            except cp.OutOfMemoryError:
                _release(where)
            try:
                return cp.ndarray(desc.shape, desc.dtype)
            except cp.OutOfMemoryError as error:
                raise _out_of_memory(where, desc) from error

    def upload(self, source: np.ndarray, target: Any) -> None:
        """Copy from host memory in the order of the stream; returns when the source has been read."""
        if target.nbytes:
            with device_of(target) as where:
                where.staging.upload(source, target.data.ptr)

    def put_words(self, words: np.ndarray, target: Any) -> None:
        """Copy words as `upload` copies values: neither waits for the device."""
        with device_of(target) as where:
            where.staging.put_words(words, target.data.ptr)

    def download(self, source: Any, target: np.ndarray) -> None:
        """Copy to host memory and wait."""
        assert source.flags.c_contiguous, "the engine copies windows on the device first"
        if source.nbytes:
            with device_of(source) as where:
                where.staging.download(source.data.ptr, target)

    def copy(self, source: Any, target: Any) -> None:
        """Copy on the device."""
        if source.nbytes:
            with device_of(target):
                stream = cp.current_stream().ptr
                cp.runtime.memcpyAsync(target.data.ptr, source.data.ptr, source.nbytes, _ON_DEVICE, stream)

    def copy_across(self, source: Any, target: Any) -> bool:
        """Copy between two devices, in the order of the streams of both."""
        if source.nbytes:
            here, there = device_of(source), device_of(target)
            with here:
                stream_here = cp.current_stream()
                ready = stream_here.record(cp.Event(disable_timing=True))
            with there:
                _reach(there.number, here.number)
                stream = cp.current_stream()
                stream.wait_event(ready)
                addresses = target.data.ptr, there.number, source.data.ptr, here.number
                cp.runtime.memcpyPeerAsync(*addresses, source.nbytes, stream.ptr)
                copied = stream.record(cp.Event(disable_timing=True))
            with here:
                stream_here.wait_event(copied)
        return True

    def fill(self, target: Any, value: float) -> None:
        """Set every element."""
        if not target.size:
            return
        pattern = np.array(value).astype(target.dtype).tobytes()
        with device_of(target) as where:
            if len(set(pattern)) == 1:
                cp.runtime.memsetAsync(target.data.ptr, pattern[0], target.nbytes, cp.current_stream().ptr)
            else:
                bits = int.from_bytes(pattern, "little", signed=True)
                _filling(where, len(pattern), target.size).run((target, bits), b"")

    def view(self, array: Any, shape: tuple[int, ...]) -> Any:
        """The same memory with another shape."""
        return cp.ndarray(shape, array.dtype, array.data)

    def part(self, array: Any, offset: int, desc: ArrayDesc) -> Any:
        """Some bytes of an array as an array."""
        return cp.ndarray(desc.shape, desc.dtype, array.data + offset)

    def window(self, array: Any, desc: ArrayDesc, offset: int) -> Any:
        """Elements of an array by strides."""
        begin = array.data + offset * desc.dtype.itemsize
        steps = tuple(step * desc.dtype.itemsize for step in desc.written_strides)
        return cp.ndarray(desc.shape, desc.dtype, begin, steps)

    def program(self, launches: Sequence[Callable[[], object]], device_id: str) -> Callable[[], object]:
        """A graph of CUDA's."""
        return programs.program(device(device_id), launches)

    def synchronize(self, device_id: str) -> None:
        """Wait until everything launched is done, in all streams."""
        with device(device_id) as where, where.capture:
            cp.runtime.deviceSynchronize()

    def timestamp(self, device_id: str) -> Any:  # Any: a cupy.cuda.Event
        """A mark in the stream."""
        with device(device_id):
            return cp.current_stream().record(cp.Event())

    def seconds_between(self, first: Any, last: Any) -> float:  # Any: as above
        """Seconds by the device's clock."""
        last.synchronize()
        return float(cp.elapsed_time(first, last)) * 1e-3

    def statistics(self, device_id: str) -> dict[str, int]:
        """Memory of CuPy's pool: what arrays refer to, others than atled's included, and what it keeps besides."""
        if is_lost(device_id):
            return {}
        with device(device_id):
            pool = cp.memory_pool()
            used, total = pool.used_bytes(), pool.total_bytes()
        return {"bytes_in_use": used, "kept_bytes": total - used}

    def clear_memory_cache(self, device_id: str) -> None:
        """Give what the pool keeps back to the device, and pinned memory to the host."""
        if is_lost(device_id):
            return
        with device(device_id) as where, where.capture:
            where.staging.clear()
            cp.memory_pool().free_all_blocks()

    def dlpack_device(self, device_id: str) -> tuple[int, int]:
        """As DLPack counts GPUs."""
        return _CUDA, int(device_id)

    def to_dlpack(self, source: Any, **options: Any) -> Any:  # Any: the capsule, and options as DLPack has them
        """A capsule; the stream of the other side waits for ours."""
        with device_of(source) as where:
            _join(where)
            return source.__dlpack__(**options)

    def from_dlpack(self, source: Any, device_id: str) -> tuple[Any, ArrayDesc]:
        """An array over memory of others; our stream waits for theirs."""
        array, desc = self._taken(source, device_id)
        if not array.flags.c_contiguous:
            shown = f"of a C-contiguous array of shape {array.shape}"
            raise BufferError(f"its strides {array.strides} are not those {shown}")
        if array.data.ptr % _ALIGNMENT:
            raise BufferError(f"it begins at no multiple of {_ALIGNMENT} bytes")
        return array, desc

    def copy_dlpack(self, source: Any, device_id: str) -> tuple[Any, ArrayDesc]:
        """A copy, also of what begins anywhere and has any strides."""
        array, desc = self._taken(source, device_id)
        target = self.allocate(desc, device_id)
        if array.flags.c_contiguous:
            self.copy(array, target)
        else:
            with device_of(target) as where:
                _gathering(where, array).run((array, target), b"")
        return target, desc

    def cuda_array_interface(self, source: Any) -> dict[str, Any]:
        """What others need to read it, and the stream to wait for."""
        with device_of(source) as where:
            _join(where)
            found: dict[str, Any] = source.__cuda_array_interface__
            return found

    def _taken(self, source: Any, device_id: str) -> tuple[Any, ArrayDesc]:
        with device(device_id):
            array = cp.from_dlpack(source)
        return array, ArrayDesc(array.shape, array.dtype)


def device_of(array: Any) -> Device:
    """The device that an array lives on."""
    return device_numbered(array.data.device_id)


def _gathering(where: Device, array: Any) -> Launch:
    """What makes an array of any strides C-contiguous."""
    defines = {"PATTERN": _PATTERNS[array.dtype.itemsize], "RANK": array.ndim}
    steps = [step // array.dtype.itemsize for step in array.strides]
    furthest = sum((size - 1) * step for size, step in zip(array.shape, steps, strict=True))
    words, wide = (array.size, *array.shape, *steps), max(array.size, furthest) >= _NARROW
    blocks, text = where.blocks(array.size), template("gather_strided")
    return Launch(where, text, "gather_strided", blocks, 256, words, defines, wide=wide)


def _join(where: Device) -> None:
    """Let the current stream, which may be the other side's, wait for what is queued in the device's."""
    stream = cp.current_stream()
    if stream.ptr != where.stream.ptr:
        stream.wait_event(where.stream.record(cp.Event(disable_timing=True)))


@functools.lru_cache(256)
def _filling(where: Device, width: int, size: int) -> Launch:
    defines = {"PATTERN": _PATTERNS[width]}
    return Launch(where, template("fill"), "fill", where.blocks(size), 256, (size,), defines)


@functools.cache
def _reach(number: int, other: int) -> None:
    """Let a device, the current one, read another's memory by itself; else the driver copies by way of the host."""
    if cp.runtime.deviceCanAccessPeer(number, other):
        try:
            cp.runtime.deviceEnablePeerAccess(other)
        except cp.RuntimeError as error:
            if error.status != _ENABLED_ALREADY:
                raise


_ENABLED_ALREADY = 704  # cudaErrorPeerAccessAlreadyEnabled


def _release(where: Device) -> None:
    """Give back all that is only kept for later."""
    gc.collect()
    with where.capture:
        where.staging.clear()
        cp.memory_pool().free_all_blocks()


def _out_of_memory(where: Device, desc: ArrayDesc) -> OutOfMemoryError:
    free, total = where.handle.mem_info
    pool = cp.memory_pool()
    used, held = pool.used_bytes(), pool.total_bytes()
    limit = pool.get_limit()
    return OutOfMemoryError(
        four_parts(
            f"{desc} on {where}",
            f"there is no memory for {_mib(desc.nbytes)}; {_mib(free)} of {_mib(total)} are free"
            + (f", and CuPy's pool may have {_mib(limit)}" if limit else ""),
            f"{_mib(used)} are in arrays of this process, {_mib(held - used)} in pieces between them, "
            f"{_mib(max(total - free - held, 0))} are others', such as CUDA itself, other libraries and processes",
            "use smaller batches, or drop arrays and graphs that are not needed",
        )
    )


def _mib(nbytes: int) -> str:
    return f"{nbytes / 2**20:.1f} MiB"
