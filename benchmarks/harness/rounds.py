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

# The speed of a shared machine changes within a fifth of a second, by up to a half: what is compared has to follow each
# other more closely. Shorter turns would measure caches that the others have filled.
_TURN_S = 0.025

# In a turn a run comes first that warms the caches and is not timed.
_RUNS_IN_TURN = 3


@dataclass(frozen=True)
class Effort:
    """How long a row may take.

    rounds: each of all libraries in turn, at most.  seconds: of each library in a round, in several turns if its runs
        are short.
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

    ratio: median over the rounds of our figure over the peer's in the same round; below 1 we are faster.
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
    ratios: per peer and round, our figure over the peer's in the same turn, the median over the round's turns.
    busy: the same as figures, with a busy neighbour.
    failures: per library why it has no figures.  comparisons: per peer, where both have figures.
    """

    row: Row
    figures: dict[str, list[float]] = field(default_factory=dict)
    ratios: dict[str, list[float]] = field(default_factory=dict)
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
        return _compared([a / b for a, b in zip(self.busy[library], self.figures[library], strict=True)])


def measure_row(
    row: Row, processes: Mapping[str, LibraryProcess], missing: Mapping[str, str], effort: Effort
) -> Outcome:
    """Do one row: make it in all libraries, compare their results, then time them in turn.

    missing: libraries that have no process, and why.
    """
    outcome = Outcome(row)
    results: dict[str, list[dict]] = {}
    runs: list[float | None] = []
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
            runs.append(made["run_s"])
    turns = _turns_of(runs, effort)
    start = before = time.perf_counter()
    for number in range(effort.rounds):
        _measure_round(outcome, number, processes, effort, turns)
        now = time.perf_counter()
        if now - start + (now - before) > effort.row_s:
            break
        before = now
    for library in results:
        if library not in outcome.failures:
            processes[library].ask("drop")
    _compare(outcome, results)
    return outcome


def _turns_of(runs: Sequence[float | None], effort: Effort) -> int:
    """How often each library has its turn in a round.

    runs: seconds of one run of each library; None where a run is a reading, which a round has once. Beside a busy
    neighbour, who gets slices of some milliseconds, only the mean of a long turn says something.
    """
    if effort.neighbour is not None or not runs or None in runs:
        return 1
    longest = max(run for run in runs if run is not None)
    return max(1, int(effort.seconds / max(_TURN_S, _RUNS_IN_TURN * longest)))


def _measure_round(
    outcome: Outcome, number: int, processes: Mapping[str, LibraryProcess], effort: Effort, turns: int
) -> None:
    ours, *peers = libraries = outcome.row.libraries
    figures: dict[str, list[float]] = {}
    busy: dict[str, list[float]] = {}
    kinds = [(figures, contextlib.nullcontext)]
    with_neighbour = effort.neighbour is not None and outcome.row.unit != "MB"
    if with_neighbour:
        kinds.append((busy, effort.neighbour.busy))
    for turn in range(turns):
        # Each turn starts with another library: who follows whom has an effect on caches.
        first = (number * turns + turn) % len(libraries)
        for library in [*libraries[first:], *libraries[:first]]:
            if library in outcome.failures:
                continue
            try:
                for found, surroundings in kinds:
                    with surroundings():
                        measured = processes[library].ask(
                            "measure", seconds=effort.seconds / turns, mean=with_neighbour
                        )
                    found.setdefault(library, []).append(measured["figure"] / outcome.row.per)
            except LibraryError as error:
                _fail(outcome, library, error)
    for library in libraries:
        if library not in outcome.failures:
            outcome.figures.setdefault(library, []).append(statistics.median(figures[library]))
            if with_neighbour:
                outcome.busy.setdefault(library, []).append(statistics.median(busy[library]))
    for peer in peers:
        if peer not in outcome.failures and ours not in outcome.failures:
            ratios = (a / b for a, b in zip(figures[ours], figures[peer], strict=True))
            outcome.ratios.setdefault(peer, []).append(statistics.median(ratios))


def _fail(outcome: Outcome, library: str, error: LibraryError) -> None:
    print(f"{outcome.row.name}: {library} failed\n{error}", file=sys.stderr)
    outcome.failures[library] = error.summary
    outcome.figures.pop(library, None)
    outcome.ratios.pop(library, None)
    outcome.busy.pop(library, None)


def _compare(outcome: Outcome, results: Mapping[str, Sequence[dict]]) -> None:
    row = outcome.row
    ours = row.libraries[0]
    if ours not in outcome.figures:
        return
    for peer in row.libraries[1:]:
        if peer not in outcome.figures:
            continue
        found = _compared(outcome.ratios[peer])
        if row.tolerance is not None:
            found.difference = difference_of(results[ours], results[peer])
            found.agrees = found.difference is None or found.difference <= row.tolerance
        outcome.comparisons[peer] = found


def _compared(ratios: Sequence[float]) -> Comparison:
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
