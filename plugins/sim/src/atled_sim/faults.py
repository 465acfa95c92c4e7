"""Fault injection: make the n-th allocation, copy or launch of a simulated device fail."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

from atled.plugin import DeviceLostError, did_you_mean, four_parts, listing, lock_across_forks

OPERATIONS = (
    "allocation",
    "upload",
    "download",
    "copy",
    "fill",
    "launch",
    "table copy",
    "program",
    "replay",
    "synchronization",
)


class SimFault(RuntimeError):
    """A failure of a simulated device that a test asked for."""


class Fault:
    """One failure to come.

    seen: operations of its kind so far.  happened: whether it struck.
    """

    def __init__(self, operation: str, nth: int, device_id: str | None) -> None:
        self.operation = operation
        self.nth = nth
        self.device_id = device_id
        self.seen = 0

    @property
    def happened(self) -> bool:
        """Whether it struck."""
        return self.seen >= self.nth

    def strikes(self, operation: str, device_ids: Collection[str]) -> bool:
        """Whether this operation, of one device or between two, is the one that fails."""
        if operation != self.operation or not (self.device_id is None or self.device_id in device_ids):
            return False
        self.seen += 1
        return self.seen == self.nth


class Loss(Fault):
    """The loss of a device: from one operation on all fail."""

    def strikes(self, operation: str, device_ids: Collection[str]) -> bool:
        """Whether this operation finds the device lost."""
        return super().strikes(operation, device_ids) or (self.happened and self.device_id in device_ids)


_lock = lock_across_forks()  # re-entrant, as that of a device
_active: list[Fault] = []


@contextmanager
def fail(operation: str, nth: int = 1, *, device_id: str | None = None) -> Iterator[Fault]:
    """Within the block, the nth operation of a kind raises SimFault; those before and after it succeed.

        with atled_sim.faults.fail("upload", nth=2):
            loss.forward()

    operation: "allocation", "upload", "download", "copy" (within a device, or from another one), "launch", "table copy"
        (of run-time words), "program" (its recording), "replay", "fill" or "synchronization".  nth: counted from 1, in
        all threads together.
    device_id: count on this device only.
    ValueError: an unknown operation, or nth below 1.
    """
    with _in_force(Fault(operation, nth, device_id), f"faults.fail({operation!r}, nth={nth})") as fault:
        yield fault


@contextmanager
def lose(device_id: str, operation: str = "launch", nth: int = 1) -> Iterator[Fault]:
    """Within the block, the device is lost at the nth operation of a kind: that one and all behind it fail.

    They raise DeviceLostError; arguments and errors are those of `fail`. Behind the block it is there again, and so is
    its memory.
    """
    with _in_force(Loss(operation, nth, device_id), f"faults.lose({device_id!r}, {operation!r}, nth={nth})") as fault:
        yield fault


@contextmanager
def _in_force(fault: Fault, asked: str) -> Iterator[Fault]:
    operation, nth = fault.operation, fault.nth
    if operation not in OPERATIONS:
        known = f"it is one of {listing(OPERATIONS)}"
        raise ValueError(
            four_parts(asked, "unknown operation", known, did_you_mean(operation, OPERATIONS, "use one of these"))
        )
    if nth < 1:
        raise ValueError(four_parts(asked, "operations are counted from 1", "", "use nth=1 for the next one"))
    with _lock:
        _active.append(fault)
    try:
        yield fault
    finally:
        with _lock:
            _active.remove(fault)


def check(operation: str, device_id: str, what: Callable[[], str], source_id: str = "") -> None:
    """Called by a device before each operation; raises where one is to fail.

    what: the operation in words.  source_id: the other device that it reaches, if there is one.
    """
    if not _active:
        return
    with _lock:
        striking = [fault for fault in _active if fault.strikes(operation, (device_id, source_id))]
    lost = next((fault.device_id for fault in striking if isinstance(fault, Loss)), None)
    if lost is not None:
        raise DeviceLostError(f"SimArray:{lost}", f"{what()} found nothing there")
    if striking:
        raise SimFault(
            four_parts(
                what(), f"it failed: {operation} {striking[0].nth} was to", "", "leave the block faults.fail(...)"
            )
        )
