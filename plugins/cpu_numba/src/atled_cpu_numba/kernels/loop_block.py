"""The block of a loop of one step, whose rows are kernels: their own blocks, what is filled in there, workspace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from atled.plugin import RANGE_BLOCK_WORDS, FixupWord, LoopRowWord, LoopWord, Native, RangeWord
from atled_cpu_numba.kernels.shared.launch import in_lines

_ANY_CODE = 0xFFFF  # all that a kernel returns


class LoopBlock:
    """Puts the block together; all addresses in it are relative until it runs. It fails as its kernels do.

    words: of it.  workspace: bytes that it needs.
    """

    def __init__(self) -> None:
        from atled_cpu_numba import pool  # loads its code: not before the first call is prepared

        self._address, own = pool.loop_kernel()
        self.words = [0] * len(LoopWord)
        self.words[LoopWord.OWN], self.words[LoopWord.COUNT] = own, 1
        self.workspace = 0
        self._workspace_word = self.add([0])
        self._fixups: list[tuple[int, int, int]] = []
        self._rows: list[tuple[Native, int]] = []
        self._owners: list[object] = []
        self._errors: dict[int, str] = {}

    def add(self, words: Sequence[int]) -> int:
        """Words behind all others; the number of the first one."""
        first = len(self.words)
        self.words += words
        return first

    def put(self, kernel: Native) -> int:
        """The block of a kernel, which lives as long as the loop; the number of its first word."""
        self._owners.append(kernel)
        self._errors |= kernel.errors
        return self.add(kernel.block.tolist())

    def row(self, kernel: Native, block: int) -> None:
        """Runs a kernel on a block, after the rows before."""
        self._rows.append((kernel, block))

    def fill(self, word: int, source: int, offset: int = 0) -> None:
        """Fills in a word: what the word `source` has, and so many bytes more."""
        self._fixups.append((word, source, offset))

    def point(self, word: int, block: int) -> None:
        """Fills in a word: the address of a block."""
        self.fill(word, LoopWord.SELF, 8 * block)

    def place(self, word: int, nbytes: int) -> int:
        """Has a word hold the address of so many bytes of workspace; returns it.

        Before whatever is filled in from it, since that is done in order.
        """
        self._fixups.insert(0, (word, self._workspace_word, self.workspace))
        self.workspace += in_lines(nbytes)
        return word

    def carry(self, carried: int, step: Native, block: int, address_word: int, *, whole: int, pieces: int) -> int:
        """Has a kernel run a step of ranges on an array of its own, on the way; bytes of memory for the array.

        carried: the first of the kernel's words for it.  address_word: of the step's block, for the array.
        whole: bytes of the array.  pieces: of those that the kernel reads it by, of all shares; 0: it has none.
        """
        assert step.ranges is not None
        self.words[carried + RangeWord.KERNEL] = step.ranges()
        self.point(carried + RangeWord.BLOCK, block)
        if not (0 < pieces < whole and len(step.block) <= RANGE_BLOCK_WORDS):
            return whole
        self.words[carried + RangeWord.BLOCK_WORDS] = len(step.block)
        self.words[carried + RangeWord.ADDRESS_WORD] = address_word
        return pieces

    def native(self, arguments: Sequence[int], **more: Any) -> Native:
        """The loop: with the words of its arguments, workspace excluded, and what else `Native` takes."""
        words, fixups = self.words, self._fixups
        words[LoopWord.ROWS] = len(words)
        words[LoopWord.ROW_COUNT] = words[LoopWord.SPLIT] = len(self._rows)
        for kernel, block in self._rows:
            row = [0] * len(LoopRowWord)
            row[LoopRowWord.KERNEL], row[LoopRowWord.PARTS] = kernel.address, kernel.parts
            row[LoopRowWord.CODE_COUNT] = _ANY_CODE
            self.point(len(words) + LoopRowWord.BLOCK, block)
            words += row
        words[LoopWord.FIXUPS], words[LoopWord.FIXUP_COUNT] = len(words), len(fixups)
        for fixup in fixups:
            assert len(fixup) == len(FixupWord)
            words += fixup
        return Native(
            self._address,
            np.array(words, np.int64),
            (*arguments, *([self._workspace_word] if self.workspace else ())),
            errors=self._errors,
            owner=tuple(self._owners),
            **more,
        )
