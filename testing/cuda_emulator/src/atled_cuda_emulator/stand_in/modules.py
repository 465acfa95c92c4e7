"""The modules `cupy` and below, by their names."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Iterator
from typing import Any

from atled_cuda_emulator.errors import OutOfMemoryError
from atled_cuda_emulator.stand_in import array, cublas, cublas_library, device, driver, memory, raw, runtime, stream

_ARRAYS = """ndarray array asarray empty full zeros ones empty_like zeros_like ascontiguousarray asnumpy
    from_dlpack"""
_MEMORY = """BaseMemory Memory UnownedMemory PooledMemory MemoryPointer MemoryPool alloc set_allocator get_allocator"""
_PINNED = """PinnedMemory PinnedMemoryPointer PinnedMemoryPool alloc_pinned_memory set_pinned_memory_allocator"""
_CUDA = """Memory UnownedMemory MemoryPointer MemoryPool alloc set_allocator get_allocator PinnedMemory
    PinnedMemoryPointer PinnedMemoryPool alloc_pinned_memory set_pinned_memory_allocator"""


@contextlib.contextmanager
def _using_allocator(allocator: Any = None) -> Iterator[None]:
    before = memory.get_allocator()
    memory.set_allocator(allocator)
    try:
        yield
    finally:
        memory.set_allocator(before)


def _names(module: types.ModuleType, names: str) -> dict[str, Any]:
    return {name: getattr(module, name) for name in names.split()}


def _module(name: str, members: dict[str, Any]) -> types.ModuleType:
    made = types.ModuleType(name)
    vars(made).update({key: value for key, value in members.items() if not key.startswith("__")})
    return made


def make(version: str) -> dict[str, types.ModuleType]:
    """All modules of the stand-in."""
    streams: dict[str, Any] = {"Event": stream.Event, "Stream": stream.Stream, "ExternalStream": stream.ExternalStream}
    streams |= {"get_current_stream": stream.get_current_stream, "get_elapsed_time": stream.get_elapsed_time}
    parts = {
        "runtime": _module("cupy.cuda.runtime", vars(runtime)),
        "driver": _module("cupy.cuda.driver", vars(driver)),
        "cublas": _module("cupy.cuda.cublas", vars(cublas)),
        "memory": _module("cupy.cuda.memory", _names(memory, _MEMORY) | {"OutOfMemoryError": OutOfMemoryError}),
        "pinned_memory": _module("cupy.cuda.pinned_memory", _names(memory, _PINNED)),
        "stream": _module("cupy.cuda.stream", streams),
        "graph": _module("cupy.cuda.graph", {"Graph": stream.Graph}),
        "device": _module("cupy.cuda.device", _names(device, "Device get_device_id get_cublas_handle")),
        "function": _module("cupy.cuda.function", _names(raw, "Function Module")),
        "compiler": _module("cupy.cuda.compiler", _names(raw, "CompileException compile_using_nvrtc")),
        "nvrtc": _module("cupy.cuda.nvrtc", {"getVersion": lambda: (12, 9)}),
    }
    vars(parts["cublas"])["library"] = cublas_library
    cuda = _module("cupy.cuda", parts | streams | _names(memory, _CUDA))
    vars(cuda).update(_names(device, "Device get_device_id get_cublas_handle"))
    vars(cuda).update(
        Graph=stream.Graph,
        Function=raw.Function,
        Module=raw.Module,
        using_allocator=_using_allocator,
        is_available=lambda: True,
    )
    cupy = _module("cupy", _names(array, _ARRAYS) | _names(raw, "RawModule RawKernel") | {"cuda": cuda})
    vars(cupy).update(_names(memory, "get_default_memory_pool get_default_pinned_memory_pool"))
    vars(cupy).update(__version__=version, __emulator__=True, __path__=[], __getattr__=array.by_numpy)
    cuda.__path__ = []
    return {"cupy": cupy, "cupy.cuda": cuda} | {f"cupy.cuda.{name}": module for name, module in parts.items()}
