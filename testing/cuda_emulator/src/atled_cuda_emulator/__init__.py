"""CUDA C kernels on the CPU, and a strict stand-in for CuPy to launch them with, for tests without a GPU."""

from __future__ import annotations

import importlib.machinery
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from atled_cuda_emulator import compiling as _compiling
from atled_cuda_emulator import faults as _faults
from atled_cuda_emulator import launching as _launching
from atled_cuda_emulator.compiling import compile_bundle, unusable
from atled_cuda_emulator.errors import DeviceFault
from atled_cuda_emulator.faults import counts, fault

__all__ = [
    "DeviceFault",
    "check_memory",
    "checked_accesses",
    "compared_orders",
    "compile_bundle",
    "counts",
    "deferred",
    "fault",
    "install",
    "installed",
    "thread_order",
    "uninstall",
    "unusable",
]
__version__ = "0.1.0"

_CUPY_VERSION = "14.2.0+emulator"
_MEMORY_LIMIT = 16 << 30  # bytes of a device, where `install` is told nothing else


def installed() -> bool:
    """Whether `import cupy` gives the stand-in."""
    return getattr(sys.modules.get("cupy"), "__emulator__", False)


def install(devices: int = 2, memory_limit: int | None = None) -> types.ModuleType:
    """Let `import cupy` give a stand-in with so many empty devices of `memory_limit` bytes each. Again: a new machine,
    for arrays of the one before there is no use any more."""
    from atled_cuda_emulator.stand_in import memory, modules, world

    if "cupy" in sys.modules and not installed():
        raise RuntimeError("the real CuPy was imported in this process; install the emulator before")
    _faults.reset()
    world.make_world(devices, _MEMORY_LIMIT if memory_limit is None else memory_limit)
    memory.reset()
    made = modules.make(_CUPY_VERSION)
    for name, module in made.items():
        module.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=name in ("cupy", "cupy.cuda"))
        sys.modules[name] = module
    return made["cupy"]


def uninstall() -> None:
    """Let `import cupy` find what is installed, or fail."""
    if installed():
        for name in [name for name in sys.modules if name == "cupy" or name.startswith("cupy.")]:
            del sys.modules[name]


@contextmanager
def deferred() -> Iterator[None]:
    """Within: streams do their work when something waits for them, and no more of it than that needs."""
    from atled_cuda_emulator.stand_in.world import world

    machine = world().machine
    before, machine.deferred = machine.deferred, True
    try:
        yield
    finally:
        machine.deferred = before
        for device in range(world().devices):
            machine.drain_all(device)


@contextmanager
def compared_orders(launches: int) -> Iterator[None]:
    """Within: so many launches of each kernel with barriers run with threads forward, in reverse and at random. What
    they leave in the memory that their arguments point to must be the same to the last bit, else DeviceFault."""
    before, _launching.order.compared = _launching.order.compared, launches
    try:
        yield
    finally:
        _launching.order.compared = before


@contextmanager
def checked_accesses() -> Iterator[None]:
    """Within: kernels whose modules are made here are compiled so that reads and writes outside of all memory of the
    device, misaligned ones, overflows of signed numbers and indices beyond arrays are DeviceFaults. Slow; needs g++."""
    before, _compiling.checked = _compiling.checked, True
    try:
        yield
    finally:
        _compiling.checked = before


@contextmanager
def thread_order(threads: str, shuffle_blocks: bool = False, seed: int = 0) -> Iterator[None]:
    """Within: threads of a block run "forward", in "reverse" (blocks, too), or at "random"; and blocks at random."""
    if threads not in _launching.THREAD_ORDERS:
        raise ValueError(f"threads run {', '.join(_launching.THREAD_ORDERS)}, not {threads!r}")
    order = _launching.order
    before: dict[str, Any] = dict(vars(order))
    order.threads, order.shuffle_blocks, order.seed = threads, shuffle_blocks, seed
    try:
        yield
    finally:
        vars(order).update(before)


def check_memory() -> None:
    """Raise DeviceFault if something was written beside any allocation; launches look at those of their arguments."""
    from atled_cuda_emulator.stand_in.world import world

    world().memory.check_all()
