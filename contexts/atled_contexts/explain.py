"""Candidates, and the decision between them, as plain text for people."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from atled_contexts.candidate import Candidate
    from atled_contexts.selection import Decision

WIDTH = 80
_HEADER = ("backend", "implementation", "state", "reason")
_NARROWEST_REASON = 24


def candidates_table(candidates: Iterable[Candidate], width: int = WIDTH) -> str:
    """All candidates with state and reason, one block of lines each; reasons wrap within `width` columns."""
    rows = [(other.entry, other.note or "-", other.state, other.reason or "-") for other in candidates]
    return _table([_HEADER, *rows], width)


def _table(rows: list[tuple[str, ...]], width: int) -> str:
    """Left-aligned columns; the last one wraps."""
    from textwrap import wrap  # only for people to read: keeps the import of the package quick

    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADER) - 1)]
    left = sum(widths) + 2 * len(widths)
    lines = []
    for row in rows:
        cells = "".join(f"{cell:<{size}}  " for cell, size in zip(row[:-1], widths, strict=True))
        # Long names leave the reason little room: then it goes over the width rather than one word to a line.
        reason = wrap(row[-1], max(width - left, _NARROWEST_REASON)) or [""]
        lines.append(cells + reason[0])
        lines += [" " * left + more for more in reason[1:]]
    return "\n".join(line.rstrip() for line in lines)


def wrapped(lines: list[str], width: int) -> list[str]:
    """The lines broken at `width` columns, what follows a break indented by four."""
    from textwrap import wrap  # see above

    return [part for line in lines for part in wrap(line, width, subsequent_indent="    ")]


# `Any`: the table does not look into the call.
def explain_decision(decision: Decision[Any], width: int = WIDTH) -> str:
    """Who computes the call, whether that is a fallback, and everyone who was considered."""
    note = f" ({decision.implementation.note})" if decision.implementation.note else ""
    lines = [
        f"{decision.call!r}",
        f"  Context: {decision.context!r}",
        f"  runs on: {decision.backend}:{decision.type_config} by plugin {decision.plugin!r}{note}",
    ]
    if decision.reason:
        lines.append(f"  {'fallback' if decision.fallback else 'because'}: {decision.reason}")
    return "\n".join([*wrapped(lines, width), "", candidates_table(decision.candidates, width)])
