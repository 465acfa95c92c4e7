"""Plans of bodies within the argument block of a step: what loops and branches share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from atled.arrays.place import HOST
from atled.arrays.storage import ALIGNMENT
from atled.call import Native, Pack, RowWord
from atled.dtypes import is_float
from atled.graph.compile.memory import pieces_during_run
from atled.graph.compile.packing import Piece, pack
from atled.graph.compile.plan import PackedInput, Plan
from atled.graph.compile.step import Step
from atled.graph.nodes.body_op import BodyOp
from atled.loop_block import LoopBlock
from atled.loop_words import (
    LOOP_ERRORS,
    ApartPatchWord,
    ApartRowWord,
    ApartWord,
    LoopRowWord,
    LoopWord,
    MoveWord,
    TogetherWord,
)

_NOTHING: Mapping[int, int] = {}


class BodyBlock:
    """The block of a step that runs plans of bodies, as it is put together.

    Memories of the plan in hand are `moved` (number of what moves) or `fixed` (word of an address, bytes behind it).

    workspace: bytes of it.  packs: forms of inputs that steps of the bodies would like to be given.
    """

    def __init__(self, spec: BodyOp, plans: Sequence[Plan], executor: Any, *, moves: int = 0) -> None:
        self.address, own = executor.loop_kernel()
        self.block = LoopBlock(own, moves=moves, rows=sum(len(plan.rows) for plan in plans))
        self.moved: dict[int, int] = {}
        self.fixed: dict[int, tuple[int, int]] = {}
        self.workspace = 0
        self.packs: list[Pack] = []
        self._pack_words: dict[PackedInput, int] = {}
        self._spec = spec
        self._plans = list(plans)
        self._arguments = [self.block.add() for _ in (*spec.inputs, *spec.outputs)]
        self.workspace_word = self.block.add()
        self._parameters = [self.block.add() for _ in spec.float_names]
        self._free_move = self._free_row = 0
        self._errors = dict(LOOP_ERRORS)
        self._free_code = 1 + max(LOOP_ERRORS)

    def input(self, number: int) -> int:
        """The word of an input's address."""
        return self._arguments[number]

    def output(self, number: int) -> int:
        """The word of an output's address."""
        return self._arguments[len(self._spec.inputs) + number]

    def take(self, nbytes: int) -> int:
        """A place in the workspace."""
        begin = self.workspace
        self.workspace += -(-nbytes // ALIGNMENT) * ALIGNMENT
        return begin

    def move(self, base: int, **words: int) -> int:
        """An array that moves; the number of it.  base: the word of its address.  words: of it, by name."""
        number = self._free_move
        self._free_move += 1
        self.block.fix(self.block.move(number, MoveWord.BASE), base)
        for name, value in words.items():
            self.block[self.block.move(number, MoveWord[name])] = value
        return number

    def read_truth(self, dtype: np.dtype) -> None:
        """Have a number of this dtype tell the end, or which body runs."""
        bits = 8 * dtype.itemsize
        self.block[LoopWord.TRUTH_BYTES] = dtype.itemsize
        self.block[LoopWord.TRUTH_BITS] = (1 << (bits - 1)) - 1 if is_float(dtype) else -1

    def place_rest(self, plan: Plan) -> None:
        """Give a place in the workspace to all of a plan that has none so far: one to memories of different times."""
        self._place(*self._laid_out(plan))

    def _laid_out(self, plan: Plan) -> tuple[Mapping[int, int], int]:
        """By memory that has no place where it begins, and the bytes of all of them."""
        pieces = pieces_during_run(plan.slots, plan.steps, {*self.moved, *self.fixed})
        if HOST in plan.workspaces:
            pieces[plan.memory_count] = Piece(plan.workspaces[HOST], 0, len(plan.steps))
        offsets, nbytes = pack(list(pieces.values()), ALIGNMENT)
        return dict(zip(pieces, offsets, strict=True)), nbytes

    def _place(self, offsets: Mapping[int, int], nbytes: int) -> None:
        begin = self.take(nbytes)
        for memory, offset in offsets.items():
            self.fixed[memory] = self.workspace_word, begin + offset

    def add(self, plan: Plan) -> None:
        """The blocks of a plan's steps, with their addresses and floats, and its rows."""
        self._add_rows(plan, self._add_blocks(plan))

    def add_together(self, plan: Plan, count: int, kernel: int, most: int, row_bytes: Mapping[int, int]) -> None:
        """The same for several steps of a loop at once, of which each has blocks and memory of its own.

        kernel: see TogetherWord.  most: shares into which a row of a step is cut.
        row_bytes: by memory that moves how far it is from a step to the next.
        """
        ahead = [{memory: number * nbytes for memory, nbytes in row_bytes.items()} for number in range(count)]
        sets = self._add_sets(plan, ahead)
        for step, row in zip(_launched(plan), plan.rows.tolist(), strict=True):
            begins = [first + row[RowWord.BLOCK] // 8 for first in sets]
            head = [0] * TogetherWord.FIRST
            parts = head[TogetherWord.PARTS] = min(row[RowWord.PARTS], most)
            head[TogetherWord.KERNEL], head[TogetherWord.BLOCKS] = row[RowWord.KERNEL], count
            self._add_row(kernel, self._add_pointing(head, begins), count * parts, *self._codes_of(step))

    def add_apart(self, plan: Plan, steps: int, count: int, kernel: int, row_bytes: Mapping[int, int]) -> None:
        """The same for all steps of a loop, in one row of some shares, of which each has blocks and memory of its own.

        count: of shares.  kernel: see ApartWord.  row_bytes: as above.
        """
        sets = self._add_sets(plan, [_NOTHING] * count)
        head = [0] * ApartWord.FIRST
        head[ApartWord.STEPS], head[ApartWord.ROWS] = steps, len(plan.rows)
        first_code = self._free_code
        for step, row in zip(_launched(plan), plan.rows.tolist(), strict=True):
            code, codes = self._codes_of(step)
            entry = {ApartRowWord.KERNEL: row[RowWord.KERNEL], ApartRowWord.BLOCK: row[RowWord.BLOCK]}
            entry |= {ApartRowWord.FIRST_CODE: code - first_code, ApartRowWord.CODE_COUNT: codes}
            head += [entry[name] for name in ApartRowWord]
        for word, memory in zip(plan.address_words.tolist(), plan.address_memories.tolist(), strict=True):
            if memory in row_bytes:
                patch = {ApartPatchWord.WORD: word, ApartPatchWord.STRIDE: row_bytes[memory]}
                head += [patch[name] for name in ApartPatchWord]
                head[ApartWord.PATCHES] += 1
        codes = self._free_code - first_code
        word = self._add_pointing(head, sets)
        self.block.fix(word + ApartWord.TAKEN, self.block.add())
        self._add_row(kernel, word, count, first_code, codes)
        self.block[LoopWord.ROW_COUNT] = self.block[LoopWord.SPLIT] = 1

    def _add_sets(self, plan: Plan, ahead: Sequence[Mapping[int, int]]) -> list[int]:
        """Sets of blocks, each with memory of its own; the word at which each begins.  ahead: as in `_add_blocks`."""
        given, laid_out, firsts = dict(self.fixed), self._laid_out(plan), []
        for each in ahead:
            self._place(*laid_out)
            firsts.append(self._add_blocks(plan, each))
            self.fixed = dict(given)
        return firsts

    def _add_pointing(self, head: Sequence[int], targets: Sequence[int]) -> int:
        """Words, and behind them the addresses of others; the first word."""
        word = self.block.add([*head, *targets])
        for number, target in enumerate(targets, word + len(head)):
            self.block.point(number, target)
        return word

    def _add_blocks(self, plan: Plan, ahead: Mapping[int, int] = _NOTHING) -> int:
        """The blocks of a plan's steps in a row; the word at which they begin.

        ahead: by memory that moves the bytes that are to be added.
        """
        block = self.block
        words = plan.block.copy()
        numbers = words.view(np.float64)
        parameters = []
        for word, number in zip(plan.float_words.tolist(), plan.float_numbers.tolist(), strict=True):
            kind, value, *_ = plan.floats[number]
            if kind == "parameter":
                parameters.append((word, self._parameters[value]))
            else:
                numbers[word] = value
        first = block.add(words.tolist())
        for word, source in parameters:
            block.fix(first + word, source)
        offsets = [0] * len(plan.address_words) if plan.address_offsets is None else plan.address_offsets.tolist()
        places = zip(plan.address_words.tolist(), plan.address_memories.tolist(), offsets, strict=True)
        for word, memory, offset in places:
            if memory in self.moved:
                block.patch(first + word, self.moved[memory], offset + ahead.get(memory, 0))
            else:
                source, begin = self.fixed[memory]
                block.fix(first + word, source, begin + offset)
        for word, offset in zip(plan.link_words.tolist(), plan.link_offsets.tolist(), strict=True):
            block.point(first + word, first + offset // 8)
        for packed in plan.packs:
            source = self._word_of_pack(packed, plan)
            if source >= 0:
                block.fix(first + packed.word, source)
        return first

    def _word_of_pack(self, packed: PackedInput, plan: Plan) -> int:
        """The word for a pack that a step of a body wants of an input of the step; -1 where it is not to have it."""
        found = self._pack_words.get(packed)
        if found is None:
            found = self._pack_words[packed] = self._ask_for(packed, plan)
        return found

    def _ask_for(self, packed: PackedInput, plan: Plan) -> int:
        memory = plan.slots[packed.slot].memory
        source, begin = self.fixed.get(memory, (-1, 0))
        inputs = self._arguments[: len(self._spec.inputs)]
        # Who is given a pack is not given the array itself: all that read it in the body must want one.
        wanting = {(each.step, each.pack.input) for each in plan.packs}
        is_only_packed = all(
            (step, position) in wanting
            for step in plan.steps
            for position, slot in enumerate(step.arguments)
            if slot >= 0 and plan.slots[slot].memory == memory
        )
        if source not in inputs or begin or not is_only_packed:
            return -1
        word, own = self.block.add(), packed.pack
        number = inputs.index(source)
        self.packs.append(Pack(number, word, own.form, own.nbytes, own.native, workspace=own.workspace))
        return word

    def _add_rows(self, plan: Plan, first: int) -> None:
        """The rows, each with codes of its own.  first: the word at which their blocks begin."""
        for step, row in zip(_launched(plan), plan.rows.tolist(), strict=True):
            begin = first + row[RowWord.BLOCK] // 8
            self._add_row(row[RowWord.KERNEL], begin, row[RowWord.PARTS], *self._codes_of(step))

    def _add_row(self, kernel: int, begin: int, parts: int, code: int, codes: int) -> None:
        """begin: the word of its block.  code, codes: as in LoopRowWord."""
        block, number = self.block, self._free_row
        self._free_row += 1
        block[block.row(number, LoopRowWord.KERNEL)] = kernel
        block.point(block.row(number, LoopRowWord.BLOCK), begin)
        block[block.row(number, LoopRowWord.PARTS)] = parts
        block[block.row(number, LoopRowWord.FIRST_CODE)] = code
        block[block.row(number, LoopRowWord.CODE_COUNT)] = codes

    def _codes_of(self, step: Step) -> tuple[int, int]:
        """The code before the first one of a step, and how many there are; the last is for all that have no words."""
        assert step.native is not None
        first, unknown = self._free_code, 1 + max(step.native.errors, default=0)
        self._errors |= {first + code: f"{step.name}: {what}" for code, what in step.native.errors.items()}
        self._errors[first + unknown] = f"{step.name}: an error without words"
        self._free_code += unknown + 1
        return first, unknown

    @property
    def native(self) -> Native:
        """The step."""
        return Native(
            self.address,
            self.block.words,
            (*self._arguments, self.workspace_word) if self.workspace else tuple(self._arguments),
            attributes=dict(zip(self._spec.float_names, self._parameters, strict=True)),
            errors=self._errors,
            owner=self._plans,
        )


def _launched(plan: Plan) -> list[Step]:
    """The steps that have a row."""
    return [step for step in plan.steps if step.carrier is None]


def sources_of(plan: Plan) -> dict[int, int]:
    """By input of a body its memory in the plan, if that reads it."""
    return {number: plan.slots[slot].memory for number, _, _, slot in plan.requests}
