"""How large arrays can be: what the machine can address, and what it has memory for."""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from atled.errors import OutOfMemoryError, four_parts, shortened

MOST_AXES = 32
"""NumPy's functions of several arrays take no more axes."""

MOST_ELEMENTS = sys.maxsize // 8
"""An array of as many float64 has `sys.maxsize` bytes, beyond which no address and no offset can go."""

_SHOWN = 8  # axes


def misfit(shape: Sequence[int]) -> str:
    """Why no array can have that shape; "" if one can."""
    if len(shape) > MOST_AXES:
        return f"it has {len(shape)} axes, and {MOST_AXES} is the most"
    # An empty array is counted without its empty axes, for so are strides.
    size = math.prod(shape) or math.prod(size for size in shape if size)
    if size > MOST_ELEMENTS:
        count = f"{size:.3g}" if size < 1 << 1000 else "more than 1e+301"  # beyond floats
        return f"that is {count} elements, and {MOST_ELEMENTS:.3g} is the most that a process can address"
    return ""


def shown(shape: Sequence[Any]) -> str:
    """A shape for a message, cut where it is long."""
    if len(shape) <= MOST_AXES:
        return shortened(tuple(shape))
    return f"({', '.join(map(shortened, shape[:_SHOWN]))}, ... {len(shape)} axes)"


@contextlib.contextmanager
def within_memory(asked: str, nbytes: int = 0) -> Iterator[None]:
    """Say of a MemoryError in the block what was asked for, and how much memory there is.

    nbytes: what the block allocates, in bytes; 0 where it is not known.
    """
    try:
        yield
    except MemoryError as error:
        raise out_of_memory(asked, nbytes, str(error)) from error


def out_of_memory(asked: str, nbytes: int = 0, reason: str = "") -> OutOfMemoryError:
    """The error for an allocation that failed, or that cannot succeed."""
    available = available_bytes()
    wrong = f"there is no memory for {in_units(nbytes)}" if nbytes else f"memory has run out ({reason or 'allocation'})"
    return OutOfMemoryError(
        four_parts(
            asked,
            wrong,
            "" if available is None else f"{in_units(available)} are available to this process",
            "use smaller arrays or batches, or drop arrays that are not needed; clear_memory_cache() gives kept memory "
            "back",
        )
    )


def available_bytes() -> int | None:
    """Bytes that this process could still get: of the machine, of its control group, below its own limit.

    None where the system does not say.
    """
    found = [known for known in (_of_machine(), _of_group(), _of_process()) if known is not None]
    return max(0, min(found)) if found else None


def in_units(nbytes: int) -> str:
    """A count of bytes for a message."""
    for unit, name in ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB")):
        if nbytes >= unit:
            return f"{nbytes / unit:.4g} {name}"
    return f"{nbytes} bytes"


def _of_machine() -> int | None:
    lines = _lines("/proc/meminfo")
    sizes = {line.split(":")[0]: int(line.split()[1]) << 10 for line in lines if line.endswith(" kB")}
    if "MemAvailable" not in sizes:
        return None
    return sizes["MemAvailable"] + sizes.get("SwapFree", 0)


def _of_group() -> int | None:
    """What the control group (version 2) of a container leaves; its file cache counts as free."""
    limit = "".join(_lines("/sys/fs/cgroup/memory.max"))
    used = "".join(_lines("/sys/fs/cgroup/memory.current"))
    if not limit.isdecimal() or not used.isdecimal():
        return None
    cached = (line.split() for line in _lines("/sys/fs/cgroup/memory.stat"))
    return int(limit) - int(used) + sum(int(size) for name, size in cached if name in ("inactive_file", "active_file"))


def _of_process() -> int | None:
    try:
        import resource  # not on Windows
    except ImportError:
        return None
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    taken = "".join(_lines("/proc/self/statm")).split()
    if limit == resource.RLIM_INFINITY or not taken:
        return None
    return int(limit) - int(taken[0]) * resource.getpagesize()


def _lines(path: str) -> list[str]:
    """The lines of a file of the system; none where there is no such file."""
    try:
        with open(path, encoding="ascii") as file:
            return file.read().splitlines()
    except OSError:
        return []
