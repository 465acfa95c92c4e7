"""Checking indices on the device, on request, as the kernels of real devices do: the host is told when it waits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from atled.plugin import Call, reload_plugins

_blocks: list[list[bool]] = []  # in each whether updates heed

WRONG = "an index is out of range"


@contextmanager
def defer_checks(*, heeded: bool = True) -> Iterator[None]:
    """Within the block, kernels of backend `sim` raise no IndexError: `with atled_sim.defer_checks():`.

    They write into the flag of the device, which makes updates behind them do nothing, and the host finds it there when
    it waits. All is decided again, on entering and on leaving, also for graphs that ran already.
    heeded: whether updates look at the flag themselves; else the host waits before it launches one.
    """
    block = [heeded]
    _blocks.append(block)
    reload_plugins()  # prepared anew, so that nothing is asked at each launch
    try:
        yield
    finally:
        _blocks[:] = [other for other in _blocks if other is not block]
        reload_plugins()


def may_fail(call: Call) -> bool:
    """Whether a kernel is to write into the flag: that of an op whose spec promises an IndexError for some values."""
    return bool(_blocks) and any(refused.error is IndexError for refused in call.spec.refused())


def heeds_failure(call: Call) -> bool:
    """Whether a kernel is to look at the flag: that of an op that changes arrays in place."""
    return bool(_blocks) and all(block[0] for block in _blocks) and bool(call.mutated or call.spec.inplace)


def guarded(compute: Callable[[], None], flag: np.ndarray, number: int, heeds: bool) -> None:
    """What a kernel does that may fail (number is not 0), or heeds the failure of another one."""
    if heeds and flag[0]:
        return
    try:
        compute()
    except IndexError:
        if not number:
            raise
        if not flag[0]:
            flag[0] = number
