"""Sequences: descriptions that ran one behind the other, said as one, with the same meaning."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from atled.array_desc import ArrayDesc
from atled.arrays.array import NdArray
from atled.arrays.cell import ArrayCell
from atled.arrays.views import View
from atled.graph.keyed.entries import (
    ASSIGN,
    BRANCH,
    END_BRANCH,
    END_LOOP,
    GRADIENTS,
    HELD,
    LOOP,
    NUMBER,
    OTHERWISE,
    OUTPUT,
    RESULT,
    SHOWN,
    VIEW,
    Entry,
    spec_of,
)
from atled.ops.spec import OpSpec
from atled.strides import Window, contiguous_strides, overlap


class Said(NamedTuple):
    """What a description said when it ran.

    cells: of its arrays, in their order.  begins: elements in front of the first leaf of each; none where all are 0.
    results: of the arrays that the run gave.
    """

    entries: Sequence[Entry]
    cells: Sequence[ArrayCell]
    begins: Sequence[int]
    results: Sequence[ArrayCell]


class Recorder(Protocol):
    """Takes note of what runs."""

    def note(self, description: Any, results: Sequence[NdArray]) -> None:
        """A description has run, and gave results."""


RECORDERS: list[Recorder] = []
"""Who is told of each description that has run, on whatever thread."""


class Target(Protocol):
    """The description that says all of it."""

    @property
    def entries(self) -> list[Any]:
        """Its entries."""

    def leaf(self, array: View) -> int:
        """What an array holds before all of it."""

    def assign(self, target: int, value: int) -> None:
        """Have an array hold a value behind all of it."""


class _Held(NamedTuple):
    """What an array holds between two descriptions.  leaf: of all of it.  value: as the leaf would have it."""

    leaf: int
    value: int
    shape: tuple[int, ...]


class Joined:
    """Descriptions, one behind the other: each reads what those before it assigned."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._held: dict[ArrayCell, _Held] = {}
        self._windows: dict[ArrayCell, list[tuple[Window, int, int]]] = {}  # assigned: where, to which leaf, what
        self._shown: dict[Entry, int] = {}

    def fits(self, said: Said) -> bool:
        """Whether one can be joined to those before it.

        Not so one that reads or writes over a part of an array that was written: between them stands an end.
        """
        leaves = _leaves(said)
        for cell, window in (leaves[position] for position in _read(said.entries) if position in leaves):
            if any(overlap(window, each) for each, *_ in self._windows.get(cell, ())):
                return False
        for entry in said.entries:
            if entry[:1] != (ASSIGN,):
                continue
            cell, window = leaves[entry[1]]
            if _is_whole(cell, window):
                if cell in self._windows:
                    return False
            elif cell in self._held or any(overlap(window, each) for each, *_ in self._windows.get(cell, ())):
                return False
        return True

    def add(self, said: Said) -> None:
        """Join one that fits."""
        entries = self._target.entries
        # Leaves first: what an array holds by now is a value from outside of loops and branches.
        numbers = {position: self._leaf(*about) for position, about in _leaves(said).items()}
        leaves, results = _leaves(said), iter(said.results)
        held: dict[ArrayCell, _Held] = {}
        for position, entry in enumerate(said.entries):
            if position in leaves:
                continue
            if entry[0] == RESULT:
                cell, value = next(results), numbers[entry[1]]
                held[cell] = self._holding(cell, Window((cell.size,), (1,)), value, flat=True)
            elif entry[0] == ASSIGN:
                cell, window = leaves[entry[1]]
                value = numbers[entry[2]]
                if _is_whole(cell, window):
                    held[cell] = self._holding(cell, window, value)
                else:
                    leaf = self._target.leaf(_view(cell, window))
                    self._windows.setdefault(cell, []).append((window, leaf, value))
            else:
                numbers[position] = len(entries)
                entries.append(_renumbered(entry, numbers))
        self._held |= held

    def end(self) -> None:
        """Have all arrays hold what the last one assigned to each."""
        for each in self._held.values():
            self._target.assign(each.leaf, each.value)
        for windows in self._windows.values():
            for _, leaf, value in windows:
                self._target.assign(leaf, value)

    def _leaf(self, cell: ArrayCell, window: Window) -> int:
        """What a part of an array holds by now."""
        held = self._held.get(cell)
        if held is None:
            return self._target.leaf(_view(cell, window))
        is_whole = _is_whole(cell, window)
        if is_whole and window.shape == held.shape:
            return held.value
        entry = SHOWN, held.value, window.shape, None if is_whole else window.strides, window.offset
        found = self._shown.get(entry)
        if found is None:
            found = self._shown[entry] = self._added(entry)
        return found

    def _holding(self, cell: ArrayCell, window: Window, value: int, *, flat: bool = False) -> _Held:
        """What an array holds that was assigned a value; flat: of the same size, in whatever shape."""
        leaf = self._target.leaf(_view(cell, window))
        if flat:
            value = self._added((SHOWN, value, window.shape, None, 0))
        return _Held(leaf, self._added((HELD, leaf, value)), window.shape)

    def _added(self, entry: Entry) -> int:
        entries = self._target.entries
        entries.append(entry)
        return len(entries) - 1


