"""The devices: what is known of each, its stream of work, and what makes it current in a thread."""

from __future__ import annotations

import functools
import os
import threading

from atled.plugin import four_parts, lock_across_forks
from atled_cuda_cupy import cupy_names as cp
from atled_cuda_cupy import faults
from atled_cuda_cupy.staging import Staging

_DEFAULTS = 2  # handles up to this are CUDA's default streams: of the process, legacy, of the thread


class _Thread(threading.local):
    """What a thread has done so far; touched: numbers of the devices; before: the devices to return to."""

    def __init__(self) -> None:
        self.touched: set[int] = set()
        self.before: list[int] = []


_thread = _Thread()


class Device:
    """One GPU. `with device:` makes it current, where there are several.

    number: as CUDA counts.  is_alone: whether it is the only one.  name: as the driver gives it.
    capability: 90 for 9.0.  multiprocessors: count.  shared_bytes: of shared memory that a block can have.
    threads: that a multiprocessor has at once.
    stream: where its work goes, but in a thread that has made another one current. A blocking one: it is in order with
        the legacy default stream, which CuPy and PyTorch use.
    loss: whether it is gone.  staging: pinned memory for copies.
    capture: held while a stream is captured; who waits for the whole device, or gives memory back, breaks captures.
    """

    def __init__(self, number: int, is_alone: bool) -> None:
        self.number = number
        self.is_alone = is_alone
        self.lock = lock_across_forks()
        self.capture = lock_across_forks()
        self.loss = faults.Loss(number)
        self.handle = cp.Device(number)
        attributes = self.handle.attributes
        self.name = cp.runtime.getDeviceProperties(number)["name"].decode()
        self.capability = int(self.handle.compute_capability)
        self.multiprocessors: int = attributes["MultiProcessorCount"]
        self.shared_bytes: int = attributes["MaxSharedMemoryPerBlockOptin"]
        self.threads: int = attributes["MaxThreadsPerMultiProcessor"]
        with self.handle:
            self.stream = cp.Stream(non_blocking=False)
        self.staging = Staging(self.stream)

    def blocks(self, count: int, block: int = 256, each: int = 1) -> int:
        """How many blocks of so many threads: enough for `count` elements, `each` per thread, or to fill the device."""
        return max(1, min(-(-count // (block * each)), self.multiprocessors * (self.threads // block)))

    def is_first_in_thread(self) -> bool:
        """Whether the thread has not made it current yet."""
        return self.number not in _thread.touched

    def must_be_entered(self) -> bool:
        """Whether `with device:` does anything but tell the errors of what is in it."""
        return not self.is_alone or self.loss.refusal is not None or self.number not in _thread.touched

    def __enter__(self) -> Device:
        if self.loss.refusal is not None:
            raise self.loss.refusal()
        if self.is_alone:
            if self.number not in _thread.touched:
                self._begin()
            return self
        before = cp.runtime.getDevice()
        if before != self.number:
            cp.runtime.setDevice(self.number)
        if self.number not in _thread.touched:
            self._begin()
        _thread.before.append(before)
        return self

    def _begin(self) -> None:
        """The first use in a thread."""
        cp.runtime.setDevice(self.number)  # makes its context current, which the driver's own functions need
        if cp.current_stream().ptr <= _DEFAULTS:
            self.stream.use()
        _thread.touched.add(self.number)

    def __exit__(self, kind: object, error: BaseException | None, *_: object) -> None:
        if not self.is_alone:
            before = _thread.before.pop()
            if before != self.number:
                cp.runtime.setDevice(before)
        if error is not None and isinstance(error, faults.errors()):
            assert isinstance(error, Exception)
            self.loss.tell(error)

    def __repr__(self) -> str:
        return f"<cuda device {self.number}: {self.name}>"


_lock = lock_across_forks()
_devices: dict[str, Device] = {}
_by_number: dict[int, Device] = {}
_ids: list[str] = []


def device(device_id: str) -> Device:
    """The device of an id, which is its number. ValueError: there is no such device."""
    return _devices.get(device_id) or _found(device_id)


def device_numbered(number: int) -> Device:
    """The device of a number."""
    return _by_number.get(number) or _found(str(number))


def is_lost(device_id: str) -> bool:
    """Whether nothing can be asked of a device any more: it failed, or its process is this one's parent."""
    known = _devices.get(device_id)
    return bool(_parent) or (known is not None and known.loss.refusal is not None)


def device_ids() -> list[str]:
    """The ids of all devices, which stay the same. Starts CUDA."""
    if not _ids:
        if _parent:
            raise faults.forked(_parent)
        _ids.extend(str(number) for number in range(cp.runtime.getDeviceCount()))
    return list(_ids)


def _found(device_id: str) -> Device:
    with _lock:
        if _parent:
            raise faults.forked(_parent)
        ids = device_ids()
        if device_id not in ids:
            raise ValueError(
                four_parts(
                    f"device {device_id!r} of backend cuda",
                    "there is no such device",
                    f"devices here: {', '.join(ids) or 'none'}",
                    "give one of them as device_id; CUDA_VISIBLE_DEVICES hides and renumbers them",
                )
            )
        if device_id not in _devices:
            made = _devices[device_id] = Device(int(device_id), len(ids) == 1)
            _by_number[made.number] = made
        return _devices[device_id]


_parent = 0  # the process from which this one was forked, if that uses CUDA


def _before_fork() -> None:
    global _parent
    _parent = _parent or (os.getpid() if _ids else 0)


def _after_fork_in_parent() -> None:
    global _parent
    if _parent == os.getpid():
        _parent = 0


def _after_fork_in_child() -> None:
    for known in _devices.values():
        known.loss.refusal = functools.partial(faults.forked, _parent)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
