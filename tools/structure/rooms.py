"""Rooms and the arrows between them: floors and circles."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Set
from functools import cached_property

from structure.imports import AT_IMPORT, TYPING, Code, Import

Arrow = tuple[str, str]  # (room that imports, room that is imported)
HALLS = ("core", "graph")


def room_of(hall: str, module: str) -> str | None:
    """The room of a module: in hall "core" of every module, in "graph" of those of atled.graph, else None.

    A file or a folder directly in core/atled is a room of the core, named without .py; the package's own file is the
    room `__init__`. atled_contexts is one room, and so is each plugin. The rooms of graph stand directly in it.
    """
    top, *inner = module.split(".")
    if hall == "graph":
        return None if (top, *inner[:1]) != ("atled", "graph") else (inner[1] if len(inner) > 1 else "__init__")
    if top == "atled":
        return inner[0] if inner else "__init__"
    return top if top == "atled_contexts" else f"plugins/{top}"


class Hall:
    """The rooms of a hall and what they import of each other.

    former: names of rooms that are to count as others, by name; for what a revision calls otherwise.
    """

    def __init__(self, hall: str, code: Code, former: Mapping[str, str] | None = None) -> None:
        self._hall, self._code, self._former = hall, code, former or {}
        self.modules = {module: room for module in code.modules if (room := self._room(module)) is not None}
        self.rooms = sorted(set(self.modules.values()))

    def _room(self, module: str) -> str | None:
        room = room_of(self._hall, module)
        return None if room is None else self._former.get(room, room)

    @cached_property
    def lines(self) -> dict[Arrow, list[Import]]:
        """The imports that make each arrow, typing and functions' own included."""
        found = defaultdict(list)
        for line in self._code.imports:
            arrow = self.modules.get(line.source), self.modules.get(line.target)
            if arrow[0] is not None and arrow[1] is not None and arrow[0] != arrow[1]:
                found[arrow[0], arrow[1]].append(line)
        return dict(sorted(found.items()))

    @cached_property
    def arrows(self) -> list[Arrow]:
        """Pairs of rooms with at least one import that is executed as a module is imported."""
        return [arrow for arrow, lines in self.lines.items() if any(line.when == AT_IMPORT for line in lines)]

    @cached_property
    def typing_arrows(self) -> list[Arrow]:
        """Pairs of rooms with imports under TYPE_CHECKING and no arrow."""
        executed = set(self.arrows)
        typing = [arrow for arrow, lines in self.lines.items() if any(line.when == TYPING for line in lines)]
        return [arrow for arrow in typing if arrow not in executed]

    @cached_property
    def call_arrows(self) -> list[Arrow]:
        """Pairs of rooms with imports inside functions only."""
        others = {*self.arrows, *self.typing_arrows}
        return [arrow for arrow in self.lines if arrow not in others]

    @cached_property
    def circles(self) -> list[list[str]]:
        """Groups of rooms that import each other, typing included."""
        return circles(self.rooms, [*self.arrows, *self.typing_arrows])

    @cached_property
    def import_circles(self) -> list[list[str]]:
        """Groups of rooms that import each other without typing."""
        return circles(self.rooms, self.arrows)

    @cached_property
    def module_circles(self) -> list[list[str]]:
        """Groups of modules that import each other as they are imported, whatever their rooms."""
        pairs = {(line.source, line.target) for line in self._code.imports if line.when == AT_IMPORT}
        return circles(self.modules, [(high, low) for high, low in pairs if {high, low} <= self.modules.keys()])

    def is_typing_only(self, circle: list[str]) -> bool:
        """Whether the rooms of a circle are in none any more without the typing arrows."""
        return not any(set(circle) & set(other) for other in self.import_circles)

    @cached_property
    def floors(self) -> dict[str, int]:
        """The floor of each room; see `floors`. Imports for types alone need nothing to be there first."""
        return floors(self.rooms, self.arrows)


def circles(rooms: Iterable[str], arrows: Iterable[Arrow]) -> list[list[str]]:
    """Strongly connected components of more than one room, sorted."""
    return sorted(sorted(group) for group in set(_groups(rooms, arrows).values()) if len(group) > 1)


def floors(rooms: Iterable[str], arrows: Iterable[Arrow]) -> dict[str, int]:
    """How many rooms the longest path from each room down has, itself included; a circle counts as one room."""
    rooms, arrows = list(rooms), list(arrows)
    groups = _groups(rooms, arrows)
    below = {group: {groups[low] for high, low in arrows if high in group} - {group} for group in groups.values()}
    heights: dict[Set[str], int] = {}

    def height(group: Set[str]) -> int:
        if group not in heights:
            heights[group] = 1 + max(map(height, below[group]), default=0)
        return heights[group]

    return {room: height(groups[room]) for room in rooms}


def _groups(rooms: Iterable[str], arrows: Iterable[Arrow]) -> dict[str, frozenset[str]]:
    """The strongly connected component of each room: those that it reaches and that reach it."""
    below = defaultdict(set)
    for high, low in arrows:
        below[high].add(low)
    reached = {room: _reached(room, below) for room in rooms}
    return {
        room: frozenset({room, *(other for other in found if room in reached[other])})
        for room, found in reached.items()
    }


def _reached(room: str, below: Mapping[str, Set[str]]) -> set[str]:
    found: set[str] = set()
    waiting = [room]
    while waiting:
        new = below.get(waiting.pop(), set()) - found
        found |= new
        waiting += new
    return found
