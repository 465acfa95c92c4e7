"""`cupy.RawModule`, `cupy.RawKernel` and `cupy.cuda.Function`."""

from __future__ import annotations

import ctypes
import itertools
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from atled_cuda_emulator import compiling
from atled_cuda_emulator.errors import DeviceFault
from atled_cuda_emulator.faults import driver_call, ensure_context
from atled_cuda_emulator.launching import Function as _Loaded
from atled_cuda_emulator.stand_in import driver
from atled_cuda_emulator.stand_in.array import ndarray
from atled_cuda_emulator.stand_in.stream import get_current_stream
from atled_cuda_emulator.stand_in.world import thread, world

_handles = itertools.count(0x6000_0000_0000, 64)


class CompileException(Exception):
    """`cupy.cuda.compiler.CompileException`."""

    def __init__(self, msg: str, source: str, name: str, options: Sequence[str], backend: str = "nvrtc") -> None:
        super().__init__(msg)
        self._msg, self.source, self.name, self.options, self.backend = msg, source, name, options, backend

    def get_message(self) -> str:
        """What the compiler said."""
        return self._msg


class Function:
    """`cupy.cuda.Function`: a kernel on one device."""

    def __init__(self, loaded: _Loaded) -> None:
        self.ptr = next(_handles)
        world().functions[self.ptr] = loaded

    def __call__(
        self,
        grid: Any,
        block: Any,
        args: Any,
        shared_mem: int = 0,
        stream: Any = None,
        enable_cooperative_groups: bool = False,
    ) -> None:
        if enable_cooperative_groups:
            raise NotImplementedError("the emulator has no cooperative groups")
        (gx, gy, gz), (bx, by, bz) = _three(grid), _three(block)
        packed = [_as_bytes(one) for one in args]
        function = world().functions[self.ptr]
        _check_sizes(function, packed)
        buffers = [ctypes.create_string_buffer(one, len(one)) for one in packed]
        pointers = (ctypes.c_void_p * len(buffers))(*(ctypes.addressof(one) for one in buffers))
        pointer = (get_current_stream() if stream is None else stream).ptr
        params = ctypes.addressof(pointers) if buffers else 0
        ensure_context()
        driver.launchKernel(self.ptr, gx, gy, gz, bx, by, bz, shared_mem, pointer, params, 0)


def _check_sizes(function: _Loaded, packed: Sequence[bytes]) -> None:
    """A GPU reads as many bytes as the kernel's parameters have, whatever was given."""
    sizes = [len(one) for one in packed]
    if sizes != list(function.sizes):
        raise DeviceFault(
            f"{function.name}: arguments of {sizes} bytes for parameters of {list(function.sizes)}; numbers of Python "
            "are passed as 8 bytes, numpy.int32 and numpy.float32 as 4"
        )


def _three(sizes: Any) -> list[int]:
    """As CuPy: an int or up to three, 0 for 1."""
    given = (sizes,) if isinstance(sizes, int) else tuple(sizes)
    return [max(1, int(size)) for size in (*given, 1, 1)[:3]]


def _as_bytes(one: Any) -> bytes:
    """As CuPy passes it: arrays by address; scalars and arrays of NumPy with one element by value."""
    if isinstance(one, ndarray):
        return one.data.ptr.to_bytes(8, "little")
    if hasattr(one, "ptr"):
        return int(one.ptr).to_bytes(8, "little")
    if one is None:
        return bytes(8)
    if isinstance(one, bool):
        return np.bool_(one).tobytes()
    if isinstance(one, int):
        return np.int64(one).tobytes()
    if isinstance(one, float):
        return np.float64(one).tobytes()
    if isinstance(one, complex):
        return np.complex128(one).tobytes()
    if isinstance(one, np.generic) or (isinstance(one, np.ndarray) and one.size == 1):
        return one.tobytes()
    raise TypeError(f"Unsupported type {type(one)}")


def compile_using_nvrtc(
    source: str,
    options: Sequence[str] = (),
    arch: str | None = None,
    filename: str = "kern.cu",
    name_expressions: Sequence[str] | None = None,
    log_stream: Any = None,
    cache_in_memory: bool = False,
    jitify: Any = False,
    method: str | None = None,
) -> tuple[bytes, None]:
    """`cupy.cuda.compiler.compile_using_nvrtc`; for machine code it gives what names the text. It is compiled when its
    first kernel is asked for, together with others that were wanted by then; what is wrong with it, is told there."""
    text = compiling.Text(source, tuple(options), tuple(name_expressions or ()))
    compiling.expect(text)
    return json.dumps([text.source, text.options, text.names]).encode(), None


class Module:
    """`cupy.cuda.function.Module`."""

    def load(self, cubin: bytes) -> None:
        """What `compile_using_nvrtc` gave, on the current device."""
        driver_call("moduleLoad")
        source, options, names = json.loads(cubin)
        self._text = compiling.Text(source, tuple(options), tuple(names))
        compiling.expect(self._text)
        self._device = thread.device

    def get_function(self, name: str) -> Function:
        """One of its kernels."""
        with _told(self._text):
            return Function(_Loaded(self._text, name, self._device))


