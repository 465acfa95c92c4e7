"""The only module that imports CuPy, and not before the first name is asked for: all that the plugin uses of it."""

from __future__ import annotations

import functools
import importlib
from typing import Any

_NAMES = {
    "Event": "cuda.Event",
    "OutOfMemoryError": "cuda.memory.OutOfMemoryError",
    "alloc": "cuda.alloc",
    "current_stream": "cuda.get_current_stream",
    "elapsed_time": "cuda.get_elapsed_time",
    "runtime": "cuda.runtime",
    "version": "__version__",
}


def __getattr__(name: str) -> Any:  # Any: CuPy has no type information
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    cupy = importlib.import_module("cupy")
    found = globals()[name] = functools.reduce(getattr, _NAMES[name].split("."), cupy)
    return found
