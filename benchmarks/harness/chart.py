"""The charts of a benchmark: our figure as a share of the best peer's, with the goals; what a busy neighbour does."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any  # matplotlib is optional, and so are its types

from harness.rounds import Outcome

# Beyond so many rows bars would be too thin: dots then, in columns of so many lines.
_MOST_BARRED_ROWS = 80
_LINES = 65

_COLOURS = ("tab:blue", "tab:orange", "tab:green", "tab:purple", "tab:brown", "tab:pink", "tab:gray", "tab:olive")


def draw_chart(path: Path, outcomes: Sequence[Outcome], title: str) -> None:
    """Write a PNG: per row a bar for the ratio to the best peer, left of 1 where we are faster.

    Lines show the range of the rounds, diamonds the goals. Many rows are drawn as dots for all peers in several
    columns, without range and goal. Raises ImportError where matplotlib is not installed.
    """
    from matplotlib.figure import Figure  # optional: only the picture needs it

    path.parent.mkdir(parents=True, exist_ok=True)
    drawn = [outcome for outcome in outcomes if outcome.comparisons]
    if len(drawn) > _MOST_BARRED_ROWS:
        figure = Figure(figsize=(4.5 * -(-len(drawn) // _LINES), 2 + 0.15 * _LINES), layout="constrained")
        _draw_dots(figure, drawn, title)
        figure.savefig(path, dpi=80)
        return
    figure = Figure(figsize=(9.5, 1.6 + 0.22 * len(drawn)), layout="constrained")
    _draw_bars(figure.add_subplot(), drawn, title)
    figure.savefig(path, dpi=110)


def draw_neighbour_chart(path: Path, outcomes: Sequence[Outcome], title: str, limit: float) -> None:
    """Write a PNG: per row a dot for each library, how many times longer it takes with a busy neighbour.

    Ours is the large one, and a line shows the limit for it. Raises ImportError where matplotlib is not installed.
    """
    from matplotlib.figure import Figure  # optional: only the picture needs it

    drawn = [outcome for outcome in outcomes if outcome.busy]
    libraries = list(dict.fromkeys(library for outcome in drawn for library in outcome.busy))
    figure = Figure(figsize=(9.5, 1.6 + 0.22 * len(drawn)), layout="constrained")
    axes = figure.add_subplot()
    for number, library in enumerate(libraries):
        dots = [(o.slowdown(library).ratio, line) for line, o in enumerate(drawn) if library in o.busy]
        ours = any(library == outcome.row.libraries[0] for outcome in drawn)
        colour = "black" if ours else _COLOURS[number % len(_COLOURS)]
        axes.scatter(*zip(*dots, strict=True), s=40 if ours else 14, color=colour, zorder=3, label=library)
    axes.axvline(limit, color="black", lw=1)
    axes.grid(lw=0.2)
    axes.set_yticks(range(len(drawn)), [outcome.row.name for outcome in drawn], fontsize=8)
    axes.set_ylim(len(drawn) - 0.4, -0.6)
    axes.set_xlabel("time with a busy neighbour / time without (line: our limit)")
    axes.set_title(title, fontsize=10)
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1), fontsize=8)
    figure.savefig(path, dpi=110)


def _draw_bars(axes: Any, outcomes: Sequence[Outcome], title: str) -> None:
    best = {outcome.row.name: outcome.best_peer() for outcome in outcomes}
    for colour, peer in zip(_COLOURS, dict.fromkeys(best.values()), strict=False):
        lines = [line for line, outcome in enumerate(outcomes) if best[outcome.row.name] == peer]
        found = [outcomes[line].comparisons[peer] for line in lines]
        axes.barh(
            lines,
            # Bars start at 1, so that their length is the gain or the loss.
            [comparison.ratio - 1 for comparison in found],
            left=1,
            color=colour,
            label=f"against {peer}",
            xerr=[[c.ratio - c.lowest for c in found], [c.highest - c.ratio for c in found]],
            error_kw={"lw": 0.8},
        )
    goals = [(goal, line) for line, outcome in enumerate(outcomes) if (goal := _goal(outcome)) is not None]
    if goals:
        axes.scatter(*zip(*goals, strict=True), marker="D", s=18, c="black", zorder=3, label="goal")
    axes.axvline(1, color="black", lw=1)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.grid(axis="x", which="both", lw=0.2)
    axes.set_axisbelow(True)
    axes.set_yticks(range(len(outcomes)), [outcome.row.name for outcome in outcomes], fontsize=8)
    axes.set_ylim(len(outcomes) - 0.4, -0.6)
    axes.set_xlabel("our figure / the best peer's (left of the line: we are faster, or need less)")
    axes.set_title(title, fontsize=10)
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1), fontsize=8)


def _goal(outcome: Outcome) -> float | None:
    """The goal as a ratio to the best peer, which may be another than the one that it names."""
    peer, best = outcome.goal_peer(), outcome.best_peer()
    if outcome.row.goal is None or peer is None or best is None:
        return None
    return outcome.row.goal.ratio * outcome.median(peer) / outcome.median(best)


def _draw_dots(figure: Any, outcomes: Sequence[Outcome], title: str) -> None:
    """A line per row with a dot for each peer, in columns that share one scale."""
    peers = list(dict.fromkeys(peer for outcome in outcomes for peer in outcome.comparisons))
    pieces = [outcomes[start : start + _LINES] for start in range(0, len(outcomes), _LINES)]
    columns = figure.subplots(1, len(pieces), sharex=True, squeeze=False)[0]
    for axes, piece in zip(columns, pieces, strict=True):
        for number, peer in enumerate(peers):
            dots = [(o.comparisons[peer].ratio, line) for line, o in enumerate(piece) if peer in o.comparisons]
            ratios, lines = zip(*dots, strict=True) if dots else ((), ())  # not each peer has rows in each column
            axes.scatter(ratios, lines, s=14, color=_COLOURS[number % len(_COLOURS)], label=peer)
        axes.axvline(1, color="black", lw=1)
        axes.set_xscale("log")
        axes.grid(axis="y", lw=0.3)
        axes.set_yticks(range(len(piece)), [outcome.row.name for outcome in piece], fontsize=7)
        axes.set_ylim(_LINES - 0.4, -0.6)
    columns[0].legend(loc="upper left", fontsize=8)
    figure.suptitle(f"{title}: our time / peer's time (left of the line: we are faster)", fontsize=10)
