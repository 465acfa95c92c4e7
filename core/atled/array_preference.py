"""Which of the array classes of host memory presets of Contexts ask for; in atled all of them are pooled memory."""

from __future__ import annotations

from collections.abc import Sequence

from atled_contexts import backend_info

_HOST = "reference"  # the core's own backend works on every host array class of the core

_prefers_cached = True


def array_classes() -> list[str]:
    """The array classes of host memory, the preferred one first."""
    return preferred(backend_info(_HOST).array_classes)


def prefer_cached_array(prefer: bool) -> None:
    """Prefer array classes that keep freed memory for the next array (the default), or those that do not."""
    global _prefers_cached
    _prefers_cached = bool(prefer)


def reset_array_preference() -> None:
    """Take `prefer_cached_array` back."""
    prefer_cached_array(True)


def preferred(names: Sequence[str]) -> list[str]:
    """Names of array classes with the preferred ones first, otherwise in their order."""
    return sorted(names, key=lambda name: ("Cached" in name) != _prefers_cached)
