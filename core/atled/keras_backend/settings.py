"""Settings: the dtypes of new values, and the number that programs add against zeros."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np

from atled.errors import did_you_mean, four_parts, listing
from atled_contexts import lock_across_forks

_DTYPES = {"floatx": ("float16", "float32", "float64"), "intx": ("int16", "int32", "int64")}


@dataclass(frozen=True)
class Settings:
    """floatx, intx: names of dtypes.  epsilon: float32's machine epsilon at first."""

    floatx: str = "float32"
    intx: str = "int32"
    epsilon: float = float(np.finfo(np.float32).eps)


_PROCESS = Settings()
_PROCESS_LOCK = lock_across_forks()  # of those who replace it
_BLOCK: ContextVar[Settings | None] = ContextVar("atled.keras_backend.settings", default=None)


def current() -> Settings:
    """The settings that hold here and now: those of the innermost block, else those of the process."""
    return _BLOCK.get() or _PROCESS


def backend() -> str:
    """The name of this backend: "atled", where the one that stood on Theano said "theano"."""
    return "atled"


def floatx() -> str:
    """The name of the float dtype that new values have where none is given; "float32" at first."""
    return current().floatx


def intx() -> str:
    """The name of the integer dtype that programs use where they need one; "int32" at first."""
    return current().intx


def epsilon() -> float:
    """The number that programs add where they would divide by zero or take its logarithm; 2**-23 at first."""
    return current().epsilon


def set_floatx(floatx: str) -> None:
    """Have new values be of another float dtype: "float16", "float32" or "float64"; else ValueError.

    It holds for the process, within a block of `settings` until its end. Values that are there stay what they are.
    """
    _set(floatx=floatx)


def set_intx(intx: str) -> None:
    """Have `intx()` give another integer dtype: "int16", "int32" or "int64"; else ValueError. See set_floatx."""
    _set(intx=intx)


def set_epsilon(e: float) -> None:
    """Have `epsilon()` give another number, finite and not negative; else ValueError. See set_floatx."""
    _set(epsilon=e)


def cast_to_floatx(x: Any) -> np.ndarray:
    """A NumPy array of dtype `floatx()`; x itself if it is one."""
    return np.asarray(x, dtype=floatx())


@contextlib.contextmanager
def settings(
    *, floatx: str | None = None, intx: str | None = None, epsilon: float | None = None
) -> Iterator[None]:  # parameters have the names of the settings, which are those of the functions
    """Have other settings in a block, for this thread (or asyncio task) alone; None leaves one as it is.

    with settings(floatx="float64"): ...
    """
    given = {"floatx": floatx, "intx": intx, "epsilon": epsilon}
    token = _BLOCK.set(_changed(current(), {name: value for name, value in given.items() if value is not None}))
    try:
        yield
    finally:
        _BLOCK.reset(token)


def _set(**changed: Any) -> None:
    """Change the settings of the block, or those of the process outside of one."""
    global _PROCESS
    block = _BLOCK.get()
    if block is not None:
        _BLOCK.set(_changed(block, changed))
        return
    with _PROCESS_LOCK:
        _PROCESS = _changed(_PROCESS, changed)


def _changed(before: Settings, changed: dict[str, Any]) -> Settings:
    return replace(before, **{name: _checked(name, value) for name, value in changed.items()})


def _checked(name: str, value: Any) -> Any:
    """The value of a setting; TypeError or ValueError for one that it cannot have."""
    asked = f"the setting {name}={value!r}"
    if name == "epsilon":
        if not isinstance(value, (Real, np.number)) or isinstance(value, bool):
            wrong = f"it is of type {type(value).__name__}"
            raise TypeError(four_parts(asked, wrong, "", "give a small number, such as 1e-7"))
        if not (math.isfinite(value) and float(value) >= 0):
            raise ValueError(four_parts(asked, "it is no small number", "", "give one, such as 1e-7"))
        return float(value)
    known = _DTYPES[name]
    if not isinstance(value, str) or value not in known:
        remedy = did_you_mean(str(value), known, f"give one of {listing(known)}")
        raise ValueError(four_parts(asked, "it is the name of no dtype that it can be", listing(known), remedy))
    return value
