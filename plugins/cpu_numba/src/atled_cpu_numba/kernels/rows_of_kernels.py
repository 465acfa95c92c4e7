"""A call as a loop of one step, whose rows are kernels of other calls, with what is between them in workspace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from atled.plugin import (
    RANGE_BLOCK_WORDS,
    ArrayDesc,
    Call,
    FixupWord,
    LoopRowWord,
    LoopWord,
    NamedTuple,
    Native,
    Prepared,
    RangeWord,
)
from atled_cpu_numba.kernels.shared.launch import float_bits, in_lines
from atled_cpu_numba.kernels.shared.layout import NO_WORD

_ANY_CODE = 0xFFFF  # all that a kernel returns


class Array(NamedTuple):
    """An array of the call or in workspace, or a part of it: the word with its address, and bytes beyond that."""

    word: int
    offset: int = 0


class Rows:
    """Puts the block of a loop together, row by row.

    arguments: of the call, inputs first; their words are filled in by whoever runs it.
    """

    def __init__(self, call: Call) -> None:
        from atled_cpu_numba import pool  # loads its code: not before the first call is prepared

        self._address, own = pool.loop_kernel()
        self._words = [0] * len(LoopWord)
        self._words[LoopWord.OWN], self._words[LoopWord.COUNT] = own, 1
        self._fixups: list[tuple[int, int, int]] = []
        self._rows: list[tuple[Native, int]] = []
        self._owners: list[object] = []
        self._attributes: dict[str, int] = {}
        self._workspace_word = self._add([0])
        self._workspace = 0
        self.arguments = [Array(self._add([0])) for _ in (*call.inputs, *call.outputs)]

    def between(self, desc: ArrayDesc) -> Array:
        """An array in workspace."""
        return Array(self._place(self._add([0]), desc.nbytes))

    def add(self, prepared: Prepared, *arrays: Array, **values: float) -> None:
        """A row for a kernel on its inputs and outputs.  values: of attributes that the call does not have."""
        kernel = prepared.native
        assert kernel is not None
        block = self._put(kernel, arrays, values)
        if prepared.workspace:
            self._place(block + kernel.arguments[len(arrays)], prepared.workspace)
        self._rows.append((kernel, block))

    def add_carrying(
        self, formula: Prepared, inputs: Sequence[Array], made: ArrayDesc, prepared: Prepared, y: Array
    ) -> None:
        """A row for a kernel whose one input is what a formula makes: on the way, or by a row before it."""
        step, kernel = formula.native, prepared.native
        assert step is not None
        assert kernel is not None
        carried = kernel.before.get(0)
        if carried is None or step.ranges is None or len(step.block) > RANGE_BLOCK_WORDS:
            between = self.between(made)
            self.add(formula, *inputs, between)
            self.add(prepared, between, y)
            return
        whole = Array(self._add([0]))
        first, block = self._put(step, (*inputs, whole)), self._put(kernel, (whole, y))
        carried += block
        self._words[carried + RangeWord.KERNEL] = step.ranges()
        self._fixups.append((carried + RangeWord.BLOCK, LoopWord.SELF, 8 * first))
        piece_bytes = kernel.range_bytes.get(0, 0) * kernel.most_parts
        if 0 < piece_bytes < made.nbytes:
            self._words[carried + RangeWord.BLOCK_WORDS] = len(step.block)
            self._words[carried + RangeWord.ADDRESS_WORD] = step.arguments[len(inputs)]
        else:
            piece_bytes = made.nbytes
        self._place(whole.word, piece_bytes)
        if prepared.workspace:
            self._place(block + kernel.arguments[2], prepared.workspace)
        self._rows.append((kernel, block))

    def finished(self, note: str) -> Prepared:
        """The loop."""
        words, fixups = self._words, self._fixups
        words[LoopWord.ROWS] = len(words)
        words[LoopWord.ROW_COUNT] = words[LoopWord.SPLIT] = len(self._rows)
        for native, block in self._rows:
            row = [0] * len(LoopRowWord)
            row[LoopRowWord.KERNEL], row[LoopRowWord.PARTS] = native.address, native.parts
            row[LoopRowWord.CODE_COUNT] = _ANY_CODE
            fixups.append((len(words) + LoopRowWord.BLOCK, LoopWord.SELF, 8 * block))
            words += row
        words[LoopWord.FIXUPS], words[LoopWord.FIXUP_COUNT] = len(words), len(fixups)
        for fixup in fixups:
            assert len(fixup) == len(FixupWord)
            words += fixup
        arguments = [array.word for array in self.arguments]
        native = Native(
            self._address,
            np.array(words, np.int64),
            (*arguments, *([self._workspace_word] if self._workspace else ())),
            attributes=self._attributes,
            owner=tuple(self._owners),
        )
        return Prepared(native=native, workspace=self._workspace, note=note)

    def _add(self, words: Sequence[int]) -> int:
        """Words behind all others; the number of the first one."""
        first = len(self._words)
        self._words += words
        return first

    def _put(self, kernel: Native, arrays: Sequence[Array], values: Mapping[str, float] = MappingProxyType({})) -> int:
        """The block of a kernel that gets these arrays; the number of its first word."""
        self._owners.append(kernel)
        block = self._add(kernel.block.tolist())
        for word, array in zip(kernel.arguments, arrays, strict=False):
            if word != NO_WORD:
                self._fixups.append((block + word, array.word, array.offset))
        for name, word in kernel.attributes.items():
            if name in values:
                self._words[block + word] = float_bits(values[name])
            elif name in self._attributes:
                self._fixups.append((block + word, self._attributes[name], 0))
            else:
                self._attributes[name] = block + word
        return block

    def _place(self, word: int, nbytes: int) -> int:
        """Has a word hold the address of so many bytes of workspace; returns it.

        Before the fixups that read it, since they are done in order.
        """
        self._fixups.insert(0, (word, self._workspace_word, self._workspace))
        self._workspace += in_lines(nbytes)
        return word
