"""Driver calls that fail when a test wants them to."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from atled_cuda_emulator.errors import CUBLASError, CUDADriverError, CUDARuntimeError

# The calls that can fail, with the error that each gives where none is named.
CALLS: dict[str, tuple[type[Exception], int]] = {
    "malloc": (CUDARuntimeError, 2),
    "hostAlloc": (CUDARuntimeError, 2),
    "free": (CUDARuntimeError, 700),
    "launchKernel": (CUDADriverError, 719),
    "memcpy": (CUDARuntimeError, 700),
    "memset": (CUDARuntimeError, 700),
    "synchronize": (CUDARuntimeError, 700),
    "streamCreate": (CUDARuntimeError, 2),
    "streamBeginCapture": (CUDARuntimeError, 900),
    "streamEndCapture": (CUDARuntimeError, 901),
    "graphInstantiate": (CUDARuntimeError, 2),
    "graphLaunch": (CUDARuntimeError, 719),
    "eventCreate": (CUDARuntimeError, 2),
    "eventRecord": (CUDARuntimeError, 400),
    "eventQuery": (CUDARuntimeError, 700),
    "streamWaitEvent": (CUDARuntimeError, 400),
    "moduleLoad": (CUDADriverError, 2),
    "setDevice": (CUDARuntimeError, 101),
    "getDeviceCount": (CUDARuntimeError, 35),
    "cublasCreate": (CUBLASError, 1),
    "gemm": (CUBLASError, 13),
}


@dataclass
class _Planned:
    call: str
    wait: int  # for so many calls
    times: int
    status: int | None
    lost: bool


_planned: list[_Planned] = []
_counts: Counter[str] = Counter()
_owner: int | None = None
_lost: tuple[type[Exception], int] | None = None


def counts() -> dict[str, int]:
    """How often each driver call was made since `install`."""
    return dict(_counts)


def reset() -> None:
    """No faults planned, no device lost, no call counted."""
    global _owner, _lost
    _planned.clear()
    _counts.clear()
    _owner = _lost = None


@contextmanager
def fault(
    call: str, nth: int = 1, times: int = 1, status: int | None = None, device_lost: bool = False
) -> Iterator[None]:
    """Let the nth such call from here on fail, and the next `times` - 1. status: CUDA's or cuBLAS's number of it;
    device_lost: every driver call behind it fails as well, until the block ends, as after a kernel's fault."""
    global _lost
    if call not in CALLS:
        raise ValueError(f"no driver call {call!r} here; there are {', '.join(sorted(CALLS))}")
    planned = _Planned(call, nth, times, status, device_lost)
    _planned.append(planned)
    try:
        yield
    finally:
        _planned.remove(planned)
        _lost = None


class _Thread(threading.local):
    """has_context: whether the thread has called what makes the device's context its current one."""

    has_context = False


_thread = _Thread()


def ensure_context() -> None:
    """What CuPy does before it calls the driver itself, and every call of the runtime library."""
    _thread.has_context = True


def driver_call(call: str) -> None:
    """To be called at the start of each driver call: counts it, and raises what is due."""
    global _owner, _lost
    _counts[call] += 1
    if call == "launchKernel":  # the driver's own, which leaves contexts to its callers
        if not _thread.has_context:
            raise CUDADriverError(201)
    elif call != "getDeviceCount":
        ensure_context()
    if _owner is None:
        _owner = os.getpid()
    elif _owner != os.getpid():
        raise CUDARuntimeError(3)  # CUDA does not work in a child of a process that has used it
    if _lost is not None:
        kind, status = _lost
        raise kind(status)
    for planned in _planned:
        if planned.call == call:
            planned.wait -= 1
            if planned.wait <= 0 and planned.times > 0:
                planned.times -= 1
                kind, status = CALLS[call]
                status = planned.status or status
                if planned.lost:
                    _lost = (CUDARuntimeError, status)
                raise kind(status)
