"""Trace: per op, who ran it, how often, how long, and what was moved for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from typing import Any

from atled_contexts.forks import lock_across_forks
from atled_contexts.observation import present
from atled_contexts.surroundings import SetWithin

EVENT_LIMIT = 500_000
"""Events that one trace keeps, some 150 MB; what comes later shows in the rows only and is counted as dropped."""

_WIDTH = 80
_OP_WIDTH = 28  # columns, so that the whole table stays within those
_NAME_WIDTH = 14

HOST_CLOCK = "host"


class TraceRow:
    """What one op did on one backend.

    note: of the implementation that ran last.  implementations: calls by note.  calls, fallbacks: counts.
    seconds: time in all calls.  clock: what measured it: "device" for the device's own events, "host" for ours.
    bytes_moved: bytes copied between devices for it.
    """

    __slots__ = ("backend", "bytes_moved", "calls", "clock", "fallbacks", "implementations", "note", "op", "seconds")

    def __init__(self, op: str, backend: str) -> None:
        self.op = op
        self.backend = backend
        self.note = ""
        self.calls = 0
        self.seconds = 0.0
        self.fallbacks = 0
        self.bytes_moved = 0
        self.clock = HOST_CLOCK
        self.implementations: dict[str, int] = {}

    def add(self, note: str, calls: int, seconds: float, fallbacks: int, bytes_moved: int, clock: str) -> None:
        """Add what further calls did."""
        self.note = note or self.note
        self.implementations[note] = self.implementations.get(note, 0) + calls
        self.clock = clock
        self.calls += calls
        self.seconds += seconds
        self.fallbacks += fallbacks
        self.bytes_moved += bytes_moved

    # `Any`: numbers and strings, as JSON has them.
    def to_json(self) -> dict[str, Any]:
        """The row as a dict of strings and numbers."""
        return {name: getattr(self, name) for name in sorted(self.__slots__)}

    def __repr__(self) -> str:
        return f"TraceRow({self.op!r} on {self.backend!r}: {self.calls} calls, {self.seconds:.3g} s)"


class TransferRow:
    """What was copied from one place to another.  count: copies.  nbytes: bytes in all of them."""

    __slots__ = ("count", "destination", "nbytes", "source")

    def __init__(self, source: str, destination: str) -> None:
        self.source = source
        self.destination = destination
        self.count = 0
        self.nbytes = 0

    # `Any`: numbers and strings, as JSON has them.
    def to_json(self) -> dict[str, Any]:
        """The row as a dict of strings and numbers."""
        return {name: getattr(self, name) for name in sorted(self.__slots__)}

    def __repr__(self) -> str:
        return f"TransferRow({self.source!r} to {self.destination!r}: {self.count} copies, {self.nbytes} bytes)"


class TraceEvent:
    """One execution, or one copy between places.

    name: the op, or "copy".  where: its backend, or "source -> destination".  note: of the implementation.
    start: seconds of `time.perf_counter`.  seconds: how long it took.  thread: number and name of the thread.
    fallback: whether it was one.  bytes_moved: bytes copied between devices for it.
    """

    __slots__ = ("bytes_moved", "fallback", "name", "note", "seconds", "start", "thread", "where")

    def __init__(
        self, name: str, where: str, note: str, start: float, seconds: float, fallback: bool, bytes_moved: int
    ) -> None:
        self.name = name
        self.where = where
        self.note = note
        self.start = start
        self.seconds = seconds
        self.fallback = fallback
        self.bytes_moved = bytes_moved
        self.thread = (threading.get_ident(), threading.current_thread().name)


class Trace:
    """Collects what ran; several threads may record at the same time. `str()` gives a table.

    start: when it began, in seconds of `time.perf_counter`.
    dropped: events beyond the limit, which only the rows tell of.
    """

    def __init__(self) -> None:
        self.start = time.perf_counter()
        self.dropped = 0
        # Re-entrant: a finalizer, or a handler of a signal, may compute within it, which is recorded, too.
        self._lock = lock_across_forks()
        self._events: list[TraceEvent] = []
        self._rows: dict[tuple[str, str], TraceRow] = {}
        self._transfers: dict[tuple[str, str], TransferRow] = {}

    def record(
        self,
        op: str,
        backend: str,
        note: str,
        seconds: float,
        *,
        fallback: bool = False,
        calls: int = 1,
        bytes_moved: int = 0,
        start: float | None = None,
        clock: str = HOST_CLOCK,
    ) -> None:
        """Add `calls` executions of `op` on `backend` that took `seconds` together.

        note: the plugin or the implementation's note.  fallback: whether all of them were fallbacks.
        bytes_moved: bytes copied between devices for them.
        start: when they began, in seconds of `time.perf_counter`; None: they end now.
        clock: what measured the time, "host" or "device".
        """
        self._add(op, backend, note, calls, seconds, calls if fallback else 0, bytes_moved, clock)
        self._keep(TraceEvent(op, backend, note, _begin(start, seconds), seconds, fallback, bytes_moved))

    def transfer(
        self, source: str, destination: str, nbytes: int, *, seconds: float = 0.0, start: float | None = None
    ) -> None:
        """Add one copy of `nbytes` bytes between two places, named like "CpuArray" or "sim:0".

        seconds, start: as in `record`; 0 where the copy belongs to an execution that is recorded itself.
        """
        self._add_transfer(source, destination, 1, nbytes)
        where = f"{source} -> {destination}"
        self._keep(TraceEvent("copy", where, "", _begin(start, seconds), seconds, False, nbytes))

    def _keep(self, event: TraceEvent) -> None:
        with self._lock:
            if len(self._events) < EVENT_LIMIT:
                self._events.append(event)
            else:
                self.dropped += 1

    def events(self) -> tuple[TraceEvent, ...]:
        """Every execution and copy in the order in which they ended."""
        with self._lock:
            return tuple(self._events)

    def rows(self) -> tuple[TraceRow, ...]:
        """One row per (op, backend), the longest time first; copies that stay as they are."""
        with self._lock:
            rows = [_copy(row) for row in list(self._rows.values())]  # to which a finalizer may add meanwhile
        return tuple(sorted(rows, key=lambda row: (-row.seconds, row.op, row.backend)))

    def transfers(self) -> tuple[TransferRow, ...]:
        """One row per (source, destination), the most bytes first."""
        with self._lock:
            rows = []
            for row in list(self._transfers.values()):  # likewise
                copy = TransferRow(row.source, row.destination)
                copy.count, copy.nbytes = row.count, row.nbytes
                rows.append(copy)
        return tuple(sorted(rows, key=lambda row: (-row.nbytes, row.source, row.destination)))

    # `Any`: numbers, strings and lists of such dicts, as JSON has them.
    def to_json(self) -> dict[str, Any]:
        """Rows, transfers and totals as dicts and lists that `json.dumps` takes; times in seconds."""
        rows = self.rows()
        return {
            "rows": [row.to_json() for row in rows],
            "transfers": [row.to_json() for row in self.transfers()],
            "calls": sum(row.calls for row in rows),
            "seconds": sum(row.seconds for row in rows),
            "fallbacks": sum(row.fallbacks for row in rows),
            "bytes_moved": sum(row.bytes_moved for row in rows),
        }

    def to_chrome(self) -> dict[str, Any]:
        """Every execution with its time, in the Trace Event Format that chrome://tracing and Perfetto show."""
        from atled_contexts.chrome import chrome_trace  # lazy: few ask for it

        return chrome_trace(self)

    def save_chrome(self, path: str | PathLike[str]) -> None:
        """Write `to_chrome()` to a file, for chrome://tracing or https://ui.perfetto.dev.

        Written to a temporary file and renamed: OSError where that fails, and an earlier file stays.
        """
        from atled_contexts.chrome import save_chrome  # lazy: few ask for it

        save_chrome(self, path)

    def merge(self, other: Trace) -> None:
        """Add all that another trace collected."""
        rows, transfers, events, dropped = other.rows(), other.transfers(), other.events(), other.dropped
        with self._lock:
            for row in reversed(rows):
                _merge(self._rows.setdefault((row.op, row.backend), TraceRow(row.op, row.backend)), row)
        for copied in transfers:
            self._add_transfer(copied.source, copied.destination, copied.count, copied.nbytes)
        for event in events:
            self._keep(event)
        with self._lock:
            self.dropped += dropped

    def _add(
        self,
        op: str,
        backend: str,
        note: str,
        calls: int,
        seconds: float,
        fallbacks: int,
        bytes_moved: int,
        clock: str,
    ) -> None:
        with self._lock:
            row = self._rows.get((op, backend))
            if row is None:
                row = self._rows[op, backend] = TraceRow(op, backend)
            row.add(note, calls, seconds, fallbacks, bytes_moved, clock)

    def _add_transfer(self, source: str, destination: str, count: int, nbytes: int) -> None:
        with self._lock:
            row = self._transfers.get((source, destination))
            if row is None:
                row = self._transfers[source, destination] = TransferRow(source, destination)
            row.count += count
            row.nbytes += nbytes

    def __str__(self) -> str:
        return self.table()

    def table(self, *, implementations: bool = False) -> str:
        """What ran as a text table of 80 columns; with a line per implementation under each row, if wanted."""
        rows = self.rows()
        lines = [_line("op", "backend", "calls", "time", "share", "fallbacks", "moved")]
        total = sum(row.seconds for row in rows)
        for row in rows:
            lines.append(_row_line(row, total))
            if implementations:
                lines += [_cut(f"  {_count(calls):>6} x {note or '-'}", _WIDTH) for note, calls in _by_calls(row)]
        calls, fallbacks = sum(row.calls for row in rows), sum(row.fallbacks for row in rows)
        moved = sum(row.bytes_moved for row in rows)
        lines.append(_line("total", "", _count(calls), _duration(total), "", _count(fallbacks), _size(moved)))
        for copied in self.transfers():
            where = f"{_cut(copied.source, _OP_WIDTH)} -> {_cut(copied.destination, _OP_WIDTH)}"
            lines.append(f"moved {where}: {_count(copied.count)} x, {_size(copied.nbytes)}")
        return "\n".join(lines)


