"""A trace in the Trace Event Format, which chrome://tracing and Perfetto show as a picture of time."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from atled_contexts.tracing import Trace, TraceEvent

_MICROSECONDS = 1e6


# `Any`: numbers, strings and lists of such dicts, as JSON has them.
def chrome_trace(trace: Trace) -> dict[str, Any]:
    """The events as complete events ("X"), one track per thread; copies within an execution as instants ("i").

    Times are microseconds since the trace began.
    """
    process = os.getpid()
    events = trace.events()
    threads = {event.thread: number for number, event in reversed(list(enumerate(events)))}
    # Tracks in the order of their first event, with small numbers: thread idents of Python are long and are reused.
    track = {thread: number for number, thread in enumerate(sorted(threads, key=lambda thread: threads[thread]), 1)}
    listed = [_name("process_name", process, 0, "atled")]
    listed += [_name("thread_name", process, number, thread[1]) for thread, number in track.items()]
    listed += [_event(event, trace.start, process, track[event.thread]) for event in events]
    return {
        "traceEvents": listed,
        "displayTimeUnit": "ms",
        "otherData": {"producer": "atled", "dropped_events": trace.dropped},
    }


def save_chrome(trace: Trace, path: str | os.PathLike[str]) -> None:
    """Write the trace to a file. Raises OSError where that fails; an earlier file then stays."""
    target = os.fspath(path)
    beside = f"{target}.{os.getpid()}.part"
    try:
        with open(beside, "w", encoding="utf-8") as file:
            json.dump(chrome_trace(trace), file)
        os.replace(beside, target)
    finally:
        if os.path.exists(beside):
            os.remove(beside)


def _name(kind: str, process: int, track: int, name: str) -> dict[str, Any]:
    return {"name": kind, "ph": "M", "pid": process, "tid": track, "args": {"name": name}}


def _event(event: TraceEvent, origin: float, process: int, track: int) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": event.name,
        "cat": event.where,
        "pid": process,
        "tid": track,
        "ts": (event.start - origin) * _MICROSECONDS,
        "args": {
            "where": event.where,
            "implementation": event.note,
            "fallback": event.fallback,
            "bytes_moved": event.bytes_moved,
        },
    }
    if event.seconds:
        return {**found, "ph": "X", "dur": event.seconds * _MICROSECONDS}
    return {**found, "ph": "i", "s": "t"}
