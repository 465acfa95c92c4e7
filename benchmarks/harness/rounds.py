"""Rounds: every library does a row in turn, so that a busy moment of the machine meets all of them."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from harness.case import Row
from harness.process import LibraryError, LibraryProcess


@dataclass
class Comparison:
    """We against one peer in one row.

    ratio: median over the rounds of (our time / the peer's time in the same round); below 1 we are faster.
    lowest, highest: of those ratios.
    difference: greatest difference of results, relative to the peer's largest element; None if nothing was compared.
    agrees: whether it is within the row's tolerance.
    """

    ratio: float
    lowest: float
    highest: float
    difference: float | None
    agrees: bool


@dataclass
class Outcome:
    """What came of one row.

    seconds: per library and round, for one operation.  notes: per library how it computes the row.
    failures: per library why it has no figures.  comparisons: per peer, where both have figures.
    """

    row: Row
    seconds: dict[str, list[float]] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    comparisons: dict[str, Comparison] = field(default_factory=dict)

    def median(self, library: str) -> float:
        """Seconds of one operation, the median over the rounds."""
        return statistics.median(self.seconds[library])


def measure_row(
    row: Row, processes: Mapping[str, LibraryProcess], missing: Mapping[str, str], rounds: int, seconds: float
) -> Outcome:
    """Do one row: make it in all libraries, compare their results, then time them in turn.

    missing: libraries that have no process, and why.  seconds: how long each library is timed in a round.
    """
    outcome = Outcome(row)
    results: dict[str, list[dict]] = {}
    outcome.failures.update({library: missing[library] for library in row.libraries if library in missing})
    for library in row.libraries:
        if library in outcome.failures:
            continue
        try:
            made = processes[library].ask("make", case=row.case, library=library, arguments=dict(row.arguments))
        except LibraryError as error:
            _fail(outcome, library, error)
        else:
            results[library] = made["results"]
            outcome.notes[library] = made["note"]
    for number in range(rounds):
        # Each round starts with another library: who follows whom has an effect on caches.
        turn = number % len(row.libraries)
        for library in [*row.libraries[turn:], *row.libraries[:turn]]:
            if library in outcome.failures:
                continue
            try:
                measured = processes[library].ask("measure", seconds=seconds)
            except LibraryError as error:
                _fail(outcome, library, error)
            else:
                outcome.seconds.setdefault(library, []).append(measured["seconds"] / row.per)
    for library in results:
        if library not in outcome.failures:
            processes[library].ask("drop")
    _compare(outcome, results)
    return outcome


def _fail(outcome: Outcome, library: str, error: LibraryError) -> None:
    print(f"{outcome.row.name}: {library} failed\n{error}", file=sys.stderr)
    outcome.failures[library] = error.summary
    outcome.seconds.pop(library, None)


def _compare(outcome: Outcome, results: Mapping[str, Sequence[dict]]) -> None:
    row = outcome.row
    ours = row.libraries[0]
    if ours not in outcome.seconds:
        return
    for peer in row.libraries[1:]:
        if peer not in outcome.seconds:
            continue
        ratios = [a / b for a, b in zip(outcome.seconds[ours], outcome.seconds[peer], strict=True)]
        difference = None if row.tolerance is None else difference_of(results[ours], results[peer])
        agrees = row.tolerance is None or difference is None or difference <= row.tolerance
        outcome.comparisons[peer] = Comparison(statistics.median(ratios), min(ratios), max(ratios), difference, agrees)


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
