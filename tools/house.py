"""Measures the structure of the code from its imports: rooms, arrows between them, floors, circles, arrows up.

    python tools/house.py                    the numbers, and what is against the declared order
    python tools/house.py --before HEAD~50   those of a revision of git beside them, with the ratio
    python tools/house.py --arrows errors    what a room imports and who imports it, line by line
    python tools/house.py --json             numbers, rooms and arrows, for programs
    python tools/house.py --write            write docs/structure.md; `make generated` runs it

docs/structure.md says what is counted; tools/structure/order.toml declares the order of the rooms.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from structure.imports import Code, read_checkout, read_revision  # after the path is set
from structure.measures import aligned, compared, measure, side_by_side
from structure.order import Order, faults, read_order
from structure.page import page
from structure.rooms import Hall

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "structure.md"

Orders = Mapping[str, Order]  # by the hall's name


def table(code: Code, orders: Orders, before: Code | None = None) -> str:
    """The numbers as text: of now, or of each hall before, after and their ratio."""
    now = {name: measure(Hall(name, code), order) for name, order in orders.items()}
    if before is None:
        return aligned(side_by_side(now))
    then = {name: measure(Hall(name, before), order) for name, order in orders.items()}
    return "\n\n".join(f"{name}\n{aligned(compared(then[name], now[name]))}" for name in now)


def told(code: Code, orders: Orders) -> Iterator[str]:
    """Each circle and each fault, in a line."""
    for name, order in orders.items():
        hall = Hall(name, code)
        for circle in hall.circles:
            yield f"{name}: circle{' by typing only' if hall.is_typing_only(circle) else ''}: {', '.join(circle)}"
        yield from (f"{name}: {fault}" for fault in faults(order, code, name))


def numbers(code: Code, orders: Orders) -> dict[str, Any]:  # Any: values of JSON
    """Numbers, rooms and arrows of each hall."""
    found = {}
    for name, order in orders.items():
        hall = Hall(name, code)
        found[name] = {
            "measures": measure(hall, order),
            "rooms": {room: {"floor": hall.floors[room], "layer": order.layer(room)} for room in hall.rooms},
            "arrows": hall.arrows,
            "typing arrows": hall.typing_arrows,
            "arrows of calls": hall.call_arrows,
            "arrows up": order.upward([*hall.arrows, *hall.typing_arrows]),
            "circles": [{"rooms": circle, "typing only": hall.is_typing_only(circle)} for circle in hall.circles],
        }
    return found


def arrows_of(room: str, code: Code, orders: Orders) -> Iterator[str]:
    """What a room imports and who imports it, with the lines, in each hall that has it.

    Raises:
        ValueError: no hall has it.
    """
    halls = [hall for hall in (Hall(name, code) for name in orders) if room in hall.rooms]
    if not halls:
        known = sorted({known for name in orders for known in Hall(name, code).rooms})
        near = get_close_matches(room, known, 1)
        raise ValueError(f"there is no room {room}{f': {near[0]}?' if near else f'; rooms are {known}'}")
    for hall in halls:
        for says, end in ((f"{room} imports", 0), (f"{room} is imported by", 1)):
            for arrow, lines in hall.lines.items():
                if arrow[end] == room:
                    yield f"{says} {arrow[1 - end]}"
                    yield from (f"    {line.path}:{line.line} {line.target} ({line.when})" for line in lines)


def main(arguments: list[str] | None = None) -> int:
    """Do what the command line says; 2 if it names what is not there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", metavar="REVISION", help="a revision of git to measure too")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--json", action="store_true", help="numbers, rooms and arrows, for programs")
    what.add_argument("--arrows", metavar="ROOM", help="what this room imports and who imports it")
    what.add_argument("--write", action="store_true", help="write docs/structure.md")
    chosen = parser.parse_args(arguments)
    if chosen.before and (chosen.arrows or chosen.write):
        parser.error("--before goes with the numbers or with --json")
    try:
        _show(chosen, read_checkout(ROOT), read_order())
    except ValueError as error:
        parser.error(str(error))
    return 0


def _show(chosen: argparse.Namespace, code: Code, orders: Orders) -> None:
    before = read_revision(ROOT, chosen.before) if chosen.before else None
    if chosen.write:
        PAGE.write_text(page(code, orders), "utf-8")
    elif chosen.arrows:
        print(*arrows_of(chosen.arrows, code, orders), sep="\n")
    elif chosen.json:
        now = numbers(code, orders)
        print(json.dumps(now if before is None else {"before": numbers(before, orders), "after": now}, indent=1))
    else:
        print(table(code, orders, before), *told(code, orders), sep="\n")


if __name__ == "__main__":
    sys.exit(main())
