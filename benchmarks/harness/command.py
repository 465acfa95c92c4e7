"""The command line of a benchmark: starts the libraries, measures the chosen rows, reports."""

from __future__ import annotations

import argparse
import contextlib
import datetime
import difflib
import importlib.util
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.case import Row
from harness.chart import draw_chart
from harness.environment import CONDITIONS, describe_machine, load, pin, process_environment
from harness.process import LibraryError, LibraryProcess
from harness.report import as_json, lost_rows, print_table, write_json
from harness.rounds import Outcome, measure_row
from peers import PeerMissingError, interpreter

_RESULTS = Path(__file__).resolve().parent.parent / "results"

# Libraries that run in our own interpreter, with the module that tells their version.
_OURS = {"atled": "atled", "reference": "atled", "numpy": "numpy"}


def run_benchmark(name: str, rows: Sequence[Row], description: str, arguments: Sequence[str] | None = None) -> int:
    """Run a benchmark from the command line; returns the exit status.

    name: of the files in results/.  arguments: as in sys.argv[1:], which is the default.
    1: one of our own rows failed, or gave other results than a peer.
    """
    options = _parse(description, arguments)
    if options.list:
        print("\n".join(row.name for row in rows))
        return 0
    chosen = _choose(rows, options.rows)
    if importlib.util.find_spec("atled") is None:
        print(f"atled is not installed for {sys.executable}: make test installs it into .venv", file=sys.stderr)
        return 2
    cores = pin(options.cores)
    environment: dict[str, Any] = {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": describe_machine(),
        "conditions": list(CONDITIONS),
        "cores": cores or "not bound",
        "rounds": options.rounds,
        "seconds_per_round": options.seconds,
        "load_before": load(),
    }
    libraries = list(dict.fromkeys(library for row in chosen for library in row.libraries))
    with contextlib.ExitStack() as stack:
        processes, missing, versions = _start(stack, libraries, options.cores)
        outcomes = []
        for row in chosen:
            print(f"{row.name} ...", file=sys.stderr)
            outcomes.append(measure_row(row, processes, missing, options.rounds, options.seconds))
    environment["load_after"] = load()
    environment["versions"] = versions
    content = as_json(name, outcomes, environment)
    stem = name
    if options.cores > 1:
        stem += f"-{options.cores}cores"
    if len(chosen) < len(rows):
        stem += "-selection"
    _report(stem, outcomes, content, show_json=options.json)
    return int(any(_is_wrong(outcome) for outcome in outcomes))


def _parse(description: str, arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--rows", nargs="+", default=[], metavar="TEXT", help="only rows whose name holds one of these")
    parser.add_argument("--list", action="store_true", help="print the names of the rows and stop")
    parser.add_argument("--rounds", type=int, default=5, help="rounds, each of all libraries in turn (default: 5)")
    parser.add_argument("--seconds", type=float, default=0.2, help="time of each library in a round (default: 0.2)")
    parser.add_argument("--cores", type=int, choices=(1, 2), default=1, help="cores and threads of each library")
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    options = parser.parse_args(arguments)
    if options.rounds < 1 or options.seconds <= 0:
        parser.error("--rounds and --seconds must be positive")
    return options


def _choose(rows: Sequence[Row], texts: Sequence[str]) -> list[Row]:
    """The rows whose name holds one of the texts, case ignored; all of them without texts."""
    for text in texts:
        if not any(text.lower() in row.name.lower() for row in rows):
            names = [row.name for row in rows]
            near = difflib.get_close_matches(text, names, 3, 0.3) or names[:3]
            sys.exit(f"--rows {text}: no row has that in its name. Near: {'; '.join(near)}. --list shows all")
    return [row for row in rows if not texts or any(text.lower() in row.name.lower() for text in texts)]


def _start(
    stack: contextlib.ExitStack, libraries: Sequence[str], cores: int
) -> tuple[dict[str, LibraryProcess], dict[str, str], dict[str, Any]]:
    """A process per library, the libraries that are missing with the reason, and the versions."""
    processes: dict[str, LibraryProcess] = {}
    missing: dict[str, str] = {}
    versions: dict[str, Any] = {}
    for library in libraries:
        ours = library in _OURS
        try:
            python = sys.executable if ours else str(interpreter(library))
            process = stack.enter_context(LibraryProcess(python, process_environment(cores, ours=ours)))
            versions[library] = process.ask("describe", module=_OURS.get(library, library))
        except PeerMissingError as error:
            missing[library] = str(error)
        except LibraryError as error:
            missing[library] = error.summary
        else:
            processes[library] = process
    return processes, missing, versions


def _report(stem: str, outcomes: Sequence[Outcome], content: dict[str, Any], *, show_json: bool) -> None:
    write_json(_RESULTS / f"{stem}.json", content)
    versions = ", ".join(f"{name} {found['version']}" for name, found in content["versions"].items())
    conditions = f"{content['machine']['cpu']}; cores {content['cores']}; load {content['load_before'][:1]}"
    if show_json:
        print(json.dumps(content, indent=1))
    else:
        print_table(outcomes, f"{stem}: {versions}\n{conditions}\n" + "; ".join(CONDITIONS))
        for lost in lost_rows(outcomes):
            print(f"a peer was faster in every round: {lost}")
    written = [f"{stem}.json"]
    try:
        draw_chart(_RESULTS / f"{stem}.png", outcomes, f"{stem}, {content['date'][:10]}, {content['machine']['cpu']}")
        written.append(f"{stem}.png")
    except ImportError:
        print("no chart: matplotlib is not installed (pip install matplotlib)", file=sys.stderr)
    print(f"written: {', '.join(str(_RESULTS / file) for file in written)}", file=sys.stderr)


def _is_wrong(outcome: Outcome) -> bool:
    ours = outcome.row.libraries[0]
    return ours in outcome.failures or not all(found.agrees for found in outcome.comparisons.values())
