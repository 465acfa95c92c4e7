"""What `python -m atled doctor` shows of the plugin: the processor, the threads, the cache."""

from __future__ import annotations

import os

from atled.errors import listing
from atled_cpu_numba import object_files, pool, processor
from atled_cpu_numba.kernels.lanes import host_lanes


def facts() -> dict[str, str]:
    """Name to text, in the order to show; asks LLVM, and compiles nothing."""
    return {"compiles for": _compiles_for(), "threads": str(pool.thread_count()), "cache": _cache()}


def _compiles_for() -> str:
    chosen, here = processor.target(), processor.host()
    width = f"float32 vectors of {host_lanes().vector}"
    if chosen == here:
        return f"this processor, which LLVM calls {here.name}; {width}"
    text = f"{os.environ['ATLED_CPU'].strip()} (ATLED_CPU; this processor is {here.name}); {width}"
    missing = processor.missing_here(chosen)
    return f"{text}; cannot be executed here, for lack of {listing(missing)}" if missing else text


def _cache() -> str:
    try:
        return str(object_files.folder())
    except RuntimeError as error:  # no home folder
        return f"none: {error}"
