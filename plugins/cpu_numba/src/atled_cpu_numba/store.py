"""Kernels that are compiled when first needed, once per machine; later processes load them without numba."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import json
import os
import platform
import struct
import sys
import threading
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from atled_cpu_numba import kernel_texts, machine_code, object_files, processor, progress, shipped_objects, sources
from atled_cpu_numba.machine_code import KernelError, ObjectCode
from atled_cpu_numba.object_files import StoreWarning
from atled_cpu_numba.progress import set_progress

__all__ = ["IRKernel", "Kernel", "KernelError", "StoreWarning", "TransientKernel", "registered", "set_progress", "warm"]

# Settings of numba that change the code it makes.
_NUMBA_SETTINGS = (
    "NUMBA_BOUNDSCHECK",
    "NUMBA_CPU_FEATURES",
    "NUMBA_CPU_NAME",
    "NUMBA_DEBUGINFO",
    "NUMBA_ENABLE_AVX",
    "NUMBA_LOOP_VECTORIZE",
    "NUMBA_OPT",
    "NUMBA_SLP_VECTORIZE",
)

_registered: weakref.WeakValueDictionary[int, Kernel] = weakref.WeakValueDictionary()  # by identity, while they live

_lock = threading.RLock()  # reentrant: the build of one kernel may ask for another one
_is_waited_for = False  # whether the thread that forks has it
_PATIENCE_S = 60.0  # of a fork, for the kernel that another thread compiles: seconds at most, unless it waits in turn


class _StoredKernel:
    """What both sorts of kernels share: load from the store, or compile and store."""

    __slots__ = ("_address", "_fingerprint", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self._address = 0
        self._fingerprint = ""

    def fingerprint(self) -> str:
        """Key in the store: 64 hexadecimal digits over everything that the compiled code depends on."""
        if not self._fingerprint:
            identity = json.dumps([object_files.FORMAT, self.name, *_machine(), *self._identity()])
            self._fingerprint = hashlib.sha256(identity.encode()).hexdigest()
        return self._fingerprint

    def is_near(self) -> bool:
        """Whether it is loaded by this process, or in the package: LLVM is not asked, as it is for the store."""
        return bool(self._address) or self._is_shipped()

    def is_stored(self) -> bool:
        """Whether `address` is likely to be quick: loaded by this process, or there is a file in the store."""
        return self.is_near() or object_files.is_stored(self.fingerprint())

    def address(self) -> int:
        """Address of the machine code, valid until the process ends, or as long as a transient kernel lives.

        The first call loads it from the package or the store, or compiles and stores it (which takes from 10 ms to
        seconds); later ones only look it up. Raises KernelError if it cannot be compiled.
        """
        if not self._address:
            with _lock:
                if not self._address:
                    self._address = self._obtain()
        return self._address

    def _obtain(self) -> int:
        # The package's first: so a result does not depend on what is stored.
        compiled = shipped_objects.find(self.shipped_key()) if self._is_shipped() else None
        if compiled is not None and machine_code.is_loadable(compiled):
            return self._load(compiled)
        key = self.fingerprint()
        compiled = object_files.read(key)
        if compiled is not None and machine_code.is_loadable(compiled):
            return self._load(compiled)
        with progress.compiling(self.name):
            compiled = self._compile()
        object_files.write(key, self.name, compiled)
        return self._load(compiled)

    def _load(self, compiled: ObjectCode) -> int:
        return machine_code.load(compiled)

    def shipped_key(self) -> str:
        """Key among the objects of the package: 64 hexadecimal digits over all that LLVM is given to compile."""
        raise NotImplementedError

    def _is_shipped(self) -> bool:
        return shipped_objects.has(self.shipped_key())

    def _identity(self) -> list[Any]:  # whatever JSON can write
        raise NotImplementedError

    def _compile(self) -> ObjectCode:
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


class Kernel(_StoredKernel):
    """A kernel written in Python for numba: int64 kernel(int64 block, int64 part, int64 parts).

    name: for messages, and part of the key.
    build: called without arguments, and only if the kernel must be compiled: imports numba and `codegen` and returns
        the plain Python function to compile. `codegen.JIT` are its options, unless it has an attribute `jit_options`
        with others. A numba cfunc of the same signature is taken as it is.
    parameters: every value that `build` closes over and the code depends on, such as a dtype's name or a vector
        width: None, bool, int, float, str or tuples of them.
    sources: names of modules, or paths of files, that the code comes from in addition to the files that `build` is
        written in and what they import of this plugin.

    A kernel neither raises nor allocates: it returns 0 or a positive error code.
    """

    __slots__ = ("__weakref__", "_text_key", "build", "parameters", "sources")

    def __init__(
        self,
        name: str,
        build: Callable[[], Callable[..., int]],
        *,
        parameters: tuple[Any, ...] = (),
        sources: tuple[str, ...] = (),
    ) -> None:
        super().__init__(name)
        _check_parameters(name, parameters)
        self.build = build
        self.parameters = parameters
        self.sources = sources
        self._text_key = ""
        _registered[id(self)] = self

    def text_key(self) -> str:
        """Key in the archive of texts: 64 hexadecimal digits over everything that numba's IR depends on."""
        if not self._text_key:
            from atled_cpu_numba.kernels.shared.lanes import host_lanes  # asks LLVM, which importing must not

            identity = [kernel_texts.FORMAT, self.name, *self._written_from(), host_lanes()]
            self._text_key = hashlib.sha256(json.dumps(identity).encode()).hexdigest()
        return self._text_key

    def shipped_key(self) -> str:
        return self.text_key()

    def _is_shipped(self) -> bool:
        return not _numba_settings() and super()._is_shipped()

    def _identity(self) -> list[Any]:
        return ["numba", *self._written_from(), *_numba_toolchain()]

    def _written_from(self) -> list[Any]:
        """The values and the digests of the sources that the kernel is made of."""
        files = [*_build_files(self.build), *(_source_file(source) for source in self.sources)]
        return [repr(self.parameters), sources.digests(files)]

    def _compile(self) -> ObjectCode:
        if not _numba_settings():  # else they are meant to change what numba writes
            text = kernel_texts.find(self.text_key())
            if text is not None:
                return machine_code.compile_ir(self.name, text)
        # Imports numba, which is why it is not at the top.
        from atled_cpu_numba.codegen import JIT

        return machine_code.compile_function(self.name, self.build, JIT)


