"""From the text of a kernel to a function: compiled ahead in threads, identical texts once."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from atled.plugin import ArrayDesc, register_cache
from atled_cuda_cupy import cupy_names as cp
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
    """A function of a module that is compiled, or will be.

    ptr: of the function, waits for the compiler.
    """

    def __init__(self, module: Future[Any], name: str, shared: int) -> None:
        self._module = module
        self._name = name
        self._shared = shared

    @functools.cached_property
    def ptr(self) -> int:
        """The driver's handle. Raises what the compiler found wrong."""
        function = self._module.result().get_function(self._name)
        if self._shared > 48 * 1024:  # more is to be asked for
            function.max_dynamic_shared_size_bytes = self._shared
        ptr: int = function.kernel.ptr
        return ptr


def function(where: Device, text: str, name: str, shared: int = 0) -> Function:
    """A function of a text; compiling begins at once, and nobody waits for it here."""
    key = where.number, text
    with where.lock:
        module = _modules.get(key)
        if module is None:
            if len(_modules) >= _LIMIT:
                _modules.pop(next(iter(_modules)))
            module = _modules[key] = _threads().submit(_compile, where, text)
    return Function(module, name, shared)


_modules: dict[tuple[int, str], Future[Any]] = {}
register_cache("cuda kernels", lambda: len(_modules), _modules.clear)


@functools.cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(min(_MOST_THREADS, os.cpu_count() or 1), "atled-cuda-compiler")


def _compile(where: Device, text: str) -> Any:  # Any: a RawModule
    with where:
        module = cp.RawModule(code=text, options=OPTIONS)
        module.compile()
        return module
