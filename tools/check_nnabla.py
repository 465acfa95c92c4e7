"""Compares atled with NNabla 1.39 and writes what differs, and why, to docs/nnabla_differences.md.

`python tools/check_nnabla.py` runs both libraries on the same inputs: NNabla under Python 3.10, in an environment that
is made on first use; atled in the running one. Then both run whole programs; NNabla's losses are written to
tests/compat/losses.json. The exit status is 1 if there is a difference without explanation, or an explanation without
difference.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(_ROOT / "benchmarks"))  # its environments serve here as well

from nnabla_check.cases import all_cases  # noqa: E402  # after the path is set
from nnabla_check.comparison import compare, is_absent  # noqa: E402
from nnabla_check.explanations import unexplained, unneeded  # noqa: E402
from nnabla_check.page import page  # noqa: E402
from nnabla_check.programs import PROGRAMS, final, run_programs, too_far, write_expected  # noqa: E402
from nnabla_check.runs import run_all  # noqa: E402
from peers import PeerMissingError, interpreter  # noqa: E402

_PAGE = _ROOT / "docs" / "nnabla_differences.md"


def main() -> int:
    """Run, compare, write the page; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--only", metavar="TEXT", default="", help="cases and programs with TEXT in their names; writes nothing"
    )
    parser.add_argument(
        "--out", metavar="FILE", default=str(_PAGE), help="the page (default: docs/nnabla_differences.md)"
    )
    arguments = parser.parse_args()
    try:
        nnabla_python = interpreter("nnabla")
    except PeerMissingError as error:
        print(f"check-nnabla: NNabla cannot be had here: {error}", file=sys.stderr)
        return 1
    cases = [(case, arrays) for case, arrays in all_cases() if arguments.only in case["id"]]
    with tempfile.TemporaryDirectory(prefix="atled-check-nnabla-") as folder:
        results = run_all(cases, nnabla_python, Path(folder) / "run")
        cases = [(case, arrays) for case, arrays in cases if case["id"] in results["atled"]]
        names = [name for name in PROGRAMS if arguments.only in name]
        losses = run_programs(names, nnabla_python, Path(folder) / "programs")
    differences = [
        difference
        for case, _ in cases
        for difference in compare(case, results["nnabla"][case["id"]], results["atled"][case["id"]])
    ]
    wrong = unexplained(differences)
    for difference in wrong:
        print(
            f"unexplained: {difference.case}: {difference.what}: {difference.detail}: {difference.call}",
            file=sys.stderr,
        )
    mine, theirs = losses["atled"], losses["nnabla"]
    told = {name: too_far(name, mine[name], theirs[name], final(theirs[name])) for name in names}
    for name, text in told.items():
        if text:
            print(f"unexplained: program {name}: {text}", file=sys.stderr)
    idle = [] if arguments.only else unneeded(differences)
    for text in idle:
        print(f"explained, but not seen: {text}", file=sys.stderr)
    if not arguments.only:
        compared = [case for case, _ in cases if not is_absent(results["nnabla"][case["id"]])]
        own = {case["function"] for case, _ in cases if is_absent(results["nnabla"][case["id"]])}
        Path(arguments.out).write_text(page(compared, differences, sorted(own), losses), "utf-8")
        write_expected(theirs)
    print(f"{len(cases)} cases, {len({d.case for d in differences})} with differences, {len(wrong)} unexplained")
    print(f"{len(names)} programs, {sum(map(bool, told.values()))} differ")
    return 1 if wrong or idle or any(told.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
