"""Runs the kernel, accuracy and conformance tests on code for several processors; `make check-processors` does.

    python tools/check_processors.py                   all of them, and write docs/processors.md
    python tools/check_processors.py haswell host      these, and show what came of them
    python tools/check_processors.py --every 10        a tenth of the tests, for the page too

Each runs in processes of its own with ATLED_CPU. One that this machine cannot execute is listed as not run.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "processors.md"

PROCESSORS = {
    "x86_64": ("x86-64", "nehalem", "haswell", "skylake-avx512", "znver4", "host"),
    "aarch64": ("generic", "host"),
}
"""By kind of machine: a name of each width of vectors, without and with fused instructions, and the one at hand."""

PARTS = {
    "kernels": ("tests/plugins/cpu_numba",),
    "accuracy": ("tests/tools/test_accuracy.py",),
    "conformance": ("--pyargs", "atled.conformance", "--atled-plugin", "cpu-numba"),
}

# Quick ones that differ between processors: functions, with and without fused instructions, and products in registers.
SHORT = (
    "tests/tools/test_accuracy.py::test_functions_are_as_exact_as_stated",
    "tests/plugins/cpu_numba/kernels/products/test_row_products.py",
)
SHORT_FOR = {"x86_64": ("x86-64",), "aarch64": ("generic",)}

_HEAD = """\
# The cpu backend on several processors

Written by `make check-processors`; do not edit. Code for each processor ([ATLED_CPU](cpu_processor.md)) went through
the tests of the kernels, the statements of [accuracy](accuracy.md) and the [conformance kit](conformance.md).

"""


class Outcome(NamedTuple):
    """What came of one part: counts, seconds, and the names of the tests that failed."""

    passed: int
    failed: int
    skipped: int
    seconds: float
    failures: Sequence[str]

    def __str__(self) -> str:
        return f"{self.failed} of {self.passed + self.failed} failed" if self.failed else f"{self.passed} passed"


def main(arguments: list[str] | None = None) -> int:
    """Run and report; 1 if a test failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("processor", nargs="*", help="names for ATLED_CPU (default: all of this kind of machine)")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="run every Nth test only")
    options = parser.parse_args(arguments)
    names = options.processor or processors()
    found: dict[str, dict[str, Outcome] | str] = {}
    for name in names:
        missing = missing_here(name)
        if missing:
            found[name] = f"not run: this machine lacks {missing}"
            print(f"{name}: {found[name]}", flush=True)
            continue
        outcomes: dict[str, Outcome] = {}
        for part, tests in PARTS.items():
            outcomes[part] = run(name, tests, every=options.every)
            print(f"{name}: {part}: {outcomes[part]} in {outcomes[part].seconds:.0f} s", flush=True)
            for failure in outcomes[part].failures:
                print(f"    {failure}", flush=True)
        found[name] = outcomes
        if not options.processor:
            PAGE.write_text(page(found, options.every), "utf-8")
    return int(any(outcome.failed for row in found.values() if not isinstance(row, str) for outcome in row.values()))


def processors() -> tuple[str, ...]:
    """Those to try on this kind of machine."""
    return PROCESSORS.get(_kind(), ("generic", "host"))


def short() -> dict[str, Outcome]:
    """The short form, which `make test` runs: some tests for the oldest processor."""
    return {name: run(name, SHORT) for name in SHORT_FOR.get(_kind(), ()) if not missing_here(name)}


def missing_here(name: str) -> str:
    """What this machine lacks of a processor, in words; empty where it executes code for it."""
    program = "from atled_cpu_numba import processor as p; print(*p.missing_here(p.target()), sep=', ')"
    answer = subprocess.run(
        [sys.executable, "-c", program], env=_environment(name), stdout=subprocess.PIPE, text=True, check=True
    )
    return answer.stdout.strip()


def run(name: str, tests: Sequence[str], *, every: int = 1) -> Outcome:
    """Run pytest on code for one processor."""
    start = time.perf_counter()
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "every_nth", "--tb=no", *tests]
    environment = {**_environment(name), "EVERY_NTH": str(every), "PYTHONPATH": str(Path(__file__).parent)}
    # The archives of kernels are another check's.
    archives = (f"tests/plugins/cpu_numba/test_{name}.py" for name in ("kernel_texts", "shipped_objects"))
    ignored = [f"--deselect={test}::test_the_archive_is_up_to_date" for test in archives]
    done = subprocess.run([*command, *ignored], cwd=ROOT, env=environment, capture_output=True, text=True)
    if done.returncode not in (0, 1):  # neither passed nor failed: a crash, or nothing to run
        raise RuntimeError(f"the tests for {name} ended with status {done.returncode}:\n{done.stdout}{done.stderr}")
    counts = {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|error|skipped)", done.stdout)}
    failures = re.findall(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    return Outcome(
        counts.get("passed", 0),
        counts.get("failed", 0) + counts.get("error", 0),
        counts.get("skipped", 0),
        time.perf_counter() - start,
        failures,
    )


def page(found: dict[str, dict[str, Outcome] | str], every: int) -> str:
    """The text of docs/processors.md."""
    from atled_cpu_numba import processor

    share = "all tests" if every == 1 else f"every {every}th test"
    here = f"{_model()}, which LLVM calls {processor.host().name}"
    lines = [f"{datetime.date.today():%d %B %Y}, {platform.system()}, {here}; {share}.", ""]
    lines += [f"| processor | {' | '.join(PARTS)} |", "|" + "---|" * (len(PARTS) + 1)]
    failures = []
    for name, row in found.items():
        shown = f"`{name}`" if name != "host" else "the one at hand"
        cells = [row, *[""] * (len(PARTS) - 1)] if isinstance(row, str) else [str(row[part]) for part in PARTS]
        lines.append(f"| {shown} | {' | '.join(cells)} |")
        if not isinstance(row, str):
            failures += [f"- {shown}: `{test}`" for outcome in row.values() for test in outcome.failures]
    if failures:
        lines += ["", "Failed:", "", *failures]
    return _HEAD + "\n".join(lines) + "\n"


def _kind() -> str:
    return {"AMD64": "x86_64", "arm64": "aarch64"}.get(platform.machine(), platform.machine())


def _environment(name: str) -> dict[str, str]:
    return {**os.environ, "ATLED_CPU": "" if name == "host" else name}


def _model() -> str:
    """The processor's name as its maker has it, where the system tells."""
    try:
        match = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        match = None
    return match[1] if match else platform.processor() or platform.machine()


if __name__ == "__main__":
    sys.exit(main())
