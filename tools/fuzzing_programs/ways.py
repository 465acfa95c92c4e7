"""The ways in which a program is run, all of which have to give the same bits."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Any, NamedTuple

import atled as nn
import atled_sim
from atled.graph.run.programs import PROGRAMS
from fuzzing_programs.setting import Setting


class Way(NamedTuple):
    """One way.

    name: for what differs.  surroundings: what it is run in.  is_faulty: whether a device fails in it now and then.
    """

    name: str
    surroundings: Callable[[], AbstractContextManager[Any]]
    is_faulty: bool = False


def ways_of(setting: Setting, thread_counts: Sequence[int]) -> Sequence[Way]:
    """On the host with every count of threads; on a simulated device as it is there, step by step, and with faults."""
    if not setting.is_on_device:
        return [Way(f"{count} threads", lambda count=count: threads(count)) for count in thread_counts]
    ways = (("device programs", contextlib.nullcontext), ("step by step", nn.trace), ("faults", _few_programs))
    return [Way(name, lambda way=way: _with_modes(setting.modes, way), name == "faults") for name, way in ways]


@contextlib.contextmanager
def _few_programs() -> Iterator[None]:
    """Within, there are at most two device programs at a time: others take their place, or run as loops."""
    before = PROGRAMS.limit
    PROGRAMS.limit = 2
    try:
        yield
    finally:
        PROGRAMS.limit = before


@contextlib.contextmanager
def _with_modes(modes: Sequence[str], way: Callable[[], AbstractContextManager[Any]]) -> Iterator[None]:
    """Within, the simulated device is what the modes say, each the text of a block."""
    with ExitStack() as stack:
        for mode in modes:
            stack.enter_context(eval(mode, {"atled_sim": atled_sim}))  # of `drawing`
        stack.enter_context(way())
        yield


@contextlib.contextmanager
def threads(count: int) -> Iterator[None]:
    """Within, the cpu backend has so many threads, and divides small kernels as well."""
    from atled_cpu_numba import pool
    from atled_cpu_numba.kernels.shared import launch

    before = launch.SHARE_US
    pool.set_thread_count(count)
    launch.SHARE_US = 1e-3
    try:
        yield
    finally:
        launch.SHARE_US = before
        pool.set_thread_count(None)
        nn.clear_memory_cache()  # plans know how their kernels are divided


# Sizes beyond which values are computed again instead of stored, kept as constants, and written past the caches.
_SIZES = ("STREAMED_BYTES", "_STREAMED_BYTES", "_STREAM_BYTES")


@contextlib.contextmanager
def large_arrays() -> Iterator[None]:
    """Within, the library treats all arrays as if they were too large for caches."""
    from atled.graph.constants import cut
    from atled.graph.recompute import choice

    plugin = [m for name, m in sorted(sys.modules.items()) if name.startswith("atled_cpu_numba.")]
    modules = [choice, cut, *plugin]
    before = [(m, name, vars(m)[name]) for m in modules for name in (*_SIZES, "_LEAST_BYTES") if name in vars(m)]
    try:
        for module, name, _ in before:
            setattr(module, name, 0)
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)