@contextmanager
def _told(text: compiling.Text) -> Iterator[None]:
    """What the compiler says, as CuPy raises it."""
    try:
        yield
    except compiling.CompileError as e:
        raise CompileException(str(e), text.source, "kern.cu", text.options) from e


class RawModule:
    """`cupy.RawModule` of a text."""

    def __init__(
        self,
        code: str | None = None,
        *,
        path: str | None = None,
        options: Sequence[str] = (),
        backend: str = "nvrtc",
        translate_cucomplex: bool = False,
        enable_cooperative_groups: bool = False,
        name_expressions: Sequence[str] | None = None,
        jitify: bool = False,
    ) -> None:
        if (code is None) == (path is None):
            raise TypeError("Exactly one of `code` and `path` keyword arguments must be given.")
        if path is not None or translate_cucomplex or enable_cooperative_groups or jitify or backend != "nvrtc":
            raise NotImplementedError("the emulator compiles texts of CUDA C, and only as NVRTC does")
        assert code is not None
        if not isinstance(options, tuple):
            raise TypeError(f"Expected tuple, got {type(options).__name__}")  # as CuPy's compiler says of a list
        self.code, self.options, self.backend, self.name_expressions = code, tuple(options), backend, name_expressions
        self.file_path, self.enable_cooperative_groups = None, False
        self._text = compiling.Text(code, self.options, tuple(name_expressions or ()))

    def compile(self, log_stream: Any = None) -> None:
        """Now, not when the first kernel is asked for."""
        self._load()

    def _load(self) -> None:
        driver_call("moduleLoad")
        with _told(self._text):
            compiling.kernel_records(self._text)

    def get_function(self, name: str) -> RawKernel:
        """A kernel, or an instance of a template that `name_expressions` names."""
        self._load()
        kernel = RawKernel.__new__(RawKernel)
        kernel._init(self, name)
        assert kernel.kernel
        return kernel


class RawKernel:
    """`cupy.RawKernel`."""

    def __init__(
        self,
        code: str,
        name: str,
        options: Sequence[str] = (),
        backend: str = "nvrtc",
        translate_cucomplex: bool = False,
        *,
        enable_cooperative_groups: bool = False,
        jitify: bool = False,
    ) -> None:
        self._init(RawModule(code=code, options=options, backend=backend, jitify=jitify), name)

    def _init(self, module: RawModule, name: str) -> None:
        self._raw_module, self.name = module, name
        self.code, self.options, self.backend = module.code, module.options, module.backend
        self._functions: dict[int, Function] = {}

    def compile(self, log_stream: Any = None) -> None:
        """Now, not at the first launch."""
        assert self.kernel

    @property
    def kernel(self) -> Function:
        """The kernel on the current device."""
        device = thread.device
        if device not in self._functions or self._functions[device].ptr not in world().functions:
            self._raw_module._load()
            self._functions[device] = Function(_Loaded(self._raw_module._text, self.name, device))
        return self._functions[device]

    def __call__(self, grid: Any, block: Any, args: Any, **kwargs: Any) -> None:
        self.kernel(grid, block, args, **kwargs)

    def _attribute(self, number: int) -> int:
        return driver.funcGetAttribute(number, self.kernel.ptr)

    max_threads_per_block = property(lambda self: self._attribute(0))
    shared_size_bytes = property(lambda self: self._attribute(1))
    const_size_bytes = property(lambda self: self._attribute(2))
    local_size_bytes = property(lambda self: self._attribute(3))
    num_regs = property(lambda self: self._attribute(4))
    ptx_version = property(lambda self: self._attribute(5))
    binary_version = property(lambda self: self._attribute(6))
    cache_mode_ca = property(lambda self: self._attribute(7))

    @property
    def max_dynamic_shared_size_bytes(self) -> int:
        """How much shared memory a launch may ask for."""
        return self._attribute(8)

    @max_dynamic_shared_size_bytes.setter
    def max_dynamic_shared_size_bytes(self, size: int) -> None:
        driver.funcSetAttribute(self.kernel.ptr, 8, size)

    @property
    def preferred_shared_memory_carveout(self) -> int:
        """A hint, here without effect."""
        return self._attribute(9)

    @preferred_shared_memory_carveout.setter
    def preferred_shared_memory_carveout(self, fraction: int) -> None:
        driver.funcSetAttribute(self.kernel.ptr, 9, fraction)

    @property
    def attributes(self) -> dict[str, int]:
        """All of the above."""
        names = "max_threads_per_block shared_size_bytes const_size_bytes local_size_bytes num_regs ptx_version"
        names += " binary_version cache_mode_ca max_dynamic_shared_size_bytes preferred_shared_memory_carveout"
        return {name: getattr(self, name) for name in names.split()}
