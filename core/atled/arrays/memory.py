"""Statistics of memory: how much is in use, how much is kept for later arrays, and how it is given back."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

from atled.arrays.arena import arenas_on
from atled.arrays.constants import CONSTANTS
from atled.arrays.place import HOST, ArrayClass, Place, place_on
from atled.arrays.spares import Spares, all_spares, clear_spares, set_spares_limit
from atled.arrays.storage import POOL, size_class
from atled.errors import four_parts
from atled.limits.caches import cache_counts, clear_caches
from atled_contexts import array_class, array_class_names, backend_info, backends, devices

__all__ = [
    "clear_host_memory_cache",
    "clear_memory_cache",
    "memory_statistics",
    "set_constants_limit",
    "set_memory_cache_limit",
]


def memory_statistics() -> dict[str, dict[str, int]]:
    """Memory by where it is: "host", then "ARRAYCLASS:DEVICE" for each device whose plugin counts it.

    For the host, bytes by the sizes of whole buffers (up to a quarter more than was asked for):
        bytes_in_use: in arrays and plans.  kept_bytes: kept to be used again, at most limit_bytes of them.
        peak_bytes: the most that both together ever were.
        allocated_count: buffers taken from the system.  reused_count: kept buffers that were handed out again, but for
        results of small ops, which are not counted one by one.
    NumPy views that outlive their array are not counted. For devices: what their plugins say, `bytes_in_use` at least;
        arena_bytes, where plans share memory: in what they need only while they run.
        kept_bytes: in small results that may be wanted again, if there are any.
    "caches" counts what is kept of plans, calls and machine code, by name; each of these has a limit of its own. Two of
        them are "constants", what was computed from arrays that nobody wrote since, and "bytes of constants".

        nn.memory_statistics()["host"]["peak_bytes"]
    """
    host = POOL.statistics()
    _move_spares(host, sum(spares.free_count() * size_class(spares.nbytes) for spares in _spares_in(HOST)))
    found = {"host": host}
    for arrays, device in _device_classes():
        counted = dict(arrays.statistics(device))
        place = place_on(arrays, device)
        if place.has_parts:
            counted["arena_bytes"] = sum(arena.storage.nbytes for arena in arenas_on(place))
        if counted:
            _move_spares(counted, sum(spares.free_count() * spares.nbytes for spares in _spares_in(place)))
            found[repr(place)] = counted
    return {**found, "caches": cache_counts()}


def _spares_in(place: Place) -> list[Spares[Any]]:
    return [spares for spares in all_spares() if spares.place is place]


def _move_spares(counted: dict[str, int], spare: int) -> None:
    """Count the bytes of free spares as kept, not in use; of a class that counts none, as one whose device is lost."""
    if spare and "bytes_in_use" in counted:
        counted["bytes_in_use"] -= spare
        counted["kept_bytes"] = counted.get("kept_bytes", 0) + spare


def clear_memory_cache() -> None:
    """Give all memory back that is kept for later: arrays, on the host and on all devices, and what was compiled.

    Plans, calls and machine code that something still uses live on with it. What is forgotten is made again when it is
    next needed: plans in milliseconds, machine code from the store of compiled kernels.
    """
    clear_caches()
    clear_host_memory_cache()
    for arrays, device in _device_classes():
        arrays.clear_memory_cache(device)


def clear_host_memory_cache() -> None:
    """Give host memory that is kept for later arrays back to the system."""
    clear_spares()
    POOL.clear()


def set_memory_cache_limit(limit_bytes: int) -> None:
    """Let the host keep at most so many bytes for later arrays; 0 keeps none. What is beyond goes back at once.

    It is no limit of what arrays and plans use. Beside it, small results that may be wanted again at once keep as
    much at most, and no more than 16 MiB.

    TypeError, ValueError: not a whole number of bytes, 0 or more.
    """
    limit = _bytes_of("set_memory_cache_limit", limit_bytes)
    POOL.set_limit(limit)
    set_spares_limit(limit)
    clear_spares()
    clear_caches("cached calls")  # they hold the queues of spare arrays; new ones keep within the limit


def set_constants_limit(limit_bytes: int) -> None:
    """Let constants take at most so many bytes, 1 GiB unless it is said; 0 keeps none. What is beyond goes at once.

    A constant is what was computed from arrays that nobody wrote since, such as weights as a kernel reads them. What
    does not fit is computed at each run.

    TypeError, ValueError: not a whole number of bytes, 0 or more.
    """
    CONSTANTS.set_limit(_bytes_of("set_constants_limit", limit_bytes))


def _bytes_of(function: str, limit_bytes: object) -> int:
    """What a limit says; TypeError or ValueError if that is no count of bytes."""
    try:
        limit = operator.index(limit_bytes)  # type: ignore[arg-type]  # what is no whole number raises
    except TypeError as error:
        raise TypeError(
            four_parts(
                f"{function}({limit_bytes!r})", "not a whole number", "", "pass a count of bytes, such as 1 << 30"
            )
        ) from error
    if limit < 0:
        raise ValueError(four_parts(f"{function}({limit})", "negative", "", "pass 0 or more bytes; 0 keeps nothing"))
    return limit


def _device_classes() -> Iterator[tuple[ArrayClass, str]]:
    """Each array class of a usable device backend, once per device."""
    seen = set()
    for backend in backends():
        for name in () if backend_info(backend).host else array_class_names(backend):
            arrays = array_class(name)
            assert isinstance(arrays, ArrayClass)
            for device in devices(backend):
                if (name, device) not in seen:
                    seen.add((name, device))
                    yield arrays, device


def __dir__() -> list[str]:
    return sorted(__all__)