class IRKernel(_StoredKernel):
    """A kernel, or any other function, written as textual LLVM IR.

    name: of the function in the IR, which may be of any type.  ir: the whole module; no triple or data layout needed.
    python_api: whether the code may call CPython; only for functions that are called with the interpreter lock held.
    """

    __slots__ = ("ir", "python_api")

    def __init__(self, name: str, ir: str, *, python_api: bool = False) -> None:
        super().__init__(name)
        self.ir = ir
        self.python_api = python_api

    def shipped_key(self) -> str:
        return hashlib.sha256(self.ir.encode()).hexdigest()

    def _identity(self) -> list[Any]:
        # The version of Python, since its functions may be macros or differ between versions.
        python = list(sys.version_info) if self.python_api else []
        return ["ir", hashlib.sha256(self.ir.encode()).hexdigest(), python]

    def _compile(self) -> ObjectCode:
        return machine_code.compile_ir(self.name, self.ir, python_api=self.python_api)


class TransientKernel(IRKernel):
    """A kernel of which there may be any number: its machine code is freed with it, and its text once that is loaded.

    Whoever has the address holds the kernel (`Native.owner`).
    """

    __slots__ = ("__weakref__",)

    def _load(self, compiled: ObjectCode) -> int:
        address = machine_code.load(compiled, self)
        self.ir = ""
        return address


def registered(folder: str) -> list[Kernel]:
    """The kernels made so far whose `build` is written in a file below `folder`."""
    from pathlib import Path  # lazy: catalogues and tests ask, and it takes 5 ms

    # A list of references: another thread may make kernels meanwhile, by an import.
    kernels = [kernel for reference in _registered.valuerefs() if (kernel := reference()) is not None]
    return [kernel for kernel in kernels if Path(_build_files(kernel.build)[0]).is_relative_to(folder)]


def warm(kernels: Iterable[Kernel | IRKernel]) -> None:
    """Compile those of `kernels` that the store does not have yet, with progress (see `set_progress`)."""
    missing = [kernel for kernel in kernels if not kernel.is_stored()]
    progress.expect(len(missing))
    for kernel in missing:
        kernel.address()


def _check_parameters(name: str, value: Any) -> None:
    """Refuse values whose text differs between processes or does not tell them apart."""
    if isinstance(value, tuple):
        for item in value:
            _check_parameters(name, item)
    elif value is not None and not isinstance(value, (bool, int, float, str)):
        raise TypeError(
            f"Kernel({name!r}): the parameter {value!r} cannot be part of a key. "
            "Give None, bool, int, float, str or tuples of them, such as a dtype's name."
        )


@functools.cache
def _machine() -> list[Any]:
    """What every compiled kernel depends on."""
    cpu, features = processor.target()
    llvmlite, _ = processor.versions()
    return [llvmlite, sys.platform, platform.machine(), struct.calcsize("P"), sys.byteorder, cpu, features]


@functools.cache
def _numba_toolchain() -> list[Any]:
    """What kernels by numba depend on besides, asked without importing numba."""
    import importlib.metadata  # lazy: 15 ms, and kernels that the package brings do not ask

    return [
        importlib.metadata.version("numba"),
        np.__version__,
        list(sys.version_info),
        sys.implementation.name,
        _numba_settings(),
    ]


def _numba_settings() -> dict[str, str]:
    return {name: os.environ[name] for name in _NUMBA_SETTINGS if name in os.environ}


def _build_files(build: Any) -> list[str]:
    """The file that `build` is written in, whatever wraps it, and then those of the functions that it was given."""
    files: list[str] = []
    waiting, seen = [build], set()
    while waiting:
        value = waiting.pop()
        if not callable(value) or id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, functools.partial):
            waiting += [*value.keywords.values(), *value.args, value.func]
        elif hasattr(value, "__wrapped__"):
            waiting.append(value.__wrapped__)
        elif hasattr(value, "__code__"):
            files.append(value.__code__.co_filename)
            waiting += [cell.cell_contents for cell in value.__closure__ or ()]
    return files


@functools.cache
def _source_file(source: str) -> str:
    """The file of a module's name; a path is taken as it is."""
    if source.endswith(".py"):
        return source
    spec = importlib.util.find_spec(source)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"no source file for {source!r}, which a kernel names among its sources", name=source)
    return spec.origin


def _before_fork() -> None:
    """Wait until no other thread compiles: llvmlite's lock, and what LLVM has under way, would stay so in the child."""
    global _is_waited_for
    _is_waited_for = _lock.acquire(timeout=_PATIENCE_S)


def _after_fork_in_parent() -> None:
    if _is_waited_for:
        _lock.release()


def _after_fork_in_child() -> None:
    global _lock
    _lock = threading.RLock()  # another thread of the parent may have held it for longer


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
