"""The measured processors side by side: writes docs/measured.md and a chart from benchmarks/results/.

python benchmarks/processors.py             after measurements on a processor; writes the page and the chart
python benchmarks/processors.py --check     only says whether the page is what the results give
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

_ROOT = Path(__file__).resolve().parent.parent
RESULTS = _ROOT / "benchmarks" / "results"
PAGE = _ROOT / "docs" / "measured.md"
_CHART = RESULTS / "processors.png"

# In the order of the page: the name of the files, what they are about.
_TABLES = {
    "bench": "Ops, layers, training steps, starting; one core",
    "inference": "Inference; one core",
    "networks": "Inference of further networks; one core",
    "bench-2cores": "Ops, layers, training steps; two cores",
    "inference-2cores": "Inference; two cores",
}

_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "MB": 1e6}

_HEAD = """# What was measured, processor by processor

Written by `python benchmarks/processors.py` from `benchmarks/results/`; do not edit. How it is measured:
[benchmarks](../benchmarks/README.md).

For each processor, by the name that LLVM has for it: our figure; its **ratio** to the best peer of that row in the same
run, below 1 we are faster or need less; and the **share of the machine's limit** that we reach. The limit is the time
below which nothing computes the row by its definition there: its additions and multiplications at the rate of the
processor's vector instructions, or its arrays, each read or written once, at the rate of a copy of arrays of about
their size, whichever takes longer. Both rates are measured before the rows. A share may be above 100 %: Winograd's
algorithm multiplies less than the definition of a convolution; a row that only reads, or writes where it has just read,
asks less of the memory than a copy; and the copies may have met a slower moment. An empty cell: not measured there, or
no limit is known.

Ratios compare; times of different machines, or of different days, say little: these are shared machines.
"""


class Measured(NamedTuple):
    """What one file holds.  processor: LLVM's name.  content: of the file."""

    processor: str
    content: Mapping[str, Any]


def found_results(table: str, folder: Path = RESULTS) -> list[Measured]:
    """The files of one table, by processor."""
    return [Measured(path.parent.name, json.loads(path.read_text())) for path in sorted(folder.glob(f"*/{table}.json"))]


def page(folder: Path = RESULTS) -> str:
    """The text of the page."""
    tables = {name: found for name in _TABLES if (found := found_results(name, folder))}
    return "\n".join([_HEAD, *_machines(tables), *(line for name in tables for line in _table(name, tables[name]))])


def _machines(tables: Mapping[str, Sequence[Measured]]) -> list[str]:
    lines = [
        "| processor | machine | table | measured | commit | GFLOP/s | GB/s in copies of arrays of |",
        "|---|---|---|---|---|---:|---|",
    ]
    for name, found in tables.items():
        for processor, content in found:
            limits = content.get("limits")
            rates = "" if limits is None else f"{limits['flops'] / 1e9:.0f}"
            machine = content["machine"]
            cells = (processor, machine["cpu"], name, content["date"][:10], machine["commit"], rates, _copies(limits))
            lines.append(f"| {' | '.join(cells)} |")
    return [*lines, ""]


def _copies(limits: Mapping[str, Any] | None) -> str:
    if limits is None:
        return "not measured"
    return ", ".join(f"{int(size) / (1 << 20):g} MB: {rate / 1e9:.0f}" for size, rate in limits["bytes"].items())


def _table(name: str, found: Sequence[Measured]) -> list[str]:
    processors = [each.processor for each in found]
    rows = [{row["name"]: row for row in each.content["rows"]} for each in found]
    names = list(dict.fromkeys(text for each in rows for text in each))
    heading = ["row", *(f"{processor} | ratio | of limit" for processor in processors)]
    lines = [f"## {_TABLES[name]}", "", f"| {' | '.join(heading)} |", "|---" + "|---:|---|---:" * len(found) + "|"]
    for text in names:
        cells = [cell for each in rows for cell in (_cells(each[text]) if text in each else ("", "", ""))]
        lines.append(f"| {_escaped(text)} | {' | '.join(cells)} |")
    return [*lines, ""]


def _escaped(text: str) -> str:
    """As Markdown shows it: `*` would make letters slanted."""
    return text.replace("*", "\\*")


def _cells(row: Mapping[str, Any]) -> tuple[str, str, str]:
    """Our figure, the ratio to the best peer, the share of the limit."""
    figures = row.get("seconds") or row.get("bytes") or {}
    ours = next(iter(figures), None)
    if ours is None or ours in row["failures"]:
        return "failed", "", ""
    unit, best, share = row["unit"], row["best_peer"], row.get("limit_share")
    figure = f"{figures[ours] / _UNITS[unit]:.3g} {unit}"
    ratio = "" if best is None else f"{row['ratios'][best]['ratio']:.2f} {best}"
    return figure, ratio, "" if share is None else f"{share:.0%}"


def draw(path: Path = _CHART, folder: Path = RESULTS) -> None:
    """Write a PNG: per row of the first two tables a dot for each processor, its ratio to the best peer."""
    from matplotlib.figure import Figure  # optional: only the picture needs it

    found = [(name, each) for name in ("bench", "inference") for each in found_results(name, folder)]
    names = list(dict.fromkeys(row["name"] for _, each in found for row in each.content["rows"] if row["best_peer"]))
    figure = Figure(figsize=(9, 2 + 0.17 * len(names)), layout="constrained")
    axes = figure.add_subplot()
    processors = list(dict.fromkeys(each.processor for _, each in found))
    for number, processor in enumerate(processors):
        dots = [
            (row["ratios"][row["best_peer"]]["ratio"], names.index(row["name"]))
            for _, each in found
            if each.processor == processor
            for row in each.content["rows"]
            if row["best_peer"]
        ]
        axes.scatter(*zip(*dots, strict=True), s=18, color=f"C{number}", label=processor, zorder=3)
    axes.axvline(1, color="black", lw=1)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.grid(lw=0.2)
    axes.set_yticks(range(len(names)), names, fontsize=7)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_xlabel("our figure / the best peer's (left of the line: we are faster, or need less)")
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1), fontsize=8)
    figure.savefig(path, dpi=80)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page and the chart, or with --check compare the page: 1 if it is another."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; status 1 if the page is not up to date")
    options = parser.parse_args(arguments)
    text = page()
    if options.check:
        is_current = PAGE.exists() and PAGE.read_text() == text
        print(f"{PAGE.relative_to(_ROOT)}: {'up to date' if is_current else 'not what the results give'}")
        return int(not is_current)
    PAGE.write_text(text)
    written = [PAGE]
    try:
        draw()
        written.append(_CHART)
    except ImportError:
        print("no chart: matplotlib is not installed (pip install matplotlib)", file=sys.stderr)
    print(f"written: {', '.join(str(path.relative_to(_ROOT)) for path in written)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
