"""What `python -m atled doctor` shows of the plugin: the processor, the threads, the kernels' texts, the cache."""

from __future__ import annotations

import os

from atled.plugin import listing
from atled_cpu_numba import kept_files, kernel_texts, matrix_unit, pool, processor, shipped_objects
from atled_cpu_numba.kernels.shared.lanes import host_lanes


def facts() -> dict[str, str]:
    """Name to text, in the order to show; compiles nothing."""
    return {
        "compiles for": _compiles_for(),
        "matrix unit": matrix_unit.why_unused() or "in use: it multiplies tiles in bf16",
        "threads": _threads(),
        "kernel texts": kernel_texts.why_unused() or "in use: numba is needed only for kernels that have none",
        "kernel objects": shipped_objects.why_unused() or "in use: kernels of float32 are compiled already",
        "cache": _cache(),
    }


def _compiles_for() -> str:
    chosen, here = processor.target(), processor.host()
    width = f"float32 vectors of {host_lanes().vector}"
    if chosen == here:
        return f"this processor, which LLVM calls {here.name}; {width}"
    text = f"{os.environ['ATLED_CPU'].strip()} (ATLED_CPU; this processor is {here.name}); {width}"
    missing = processor.missing_here(chosen)
    return f"{text}; cannot be executed here, for lack of {listing(missing)}" if missing else text


def _threads() -> str:
    if not pool.HAS_PTHREADS:
        return "1: the pool of threads needs those of POSIX; ATLED_NUM_THREADS changes nothing here"
    return str(pool.thread_count())


def _cache() -> str:
    try:
        refused = kept_files.why_not_written()
    except RuntimeError as error:  # no home folder
        return f"none: {error}; set ATLED_CACHE_DIR to a folder that can be written"
    where = kept_files.folder()
    return f"{where}, where no further kernels can be kept: {refused}" if refused else where
