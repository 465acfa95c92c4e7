"""Calls that mark where a program is: blocks of a loop, and times."""

from __future__ import annotations

import enum
import time
from typing import TYPE_CHECKING, Any

from atled.devices import synchronize
from atled.errors import four_parts

if TYPE_CHECKING:
    from atled_contexts import Context


class Block(enum.IntEnum):
    """Parts of a training loop, for `Backend.begin` and `end`."""

    epoch = 0
    minibatch = 1
    fprop = 2
    bprop = 3
    update = 4


class Marks:
    """Marks blocks and times."""

    if TYPE_CHECKING:
        context: Context

    def begin(self, block: Any, identifier: Any) -> None:
        """The start of a repeated block; no effect: every program is found by its key, wherever it begins."""

    def end(self, block: Any, identifier: Any) -> None:
        """The end of a repeated block; no effect."""

    def init_mark(self) -> dict[str, float | None]:
        """A mark for a time, not yet recorded."""
        return {"time": None}

    def record_mark(self, m: dict[str, float | None]) -> None:
        """Write down when all work so far is done; waits for it where a device computes."""
        synchronize(self.context)
        m["time"] = time.perf_counter()

    def synchronize_mark(self, m: dict[str, float | None]) -> None:
        """Wait for the work in front of a mark; `record_mark` has done so. ValueError for one without a time."""
        _time_of("synchronize_mark", m)

    def get_time(self, start: dict[str, float | None], end: dict[str, float | None]) -> float:
        """Milliseconds between two marks; ValueError for one that was not recorded."""
        return 1000 * (_time_of("get_time", end) - _time_of("get_time", start))


def _time_of(asked: str, m: dict[str, float | None]) -> float:
    found = m.get("time")
    if found is None:
        raise ValueError(four_parts(asked, "the mark was not recorded", "", "call be.record_mark(mark) before"))
    return found
