"""The bar chart of a benchmark: our time as a share of each peer's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any  # matplotlib is optional, and so are its types

from harness.rounds import Outcome

# Beyond so many rows bars would be too thin: dots then, in columns of so many lines.
_MOST_BARRED_ROWS = 60
_LINES = 65

_COLOURS = ("tab:blue", "tab:orange", "tab:green", "tab:purple", "tab:brown")


def draw_chart(path: Path, outcomes: Sequence[Outcome], title: str) -> None:
    """Write a PNG: per row one bar for each peer, left of 1 where we are faster; lines show the range of the rounds.

    Many rows are drawn as dots in several columns, without the range. Raises ImportError where matplotlib is not
    installed.
    """
    from matplotlib.figure import Figure  # optional: only the picture needs it

    path.parent.mkdir(parents=True, exist_ok=True)
    if len(outcomes) > _MOST_BARRED_ROWS:
        figure = Figure(figsize=(4.5 * -(-len(outcomes) // _LINES), 2 + 0.15 * _LINES), layout="constrained")
        _draw_dots(figure, outcomes, title)
        figure.savefig(path, dpi=80)
        return
    bars = [
        (outcome.row.name if peer == next(iter(outcome.comparisons)) else "", peer, comparison)
        for outcome in outcomes
        for peer, comparison in outcome.comparisons.items()
    ]
    peers = list(dict.fromkeys(peer for _, peer, _ in bars))
    figure = Figure(figsize=(9, 1.2 + 0.22 * len(bars)), layout="constrained")
    axes = figure.add_subplot()
    for number, (_, peer, comparison) in enumerate(bars):
        reach = [[comparison.ratio - comparison.lowest], [comparison.highest - comparison.ratio]]
        # Bars start at 1, so that their length is the gain or the loss.
        axes.barh(
            number,
            comparison.ratio - 1,
            left=1,
            color=_COLOURS[peers.index(peer) % len(_COLOURS)],
            xerr=reach,
            error_kw={"lw": 0.8},
        )
    for number, peer in enumerate(peers):
        axes.barh(0, 0, left=1, color=_COLOURS[number % len(_COLOURS)], label=peer)
    axes.axvline(1, color="black", lw=1)
    axes.set_xscale("log")
    axes.set_yticks(range(len(bars)), [name for name, _, _ in bars], fontsize=8)
    axes.set_ylim(len(bars) - 0.4, -0.6)
    axes.set_xlabel("our time / peer's time (left of the line: we are faster)")
    axes.set_title(title, fontsize=10)
    axes.legend(loc="best", fontsize=8)
    figure.savefig(path, dpi=110)


def _draw_dots(figure: Any, outcomes: Sequence[Outcome], title: str) -> None:
    """A line per row with a dot for each peer, in columns that share one scale."""
    peers = list(dict.fromkeys(peer for outcome in outcomes for peer in outcome.comparisons))
    pieces = [outcomes[start : start + _LINES] for start in range(0, len(outcomes), _LINES)]
    columns = figure.subplots(1, len(pieces), sharex=True, squeeze=False)[0]
    for axes, piece in zip(columns, pieces, strict=True):
        for number, peer in enumerate(peers):
            dots = [(o.comparisons[peer].ratio, line) for line, o in enumerate(piece) if peer in o.comparisons]
            axes.scatter(*zip(*dots, strict=True), s=14, color=_COLOURS[number % len(_COLOURS)], label=peer)
        axes.axvline(1, color="black", lw=1)
        axes.set_xscale("log")
        axes.grid(axis="y", lw=0.3)
        axes.set_yticks(range(len(piece)), [outcome.row.name for outcome in piece], fontsize=7)
        axes.set_ylim(_LINES - 0.4, -0.6)
    columns[0].legend(loc="upper left", fontsize=8)
    figure.suptitle(f"{title}: our time / peer's time (left of the line: we are faster)", fontsize=10)
