"""The command line of a benchmark: starts the libraries, measures the chosen rows, reports."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import datetime
import difflib
import importlib.util
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.case import Row
from harness.chart import draw_chart, draw_neighbour_chart
from harness.environment import ALLOCATORS, conditions, describe_machine, load, pin, process_environment
from harness.limits import measured
from harness.neighbour import Neighbour
from harness.process import LibraryError, LibraryProcess
from harness.report import (
    SLOWDOWN_GOAL,
    as_json,
    failures_of,
    lost_rows,
    neighbour_table_of,
    print_table,
    table_of,
    write_json,
)
from harness.rounds import Effort, Outcome, measure_row
from peers import PeerMissingError, interpreter

_RESULTS = Path(__file__).resolve().parent.parent / "results"

# Libraries that run in our own interpreter, with the module that tells their version.
_OURS = {
    "atled": "atled",
    "atled-float": "atled",
    "cpu": "atled",
    "cuda": "atled",
    "limit": "atled",
    "reference": "atled",
    "numpy": "numpy",
}

# On a GPU all of them do: what is there for its driver and its CUDA cannot be chosen.
_OURS |= {"atled-gpu": "atled", "copy": "cupy", "cupy + 3 us": "cupy"}
_OURS |= dict.fromkeys(("torch-gpu", "torch-gpu-nhwc", "torch-gpu-compile"), "torch")

# Ways to use one peer that count as libraries of their own.
_VARIANTS = {"torch-nhwc": "torch", "torch-compile": "torch"}


def run_benchmark(
    name: str,
    rows: Sequence[Row],
    description: str,
    arguments: Sequence[str] | None = None,
    keeps_each: bool = False,
    of_processor: bool = True,
) -> int:
    """Run a benchmark from the command line; returns the exit status.

    name: of the files in results/.  arguments: as in sys.argv[1:], which is the default.
    keeps_each: write what there is after each row, for machines that may be taken away.
    of_processor: what is measured is this machine's processor, for the results of which there is a folder.
    1: one of our own rows failed, or gave other results than a peer.
    """
    options = _parse(description, arguments)
    if options.list:
        print("\n".join(row.name for row in rows))
        return 0
    chosen = _choose_peers(_choose(rows, options.rows), options.peers)
    if importlib.util.find_spec("atled") is None:
        print(f"atled is not installed for {sys.executable}: make test installs it into .venv", file=sys.stderr)
        return 2
    cores = pin(options.cores)
    limits = measured(process_environment(options.cores, ours=True), options.cores) if of_processor else None
    folder = _RESULTS if limits is None else _RESULTS / limits["processor"]
    environment: dict[str, Any] = {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": describe_machine(),
        "limits": limits,
        "conditions": conditions(options.malloc),
        "cores": cores or "not bound",
        "rounds": options.rounds,
        "seconds_per_round": options.seconds,
        "load_before": load(),
    }
    start = time.perf_counter()
    libraries = list(dict.fromkeys(library for row in chosen for library in row.libraries))
    with contextlib.ExitStack() as stack:
        taken = cores[-1:] if options.neighbour == "one" else cores
        neighbour = stack.enter_context(Neighbour(taken)) if options.neighbour else None
        effort = Effort(options.rounds, options.seconds, options.row_seconds, options.make_seconds, neighbour)
        processes, missing, versions = _start(stack, libraries, options)
        outcomes = []
        for number, row in enumerate(chosen, 1):
            print(f"{time.perf_counter() - start:4.0f} s  {number}/{len(chosen)}  {row.name} ...", file=sys.stderr)
            outcomes.append(measure_row(row, processes, missing, effort))
            if keeps_each:
                write_json(folder / f"{_stem(name, options)}.json", as_json(name, outcomes, environment))
    environment |= {"load_after": load(), "versions": versions, "seconds": round(time.perf_counter() - start)}
    _report(folder / _stem(name, options), outcomes, as_json(name, outcomes, environment), options)
    return int(any(_is_wrong(outcome) for outcome in outcomes))


def _parse(description: str, arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--rows", nargs="+", default=[], metavar="TEXT", help="only rows whose name holds one of these")
    parser.add_argument("--peers", nargs="*", metavar="LIBRARY", help="only these of the libraries we compare with")
    parser.add_argument("--list", action="store_true", help="print the names of the rows and stop")
    parser.add_argument("--rounds", type=int, default=5, help="rounds, each of all libraries in turn (default: 5)")
    parser.add_argument("--seconds", type=float, default=0.2, help="time of each library in a round (default: 0.2)")
    parser.add_argument("--row-seconds", type=float, default=20, help="limit for the rounds of a row (default: 20)")
    parser.add_argument(
        "--make-seconds", type=float, default=180, help="limit for a library to make a row, compilation included (180)"
    )
    parser.add_argument("--cores", type=int, choices=(1, 2), default=1, help="cores and threads of each library")
    parser.add_argument("--malloc", choices=tuple(ALLOCATORS), default="tuned", help="settings of glibc's malloc")
    parser.add_argument(
        "--neighbour",
        nargs="?",
        choices=("each", "one"),
        const="each",
        help="also measure while a process spins on each core (default), or on one of them",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    options = parser.parse_args(arguments)
    if min(options.rounds, options.seconds, options.row_seconds, options.make_seconds) <= 0:
        parser.error("--rounds, --seconds, --row-seconds and --make-seconds must be positive")
    if options.neighbour and not hasattr(os, "sched_setaffinity"):
        parser.error("--neighbour: this system cannot bind processes to cores; leave it out, or take Linux")
    return options


def _choose(rows: Sequence[Row], texts: Sequence[str]) -> list[Row]:
    """The rows whose name holds one of the texts, case ignored; all of them without texts."""
    for text in texts:
        if not any(text.lower() in row.name.lower() for row in rows):
            names = [row.name for row in rows]
            near = difflib.get_close_matches(text, names, 3, 0.3) or names[:3]
            sys.exit(f"--rows {text}: no row has that in its name. Near: {'; '.join(near)}. --list shows all")
    return [row for row in rows if not texts or any(text.lower() in row.name.lower() for text in texts)]


def _choose_peers(rows: Sequence[Row], peers: Sequence[str] | None) -> list[Row]:
    """The rows with no other peers than these; as they are for None."""
    if peers is None:
        return list(rows)
    known = list(dict.fromkeys(library for row in rows for library in row.libraries[1:]))
    for peer in peers:
        if peer not in known:
            sys.exit(f"--peers {peer}: the chosen rows are compared with {', '.join(known)}: name some of these")
    return [
        dataclasses.replace(row, libraries=(row.libraries[0], *(peer for peer in row.libraries[1:] if peer in peers)))
        for row in rows
    ]


def _start(
    stack: contextlib.ExitStack, libraries: Sequence[str], options: argparse.Namespace
) -> tuple[dict[str, LibraryProcess], dict[str, str], dict[str, Any]]:
    """A process per library, the libraries that are missing with the reason, and the versions."""
    processes: dict[str, LibraryProcess] = {}
    missing: dict[str, str] = {}
    versions: dict[str, Any] = {}
    for library in libraries:
        ours = library in _OURS
        peer = _VARIANTS.get(library, library)
        try:
            python = sys.executable if ours else str(interpreter(peer))
            environment = process_environment(options.cores, ours=ours, malloc=options.malloc)
            process = stack.enter_context(LibraryProcess(python, environment))
            versions[library] = process.ask("describe", module=_OURS.get(library, peer))
        except PeerMissingError as error:
            missing[library] = str(error)
        except LibraryError as error:
            missing[library] = error.summary
        else:
            processes[library] = process
    return processes, missing, versions


def _stem(name: str, options: argparse.Namespace) -> str:
    """The name of the files: what was measured in another way than usual does not take the place of the usual table."""
    parts = [name]
    if options.cores > 1:
        parts.append(f"{options.cores}cores")
    if options.malloc != "tuned":
        parts.append(f"{options.malloc}-malloc")
    if options.neighbour:
        parts.append("neighbour" if options.neighbour == "each" else "neighbour-on-one")
    if options.rows or options.peers is not None:
        parts.append("selection")
    return "-".join(parts)


def _report(path: Path, outcomes: Sequence[Outcome], content: dict[str, Any], options: argparse.Namespace) -> None:
    """Write the files of a table and its chart, path without their suffixes, and show the table."""
    stem = path.name
    write_json(path.with_name(f"{stem}.json"), content)
    versions = ", ".join(f"{name} {found['version']}" for name, found in content["versions"].items())
    limits = content["limits"]
    machine = f"{content['machine']['cpu']}; cores {content['cores']}; load {content['load_before'][:1]}"
    if limits is not None:
        machine += f"\n{limits['processor']}: {limits['flops'] / 1e9:.3g} GFLOP/s, {_copied(limits)}"
    if options.json:
        print(json.dumps(content, indent=1))
    else:
        print_table(table_of(outcomes, limits), f"{stem}: {versions}\n{machine}\n" + "; ".join(content["conditions"]))
        if options.neighbour:
            print_table(neighbour_table_of(outcomes), f"{stem}: time with a busy neighbour over time without")
        for line in failures_of(outcomes):
            print(line)
        for lost in lost_rows(outcomes):
            print(f"a peer was faster in every round: {lost}")
        judged = [reached for outcome in outcomes if (reached := outcome.is_reached()) is not None]
        slowdowns = [
            outcome.slowdown(ours).ratio for outcome in outcomes if (ours := outcome.row.libraries[0]) in outcome.busy
        ]
        if slowdowns:
            within = sum(slowdown <= SLOWDOWN_GOAL for slowdown in slowdowns)
            print(f"with a busy neighbour at most {SLOWDOWN_GOAL:g} times as long: {within} of {len(slowdowns)}")
        if judged:
            print(f"goals reached: {sum(judged)} of {len(judged)}; {content['seconds']} s in all")
    written = [f"{stem}.json"]
    kind = "" if limits is None else f", {limits['processor']}"
    title = f"{stem}, {content['date'][:10]}, {content['machine']['cpu']}{kind}"
    try:
        if options.neighbour:
            draw_neighbour_chart(path.with_name(f"{stem}.png"), outcomes, title, SLOWDOWN_GOAL)
        else:
            draw_chart(path.with_name(f"{stem}.png"), outcomes, title)
        written.append(f"{stem}.png")
    except ImportError:
        print("no chart: matplotlib is not installed (pip install matplotlib)", file=sys.stderr)
    print(f"written: {', '.join(str(path.with_name(file)) for file in written)}", file=sys.stderr)


def _copied(limits: dict[str, Any]) -> str:
    """How fast arrays are copied, in words."""
    rates = ", ".join(f"{int(size) / (1 << 20):g} MB: {rate / 1e9:.3g}" for size, rate in limits["bytes"].items())
    return f"GB/s in copies of arrays of {rates}"


def _is_wrong(outcome: Outcome) -> bool:
    ours = outcome.row.libraries[0]
    return ours in outcome.failures or not all(found.agrees for found in outcome.comparisons.values())
