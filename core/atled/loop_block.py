"""The argument block of a loop, put together word by word: see `atled.loop_words`."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from atled.loop_words import FixupWord, LoopRowWord, LoopWord, MoveWord, PatchWord


class LoopBlock:
    """A block that grows: words are told by their number, and all addresses in it are relative until it runs.

    own: the executor's own word.  moves, rows: how many arrays move, and how many rows there are.
    """

    def __init__(self, own: int, *, moves: int, rows: int) -> None:
        self._words: list[int] = [0] * len(LoopWord)
        self._fixups: list[tuple[int, int, int]] = []
        self._patches: list[tuple[int, int, int]] = []
        self[LoopWord.OWN] = own
        self[LoopWord.MOVES] = self.add([0] * (moves * len(MoveWord)))
        self[LoopWord.MOVE_COUNT] = moves
        self[LoopWord.ROWS] = self.add([0] * (rows * len(LoopRowWord)))
        self[LoopWord.ROW_COUNT] = self[LoopWord.SPLIT] = rows

    def __getitem__(self, word: int) -> int:
        return self._words[word]

    def __setitem__(self, word: int, value: int) -> None:
        self._words[word] = value

    def add(self, words: Iterable[int] = (0,)) -> int:
        """Words behind all others; the number of the first one."""
        first = len(self._words)
        self._words += words
        return first

    def move(self, number: int, word: MoveWord) -> int:
        """A word of an array that moves."""
        return self[LoopWord.MOVES] + number * len(MoveWord) + word

    def row(self, number: int, word: LoopRowWord) -> int:
        """A word of a row."""
        return self[LoopWord.ROWS] + number * len(LoopRowWord) + word

    def fix(self, target: int, source: int, nbytes: int = 0) -> None:
        """Before the first step: word `target` becomes word `source`, which no later fixup changes, plus some bytes."""
        self._fixups.append((target, source, nbytes))

    def point(self, target: int, word: int) -> None:
        """Before the first step: word `target` becomes the address of another word."""
        self.fix(target, LoopWord.SELF, word * 8)

    def patch(self, target: int, number: int, nbytes: int = 0) -> None:
        """At each step word `target` becomes where an array that moves is, plus some bytes."""
        self._patches.append((target, self.move(number, MoveWord.ADDRESS), nbytes))

    @property
    def words(self) -> np.ndarray:
        """(words,) int64; the block with its tables."""
        head = list(self._words)
        tables = ((LoopWord.FIXUPS, self._fixups, FixupWord), (LoopWord.PATCHES, self._patches, PatchWord))
        for word, entries, fields in tables:
            head[word], head[word + 1] = len(head), len(entries)
            head += [value for entry in entries for value in entry]
            assert all(len(entry) == len(fields) for entry in entries)
        return np.array(head, np.int64)
