"""Kernels that compute nothing on request: what is left of the time of a step is that of the engine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from atled.plugin import reload_plugins

_blocks: list[object] = []


@contextmanager
def empty() -> Iterator[None]:
    """Within the block, kernels of backend `sim` are counted, but compute nothing: `with atled_sim.empty():`.

    Arrays keep what they had. Arrays are copied, but no run-time words; faults are not injected into launches, and
    counts are exact for one thread. All is decided again, on entering and on leaving, also for graphs that ran already.
    """
    block = object()
    _blocks.append(block)
    reload_plugins()  # prepared anew, so that nothing is asked at each launch
    try:
        yield
    finally:
        _blocks.remove(block)
        reload_plugins()


def is_empty() -> bool:
    """Whether kernels are to compute nothing."""
    return bool(_blocks)
