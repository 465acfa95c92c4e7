"""OpenCL on this machine: finding a runtime, its devices, compiling and launching kernels."""

from __future__ import annotations

import functools
import importlib.util
import math
import os
import sys
import warnings
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from atled.plugin import Call, Prepared, lock_across_forks

NUMBERS = "__global const ACC *numbers, int word", "numbers[word + {}]"
"""How kernels are given floats, and how they read one."""
_SYSTEM = Path("/etc/OpenCL/vendors")


def intel_runtime() -> Path | None:
    """Intel's runtime for CPUs as pip installs it; the .icd file in its package names a path that does not exist."""
    library = Path(sys.prefix, "lib", "libintelocl.so")
    return library if library.exists() else None


def has_runtime() -> bool:
    """Whether an OpenCL runtime seems to be installed; imports and opens nothing."""
    if "OCL_ICD_VENDORS" in os.environ or sys.platform != "linux":
        return True
    package = importlib.util.find_spec("pyopencl")
    bundled = Path(package.origin).parent / ".libs" if package and package.origin else _SYSTEM
    return intel_runtime() is not None or any(any(folder.glob("*.icd")) for folder in (_SYSTEM, bundled))


class Device:
    """One OpenCL device: its context, its queue of work, its compiled programs. Work runs in the order of launches.

    widest, real: the widest floating-point type that it has, in C and in NumPy.
    """

    def __init__(self, handle: Any) -> None:  # Any: pyopencl is not imported before it is needed
        import pyopencl as cl  # as above

        self.cl = cl
        self.widest = "double" if "cl_khr_fp64" in handle.extensions else "float"
        self.real = np.float64 if self.widest == "double" else np.float32
        self.group = min(256, handle.max_work_group_size)  # work items in a group, at most
        self.context = cl.Context([handle])
        self.queue = cl.CommandQueue(self.context, properties=cl.command_queue_properties.PROFILING_ENABLE)
        self.lock = lock_across_forks()
        # Bytes by memory. No lock guards it: garbage collections free memory amid anything, under whatever locks.
        self.in_use: dict[int, int] = {}
        self.underway: deque[Any] = deque(maxlen=64)  # an event that is dropped waits for its copy
        self.program = functools.lru_cache(maxsize=4096)(self._build)

    def _build(self, source: str) -> Any:  # Any: see above
        program = self.cl.Program(self.context, source)
        with self.lock, warnings.catch_warnings():
            warnings.simplefilter("ignore", self.cl.CompilerWarning)  # any remark of a compiler that succeeded
            return program.build([f"-DACC={self.widest}"])

    def constants(self, words: Sequence[int]) -> Any:  # Any: see above
        """A buffer of 32-bit integers."""
        flags = self.cl.mem_flags.READ_ONLY | self.cl.mem_flags.COPY_HOST_PTR
        return self.cl.Buffer(self.context, flags, hostbuf=np.array(words, np.int32))

    def put(self, values: np.ndarray, buffer: Any) -> None:  # Any: see above
        """Copy in the order of the queue, without waiting; the values must not change afterwards."""
        if values.size:
            self.underway.append(self.cl.enqueue_copy(self.queue, buffer, values, is_blocking=False))


_lock = lock_across_forks()
_devices: list[Device] = []


def devices() -> Sequence[Device]:
    """The devices of all platforms: GPUs first, simulators last. Loads pyopencl and the runtimes."""
    with _lock:
        if not _devices:
            intel = intel_runtime()
            if intel and not any(_SYSTEM.glob("*.icd")):
                os.environ.setdefault("OCL_ICD_VENDORS", str(intel))  # read when platforms are first asked for
            import pyopencl as cl  # heavy: not before a device is needed

            found = [handle for platform in cl.get_platforms() for handle in platform.get_devices()]
            found.sort(key=lambda handle: ("Oclgrind" in handle.name, not handle.type & cl.device_type.GPU))
            _devices.extend(Device(handle) for handle in found)
        return _devices


def device(device_id: str) -> Device:
    """The device of an id: its place among `devices()`."""
    return devices()[int(device_id)]


class Launch:
    """A kernel with its grid and sizes, ready to be bound to arrays.

    source, name: of the kernel. Its arguments are buffers, then NUMBERS if it reads any, and the sizes; in front of
        those of "formula", which takes windows, where each array begins in its buffer.
    grid: work items per dimension; the first one is rounded up to whole groups, so kernels compare it with sizes[0].
    reads_numbers: whether it reads any floats.
    """

    def __init__(
        self, where: Device, source: str, name: str, grid: Sequence[int], sizes: Sequence[int], reads_numbers: bool
    ) -> None:
        self._where, self._takes_windows = where, name == "formula"
        self._make = functools.partial(where.cl.Kernel, where.program(source), name)
        group = min(where.group, 1 << max(grid[0] - 1, 0).bit_length())
        self._grid = (-(-grid[0] // group) * group, *grid[1:])
        # Groups fill up along dimension 1, as far as they divide it: small ones cost more than the work in them.
        self._group = (group, *(math.gcd(size, where.group // group) for size in grid[1:2]), *(1 for _ in grid[2:]))
        self._sizes, self._reads_numbers = where.constants(sizes), reads_numbers

    def bind(self, given: Sequence[Any], numbers: Any, first: int) -> Callable[[], object]:
        """What puts it into the device's queue and returns at once; given: arrays, None, whole numbers."""
        if 0 in self._grid:
            return lambda: None
        kernel, where = self._make(), self._where  # a kernel object holds its arguments
        arguments = [np.int64(one) if isinstance(one, int) else getattr(one, "buffer", one) for one in given]
        starts = [np.int64(getattr(one, "offset", 0)) for one in given] if self._takes_windows else []
        kernel.set_args(*starts, *arguments, *((numbers, np.int32(first)) if self._reads_numbers else ()), self._sizes)
        return functools.partial(where.cl.enqueue_nd_range_kernel, where.queue, kernel, self._grid, self._group)


def queued(call: Call, steps: Callable[..., Sequence[Any]], **facts: Any) -> Prepared:
    """A call as launches; steps(*arrays): each with what it is given, and which is the first float that it reads."""
    where, count = device(call.device_id), call.float_count
    numbers = where.constants([0, 0] * max(count, 1))

    def bind(arrays: Sequence[Any], table: Any, start: int) -> Callable[[], object]:  # Any: arrays of this device
        launches = [
            launch.bind(given, table and table.buffer, start + first) for launch, given, first in steps(*arrays)
        ]
        return lambda: [launch() for launch in launches]

    def run(*arguments: Any) -> None:  # Any: as above, then floats
        with where.lock:
            where.put(np.array(arguments[len(arguments) - count :], where.real), numbers)
            for launch, given, first in steps(*arguments[: len(arguments) - count]):
                launch.bind(given, numbers, first)()
            where.queue.flush()

    return Prepared(run, queued=True, bind=None if count and where.widest == "float" else bind, **facts)