def joinable(entries: Sequence[Entry]) -> bool:
    """Whether a description may be joined to others at all.

    Not so one that draws or runs code of a user, which is done each time, and in its turn; nor gradients, which end at
    the arrays of their description.
    """
    for entry in entries:
        kind = entry[0] if entry else 0
        if kind == GRADIENTS:
            return False
        if isinstance(kind, str | OpSpec):
            spec = spec_of(kind)
            if spec.random or spec.mutated or spec.inplace or spec.opaque:
                return False
    return True


def _leaves(said: Said) -> dict[int, tuple[ArrayCell, Window]]:
    """The leaves by their entries: of which array, and what of it."""
    numbers: dict[int, int] = {}
    found: dict[int, tuple[ArrayCell, Window]] = {}
    count = 0
    for position, entry in enumerate(said.entries):
        kind = entry[0] if entry else 0
        if not isinstance(kind, int) or (kind < 0 and kind != VIEW):
            continue
        if kind == VIEW and entry[1] is not None:
            number = numbers[entry[1]]
        else:
            number, count = count, count + 1
        numbers[position] = number
        shape, strides, offset = entry[2:] if kind == VIEW else (entry, None, 0)
        begin = said.begins[number] if number < len(said.begins) else 0
        found[position] = said.cells[number], Window(shape, strides or contiguous_strides(shape), begin + offset)
    return found


def _read(entries: Sequence[Entry]) -> Iterator[int]:
    """The values that something is computed or made of."""
    for entry in entries:
        kind = entry[0] if entry else 0
        if isinstance(kind, str | OpSpec):
            yield from (number for number in entry[1] if number is not None)
        elif kind in (RESULT, OUTPUT):
            yield entry[1]
        elif kind == ASSIGN:
            yield entry[2]
        elif kind == NUMBER and len(entry) == 4:
            yield entry[3]
        elif kind in (LOOP, END_LOOP):
            yield from (*entry[1], *entry[2])
            if entry[3] is not None:
                yield entry[3]
        elif kind == BRANCH:
            yield entry[1]
        elif kind in (OTHERWISE, END_BRANCH):
            yield from entry[1]


def _renumbered(entry: Entry, numbers: dict[int, int]) -> Entry:
    """A call, a number, or a part of a loop or a branch, of values with other numbers."""
    kind = entry[0]

    def new(number: int | None) -> int | None:
        return None if number is None else numbers[number]

    if isinstance(kind, str | OpSpec):
        return (kind, tuple([new(number) for number in entry[1]]), *entry[2:])
    if kind == NUMBER:
        return (*entry[:3], new(entry[3])) if len(entry) == 4 else entry
    if kind in (OUTPUT, BRANCH):
        return (kind, new(entry[1]), *entry[2:])
    if kind in (OTHERWISE, END_BRANCH):
        return kind, tuple([new(number) for number in entry[1]])
    assert kind in (LOOP, END_LOOP), "leaves, results and assignments have no values"
    values = [tuple([new(number) for number in group]) for group in entry[1:3]]
    return (kind, *values, new(entry[3]), *entry[4:])


def _is_whole(cell: ArrayCell, window: Window) -> bool:
    return window.offset == 0 and window.size == cell.size and window.strides == contiguous_strides(window.shape)


def _view(cell: ArrayCell, window: Window) -> View:
    assert cell.dtype is not None, "it has run"
    return View(cell, ArrayDesc(window.shape, cell.dtype, window.strides), window.offset)
