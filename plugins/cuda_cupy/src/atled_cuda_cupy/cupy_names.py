"""The only module that imports CuPy, and not before the first name is asked for: all that the plugin uses of it."""

from __future__ import annotations

import ctypes
import functools
import importlib
from typing import Any

_NAMES = {
    "Device": "cuda.Device",
    "DriverError": "cuda.driver.CUDADriverError",
    "Event": "cuda.Event",
    "Module": "cuda.function.Module",
    "OutOfMemoryError": "cuda.memory.OutOfMemoryError",
    "RuntimeError": "cuda.runtime.CUDARuntimeError",
    "Stream": "cuda.Stream",
    "alloc_pinned_memory": "cuda.alloc_pinned_memory",
    "elapsed_time": "cuda.get_elapsed_time",
    "compile_using_nvrtc": "cuda.compiler.compile_using_nvrtc",
    "current_stream": "cuda.get_current_stream",
    "driver": "cuda.driver",
    "from_dlpack": "from_dlpack",
    "launch_kernel": "cuda.driver.launchKernel",
    "memory_pool": "get_default_memory_pool",
    "ndarray": "ndarray",
    "nvrtc": "cuda.nvrtc",
    "pinned_memory_pool": "get_default_pinned_memory_pool",
    "runtime": "cuda.runtime",
    "version": "__version__",
}


def __getattr__(name: str) -> Any:  # Any: CuPy has no type information
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    cupy = importlib.import_module("cupy")
    found = globals()[name] = functools.reduce(getattr, _NAMES[name].split("."), cupy)
    return found


@functools.cache
def cublas_library() -> Any:  # Any: ctypes' functions, or those of the emulator
    """libcublas.so, which CuPy finds by the same module; the emulator's where that stands in for CuPy."""
    cupy = importlib.import_module("cupy")
    if hasattr(cupy, "__emulator__"):
        return cupy.cuda.cublas.library
    pathfinder = importlib.import_module("cuda.pathfinder")  # comes with CuPy
    return ctypes.CDLL(pathfinder.load_nvidia_dynamic_lib("cublas").abs_path)
