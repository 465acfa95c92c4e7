"""A pytest plugin: the cpu plugin's kernels run on an emulated processor, everything else on this machine's.

`ATLED_CPU=sapphirerapids,-amx-tile,-amx-bf16,-amx-int8 pytest -p emulated_kernels`; `make check-emulated` does that.
Kernels are compiled for what ATLED_CPU names, or are those in the package's archive. Their addresses are jumps, on two
pages of memory: the one that this machine executes has jumps into the emulation, and the one that the emulated
processor sees instead has jumps to the machine code, for kernels that call others.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import pytest

from atled_cpu_numba import machine_code, matrix_unit, processor, store
from atled_cpu_numba.machine_code import ObjectCode
from emulated_processor import EmulatedProcessor, EmulationError, pages, write_jump

_JUMP_BYTES = 16
_JUMPS_BYTES = 1 << 20
_PAGE = 1 << 12
_FAILED = 9999  # what a kernel returns that the emulated processor did not get to the end of; none has this code

_SIGNATURE = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)


class Caller(Protocol):
    """What executes functions: `EmulatedProcessor`."""

    replaced: dict[int, int]

    def call(self, address: int, *words: int) -> int:
        """What the function at `address` returns."""


class Emulation:
    """Kernels that run emulated.

    calls: of kernels, by name.  seconds: by name, those taken.  faults: what went wrong, in words.
    """

    def __init__(self, emulated: Caller) -> None:
        self.calls: Counter[str] = Counter()
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.faults: list[str] = []
        self._processor = emulated
        self._here, self._there = pages(_JUMPS_BYTES), pages(_JUMPS_BYTES)
        for offset in range(0, _JUMPS_BYTES, _PAGE):
            emulated.replaced[self._here + offset] = self._there + offset
        self._closures: list[Any] = []  # that the jumps lead to, and their number

    def address(self, name: str, code: int) -> int:
        """An address that stands for the kernel whose machine code is at `code`."""
        closure = _SIGNATURE(lambda *words: self._run(name, code, words))
        offset = len(self._closures) * _JUMP_BYTES
        if offset == _JUMPS_BYTES:
            raise EmulationError(f"more than {_JUMPS_BYTES // _JUMP_BYTES} kernels in one process: run fewer tests")
        self._closures.append(closure)
        write_jump(self._here + offset, ctypes.cast(closure, ctypes.c_void_p).value or 0)
        write_jump(self._there + offset, code)
        return self._here + offset

    def _run(self, name: str, code: int, words: tuple[int, ...]) -> int:
        start = time.perf_counter()
        try:
            return self._processor.call(code, *words)
        except EmulationError as error:  # nothing may be raised through the native caller, which takes a code
            self.faults.append(f"{name}: {error}")
            print(self.faults[-1], file=sys.stderr)  # with the test that it belongs to
            return _FAILED
        finally:
            self.calls[name] += 1
            self.seconds[name] += time.perf_counter() - start


def is_kernel(kernel: Any) -> bool:
    """Whether code is a kernel: int64 kernel(int64, int64, int64), without the interpreter and without threads."""
    if isinstance(kernel, store.Kernel):
        return True
    head = rf'define (dso_local )?i64 @"?{re.escape(kernel.name)}"?\(i64[^,)]*, i64[^,)]*, i64[^,)]*\)'
    return not kernel.python_api and re.search(head, kernel.ir) is not None


def _emulate(emulation: Emulation) -> None:
    """Have kernels that are first asked for from now on run emulated."""
    obtain: Callable[[Any], int] = store._StoredKernel._obtain

    def obtain_emulated(self: Any) -> int:
        if is_kernel(self):
            return emulation.address(self.name, obtain(self))
        with _for_this_machine():
            return self._load(self._compile())  # not from the store, whose key names the other processor

    store._StoredKernel._obtain = obtain_emulated  # type: ignore[method-assign]  # for the rest of the process
    load = machine_code.load

    # Never freed: the emulated processor keeps what it has decoded, and is not told of other code at the same place.
    def load_for_good(compiled: ObjectCode, owner: object = None) -> int:
        return load(compiled)

    machine_code.load = load_for_good
    processor.missing_here = lambda processor: ()
    matrix_unit._is_granted = lambda: True


@contextlib.contextmanager
def _for_this_machine() -> Iterator[None]:
    chosen = processor.target
    processor.target = processor.host
    try:
        yield
    finally:
        processor.target = chosen


class _Report:
    """Hooks that tell what ran, and end the process."""

    def __init__(self, emulation: Emulation) -> None:
        self._emulation = emulation
        self._status = 0

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        calls, line = self._emulation.calls, terminalreporter.write_line
        line(f"{calls.total()} calls of {len(calls)} kernels ran emulated, for {processor.target().name}")
        slowest = sorted(self._emulation.seconds.items(), key=lambda item: -item[1])[:5]
        line("longest: " + ", ".join(f"{name} {seconds:.0f} s in {calls[name]}" for name, seconds in slowest))
        for fault in self._emulation.faults:
            line(f"FAULT {fault}")

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        self._status = int(exitstatus) or int(bool(self._emulation.faults))

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(self._status)  # Bochs does not survive the end of the interpreter


def pytest_configure(config: pytest.Config) -> None:
    """Have kernels run emulated, in each process that runs tests."""
    if getattr(config.option, "numprocesses", None):  # others do, and tell with each failed test what went wrong
        return
    try:
        emulation = Emulation(EmulatedProcessor())
    except EmulationError as error:
        raise pytest.UsageError(str(error)) from error
    _emulate(emulation)
    config.pluginmanager.register(_Report(emulation))
