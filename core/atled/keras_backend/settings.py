"""Settings: the dtypes of new values, and the number that programs add against zeros."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from atled.errors import four_parts

_FLOATS = ("float16", "float32", "float64")
_INTS = ("int16", "int32", "int64")


@dataclass(frozen=True)
class Settings:
    """floatx, intx: names of dtypes.  epsilon: float32's machine epsilon at first."""

    floatx: str = "float32"
    intx: str = "int32"
    epsilon: float = float(np.finfo(np.float32).eps)


class _Settings(threading.local):
    """Those of a block of this thread, the innermost last."""

    def __init__(self) -> None:
        self.blocks: list[Settings] = []


_PROCESS = Settings()
_THREAD = _Settings()


def current() -> Settings:
    """The settings that hold for this thread now."""
    blocks = _THREAD.blocks
    return blocks[-1] if blocks else _PROCESS


def floatx() -> str:
    """The name of the float dtype that new values have where none is given."""
    return current().floatx


def intx() -> str:
    """The name of the integer dtype that new values have where none is given."""
    return current().intx


def epsilon() -> float:
    """The number that programs add where they would divide by zero or take its logarithm."""
    return current().epsilon


def set_floatx(floatx: str) -> None:
    """Have new values be of another float dtype: "float16", "float32" or "float64"; else ValueError."""
    _set(floatx=floatx)


def set_intx(intx: str) -> None:
    """Have new values be of another integer dtype: "int16", "int32" or "int64"; else ValueError."""
    _set(intx=intx)


def set_epsilon(e: float) -> None:
    """Have `epsilon()` give another number."""
    _set(epsilon=e)


def cast_to_floatx(x: Any) -> np.ndarray:
    """A NumPy array of dtype `floatx()`."""
    return np.asarray(x, dtype=floatx())


@contextlib.contextmanager
def settings(**changed: Any) -> Iterator[None]:
    """Have other settings in a block, for this thread alone: `with settings(floatx="float64"):`."""
    _THREAD.blocks.append(_changed(current(), changed))
    try:
        yield
    finally:
        _THREAD.blocks.pop()


def _set(**changed: Any) -> None:
    """Change the settings of the block, or those of the process outside of one."""
    global _PROCESS
    if _THREAD.blocks:
        _THREAD.blocks[-1] = _changed(current(), changed)
    else:
        _PROCESS = _changed(_PROCESS, changed)


def _changed(before: Settings, changed: dict[str, Any]) -> Settings:
    for name, value in changed.items():
        if name == "epsilon":
            changed = {**changed, name: float(value)}
            continue
        known = {"floatx": _FLOATS, "intx": _INTS}.get(name)
        if known is None or value not in known:
            wrong = "there is no such setting" if known is None else "it is no such dtype"
            remedy = "set floatx, intx or epsilon" if known is None else f"give one of {', '.join(known)}"
            raise ValueError(four_parts(f"the setting {name}={value!r}", wrong, "", remedy))
    return replace(before, **changed)
