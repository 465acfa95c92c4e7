"""What is measured: a row of the table, and the case that each library makes of it in its own process.

Imported by every library's interpreter, the oldest of which is Python 3.10.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Goal:
    """What a row is to reach: at most `ratio` times the figure of the fastest of `peers` (the least hungry for MB)."""

    ratio: float
    peers: Sequence[str]

    def __str__(self) -> str:
        return f"{self.ratio:g} x {' or '.join(self.peers)}"


@dataclass(frozen=True)
class Work:
    """What one operation of a row cannot do without, so that its time can be held against the machine's limits.

    flops: additions and multiplications by the definition; an algorithm that needs fewer, such as Winograd's, may
        take less than the limit says.
    bytes: read and written where each input is read once and each result written once.
    """

    flops: float = 0
    bytes: float = 0


@dataclass(frozen=True)
class Row:
    """One row of a benchmark.

    case: "module:function"; the function gets library= and `arguments`, and returns a `Case`.
    libraries: who computes it, ours first; the others are what we are compared with.
    per: how many operations one run of the case is; times are given per operation.
    unit: "s", "ms", "us" or "ns"; "MB" for a row of memory.  of: what one operation is called, such as "step".
    tolerance: greatest difference between results, relative to the largest element; None: not comparable.
    goal: what our ratio is to be; None: nothing in particular.
    work: of one operation; None: its limit is not known.
    """

    name: str
    case: str
    libraries: Sequence[str]
    arguments: Mapping[str, Any] = field(default_factory=dict)
    per: int = 1
    unit: str = "ms"
    of: str = "call"
    tolerance: float | None = 1e-4
    goal: Goal | None = None
    work: Work | None = None


@dataclass
class Case:
    """A row as one library computes it.

    run: does it once; called many times, and timed.
    results: the arrays that it computes, to be compared between libraries; called once, before the first timing.
        Anything that NumPy makes an array of. None: nothing to compare.
    note: how it is computed, such as the implementation that was chosen.
    is_reading: `run` returns the figure itself, in seconds or bytes, and is called once a round, without warming up.
    finish: waits for what the runs before have started on a device; it ends each sample, and its time counts.
    """

    run: Callable[[], Any]
    results: Callable[[], Sequence[Any]] | None = None
    note: str = ""
    is_reading: bool = False
    finish: Callable[[], object] | None = None
