"""What is shown and kept of a benchmark: a table on the terminal, a JSON file."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from harness.limits import shortest_time
from harness.rounds import Comparison, Outcome

_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "MB": 1e6}

# The most that a busy neighbour may do to us.
SLOWDOWN_GOAL = 2.5

Table = list[tuple[str, ...]]


def table_of(outcomes: Sequence[Outcome], limits: Mapping[str, Any] | None = None) -> Table:
    """The heading and one line per row: each library's figure, the best peer, our ratio to it, goal, agreement.

    limits: of the machine, as `harness.limits` measures them; then also the share of them that we reach.
    Columns that say nothing in any row are left out.
    """
    libraries = _libraries(outcomes)
    heading = (
        "row",
        "unit",
        *libraries,
        "best peer",
        "ratio",
        "range",
        "goal",
        "reached",
        "of limit",
        "results",
        "how",
    )
    lines = []
    for outcome in outcomes:
        row = outcome.row
        best = outcome.best_peer()
        compared = ("", "", "") if best is None else (best, *_ratio(outcome.comparisons[best]))
        lines.append(
            (
                row.name,
                row.unit if row.unit == "MB" else f"{row.unit}/{row.of}",
                *(_figure(outcome, library) for library in libraries),
                *compared,
                _goal(outcome),
                {None: "", True: "yes", False: "NO"}[outcome.is_reached()],
                "" if limits is None or (share := limit_share(outcome, limits)) is None else f"{share:.0%}",
                _agreement(outcome),
                outcome.notes.get(row.libraries[0], ""),
            )
        )
    used = [i for i in range(len(heading)) if any(line[i] for line in lines)]
    return [tuple(line[i] for i in used) for line in (heading, *lines)]


def limit_share(outcome: Outcome, limits: Mapping[str, Any]) -> float | None:
    """The shortest time that the machine allows for a row's work over our time; None where either is not known."""
    ours = outcome.row.libraries[0]
    if outcome.row.work is None or ours not in outcome.figures:
        return None
    return shortest_time(outcome.row.work, limits) / outcome.median(ours)


def neighbour_table_of(outcomes: Sequence[Outcome]) -> Table:
    """The heading and one line per row: how many times longer each library takes with a busy neighbour."""
    libraries = _libraries(outcomes)
    table: Table = [("row", *libraries, "range", "goal", "reached")]
    for outcome in (each for each in outcomes if each.busy):
        factors = {library: outcome.slowdown(library) for library in outcome.busy}
        own = factors.get(outcome.row.libraries[0])
        cells = (f"{factors[library].ratio:.3g}" if library in factors else "" for library in libraries)
        reached = "" if own is None else "yes" if own.ratio <= SLOWDOWN_GOAL else "NO"
        table.append((outcome.row.name, *cells, _ratio(own)[1] if own else "", f"{SLOWDOWN_GOAL:g}", reached))
    return table


def _libraries(outcomes: Sequence[Outcome]) -> list[str]:
    """Of all rows, in the order of the rows that have the most."""
    longest = sorted(outcomes, key=lambda outcome: -len(outcome.row.libraries))
    return list(dict.fromkeys(library for outcome in longest for library in outcome.row.libraries))


def _figure(outcome: Outcome, library: str) -> str:
    if library in outcome.failures:
        return "failed"
    return f"{outcome.median(library) / _UNITS[outcome.row.unit]:.3g}" if library in outcome.figures else ""


def _ratio(found: Comparison) -> tuple[str, str]:
    return f"{found.ratio:.3g}", f"{found.lowest:.3g}-{found.highest:.3g}"


def _goal(outcome: Outcome) -> str:
    """The goal; with our ratio to its peer where another peer is the best."""
    if outcome.row.goal is None:
        return ""
    peer = outcome.goal_peer()
    if peer is None or peer == outcome.best_peer():
        return str(outcome.row.goal)
    return f"{outcome.row.goal} ({outcome.comparisons[peer].ratio:.3g})"


