"""The measures of a hall, as numbers, and as tables beside each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from structure.order import Order
from structure.rooms import Hall

Measures = dict[str, int]  # by what is counted


def measure(hall: Hall, order: Order) -> Measures:
    """The numbers of a hall; docs/structure.md says what each of them counts."""
    return {
        "modules": len(hall.modules),
        "rooms": len(hall.rooms),
        "arrows": len(hall.arrows),
        "typing arrows": len(hall.typing_arrows),
        "arrows of calls": len(hall.call_arrows),
        "floors": max(hall.floors.values(), default=0),
        "circles": len(hall.circles),
        "rooms in circles": sum(map(len, hall.circles)),
        "circles by typing only": sum(map(hall.is_typing_only, hall.circles)),
        "circles of modules": len(hall.module_circles),
        "arrows up": len(order.upward(hall.arrows)),
        "typing arrows up": len(order.upward(hall.typing_arrows)),
        "arrows of calls up": len(order.upward(hall.call_arrows)),
        "rooms without a place": sum(order.layer(room) is None for room in hall.rooms),
        "private names taken": sum(len(line.private) for lines in hall.lines.values() for line in lines),
    }


def side_by_side(columns: Mapping[str, Measures]) -> list[list[str]]:
    """Rows of text: a head, and one of each measure."""
    first = next(iter(columns.values()))
    return [["", *columns], *([what, *(str(column[what]) for column in columns.values())] for what in first)]


def compared(before: Measures, after: Measures) -> list[list[str]]:
    """Rows of text: a head, and before, after and their ratio of each measure."""
    rows = [[what, str(before[what]), str(after[what]), _ratio(before[what], after[what])] for what in after]
    return [["", "before", "after", "ratio"], *rows]


def _ratio(before: int, after: int) -> str:
    return f"{after / before:.2f}" if before else "1.00" if not after else "-"


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Rows as columns of text, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip() for row in rows
    )


def in_markdown(rows: Sequence[Sequence[str]]) -> str:
    """Rows as a table of Markdown, numbers to the right."""
    head, *body = (f"| {' | '.join(row)} |" for row in rows)
    return "\n".join([head, f"|---|{'---:|' * (len(rows[0]) - 1)}", *body])
