"""Sequences: what runs is recorded, description by description, and runs again as few programs."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from atled.arrays.cell import ArrayCell
from atled.errors import four_parts
from atled.graph.keyed.sequences import RECORDERS, Joined, joinable
from atled.keyed import Description, NdArray, View

__all__ = ["RECORDERS", "Recording", "Replay", "by_hand", "recorded", "repeatable"]


@contextlib.contextmanager
def recorded() -> Iterator[Recording]:
    """Record the descriptions that this thread runs within the block, in their order.

        with recorded() as recording:
            step()
        replay = recording.replay()
        replay.run()  # as `step()`, on the same arrays

    Nothing else is recorded: what is written to arrays in other ways, and what Python computes of values, is not done
    again.
    """
    recording = Recording()
    RECORDERS.append(recording)
    try:
        yield recording
    finally:
        # By identity: two of them may be open.
        del RECORDERS[next(n for n, each in enumerate(RECORDERS) if each is recording)]


def repeatable(function: Callable[[], object]) -> None:
    """Call a function, and have it be called again, in its turn, where what runs now is replayed.

    What it runs is not recorded beside.
    """
    recorders = tuple(RECORDERS)
    for each in recorders:
        each.pause(1)
    try:
        function()
    finally:
        for each in recorders:
            each.pause(-1)
    for each in recorders:
        each.called(function)


def by_hand(what: str, array: View | None = None) -> None:
    """Tell recordings what Python does that a replay does not do; call it only while there are `RECORDERS`.

    array: what is read, for reads.
    """
    for each in tuple(RECORDERS):
        each.by_hand(what, None if array is None else array.cell)


class Recording:
    """What ran, in order.

    hand: what Python did that is not done again; with the array that it read, None where it did something else.
    """

    def __init__(self) -> None:
        self.hand: list[tuple[str, ArrayCell | None]] = []
        self._paused = 0
        self._thread = threading.get_ident()
        self._made: list[tuple[Description | None, Sequence[NdArray], Callable[[], object] | None]] = []

    def __len__(self) -> int:
        return len(self._made)

    def note(self, description: Description, results: Sequence[NdArray]) -> None:
        """A description has run, and gave these."""
        if self._is_on:
            self._made.append((description, results, None))

    def by_hand(self, what: str, cell: ArrayCell | None) -> None:
        """See `by_hand`."""
        if self._is_on:
            self.hand.append((what, cell))

    def called(self, function: Callable[[], object]) -> None:
        """Have a function be called at this point, each time."""
        if self._is_on:
            self._made.append((None, (), function))

    def pause(self, by: int) -> None:
        """Take note of nothing for a while, by 1, or go on, by -1."""
        if threading.get_ident() == self._thread:
            self._paused += by

    @property
    def _is_on(self) -> bool:
        return not self._paused and threading.get_ident() == self._thread

    def replay(self) -> Replay:
        """What does the same again. Descriptions that ran must not be added to from here on."""
        parts: list[_Program | Callable[[], object]] = []
        for description, results, function in self._made:
            if function is not None:
                parts.append(function)
                continue
            assert description is not None
            if not parts or not isinstance(parts[-1], _Program) or not parts[-1].join(description, results):
                parts.append(_Program(description, results))
        for part in parts:
            if isinstance(part, _Program):
                part.end()
        return Replay(parts)


class Replay:
    """What was recorded, as programs, each of as many descriptions as can be one.

    A program ends where Python has something to do, behind one that draws numbers or asks for gradients, and before one
    that reads or writes over a part of an array that was written.
    """

    def __init__(self, parts: Sequence[_Program | Callable[[], object]]) -> None:
        self._parts = parts
        self._runs = [part.run if isinstance(part, _Program) else part for part in parts]

    @property
    def programs(self) -> int:
        """How many programs there are."""
        return sum(isinstance(part, _Program) for part in self._parts)

    @property
    def descriptions(self) -> int:
        """How many descriptions they stand for."""
        return sum(len(part.joined) for part in self._parts if isinstance(part, _Program))

    def run(self) -> None:
        """Do it again, on the same arrays, with the numbers that the descriptions have now.

        Where a program fails, the arrays are as before that program.  ValueError: a description says something else
        than it did.
        """
        for run in self._runs:
            run()

    @property
    def plan(self) -> str:
        """The plans of the programs."""
        return "\n".join(str(part.program.plan) for part in self._parts if isinstance(part, _Program))


class _Program:
    """Descriptions that run as one.

    joined: each with what it said, and where its numbers begin.
    """

    def __init__(self, first: Description, results: Sequence[NdArray]) -> None:
        self.program = Description(first.context)
        self._into = Joined(self.program)
        self.joined: list[tuple[Description, list[Any], int]] = []
        self._is_alone = not joinable(first.entries)
        self._results = results
        if self._is_alone:
            self.program = first
            self.joined.append((first, first.entries.copy(), 0))
        else:
            self._add(first, results)

    def join(self, description: Description, results: Sequence[NdArray]) -> bool:
        """Have one more be part of it, where it can be."""
        said = description.said
        if self._is_alone or description.context != self.program.context or not joinable(said.entries):
            return False
        if not self._into.fits(said):
            return False
        self._add(description, results)
        return True

    def _add(self, description: Description, results: Sequence[NdArray]) -> None:
        floats = self.program.floats
        self.joined.append((description, description.entries.copy(), len(floats)))
        floats += description.floats
        self._into.add(description.said._replace(results=[array.cell for array in results]))

    def end(self) -> None:
        """There will be no more of them."""
        if not self._is_alone:
            self._into.end()

    def run(self) -> None:
        """Run them."""
        floats = self.program.floats
        for description, entries, begin in self.joined:
            if description.entries != entries:
                remedy = "record anew"
                raise ValueError(four_parts(f"a replay of {description!r}", "it was changed since", "", remedy))
            now = description.floats
            if now and not self._is_alone:
                floats[begin : begin + len(now)] = now
        made = self.program.run()
        if self._is_alone and made:
            # Later ones read the arrays that were given when it was recorded.
            held = Description(self.program.context)
            for array, new in zip(self._results, made, strict=True):
                held.assign(array, held.leaf(new))
            held.run()
