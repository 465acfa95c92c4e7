"""The emulated machine of this process, and each thread's current device and streams."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

from atled_cuda_emulator.errors import CUDARuntimeError
from atled_cuda_emulator.launching import Function
from atled_cuda_emulator.memory import Memory
from atled_cuda_emulator.queues import Machine, Queue


@dataclass
class World:
    """What `install` makes."""

    devices: int
    memory_limit: int  # bytes of each device
    machine: Machine
    memory: Memory
    functions: dict[int, Function]  # by handle
    peers: set[tuple[int, int]]  # (device, peer): the first may use memory of the second


class Thread(threading.local):
    """What CUDA and CuPy keep per thread."""

    def __init__(self) -> None:
        self.device = 0
        self.streams: dict[int, Any] = {}  # CuPy's current stream of each device; none: the null stream


_world: World | None = None
thread = Thread()


def world() -> World:
    """The one that is installed."""
    if _world is None:
        raise RuntimeError("the emulator of CUDA is not installed: call atled_cuda_emulator.install()")
    return _world


def make_world(devices: int, memory_limit: int) -> None:
    """A new machine with nothing in its memory."""
    global _world, thread
    _world = World(devices, memory_limit, Machine(devices), Memory(), {}, set())
    thread.__init__()  # type: ignore[misc]  # of this thread; others have not touched a device


def queue(handle: int) -> Queue:
    """The stream with this handle; 0 is the null stream of the current device."""
    return world().machine.queue(handle, thread.device)


def check_device(device: int) -> int:
    """A device id that there is."""
    if not 0 <= device < world().devices:
        raise CUDARuntimeError(101)
    return device