def _agreement(outcome: Outcome) -> str:
    differing = [f"{peer} by {found.difference:.0e}" for peer, found in outcome.comparisons.items() if not found.agrees]
    if differing:
        return f"DIFFER: {', '.join(differing)}"
    worst = max((c.difference for c in outcome.comparisons.values() if c.difference is not None), default=None)
    return "not compared" if worst is None else f"equal to {worst:.0e}"


def print_table(table: Table, title: str) -> None:
    """Print a table (heading first), with rich where it is installed; lines with words in capitals stand out."""
    if importlib.util.find_spec("rich") is None:
        _print_plain(table, title)
        return
    from rich.console import Console  # optional: the plain table says the same
    from rich.table import Table as RichTable

    heading, *lines = table
    print(title)  # as a title of rich's, it would be broken to the table's width
    shown = RichTable(padding=(0, 1, 0, 0), show_edge=False)
    for name in heading:
        words = name in ("row", "unit", "best peer", "goal", "reached", "results", "how")
        shown.add_column(name, justify="left" if words else "right", no_wrap=name != "results")
    for line in lines:
        wrong = any(cell.startswith("DIFFER") or cell == "failed" for cell in line)
        shown.add_row(*line, style="bold red" if wrong else "yellow" if "NO" in line else None)
    console = Console()
    # Into a file, lines would be broken at 80 characters.
    (console if console.is_terminal else Console(width=240)).print(shown)


def _print_plain(table: Table, title: str) -> None:
    widths = [max(len(line[i]) for line in table) for i in range(len(table[0]))]
    print(title)
    for line in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def failures_of(outcomes: Sequence[Outcome]) -> list[str]:
    """Who has no figures in which rows, and why: one line for each reason."""
    rows: dict[tuple[str, str], list[str]] = {}
    for outcome in outcomes:
        for library, reason in outcome.failures.items():
            rows.setdefault((library, reason), []).append(outcome.row.name)
    return [f"{library} failed: {reason} ({'; '.join(names)})" for (library, reason), names in rows.items()]


def lost_rows(outcomes: Sequence[Outcome]) -> list[str]:
    """The rows in which a peer was faster in every round, each with the ratio to the fastest peer."""
    found = []
    for outcome in outcomes:
        lost = [(c.ratio, peer) for peer, c in outcome.comparisons.items() if c.lowest > 1]
        if lost:
            ratio, peer = max(lost)
            found.append(f"{outcome.row.name}: {ratio:.3g} x {peer}")
    return found


def as_json(name: str, outcomes: Sequence[Outcome], environment: Mapping[str, Any]) -> dict[str, Any]:
    """Everything that was measured, figures in seconds (or bytes) per operation, and under which conditions."""
    return {
        "benchmark": name,
        **environment,
        "rows": [_row_as_json(outcome, environment.get("limits")) for outcome in outcomes],
    }


def _row_as_json(outcome: Outcome, limits: Mapping[str, Any] | None) -> dict[str, Any]:
    row = asdict(outcome.row)
    quantity = "bytes" if outcome.row.unit == "MB" else "seconds"
    found = {
        **{key: row[key] for key in ("name", "unit", "of", "tolerance", "goal", "work")},
        quantity: {library: outcome.median(library) for library in outcome.figures},
        f"{quantity}_by_round": outcome.figures,
        "notes": {library: note for library, note in outcome.notes.items() if note},
        "failures": outcome.failures,
        "ratios": {peer: asdict(comparison) for peer, comparison in outcome.comparisons.items()},
        "best_peer": outcome.best_peer(),
        "goal_peer": outcome.goal_peer(),
        "goal_reached": outcome.is_reached(),
        "limit_share": None if limits is None else limit_share(outcome, limits),
    }
    if outcome.busy:
        found[f"{quantity}_by_round_with_neighbour"] = outcome.busy
        found["with_neighbour"] = {library: asdict(outcome.slowdown(library)) for library in outcome.busy}
    return found


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a file of JSON, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".part")
    unfinished.write_text(json.dumps(content, indent=1) + "\n")
    unfinished.replace(path)
