"""Knowing both orders of the axes of images on request, and preferring one, as devices with matrix units do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from atled.plugin import Call, reload_plugins

_preferred: list[str] = []


@contextmanager
def prefer_layout(layout: str) -> Iterator[None]:
    """Within the block, backend `sim` knows `channel_last` and asks for one order of the axes of images.

    layout: "channel_last", "channel_first", or "" for the one that they are in. Outside of such a block it knows
        nothing of `channel_last`, and is given transposed arrays.
    """
    _preferred.append(layout)
    reload_plugins()  # what was decided before is decided again, also for graphs that ran already
    try:
        yield
    finally:
        _preferred.pop()
        reload_plugins()


def preferred_layout() -> Callable[[Call], str] | None:
    """What `sim` hands over as `layout` of its implementations."""
    if not _preferred:
        return None
    wanted = _preferred[-1]
    return lambda call: wanted
