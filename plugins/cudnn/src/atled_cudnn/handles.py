"""cuDNN's handles: one per thread and device, destroyed when the thread ends."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from atled_cudnn import cupy_names as cp
from atled_cudnn.library import check, library


class Handle:
    """One of cuDNN's handles. address: of it.  stream: which it was told last."""

    __slots__ = ("_library", "_process", "address", "device", "stream")

    def __init__(self, device: int) -> None:
        self.address: int | None = None
        self.device = device
        self.stream = 0
        self._library = library()
        self._process = os.getpid()
        made = ctypes.c_void_p()
        check(self._library.cudnnCreate(ctypes.byref(made)), f"a handle of cuDNN on device {device}")
        self.address = made.value

    def on_stream(self, stream: int) -> int | None:
        """Its address, once it works on a stream."""
        if stream != self.stream:
            check(self._library.cudnnSetStream(self.address, stream), "cudnnSetStream")
            self.stream = stream
        return self.address

    def __del__(self) -> None:
        # A child process has no use of its parent's handles, and at exit the driver may be gone already.
        if self.address and self._process == os.getpid() and not sys.is_finalizing():
            with on_device(self.device):
                self._library.cudnnDestroy(self.address)


class _Thread(threading.local):
    def __init__(self) -> None:
        self.handles: dict[int, Handle] = {}


_thread = _Thread()


def handle(device: int) -> int | None:
    """The address of this thread's handle on the device, which is current, set to CuPy's current stream."""
    found = _thread.handles.get(device)
    if found is None or found._process != os.getpid():
        found = _thread.handles[device] = Handle(device)
    return found.on_stream(cp.current_stream().ptr)


def forget() -> None:
    """Destroy the handles of this thread."""
    _thread.handles.clear()


@contextmanager
def on_device(device: int) -> Iterator[None]:
    """A block in which a device is current."""
    before = cp.runtime.getDevice()
    if before != device:
        cp.runtime.setDevice(device)
    try:
        yield
    finally:
        if before != device:
            cp.runtime.setDevice(before)
