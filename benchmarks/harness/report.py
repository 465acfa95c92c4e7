"""What is shown and kept of a benchmark: a table on the terminal, a JSON file."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from harness.rounds import Outcome

_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}

_COLUMNS = ("row", "unit", "ours", "peer", "time", "ours/peer", "range", "results", "how")


def table_lines(outcomes: Sequence[Outcome]) -> list[tuple[str, ...]]:
    """One line per row and peer, in the order of `_COLUMNS`."""
    lines = []
    for outcome in outcomes:
        row = outcome.row
        ours, *peers = row.libraries
        unit = _UNITS[row.unit]
        own = f"{outcome.median(ours) / unit:.4g}" if ours in outcome.seconds else f"failed: {outcome.failures[ours]}"
        head: tuple[str, ...] = (row.name, f"{row.unit}/{row.of}", own)
        for peer in peers:
            if peer in outcome.seconds:
                cells = (peer, f"{outcome.median(peer) / unit:.4g}", *_compared(outcome, peer))
            else:
                cells = (peer, "-", "", "", f"no figures: {outcome.failures[peer]}")
            # How we compute it belongs to the row, so it stands on the row's first line only.
            lines.append((*head, *cells, outcome.notes.get(ours, "") if head[0] else ""))
            head = ("", "", "")
    return lines


def _compared(outcome: Outcome, peer: str) -> tuple[str, str, str]:
    found = outcome.comparisons.get(peer)
    if found is None:
        return "", "", ""
    if found.difference is None:
        agreement = "not compared"
    else:
        agreement = f"equal to {found.difference:.0e}" if found.agrees else f"DIFFER by {found.difference:.0e}"
    return f"{found.ratio:.3g}", f"{found.lowest:.3g}-{found.highest:.3g}", agreement


def print_table(outcomes: Sequence[Outcome], title: str) -> None:
    """Print the table, with rich where it is installed."""
    lines = table_lines(outcomes)
    if importlib.util.find_spec("rich") is None:
        _print_plain(lines, title)
        return
    from rich.console import Console  # optional: the plain table says the same
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for column in _COLUMNS:
        right = column in ("ours", "time", "ours/peer", "range")
        table.add_column(column, justify="right" if right else "left", no_wrap=column in ("row", "how"))
    for line in lines:
        lost = line[5] and float(line[6].partition("-")[0]) > 1
        wrong = "DIFFER" in line[7] or line[2].startswith("failed")
        table.add_row(*line, style="bold red" if wrong else "yellow" if lost else None)
    console = Console()
    # Into a file, lines would be broken at 80 characters.
    (console if console.is_terminal else Console(width=180)).print(table)


def lost_rows(outcomes: Sequence[Outcome]) -> list[str]:
    """The rows in which a peer was faster in every round, each with the ratio to the fastest peer."""
    found = []
    for outcome in outcomes:
        lost = [(c.ratio, peer) for peer, c in outcome.comparisons.items() if c.lowest > 1]
        if lost:
            ratio, peer = max(lost)
            found.append(f"{outcome.row.name}: {ratio:.3g} x {peer}")
    return found


def _print_plain(lines: Sequence[tuple[str, ...]], title: str) -> None:
    widths = [max(len(line[i]) for line in (_COLUMNS, *lines)) for i in range(len(_COLUMNS))]
    print(title)
    for line in (_COLUMNS, *lines):
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def as_json(name: str, outcomes: Sequence[Outcome], environment: Mapping[str, Any]) -> dict[str, Any]:
    """Everything that was measured, times in seconds per operation, and under which conditions."""
    rows = []
    for outcome in outcomes:
        row = asdict(outcome.row)
        rows.append(
            {
                **{key: row[key] for key in ("name", "unit", "of", "tolerance")},
                "seconds": {library: outcome.median(library) for library in outcome.seconds},
                "seconds_by_round": outcome.seconds,
                "notes": {library: note for library, note in outcome.notes.items() if note},
                "failures": outcome.failures,
                "ratios": {peer: asdict(comparison) for peer, comparison in outcome.comparisons.items()},
            }
        )
    return {"benchmark": name, **environment, "rows": rows}


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a file of JSON, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".part")
    unfinished.write_text(json.dumps(content, indent=1) + "\n")
    unfinished.replace(path)
