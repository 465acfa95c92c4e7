"""Fault injection: make the n-th allocation, copy or launch of a simulated device fail."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from atled.plugin import did_you_mean, four_parts, listing

OPERATIONS = ("allocation", "upload", "download", "copy", "launch", "table copy", "program", "replay")


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

    def strikes(self, operation: str, device_id: str) -> bool:
        """Whether this operation is the one that fails."""
        if operation != self.operation or self.device_id not in (None, device_id):
            return False
        self.seen += 1
        return self.seen == self.nth


_lock = threading.Lock()
_active: list[Fault] = []


@contextmanager
def fail(operation: str, nth: int = 1, *, device_id: str | None = None) -> Iterator[Fault]:
    """Within the block, the nth operation of a kind raises SimFault; those before and after it succeed.

        with atled_sim.faults.fail("upload", nth=2):
            loss.forward()

    operation: "allocation", "upload", "download", "copy" (within a device, or from another one), "launch", "table copy"
        (of run-time words), "program" (its recording) or "replay".  nth: counted from 1, in all threads together.
    device_id: count on this device only.
    ValueError: an unknown operation, or nth below 1.
    """
    asked = f"faults.fail({operation!r}, nth={nth})"
    if operation not in OPERATIONS:
        known = f"it is one of {listing(OPERATIONS)}"
        raise ValueError(
            four_parts(asked, "unknown operation", known, did_you_mean(operation, OPERATIONS, "use one of these"))
        )
    if nth < 1:
        raise ValueError(four_parts(asked, "operations are counted from 1", "", "use nth=1 for the next one"))
    fault = Fault(operation, nth, device_id)
    with _lock:
        _active.append(fault)
    try:
        yield fault
    finally:
        with _lock:
            _active.remove(fault)


def check(operation: str, device_id: str, what: Callable[[], str]) -> None:
    """Called by a device before each operation; SimFault where one is to fail.  what: the operation in words."""
    if not _active:
        return
    with _lock:
        striking = [fault for fault in _active if fault.strikes(operation, device_id)]
    if striking:
        raise SimFault(
            four_parts(
                what(), f"it failed: {operation} {striking[0].nth} was to", "", "leave the block faults.fail(...)"
            )
        )
