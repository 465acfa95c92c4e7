"""Reports of fallbacks: counts, one warning per op and reason, and events for observers."""

from __future__ import annotations

import sys
import warnings

from atled_contexts.errors import FallbackWarning, PluginWarning, in_words, listing, message
from atled_contexts.forks import lock_across_forks
from atled_contexts.plugin import FallbackEvent
from atled_contexts.record import PluginRecord
from atled_contexts.registry import Registry
from atled_contexts.signals import is_of_a_handler

# Reasons may hold shapes, so there can be any number of them; the oldest is forgotten, and shown again when it recurs.
_TOLD_LIMIT = 4096


class FallbackCount:
    """How often one op went to one backend as a fallback.

    calls: executions.  bytes_moved: bytes copied between devices for them.
    """

    __slots__ = ("bytes_moved", "calls")

    def __init__(self, calls: int = 0, bytes_moved: int = 0) -> None:
        self.calls = calls
        self.bytes_moved = bytes_moved

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FallbackCount):
            return NotImplemented
        return (self.calls, self.bytes_moved) == (other.calls, other.bytes_moved)

    __hash__ = None  # type: ignore[assignment]  # it changes, so it is no key

    def __repr__(self) -> str:
        return f"FallbackCount(calls={self.calls}, bytes_moved={self.bytes_moved})"


_lock = lock_across_forks()
_counts: dict[tuple[str, str], FallbackCount] = {}
_told: dict[tuple[str, str], None] = {}


def count_fallback(op: str, backend: str, *, calls: int = 1, bytes_moved: int = 0) -> None:
    """Add to the counts of (op, backend).

    `select` counts one call each time it gives a decision that is a fallback, unless called with count=False. A plan,
    which runs decisions without asking again, adds its calls and the bytes moved for them here.
    """
    with _lock:
        count = _counts.setdefault((op, backend), FallbackCount())
        count.calls += calls
        count.bytes_moved += bytes_moved


def fallback_counts() -> dict[tuple[str, str], FallbackCount]:
    """The counts by (op, backend it went to), sorted; a copy."""
    with _lock:
        return {key: FallbackCount(count.calls, count.bytes_moved) for key, count in sorted(_counts.items())}


def reset_fallback_counts() -> None:
    """Forget the counts, and which warnings were shown."""
    with _lock:
        _counts.clear()
        _told.clear()


def warn_once(op: str, asked: str, entry: str, reason: str) -> None:
    """Warn, at the user's own line, that `op` ran as a fallback; once per op and reason.

    entry: where it runs, "name:type_config".  asked: the call and its Context in words.
    """
    key = (op, reason)
    with _lock:
        if key in _told:
            return
    remedy = "put that backend first in the Context, accept it with fallback='quiet', or refuse it with 'raise'"
    warnings.warn(message(asked, f"it runs on {entry!r} as a fallback", reason, remedy), FallbackWarning, user_level())
    # Only now: where warnings are errors, every call is one.
    with _lock:
        if len(_told) >= _TOLD_LIMIT:
            del _told[next(iter(_told))]
        _told[key] = None


def warn_of_set_aside(record: PluginRecord, op: str, reason: str) -> None:
    """Warn that a plugin is asked no more."""
    text = message(
        f"{record.title}, asked for {op}",
        f"{reason}; it is set aside",
        f"its backends ({listing(record.backends)}) compute nothing any more; the next backend of a Context does",
        "mend the plugin, then call atled_contexts.reload_plugins(), or start again; python -m atled doctor shows more",
    )
    warnings.warn(text, PluginWarning, user_level())


def notify(registry: Registry, event: FallbackEvent) -> None:
    """Tell all observers; one that fails is warned about and holds up neither the others nor the call."""
    for plugin in registry.observers():
        try:
            plugin.hooks.call("atled_observe", event=event)
        except Exception as error:  # third-party code beside the path of the call
            if is_of_a_handler(error):
                raise
            text = message(
                f"{plugin.record.title} observing {event!r}",
                f"atled_observe failed: {in_words(error)}",
                "",
                "mend the plugin; the op call goes on",
            )
            warnings.warn(text, PluginWarning, user_level())


def user_level() -> int:
    """The stacklevel, seen from the caller, of the first frame outside of the library and its plugins."""
    level = 1
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("atled"):
        frame = frame.f_back
        level += 1
    return level
