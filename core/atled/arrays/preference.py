"""`prefer_cached_array`: which name of an array class of host memory Contexts show; in atled all are pooled memory."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar

from atled_contexts import backend_info

_HOST = "reference"  # the core's own backend works on every host array class of the core

_PREFERS_CACHED: ContextVar[bool] = ContextVar("atled_prefers_cached_array", default=True)


def array_classes() -> list[str]:
    """The array classes of host memory, the preferred one first."""
    return preferred(backend_info(_HOST).array_classes)


def prefer_cached_array(prefer: bool) -> None:
    """Prefer array classes that keep freed memory for the next array (the default), or those that do not.

    In this thread or asyncio task; `nn.bind` takes it along to another one.
    """
    _PREFERS_CACHED.set(bool(prefer))


def reset_array_preference() -> None:
    """Take `prefer_cached_array` back."""
    prefer_cached_array(True)


def preferred(names: Sequence[str]) -> list[str]:
    """Names of array classes with the preferred ones first, otherwise in their order."""
    cached = _PREFERS_CACHED.get()
    return sorted(names, key=lambda name: ("Cached" in name) != cached)
