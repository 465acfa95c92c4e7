"""How arrays are made on an OpenCL device and moved to it and from it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from atled.plugin import ArrayClass, ArrayDesc
from atled_opencl.runtime import Device, device, devices


class Memory:
    """Device memory that is given back when no array refers to it any more."""

    def __init__(self, where: Device, nbytes: int) -> None:
        self.device, self.nbytes = where, nbytes
        # No buffer of no bytes; the runtime keeps one until the work that uses it is done.
        self.buffer = where.cl.Buffer(where.context, where.cl.mem_flags.READ_WRITE, max(nbytes, 4))
        where.in_use[id(self)] = nbytes

    def __del__(self) -> None:
        self.device.in_use.pop(id(self), None)  # None: the allocation failed


class Part:
    """Some bytes of a memory, which lives as long."""

    def __init__(self, whole: Any, offset: int, nbytes: int) -> None:  # Any: a Memory
        self.device, self.nbytes, self.whole = whole.device, nbytes, whole
        self.buffer = whole.buffer.get_sub_region(offset, max(nbytes, 1))


class OpenCLArray:
    """An array on a device: memory, shape, dtype; offset: elements in front of it, of a window."""

    __slots__ = ("buffer", "dtype", "memory", "offset", "shape")
    __array_ufunc__ = None  # NumPy must not take it for an object

    def __init__(self, memory: Memory | Part, shape: tuple[int, ...], dtype: np.dtype, offset: int = 0) -> None:
        self.memory, self.buffer = memory, memory.buffer
        self.shape, self.dtype, self.offset = shape, dtype, offset


class OpenCLArrayClass(ArrayClass):
    """Array class `OpenCLArray`."""

    name = "OpenCLArray"

    def allocate(self, desc: ArrayDesc, device_id: str) -> OpenCLArray:
        """A new array on the device; contents undefined."""
        return OpenCLArray(Memory(device(device_id), desc.nbytes), desc.shape, desc.dtype)

    def upload(self, source: np.ndarray, target: OpenCLArray) -> None:
        """Copy from host memory; waits, since the source may change afterwards."""
        _copy(target.memory, target.buffer, source)

    def download(self, source: OpenCLArray, target: np.ndarray) -> None:
        """Copy to host memory and wait."""
        _copy(source.memory, target, source.buffer)

    def put_words(self, words: np.ndarray, target: OpenCLArray) -> None:
        """Copy run-time words in the order of the queue."""
        target.memory.device.put(words.copy(), target.buffer)

    def program(self, launches: Sequence[Callable[[], object]], device_id: str) -> Callable[[], None]:
        """A loop over the launches, and one flush: the runtime has nothing quicker for all devices."""
        queue = device(device_id).queue

        def run() -> None:
            for launch in launches:
                launch()
            queue.flush()

        return run

    def copy(self, source: OpenCLArray, target: OpenCLArray) -> None:
        """Copy on the device."""
        _copy(target.memory, target.buffer, source.buffer)

    def fill(self, target: OpenCLArray, value: float) -> None:
        """Set every element."""
        where, nbytes = target.memory.device, target.memory.nbytes
        if nbytes:
            where.cl.enqueue_fill_buffer(where.queue, target.buffer, np.array(value).astype(target.dtype), 0, nbytes)

    def view(self, array: OpenCLArray, shape: tuple[int, ...]) -> OpenCLArray:
        """The same memory with another shape."""
        return OpenCLArray(array.memory, shape, array.dtype)

    @property
    def alignment(self) -> int:
        """Bytes; where the devices let a part of a buffer begin."""
        return max(where.context.devices[0].mem_base_addr_align // 8 for where in devices())

    def part(self, array: OpenCLArray, offset: int, desc: ArrayDesc) -> OpenCLArray:
        """Some bytes of an array as an array: a sub-buffer."""
        return OpenCLArray(Part(array.memory, offset, desc.nbytes), desc.shape, desc.dtype)

    def window(self, array: OpenCLArray, desc: ArrayDesc, offset: int) -> OpenCLArray:
        """Elements of an array by strides, for kernels that are told where it begins: a sub-buffer cannot anywhere."""
        return OpenCLArray(array.memory, desc.shape, desc.dtype, array.offset + offset)

    def synchronize(self, device_id: str) -> None:
        """Wait until everything launched is done."""
        device(device_id).queue.finish()

    def timestamp(self, device_id: str) -> Any:  # Any: an event of pyopencl
        """A mark in the device's queue."""
        where = device(device_id)
        return where.cl.enqueue_marker(where.queue)

    def seconds_between(self, first: Any, last: Any) -> float:  # Any: as above
        """Seconds by the device's clock."""
        last.wait()
        return float(last.profile.end - first.profile.end) * 1e-9

    def statistics(self, device_id: str) -> dict[str, int]:
        """Memory that arrays refer to."""
        return {"bytes_in_use": sum(list(device(device_id).in_use.values()))}


def _copy(memory: Memory | Part, target: Any, source: Any) -> None:  # Any: a buffer or a NumPy array
    if memory.nbytes:
        memory.device.cl.enqueue_copy(memory.device.queue, target, source)
