"""The declared order of the rooms, its exceptions, and what in the code is against it."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from structure.imports import Code, Import
from structure.rooms import Arrow, Hall, circles

FILE = Path(__file__).with_name("order.toml")
# The reason of exceptions that are not needed any more when the rooms have come to their places.
UNTIL_THE_MOVE = "until the move"
_EVERY_PLUGIN = "plugins/*"


@dataclass(frozen=True)
class Layer:
    """Rooms that import each other, without a circle, and those of the layers before.

    apart: they do not import each other.
    """

    holds: str
    rooms: tuple[str, ...]
    apart: bool = False


@dataclass(frozen=True)
class Order:
    """The layers of a hall, lowest first.

    exceptions: reasons by arrow, for arrows that are against the order; `typing` says which of them may be imports
        under TYPE_CHECKING only.
    private: reasons by room, module and private name that the room imports from the module.
    former: present rooms by the names of those that were there before, for the revisions that have these.
    moving: whether rooms with former names may be there, and places without a room; an exception "until the move" need
        not be needed then, for nobody knows which move comes first.
    """

    layers: tuple[Layer, ...]
    exceptions: Mapping[Arrow, str] = field(default_factory=dict)
    typing: Collection[Arrow] = ()
    private: Mapping[tuple[str, str, str], str] = field(default_factory=dict)
    former: Mapping[str, str] = field(default_factory=dict)
    moving: bool = False

    def layer(self, room: str) -> int | None:
        """The number of the layer of a room, 0 for the lowest; None if it has no place."""
        name = self.former.get(room, room)
        name = _EVERY_PLUGIN if name.startswith("plugins/") else name
        return next((number for number, layer in enumerate(self.layers) if name in layer.rooms), None)

    def upward(self, arrows: Iterable[Arrow]) -> list[Arrow]:
        """Those of the arrows that lead to a higher layer, or from a room to one that it has to be apart from."""
        return [arrow for arrow in arrows if self._is_upward(*arrow)]

    def _is_upward(self, room: str, imported: str) -> bool:
        place, other = self.layer(room), self.layer(imported)
        if place is None or other is None or self.former.get(room, room) == self.former.get(imported, imported):
            return False
        return place < other or (place == other and self.layers[place].apart)

    def is_excepted(self, arrow: Arrow, *, typing: bool) -> bool:
        """Whether an arrow is on the list; typing: it is one of imports under TYPE_CHECKING only."""
        return arrow in self.exceptions and (typing or arrow not in self.typing)


def read_order(path: Path = FILE) -> dict[str, Order]:
    """The orders of the halls, by their names.

    Raises:
        ValueError: an exception without a reason, or two for the same.
    """
    table = tomllib.loads(path.read_text("utf-8"))
    moving = table.pop("moving")
    return {hall: _order(found, moving) for hall, found in table.items()}


def _order(table: dict[str, Any], moving: bool) -> Order:  # Any: values of TOML
    listed, private = table["exceptions"], table["private"]
    exceptions = {(row["room"], row["imports"]): row["reason"] for row in listed}
    names = {(row["room"], row["module"], row["name"]): row["reason"] for row in private}
    if not all([*exceptions.values(), *names.values()]):
        raise ValueError("an exception has an empty reason: give it one")
    if len(exceptions) < len(listed) or len(names) < len(private):
        raise ValueError("an exception is listed twice: take one out")
    return Order(
        layers=tuple(Layer(row["holds"], tuple(row["rooms"]), row.get("apart", False)) for row in table["layers"]),
        exceptions=exceptions,
        typing=frozenset((row["room"], row["imports"]) for row in listed if row["typing"]),
        private=names,
        former={name: room for room, names in table["former"].items() for name in names},
        moving=moving,
    )


def faults(order: Order, code: Code, hall: str) -> list[str]:
    """What is against the order, in a sentence each, and what of the order is not needed."""
    found = Hall(hall, code, order.former)
    return [
        *_misplaced(order, found, Hall(hall, code).rooms),
        *_upward(order, found),
        *_circular(order, found),
        *_private(order, found),
        *_unneeded(order, found),
    ]


def _misplaced(order: Order, hall: Hall, rooms_now: Iterable[str]) -> Iterator[str]:
    for room in hall.rooms:
        if order.layer(room) is None:
            yield f"{room} is not placed: give it a layer in {FILE.name}"
    if order.moving:
        return
    for room in rooms_now:
        if room in order.former:
            yield f"{room} is a former name of {order.former[room]}: move it, or take the name off the list"
    for room in (room for layer in order.layers for room in layer.rooms):
        if room not in hall.rooms and room != _EVERY_PLUGIN:
            yield f"{room} has a place and does not exist: take it out of {FILE.name}"


def _upward(order: Order, hall: Hall) -> Iterator[str]:
    for typing, arrows in ((False, hall.arrows), (True, hall.typing_arrows)):
        for arrow in order.upward(arrows):
            if not order.is_excepted(arrow, typing=typing):
                yield f"{_told(arrow, typing)} is an arrow up: {_lines(hall.lines[arrow])}"


def _told(arrow: Arrow, typing: bool) -> str:
    return f"{arrow[0]} -> {arrow[1]}{' (typing)' if typing else ''}"


def _lines(lines: Iterable[Import]) -> str:
    return ", ".join(f"{line.path}:{line.line} imports {line.target}" for line in lines)


def _circular(order: Order, hall: Hall) -> Iterator[str]:
    kept = _in_order(order, hall)
    for circle in circles(hall.rooms, kept):
        inside = [f"{high} -> {low}" for high, low in kept if high in circle and low in circle]
        yield f"{', '.join(circle)} import each other: {', '.join(inside)}"
    for circle in hall.module_circles:
        yield f"the modules {', '.join(circle)} import each other while they are imported: move what both need"


def _in_order(order: Order, hall: Hall) -> list[Arrow]:
    """The arrows that are neither up, which are faults by themselves, nor excepted."""
    return [
        arrow
        for typing, arrows in ((False, hall.arrows), (True, hall.typing_arrows))
        for arrow in arrows
        if not order.upward([arrow]) and not order.is_excepted(arrow, typing=typing)
    ]


def _private(order: Order, hall: Hall) -> Iterator[str]:
    for arrow, lines in hall.lines.items():
        for line in lines:
            for name in line.private:
                if (arrow[0], line.target, name) not in order.private:
                    yield f"{line.path}:{line.line} imports the private name {name} of {line.target}, of another room"


def _unneeded(order: Order, hall: Hall) -> Iterator[str]:
    for arrow, reason in order.exceptions.items():
        if not (order.moving and reason == UNTIL_THE_MOVE) and not _is_needed(arrow, order, hall):
            yield f"the exception {_told(arrow, arrow in order.typing)} is not needed: take it off the list"
    used = {
        (arrow[0], line.target, name) for arrow, found in hall.lines.items() for line in found for name in line.private
    }
    for room, module, name in order.private:
        if (room, module, name) not in used:
            yield f"the exception of {name} of {module} in {room} is not needed: take it off the list"


def _is_needed(arrow: Arrow, order: Order, hall: Hall) -> bool:
    """Whether the arrow is there in the kind that the list says, and up or part of a circle."""
    expected = hall.typing_arrows if arrow in order.typing else hall.arrows
    if arrow not in expected:
        return False
    around = circles(hall.rooms, [*_in_order(order, hall), arrow])
    return bool(order.upward([arrow])) or any(set(arrow) <= set(circle) for circle in around)
