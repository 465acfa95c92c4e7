"""What kernels need on real architectures, against a table of what each may need.

    python -m atled_cuda_emulator.needs FOLDER --table kernel-needs.json            texts of FOLDER against the table
    python -m atled_cuda_emulator.needs FOLDER --table kernel-needs.json --write    make the table of what they need

FOLDER holds texts as pytest's option --cuda-texts writes them. A text that does not compile, a kernel that the table
does not know, one that needs more registers than it may, or that spills where none may, makes the exit status 1.
Registers are compared where the compiler is the one of the table: others allot them otherwise.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from atled_cuda_emulator.compiling import Text
from atled_cuda_emulator.nvrtc import Needs, NvrtcError, compile_texts, unusable, version

ARCHITECTURES = ("sm_75", "sm_90")
_TEXTS = 16  # in one run of the compiler
_MOST_VARIANTS = {"registers": max, "spilled": max, "stack": max, "shared": max}

Table = dict[str, dict[str, dict[str, int]]]
"""By architecture and kernel: the most that any of its variants needs."""


def needs_of(texts: Sequence[str], architectures: Sequence[str], processes: int) -> Table:
    """Compile all texts for all architectures. NvrtcError: one does not compile."""
    shares = [texts[first : first + _TEXTS] for first in range(0, len(texts), _TEXTS)]
    jobs = [(share, architecture) for architecture in architectures for share in shares]
    table: Table = {architecture: {} for architecture in architectures}
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        for (_, architecture), found in zip(jobs, pool.map(_compiled, jobs), strict=True):
            _add(table[architecture], found)
    return {architecture: dict(sorted(kernels.items())) for architecture, kernels in table.items()}


def _compiled(job: tuple[Sequence[str], str]) -> list[tuple[str, Needs]]:
    texts, architecture = job
    return [each for found in compile_texts(texts, architecture) for each in found.items()]


def _add(kernels: dict[str, dict[str, int]], found: Iterable[tuple[str, Needs]]) -> None:
    for name, needs in found:
        most = kernels.setdefault(name, {"variants": 0})
        most["variants"] += 1
        for what, combine in _MOST_VARIANTS.items():
            most[what] = combine(most.get(what, 0), getattr(needs, what))


def problems(found: Table, allowed: Mapping[str, Any], same_compiler: bool) -> list[str]:
    """Where kernels need more than the table allows."""
    told = []
    for architecture, kernels in found.items():
        for name, needs in kernels.items():
            limits = allowed.get(architecture, {}).get(name)
            if limits is None:
                told.append(f"{name} on {architecture}: not in the table")
                continue
            compared = _MOST_VARIANTS if same_compiler else ["spilled"] if not limits["spilled"] else []
            told += [
                f"{name} on {architecture}: {what} {needs[what]}, the table allows {limits[what]}"
                for what in compared
                if needs[what] > limits[what]
            ]
    return told


def _chosen(texts: Sequence[str], most: int) -> list[str]:
    """All texts for 0, else of those with kernels of the same names at most so many, evenly spaced."""
    by_name: dict[tuple[str, ...], list[str]] = {}
    for text in texts:
        by_name.setdefault(Text(text).kernels, []).append(text)
    steps = {names: max(1, -(-len(found) // most) if most else 1) for names, found in by_name.items()}
    return [text for names, found in by_name.items() for text in found[:: steps[names]]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare or write; 1 where kernels need more than they may, 2 where there is no compiler."""
    name = "python -m atled_cuda_emulator.needs"
    parser = argparse.ArgumentParser(prog=name, description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="texts of kernels, *.cu")
    parser.add_argument("--table", type=Path, required=True, help="JSON file of what kernels may need")
    parser.add_argument("--write", action="store_true", help="write the table instead of comparing with it")
    parser.add_argument("--architectures", nargs="+", default=list(ARCHITECTURES), help="default: sm_75 sm_90")
    parser.add_argument("--most", type=int, default=0, metavar="N", help="at most N texts of kernels of one name")
    parser.add_argument("--processes", type=int, default=2, help="compilers at once (default: 2)")
    options = parser.parse_args(arguments)
    if (reason := unusable()) is not None:
        print(reason, file=sys.stderr)
        return 2
    texts = _chosen([path.read_text() for path in sorted(options.folder.glob("*.cu"))], options.most)
    if not texts:
        print(f"no texts in {options.folder}: pytest's option --cuda-texts writes them", file=sys.stderr)
        return 2
    if not options.write and not options.table.exists():
        print(f"there is no table {options.table}: --write makes it", file=sys.stderr)
        return 2
    start = time.perf_counter()
    compiler = ".".join(map(str, version()))
    try:
        found = needs_of(texts, options.architectures, options.processes)
    except NvrtcError as error:
        print(f"NVRTC {compiler} {error}", file=sys.stderr)
        return 1
    seconds = time.perf_counter() - start
    print(f"NVRTC {compiler}: {len(texts)} texts for {', '.join(options.architectures)} in {seconds:.0f} s")
    if options.write:
        options.table.write_text(json.dumps({"nvrtc": compiler, **found}, indent=1) + "\n")
        return 0
    allowed = json.loads(options.table.read_text())
    told = problems(found, allowed, allowed["nvrtc"] == compiler)
    for line in told:
        print(line)
    return int(bool(told))


if __name__ == "__main__":
    sys.exit(main())
