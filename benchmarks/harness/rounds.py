"""One row: made in every library, compared, and timed in interleaved rounds."""

from __future__ import annotations

import contextlib
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from harness.case import Row
from harness.neighbour import Neighbour
from harness.process import LibraryError, LibraryProcess


@dataclass(frozen=True)
class Effort:
    """How long a row may take.

    rounds: each of all libraries in turn, at most.  seconds: of each library in a round.
    row_s: no round starts that would end later than so many seconds after the first one started.
    make_s: limit for a library to make its case, compilation included.
    neighbour: who then makes the cores busy, each round being timed twice, as a mean; None: nobody.
    """

    rounds: int = 5
    seconds: float = 0.2
    row_s: float = 600.0
    make_s: float = 600.0
    neighbour: Neighbour | None = None


@dataclass
class Comparison:
    """We against one peer in one row.

    ratio: median over the rounds of (our figure / the peer's figure in the same round); below 1 we are faster.
    lowest, highest: of those ratios.
    difference: greatest difference of results, relative to the peer's largest element; None if nothing was compared.
    agrees: whether it is within the row's tolerance.
    """

    ratio: float
    lowest: float
    highest: float
    difference: float | None = None
    agrees: bool = True


@dataclass
class Outcome:
    """What came of one row.

    figures: per library and round, seconds or bytes for one operation.  notes: per library how it computes the row.
    busy: the same as figures, with a busy neighbour.
    failures: per library why it has no figures.  comparisons: per peer, where both have figures.
    """

    row: Row
    figures: dict[str, list[float]] = field(default_factory=dict)
    busy: dict[str, list[float]] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    comparisons: dict[str, Comparison] = field(default_factory=dict)

    def median(self, library: str) -> float:
        """The figure of one operation, the median over the rounds."""
        return statistics.median(self.figures[library])

    def best_peer(self, among: Sequence[str] | None = None) -> str | None:
        """The compared peer with the lowest median; None if none was compared. among: only these, all by default."""
        peers = [peer for peer in self.comparisons if among is None or peer in among]
        return min(peers, key=self.median, default=None)

    def goal_peer(self) -> str | None:
        """The peer by which the row's goal is judged; None without a goal, or if no peer of it was compared."""
        return None if self.row.goal is None else self.best_peer(self.row.goal.peers)

    def is_reached(self) -> bool | None:
        """Whether the goal is reached; None if there is none to be judged."""
        peer = self.goal_peer()
        if self.row.goal is None or peer is None:
            return None
        return self.comparisons[peer].ratio <= self.row.goal.ratio

    def slowdown(self, library: str) -> Comparison:
        """With a busy neighbour over without, in the same round."""
        return _compared(self.busy[library], self.figures[library])


def measure_row(
    row: Row, processes: Mapping[str, LibraryProcess], missing: Mapping[str, str], effort: Effort
) -> Outcome:
    """Do one row: make it in all libraries, compare their results, then time them in turn.

    missing: libraries that have no process, and why.
    """
    outcome = Outcome(row)
    results: dict[str, list[dict]] = {}
    outcome.failures.update({library: missing[library] for library in row.libraries if library in missing})
    for library in row.libraries:
        if library in outcome.failures:
            continue
        try:
            made = processes[library].make(effort.make_s, case=row.case, library=library, arguments=dict(row.arguments))
        except LibraryError as error:
            _fail(outcome, library, error)
        else:
            results[library] = made["results"]
            outcome.notes[library] = made["note"]
    start = before = time.perf_counter()
    for number in range(effort.rounds):
        _measure_round(outcome, number, processes, effort)
        now = time.perf_counter()
        if now - start + (now - before) > effort.row_s:
            break
        before = now
    for library in results:
        if library not in outcome.failures:
            processes[library].ask("drop")
    _compare(outcome, results)
    return outcome


def _measure_round(outcome: Outcome, number: int, processes: Mapping[str, LibraryProcess], effort: Effort) -> None:
    libraries = outcome.row.libraries
    kinds = [(outcome.figures, contextlib.nullcontext)]
    with_neighbour = effort.neighbour is not None and outcome.row.unit != "MB"
    if with_neighbour:
        kinds.append((outcome.busy, effort.neighbour.busy))
    # Each round starts with another library: who follows whom has an effect on caches.
    turn = number % len(libraries)
    for library in [*libraries[turn:], *libraries[:turn]]:
        if library in outcome.failures:
            continue
        try:
            for figures, surroundings in kinds:
                with surroundings():
                    measured = processes[library].ask("measure", seconds=effort.seconds, mean=with_neighbour)
                figures.setdefault(library, []).append(measured["figure"] / outcome.row.per)
        except LibraryError as error:
            _fail(outcome, library, error)


def _fail(outcome: Outcome, library: str, error: LibraryError) -> None:
    print(f"{outcome.row.name}: {library} failed\n{error}", file=sys.stderr)
    outcome.failures[library] = error.summary
    outcome.figures.pop(library, None)
    outcome.busy.pop(library, None)


def _compare(outcome: Outcome, results: Mapping[str, Sequence[dict]]) -> None:
    row = outcome.row
    ours = row.libraries[0]
    if ours not in outcome.figures:
        return
    for peer in row.libraries[1:]:
        if peer not in outcome.figures:
            continue
        found = _compared(outcome.figures[ours], outcome.figures[peer])
        if row.tolerance is not None:
            found.difference = difference_of(results[ours], results[peer])
            found.agrees = found.difference is None or found.difference <= row.tolerance
        outcome.comparisons[peer] = found


def _compared(ours: Sequence[float], theirs: Sequence[float]) -> Comparison:
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    return Comparison(statistics.median(ratios), min(ratios), max(ratios))


def difference_of(ours: Sequence[dict], theirs: Sequence[dict]) -> float | None:
    """Greatest difference, relative to an array's largest element; inf if shapes differ, None without arrays."""
    if not ours and not theirs:
        return None
    if [array["shape"] for array in ours] != [array["shape"] for array in theirs]:
        return float("inf")
    worst = 0.0
    for mine, other in zip(ours, theirs, strict=True):
        a, b = np.array(mine["elements"]), np.array(other["elements"])
        if a.size:
            # A NaN on one side only must count as a difference.
            gap = np.where(np.isnan(a) & np.isnan(b), 0.0, np.abs(a - b))
            scale = max(float(np.nanmax(np.abs(b), initial=0.0)), 1e-30)
            worst = max(worst, float(np.nan_to_num(gap, nan=np.inf).max()) / scale)
    return worst
