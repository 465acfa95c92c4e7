"""Plans of bodies within the argument block of a step: what loops and branches share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from atled.arrays.place import HOST
from atled.arrays.storage import ALIGNMENT
from atled.call import Native, RowWord
from atled.dtypes import is_float
from atled.graph.compile.plan import Plan
from atled.graph.nodes.body_op import BodyOp
from atled.loop_block import LoopBlock
from atled.loop_words import LOOP_ERRORS, LoopRowWord, LoopWord, MoveWord


class BodyBlock:
    """The block of a step that runs plans of bodies, as it is put together.

    Memories of the plan in hand are `moved` (number of what moves) or `fixed` (word of an address, bytes behind it).

    workspace: bytes of it.
    """

    def __init__(self, spec: BodyOp, plans: Sequence[Plan], executor: Any, *, moves: int = 0) -> None:
        self.address, own = executor.loop_kernel()
        self.block = LoopBlock(own, moves=moves, rows=sum(len(plan.rows) for plan in plans))
        self.moved: dict[int, int] = {}
        self.fixed: dict[int, tuple[int, int]] = {}
        self.workspace = 0
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
        """Give a place in the workspace to all of a plan that has none so far."""
        sizes: dict[int, int] = {}
        for slot in plan.slots:
            if slot.memory not in self.moved and slot.memory not in self.fixed:
                sizes[slot.memory] = max(sizes.get(slot.memory, 0), slot.nbytes)
        if HOST in plan.workspaces:
            sizes[plan.memory_count] = plan.workspaces[HOST]
        for memory, nbytes in sizes.items():
            self.fixed[memory] = self.workspace_word, self.take(nbytes)

    def add(self, plan: Plan) -> None:
        """The blocks of a plan's steps, with their addresses and floats, and its rows."""
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
                block.patch(first + word, self.moved[memory], offset)
            else:
                source, begin = self.fixed[memory]
                block.fix(first + word, source, begin + offset)
        for word, offset in zip(plan.link_words.tolist(), plan.link_offsets.tolist(), strict=True):
            block.point(first + word, first + offset // 8)
        self._add_rows(plan, first)

    def _add_rows(self, plan: Plan, first: int) -> None:
        """The rows, each with codes of its own.  first: the word at which their blocks begin."""
        block = self.block
        launched = [step for step in plan.steps if step.carrier is None]
        for step, row in zip(launched, plan.rows.tolist(), strict=True):
            assert step.native is not None
            number, unknown = self._free_row, 1 + max(step.native.errors, default=0)
            self._free_row += 1
            block[block.row(number, LoopRowWord.KERNEL)] = row[RowWord.KERNEL]
            block.point(block.row(number, LoopRowWord.BLOCK), first + row[RowWord.BLOCK] // 8)
            block[block.row(number, LoopRowWord.PARTS)] = row[RowWord.PARTS]
            block[block.row(number, LoopRowWord.FIRST_CODE)] = self._free_code
            block[block.row(number, LoopRowWord.CODE_COUNT)] = unknown
            self._errors |= {
                self._free_code + code: f"{step.name}: {what}" for code, what in step.native.errors.items()
            }
            self._errors[self._free_code + unknown] = f"{step.name}: an error without words"
            self._free_code += unknown + 1

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


def sources_of(plan: Plan) -> dict[int, int]:
    """By input of a body its memory in the plan, if that reads it."""
    return {number: plan.slots[slot].memory for number, _, _, slot in plan.requests}
