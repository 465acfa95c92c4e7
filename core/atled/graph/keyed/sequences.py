"""Sequences: descriptions that ran one behind the other, said as one, with the same meaning."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

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
from atled.named_tuple import NamedTuple
from atled.ops.spec import OpSpec
from atled.strides import Window, bounds, contiguous_strides, overlap


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

    def by_hand(self, what: str, cell: ArrayCell | None) -> None:
        """Python read an array, or did what is not said again."""

    def called(self, function: Callable[[], object]) -> None:
        """Python did what it is to do again."""

    def pause(self, by: int) -> None:
        """Take note of nothing for a while, by 1, or go on, by -1."""


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
    """What elements of an array hold between two descriptions, from the one at begin to before the one at end.

    leaf: of them.  value: what it would have.
    """

    begin: int
    end: int
    leaf: int
    value: int
    shape: tuple[int, ...]

    def has(self, window: Window) -> bool:
        """Whether it says what a window holds."""
        begin, end = bounds(window)
        return self.begin <= begin and end <= self.end


class Joined:
    """Descriptions, one behind the other: each reads what those before it assigned."""

    def __init__(self, target: Target) -> None:
        self._target = target
        # By array what was assigned to elements in a row, none of them twice, and to other windows: leaf and value.
        self._held: dict[ArrayCell, list[_Held]] = {}
        self._windows: dict[ArrayCell, list[tuple[Window, int, int]]] = {}
        self._shown: dict[Entry, int] = {}

    def fits(self, said: Said) -> bool:
        """Whether one can be joined to those before it.

        Not so one that reads or writes over some of what was written at once, and something else: before it is an end.
        """
        leaves = _leaves(said)
        for cell, window in (leaves[position] for position in _read(said.entries) if position in leaves):
            if self._is_written(cell, window) or any(
                not each.has(window) for each in self._held.get(cell, ()) if overlap(window, _row(each))
            ):
                return False
        for entry in said.entries:
            if entry[:1] != (ASSIGN,):
                continue
            cell, window = leaves[entry[1]]
            touched = [each for each in self._held.get(cell, ()) if overlap(window, _row(each))]
            if self._is_written(cell, window) or (touched and not _is_row(window)):
                return False
            if any(not _covers(window, each) for each in touched):
                return False
        return True

    def add(self, said: Said) -> None:
        """Join one that fits."""
        entries, leaves, results = self._target.entries, _leaves(said), iter(said.results)
        # Leaves first: what an array holds by now is a value from outside of loops and branches.
        numbers = {position: self._leaf(*about) for position, about in leaves.items()}
        held: list[tuple[ArrayCell, _Held]] = []
        for position, entry in enumerate(said.entries):
            if position in leaves:
                continue
            if entry[0] == RESULT:
                cell, value = next(results), numbers[entry[1]]
                window = Window((cell.size,), (1,))
                flat = self._added((SHOWN, value, window.shape, None, 0))
                held.append((cell, self._holding(cell, window, flat)))
            elif entry[0] == ASSIGN:
                cell, window = leaves[entry[1]]
                value = numbers[entry[2]]
                if _is_row(window):
                    held.append((cell, self._holding(cell, window, value)))
                else:
                    leaf = self._target.leaf(_view(cell, window))
                    self._windows.setdefault(cell, []).append((window, leaf, value))
            else:
                numbers[position] = len(entries)
                entries.append(_renumbered(entry, numbers))
        for cell, new in held:
            others = [each for each in self._held.get(cell, ()) if each.end <= new.begin or new.end <= each.begin]
            self._held[cell] = [*others, new]

    def end(self) -> None:
        """Have all arrays hold what the last one assigned to each."""
        for rows in self._held.values():
            for each in rows:
                self._target.assign(each.leaf, each.value)
        for windows in self._windows.values():
            for _, leaf, value in windows:
                self._target.assign(leaf, value)

    def _is_written(self, cell: ArrayCell, window: Window) -> bool:
        """Whether a window has an element of one that was assigned, and is no row of elements."""
        return any(overlap(window, each) for each, *_ in self._windows.get(cell, ()))

    def _leaf(self, cell: ArrayCell, window: Window) -> int:
        """What a part of an array holds by now."""
        held = next((each for each in self._held.get(cell, ()) if each.has(window)), None)
        if held is None:
            return self._target.leaf(_view(cell, window))
        is_all = _is_row(window) and _covers(window, held)
        if is_all and window.shape == held.shape:
            return held.value
        strides = None if is_all else window.strides
        entry = SHOWN, held.value, window.shape, strides, window.offset - held.begin
        found = self._shown.get(entry)
        if found is None:
            found = self._shown[entry] = self._added(entry)
        return found

    def _holding(self, cell: ArrayCell, window: Window, value: int) -> _Held:
        """What a row of elements holds that was assigned a value."""
        leaf = self._target.leaf(_view(cell, window))
        begin, shape = window.offset, window.shape
        return _Held(begin, begin + window.size, leaf, self._added((HELD, leaf, value)), shape)

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


def _is_row(window: Window) -> bool:
    """Whether it is elements in a row, in C order."""
    return window.strides == contiguous_strides(window.shape)


def _row(held: _Held) -> Window:
    return Window((held.end - held.begin,), (1,), held.begin)


def _covers(window: Window, held: _Held) -> bool:
    begin, end = bounds(window)
    return begin <= held.begin and held.end <= end


def _view(cell: ArrayCell, window: Window) -> View:
    assert cell.dtype is not None, "it has run"
    return View(cell, ArrayDesc(window.shape, cell.dtype, window.strides), window.offset)