@contextmanager
def trace() -> Iterator[Trace]:
    """Collect what runs in a `with` block; `print(t)` shows it. An outer trace gets all of an inner one as well."""
    collected = Trace()
    outer = present.get()
    try:
        with SetWithin(present, outer.with_trace(collected)):
            yield collected
    finally:
        if outer.trace is not None:
            outer.trace.merge(collected)


def _begin(start: float | None, seconds: float) -> float:
    return time.perf_counter() - seconds if start is None else start


def _copy(row: TraceRow) -> TraceRow:
    copy = TraceRow(row.op, row.backend)
    _merge(copy, row)
    return copy


def _merge(row: TraceRow, other: TraceRow) -> None:
    """Add all of another row to a row."""
    row.note = other.note or row.note
    for note, calls in other.implementations.items():
        row.implementations[note] = row.implementations.get(note, 0) + calls
    row.calls += other.calls
    row.seconds += other.seconds
    row.fallbacks += other.fallbacks
    row.bytes_moved += other.bytes_moved
    row.clock = other.clock


def _by_calls(row: TraceRow) -> list[tuple[str, int]]:
    return sorted(row.implementations.items(), key=lambda item: (-item[1], item[0]))


def _row_line(row: TraceRow, total: float) -> str:
    share = f"{row.seconds / total:.0%}" if total > 0 else "-"
    fallbacks = _count(row.fallbacks) if row.fallbacks else "-"
    moved = _size(row.bytes_moved) if row.bytes_moved else "-"
    return _line(row.op, row.backend, _count(row.calls), _duration(row.seconds), share, fallbacks, moved)


def _line(op: str, backend: str, calls: str, time: str, share: str, fallbacks: str, moved: str) -> str:
    left = f"{_cut(op, _OP_WIDTH - 8):<{_OP_WIDTH - 8}} {_cut(backend, _NAME_WIDTH):<{_NAME_WIDTH}}"
    return f"{left} {calls:>8} {time:>8} {share:>5} {fallbacks:>9} {moved:>9}"


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 2] + ".."


def _count(number: int) -> str:
    for limit, unit in ((10**8, ""), (10**10, "k"), (10**13, "M")):
        if number < limit:
            return f"{number // {'': 1, 'k': 10**3, 'M': 10**6}[unit]}{unit}"
    return f"{number:.1e}"


def _duration(seconds: float) -> str:
    for factor, unit in ((1e9, "ns"), (1e6, "us"), (1e3, "ms")):
        if seconds * factor < 1000:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds:.3g} s" if seconds < 1000 else f"{seconds:.0f} s"


def _size(count: int) -> str:
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1024
    return f"{size:.3g} TiB"
