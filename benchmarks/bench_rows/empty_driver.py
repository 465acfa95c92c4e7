"""A driver of CUDA that does nothing: what is left is what the plugin costs the host; names are the emulator's."""

from __future__ import annotations

import contextvars
import importlib
import math
import sys
from typing import Any, ClassVar

_IGNORED = (
    "memcpyAsync",
    "memsetAsync",
    "memcpyPeerAsync",
    "graphLaunch",
    "eventRecord",
    "eventQuery",
    "eventSynchronize",
)


def install() -> None:
    """Let `import cupy` give it, for the rest of the process.

    Arrays, memory, events and the current stream are compiled code in CuPy. The emulator's check each use, so there is
    something short instead of them, in Python but for the stream. Bound launches, words and programs go the ways that
    they go with CuPy.
    """
    emulator = importlib.import_module("atled_cuda_emulator")
    if emulator.installed():
        return
    cupy = emulator.install(devices=1)
    driver, runtime = sys.modules["cupy.cuda.driver"], sys.modules["cupy.cuda.runtime"]
    driver.launchKernel = _nothing
    for name in _IGNORED:
        assert hasattr(runtime, name), name
        setattr(runtime, name, _nothing)
    cupy.cuda.compiler.compile_using_nvrtc = lambda *_: (b"", {})
    cupy.cuda.function.Module = _Module
    cupy.cuda.cublas.library = _Library()
    cupy.cuda.Event = _Event
    cupy.ndarray = _Array
    _follow_streams(cupy)


def _nothing(*_: Any) -> None:
    """The driver has taken it."""


def _follow_streams(cupy: Any) -> None:
    """Let the current stream be a context variable, whose `get` is compiled."""
    current = contextvars.ContextVar("current", default=cupy.cuda.Stream.null)
    kept: list[contextvars.Token[Any]] = []
    cupy.cuda.get_current_stream = current.get

    class Stream(cupy.cuda.Stream):
        def use(self) -> Any:
            current.set(self)
            return super().use()

        def __enter__(self) -> Any:
            kept.append(current.set(self))
            return super().__enter__()

        def __exit__(self, *error: object) -> None:
            current.reset(kept.pop())
            super().__exit__(*error)

    cupy.cuda.Stream = Stream


class _Event:
    """An event that is always over."""

    __slots__ = ()
    done = True

    def __init__(self, disable_timing: bool = False) -> None:
        """It measures nothing."""

    def record(self, stream: Any = None) -> None:
        """It is passed at once."""

    synchronize = record


class _Pointer:
    """`cupy.cuda.MemoryPointer`; mem: what has to live as long."""

    __slots__ = ("device_id", "mem", "ptr")

    def __init__(self, mem: Any, ptr: int) -> None:
        self.mem, self.ptr, self.device_id = mem, ptr, 0

    def __add__(self, offset: int) -> _Pointer:
        return _Pointer(self.mem, self.ptr + offset)


class _Memory:
    """Bytes of a pool, at addresses that nobody follows."""

    __slots__ = ("free", "ptr")
    kept: ClassVar[dict[int, list[int]]] = {}
    first_free = 1 << 40

    def __init__(self, size: int) -> None:
        units = size + 511 >> 9
        self.free = free = self.kept.setdefault(units, [])
        if free:
            self.ptr = free.pop()
        else:
            self.ptr = _Memory.first_free
            _Memory.first_free += units << 9

    def __del__(self) -> None:
        self.free.append(self.ptr)


class _Array:
    """`cupy.ndarray` as far as the plugin uses it here; no memory is behind it."""

    __slots__ = ("data", "dtype", "nbytes", "shape", "size")

    def __init__(self, shape: tuple[int, ...], dtype: Any, data: _Pointer | None = None) -> None:
        self.shape, self.dtype = shape, dtype
        self.size = math.prod(shape)
        self.nbytes = self.size * dtype.itemsize
        if data is None:
            memory = _Memory(self.nbytes)
            data = _Pointer(memory, memory.ptr)
        self.data = data


class _Function:
    ptr = 1


class _Module:
    """A module whose functions all are the same."""

    def load(self, code: bytes) -> None:
        """There is nothing in it."""

    def get_function(self, name: str) -> _Function:
        """Any function."""
        return _Function()


class _Library:
    """A library of C functions that all succeed."""

    def __getattr__(self, name: str) -> Any:
        return _succeed


def _succeed(*_: Any) -> int:
    return 0
