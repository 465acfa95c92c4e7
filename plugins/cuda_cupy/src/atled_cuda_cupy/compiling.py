"""From the text of a kernel to a function: compiled ahead in threads, identical texts once."""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from atled.plugin import ArrayDesc, lock_across_forks, register_cache, report_preparation
from atled_cuda_cupy import cupy_names as cp
from atled_cuda_cupy import kernel_files, machine
from atled_cuda_cupy.devices import Device

_FOLDER = Path(__file__).with_name("kernels")
_LIMIT = 4096
_MOST_THREADS = 16  # compilers at once; the texts of a plan are some dozens
OPTIONS = ("--std=c++17",)
_OF_PRELUDE = "FLOATS", "WORDS", "WIDE"

STORED_TYPES = {
    "float16": "half_t",
    "bfloat16": "bfloat_t",
    "float32": "float",
    "float64": "double",
    "int8": "signed char",
    "int16": "short",
    "int32": "int",
    "int64": "long long",
    "uint8": "unsigned char",
    "uint16": "unsigned short",
    "uint32": "unsigned int",
    "uint64": "unsigned long long",
    "bool": "bool",
}
"""How elements are stored, by dtype."""


def type_names(dtype: Any) -> tuple[str, str]:  # Any: what NumPy takes for a dtype
    """T and A of a dtype: as it is stored, as it is computed with (whole numbers as they are).

    KeyError: kernels have no such type.
    """
    name = np.dtype(dtype).name
    return STORED_TYPES[name], "float" if name in ("float16", "bfloat16") else STORED_TYPES[name]


def has_type(desc: ArrayDesc) -> bool:
    """Whether kernels have a type for its elements."""
    return desc.dtype.name in STORED_TYPES


@functools.cache
def template(name: str) -> str:
    """The text of kernels/NAME.cuh."""
    return (_FOLDER / f"{name}.cuh").read_text("utf-8")


def kernel_text(source: str, defines: Mapping[str, object]) -> str:
    """What is compiled: the prelude with what it wants to know, the other defines, the source.

    Defines such as T come behind the prelude, whose own names they may be.
    """
    lines = {name: f"#define {name} {value}" for name, value in defines.items()}
    ahead = [lines.pop(name) for name in _OF_PRELUDE if name in lines]
    return "\n".join((*ahead, template("prelude"), *lines.values(), source))


class Function:
    """A function of a text that is compiled, or will be.

    ptr: of the function, waits for the compiler.
    """

    def __init__(self, where: Device, module: Future[Any], name: str, shared: int) -> None:
        self._where = where
        self._module = module
        self._name = name
        self._shared = shared

    @functools.cached_property
    def ptr(self) -> int:
        """The driver's handle. Raises what the compiler found wrong."""
        with self._where:
            ptr: int = self._module.result().get_function(self._name).ptr
            if self._shared > _SHARED_BY_DEFAULT:
                cp.driver.funcSetAttribute(ptr, _MOST_DYNAMIC_SHARED, self._shared)
        return ptr


_SHARED_BY_DEFAULT = 48 * 1024
_MOST_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES


def function(where: Device, text: str, name: str, shared: int = 0) -> Function:
    """A function of a text; compiling begins at once, and nobody waits for it here."""
    key = where.number, text
    with where.lock:
        module = _modules.get(key)
        if module is None or (module.done() and module.exception() is not None):  # a failure is not kept
            if len(_modules) >= _LIMIT:
                _modules.pop(next(iter(_modules)))
            _progress.begin()
            module = _modules[key] = _threads().submit(_compile, where, text, name)
            _underway[module] = name
            module.add_done_callback(lambda done: _underway.pop(done, None))
    return Function(where, module, name, shared)


def underway() -> Mapping[str, Callable[[], object]]:
    """What is being compiled now, by name, and what waits for it."""
    return {f"{name} ({number})": module.result for number, (module, name) in enumerate([*_underway.items()], 1)}


_modules: dict[tuple[int, str], Future[Any]] = {}
_underway: dict[Future[Any], str] = {}
register_cache("cuda kernels", lambda: len(_modules), _modules.clear)


@functools.cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(min(_MOST_THREADS, os.cpu_count() or 1), "atled-cuda-compiler")


class _Progress:
    """The batch of kernels that is being prepared, for reports."""

    def __init__(self) -> None:
        self._lock = lock_across_forks()
        self._done = self._total = 0

    def begin(self) -> None:
        """One more."""
        with self._lock:
            self._total += 1

    def report(self, name: str) -> None:
        """One of them is compiled next."""
        report_preparation(_PLUGIN, self._done, self._total, name)

    def end(self, name: str) -> None:
        """One of them is there."""
        with self._lock:
            self._done += 1
            done, total = self._done, self._total
            if done == total:
                self._done = self._total = 0
        if done == total:
            report_preparation(_PLUGIN, done, total, name)


_PLUGIN = "cuda-cupy"
_progress = _Progress()


def _compile(where: Device, text: str, name: str) -> Any:  # Any: a cupy.cuda.function.Module
    """The module of a text, kept on disk by all that its machine code depends on."""
    try:
        with where:
            module = cp.Module()
            module.load(kernel_files.load(_key(where, text)) or _made(where, text, name))
            return module
    finally:
        _progress.end(name)


def _made(where: Device, text: str, name: str) -> bytes:
    _progress.report(name)
    # Not by RawModule, which has subnormal numbers be 0.
    code, _ = cp.compile_using_nvrtc(text, OPTIONS)
    code = code if isinstance(code, bytes) else code.encode()
    if not machine.emulator():  # which keeps what it compiles itself
        kernel_files.save(_key(where, text), code)
    return code


def _key(where: Device, text: str) -> str:
    parts = (cp.version, str(cp.nvrtc.getVersion()), str(where.capability), *OPTIONS, text)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
