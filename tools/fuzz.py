"""Tries hostile calls and damaged files on the library, and counts what comes of them.

`python tools/fuzz.py` draws attempts from a seed and makes them in child processes with a limit of memory and time. An
attempt is clean if it ends in an error in four parts ("refused") or in a result ("right", compared with the reference
where that is quick). Other exceptions are "foreign", results that disagree "wrong"; a child that takes too long is
killed and counted as "hanging", one that dies by itself as "crashing". The exit status is 1 unless all were clean.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from fuzzing.parent import KINDS, OUTCOMES, Limits, Result, run_shares  # after the path is set

_CLEAN = ("refused", "right")
_FOR_EVER = 10**9


class Report:
    """Counts of outcomes by kind of attempt, and what was not clean.

    deadline_s: of the monotonic clock, when to stop.
    """

    def __init__(self, deadline_s: float) -> None:
        self.counts = {kind: Counter[str]() for kind in KINDS}
        self.unclean: list[Result] = []
        self.deadline_s = deadline_s

    def add(self, result: Result) -> bool:
        """Count a result, show it if it is not clean; whether there is time for more."""
        self.counts[result.kind][result.outcome] += 1
        if result.outcome not in _CLEAN:
            self.unclean.append(result)
            detail = result.detail.strip().replace("\n", "\n    ")
            print(f"{result.outcome}: {result.kind} {result.number}: {result.text}\n    {detail}", file=sys.stderr)
        return time.monotonic() < self.deadline_s

    def table(self) -> str:
        """Outcomes by kind of attempt."""
        lines = ["kind".ljust(8) + "".join(name.rjust(10) for name in ("tried", "clean", *OUTCOMES))]
        for kind, counts in self.counts.items():
            clean = sum(counts[name] for name in _CLEAN)
            numbers = (counts.total(), clean, *(counts[name] for name in OUTCOMES))
            lines.append(kind.ljust(8) + "".join(f"{number:10}" for number in numbers))
        return "\n".join(lines)

    def as_json(self, seed: int) -> str:
        """The same for programs, with everything that was not clean."""
        counts = {kind: {name: found[name] for name in OUTCOMES} for kind, found in self.counts.items()}
        return json.dumps({"seed": seed, "counts": counts, "unclean": [r._asdict() for r in self.unclean]}, indent=1)


def main() -> int:
    """Try, report; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="what attempts are drawn from (default: 0)")
    parser.add_argument("--minutes", type=float, default=2.0, help="for how long, in all (default: 2)")
    parser.add_argument("--only", choices=KINDS, help="attempts of one kind alone")
    parser.add_argument("--number", type=int, help="the attempt of this number alone; needs --only")
    parser.add_argument("--count", type=int, default=_FOR_EVER, help="at most so many attempts of each kind")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="children at a time (default: processors)"
    )
    parser.add_argument("--json", action="store_true", help="write the report as JSON")
    given = parser.parse_args()
    if given.number is not None and given.only is None:
        parser.error("--number needs --only, which says of which kind it is")
    kinds = KINDS if given.only is None else (given.only,)
    numbers = range(given.count) if given.number is None else range(given.number, given.number + 1)
    report = Report(time.monotonic())
    for kind in kinds:
        report.deadline_s += 60 * given.minutes / len(kinds)
        run_shares(kind, given.seed, numbers, Limits(), report.add, min(given.jobs, len(numbers)))
    print(report.as_json(given.seed) if given.json else report.table())
    return 1 if report.unclean else 0


if __name__ == "__main__":
    sys.exit(main())
