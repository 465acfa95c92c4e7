"""OpenCL on this machine: finding a runtime, its devices, compiling and launching kernels."""

from __future__ import annotations

import functools
import importlib.util
import math
import os
import sys
import threading
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

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
        self.lock = threading.RLock()  # reentrant: a garbage collection within it may free memory
        self.bytes_in_use = 0
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


_lock = threading.Lock()
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
    """A kernel with its grid and sizes, ready to be called with arrays, then numbers.

    source, name: of the kernel. Its arguments are buffers, numbers, and the sizes.
    grid: work items per dimension; the first one is rounded up to whole groups, so kernels compare it with sizes[0].
    numbers: dtypes of the numbers.
    """

    def __init__(
        self, where: Device, source: str, name: str, grid: Sequence[int], sizes: Sequence[int], numbers: Sequence[type]
    ) -> None:
        self._where = where
        self._kernel = where.cl.Kernel(where.program(source), name)
        group = min(where.group, 1 << max(grid[0] - 1, 0).bit_length())
        self._grid = (-(-grid[0] // group) * group, *grid[1:])
        # Groups fill up along dimension 1, as far as they divide it: small ones cost more than the work in them.
        self._group = (group, *(math.gcd(size, where.group // group) for size in grid[1:2]), *(1 for _ in grid[2:]))
        self._sizes = where.constants(sizes)
        self._kernel.set_scalar_arg_dtypes([None] * (self._kernel.num_args - len(numbers) - 1) + [*numbers, None])

    def __call__(self, arrays: Sequence[Any], *numbers: float) -> None:  # Any: arrays of this device, or None
        """Put it into the device's queue; returns at once."""
        if 0 in self._grid:
            return
        buffers = [None if array is None else array.buffer for array in arrays]
        where = self._where
        with where.lock:  # a kernel object holds its arguments until it is launched
            self._kernel(where.queue, self._grid, self._group, *buffers, *numbers, self._sizes)
            where.queue.flush()
