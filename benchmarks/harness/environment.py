"""The conditions of a measurement: environment variables and cores of the processes, and the machine."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent.parent

_THREADS = ("OMP", "OPENBLAS", "MKL", "NUMBA", "ATLED")

# glibc's allocator keeps freed memory. With its defaults, libraries that allocate their temporaries anew fault them in
# again each time, and any library that reuses buffers looks up to five times better than it is.
_ALLOCATOR = {
    "MALLOC_MMAP_THRESHOLD_": str(4 << 30),
    "MALLOC_TRIM_THRESHOLD_": str(4 << 30),
    "MALLOC_TOP_PAD_": str(64 << 20),
}

# What compilers of the peers keep from one run to the next lies with their environments, not in a temporary folder.
_CACHES = {"TORCHINDUCTOR_CACHE_DIR": str(REPOSITORY / ".benchenv" / "torch-cache")}

ALLOCATORS = {"tuned": "malloc that keeps freed memory for all", "default": "malloc with its defaults for all"}
"""The settings of malloc that can be chosen, in words."""


def conditions(malloc: str) -> list[str]:
    """What holds for every process, in words."""
    return [
        "OPENBLAS_* unset for all (OPENBLAS_CORETYPE pins NumPy's BLAS to an old kernel)",
        ALLOCATORS[malloc],
        "bytecode files allowed",
    ]


def process_environment(cores: int, *, ours: bool, malloc: str = "tuned") -> dict[str, str]:
    """Environment variables of a library's process.

    ours: it may take modules from PYTHONPATH.  malloc: one of ALLOCATORS.
    """
    dropped = {"PYTHONDONTWRITEBYTECODE", *_ALLOCATOR} | (set() if ours else {"PYTHONPATH"})
    kept = {
        name: value for name, value in os.environ.items() if name not in dropped and not name.startswith("OPENBLAS_")
    }
    allocator = _ALLOCATOR if malloc == "tuned" else {}
    return {**kept, **_CACHES, **allocator, **{f"{name}_NUM_THREADS": str(cores) for name in _THREADS}}


def pin(cores: int) -> list[int]:
    """Bind this process, and so all that it starts, to the last `cores` cores that it may use; returns which.

    Raises ValueError if there are fewer. Where the system cannot bind processes, nothing is bound: an empty list.
    """
    if not hasattr(os, "sched_setaffinity"):
        return []
    usable = sorted(os.sched_getaffinity(0))
    if len(usable) < cores:
        raise ValueError(f"{cores} cores were asked for, and this process may use {len(usable)}: ask for fewer")
    chosen = usable[-cores:]
    os.sched_setaffinity(0, chosen)
    return chosen


def describe_machine() -> dict[str, str]:
    """Processor, system, and the state of the checkout."""
    return {"cpu": _cpu(), "system": platform.platform(), "commit": _commit()}


def load() -> list[float]:
    """Load average over 1, 5 and 15 minutes; busy neighbours make figures noisy."""
    return [round(value, 2) for value in os.getloadavg()] if hasattr(os, "getloadavg") else []


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:  # not Linux
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else platform.machine()}, {os.cpu_count()} cores"


def _commit() -> str:
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty"], cwd=REPOSITORY, capture_output=True, text=True, check=False
        )
    except OSError:  # no git
        return ""
    return done.stdout.strip()
