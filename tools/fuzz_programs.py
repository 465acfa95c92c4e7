"""Runs random training programs in several ways and counts where the results disagree.

`python tools/fuzz_programs.py` draws programs from a seed: graphs static and rebuilt, layers, views, writes, solvers,
compiled steps, inferences that are partly constant, dropped handles, ops of all families as in their samples. Each
runs on backend cpu with every count of threads, which must give equal bits, and by an interpreter that computes call by
call in float64 with NumPy, to which the results must be close. With `--backend sim` it runs on the simulated device,
which is told to compile formulas, to refuse ops, ... and must give equal bits as device programs, step by step, and
where it fails now and then and is asked again. Freed memory holds NaN. "wrong" disagrees with the interpreter, "bits"
between such ways, "refused" is an error that says a value is lost when nothing lost it, "foreign" any other exception;
a child that takes too long is killed and counted as "hanging", one that dies by itself as "crashing". Each such program
is shrunk and shown as a script. The exit status is 1 unless all were clean.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from fuzzing.parent import Limits, Result, run_shares  # after the path is set

KIND = "fuzzing_programs.attempts"
OUTCOMES = ("right", "wrong", "bits", "refused", "foreign", "hanging", "crashing")
_LIMITS = Limits(time_s=120, memory_bytes=2 << 30)


class Report:
    """Counts of outcomes and of what programs contain, and what was not clean."""

    def __init__(self, backend: str, threads: str, is_shrunk: bool) -> None:
        self.outcomes: Counter[str] = Counter()
        self.features: Counter[str] = Counter()
        self.programs: Counter[str] = Counter()
        self.unclean: list[dict[str, object]] = []
        self._backend = backend
        self._threads = threads
        self._is_shrunk = is_shrunk

    def add(self, result: Result) -> None:
        """Count a result; show it, shrunk, if it is not clean."""
        from fuzzing_programs.attempts import features_of  # loads the library

        self.outcomes[result.outcome] += 1
        features = features_of(result.text)
        self.features.update(features)
        self.programs.update(features.keys())
        if result.outcome == "right":
            return
        text = self._shrunk(result) if self._is_shrunk else result.text
        self.unclean.append({**result._asdict(), "text": text})
        print(f"{result.outcome}: program {result.number}\n{result.detail}\n{text}\n", file=sys.stderr)

    def _shrunk(self, result: Result) -> str:
        from fuzzing_programs import drawing
        from fuzzing_programs.running import script
        from fuzzing_programs.shrinking import Checker, shrunk

        seed = int(result.text.split()[2].rstrip(","))
        program = drawing.draw(seed, result.number, self._backend)
        checker = Checker(program.setting, self._threads)
        title = f"seed {seed}, program {result.number}"
        try:
            first = checker.outcome(program.statements)
            if first in ("right", "invalid"):
                return f"# alone it is {first}: what ran before it matters\n{result.text}"
            small = shrunk(program.statements, lambda statements: checker.outcome(statements) == first)
        finally:
            checker.close()
        return script(program.setting, small, f"{title}, shrunk")

    def table(self) -> str:
        """Outcomes, then features: how often each was drawn, and in how many programs."""
        lines = ["".join(name.rjust(10) for name in ("programs", "clean", *OUTCOMES[1:]))]
        lines += ["".join(f"{n:10}" for n in (self.outcomes.total(), *(self.outcomes[name] for name in OUTCOMES)))]
        lines += ["", f"{'feature':28}{'drawn':>8}{'programs':>10}"]
        lines += [f"{name:28}{count:8}{self.programs[name]:10}" for name, count in sorted(self.features.items())]
        return "\n".join(lines)

    def as_json(self, seed: int) -> str:
        """The same for programs, with everything that was not clean."""
        counts = {name: self.outcomes[name] for name in OUTCOMES}
        features = {name: [count, self.programs[name]] for name, count in sorted(self.features.items())}
        return json.dumps({"seed": seed, "counts": counts, "features": features, "unclean": self.unclean}, indent=1)


def main() -> int:
    """Run, report; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="what programs are drawn from (default: 0)")
    parser.add_argument("--programs", type=int, default=100, help="how many (default: 100)")
    parser.add_argument("--first", type=int, default=0, help="the number of the first one (default: 0)")
    parser.add_argument("--backend", default="cpu", choices=("cpu", "sim"), help="what computes (default: cpu)")
    parser.add_argument("--threads", default="1,3", help="counts of threads to compare, the first with NumPy (1,3)")
    parser.add_argument("--jobs", type=int, default=1, help="children at a time (default: 1)")
    parser.add_argument("--json", action="store_true", help="write the report as JSON")
    parser.add_argument("--as-drawn", action="store_true", help="show unclean programs as they are, not shrunk")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    given = parser.parse_args()
    numbers = range(given.first, given.first + given.programs)
    report = Report(given.backend, given.threads, not given.as_drawn)
    os.environ.update(FUZZ_THREADS=given.threads, FUZZ_BACKEND=given.backend)
    _run(report, given.seed, numbers, given.jobs, given.quiet)
    print(report.as_json(given.seed) if given.json else report.table())
    return 1 if report.outcomes.total() > report.outcomes["right"] else 0


def _run(report: Report, seed: int, numbers: range, jobs: int, is_quiet: bool) -> None:
    """Run the programs, with a bar that shows how far it is."""
    from rich.console import Console
    from rich.progress import MofNCompleteColumn, Progress, TimeRemainingColumn

    bar = Progress(
        *Progress.get_default_columns()[:2],
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        disable=is_quiet,
    )
    with bar:
        task = bar.add_task("programs", total=len(numbers))

        def tell(result: Result) -> bool:
            report.add(result)
            bar.advance(task)
            return True

        run_shares(KIND, seed, numbers, _LIMITS, tell, min(jobs, len(numbers)))


if __name__ == "__main__":
    sys.exit(main())
